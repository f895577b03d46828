//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// The LNR half of the superblock is in memory before the pod is ready.
    FORMAT_CLEAN = "pod.format.clean";
    /// The LNR half of the superblock is read afresh.
    OPEN_INVALIDATE = "pod.open.invalidate";
    /// The record of a qualification is in memory when it counts.
    QUALIFICATION_CLEAN = "pod.qualification.clean";
    /// It is read afresh.
    QUALIFICATION_INVALIDATE = "pod.qualification.invalidate";
    /// A piece of a transfer is in memory before it is announced.
    TRANSFER_CLEAN = "pod.transfer.clean";
    /// A piece of a transfer is read afresh.
    TRANSFER_INVALIDATE = "pod.transfer.invalidate";
    /// A request for a replica is answered by one host.
    TRANSFER_ANSWER = "pod.transfer.answer";
    /// A seat goes from one state to the next in one step.
    SEAT_STEP = "pod.seat.step";
    /// The knowledge of the end of a stay changes in one step.
    END_CHANGE = "pod.end.change";
    /// No two claims have one number.
    JOIN_NUMBER = "pod.join.number";
    /// A seat is claimed by one host.
    JOIN_CLAIM = "pod.join.claim";
    /// A host that has a seat has said which process it is.
    JOIN_NAME = "pod.join.name";
    /// A slow host leaves alone the name that a later claimer of its seat has written: it looks
    /// whether it has lost its claim.
    JOIN_CLAIMED = "pod.join.claimed";
    /// And when it has looked, too.
    JOIN_WORD = "pod.join.word";
    /// Seats that were claimed, and not taken, are others'.
    JOIN_TAKE_OVER = "pod.join.take-over";
    /// Entries, readiness and phase of an area change in one step.
    ROSTER_CHANGE = "pod.roster.change";
    /// The last change is written to the entry that it is about before the next one is made.
    ROSTER_SETTLE = "pod.roster.settle";
    /// It is not written any more once there were others.
    ROSTER_SAME = "pod.roster.same";
    /// It is written once, over what was there before it.
    ROSTER_ENTRY = "pod.roster.entry";
    /// A host that has lost its entry changes nothing.
    ROSTER_OURS = "pod.roster.ours";
    /// A host enrols when what the last one in its seat has left is cleared up.
    ROSTER_CLEARED = "pod.roster.cleared";
    /// The replica that a host has from one that has died counts only as long as no other has
    /// opened the area anew.
    ROSTER_OPENED = "pod.roster.opened";
    /// A host that gives up leaves the phase alone, unless it is opening the area itself.
    ROSTER_OPENER = "pod.roster.opener";
    /// A host that joins an area that is being closed is not ready.
    ROSTER_OPEN = "pod.roster.open";
    /// When an area has been closed, no host takes part in it.
    ROSTER_EXPEL = "pod.roster.expel";
    /// The pod's clock never goes back.
    CLOCK_MAX = "pod.clock.max";
    /// A host that reports that a deadline has passed makes it pass for all.
    CLOCK_ADVANCE = "pod.clock.advance";
    /// A request is in memory before it is posted.
    MAIL_CLEAN = "pod.mail.clean";
    /// A request is read afresh.
    MAIL_INVALIDATE = "pod.mail.invalidate";
    /// A tenant takes what is about its own area.
    MAIL_AREA = "pod.mail.area";
    /// A request is taken by one thread, as it was when it was copied.
    MAIL_TAKE = "pod.mail.take";
    /// An answer is for a request that nobody has given up on.
    MAIL_ANSWER = "pod.mail.answer";
    /// A host that gives up on a request says so before its slot is used again.
    MAIL_ABANDON = "pod.mail.abandon";
    /// Nobody takes what was meant for the last one in its seat.
    MAIL_STAY = "pod.mail.stay";
    /// Nobody gets an answer to what the last one in its seat had asked.
    MAIL_RENEW = "pod.mail.renew";
    /// A host that has left is not waited for.
    MAIL_GONE = "pod.mail.gone";
    /// Nobody's bit in a doorbell is lost when another's is set.
    MAIL_RING = "pod.mail.ring";
    /// Nor when another's is cleared.
    MAIL_HEAR = "pod.mail.hear";
    /// A bit is cleared before the requests it stands for are looked for.
    MAIL_HEAR_FIRST = "pod.mail.hear-first";
    /// A bit is set again for the requests that are left.
    MAIL_MORE = "pod.mail.more";
    /// A chunk of a heap is taken by one host.
    HEAP_TAKE = "pod.heap.take";
}
