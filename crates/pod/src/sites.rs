//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// The LNR half of the superblock is in memory before the pod is ready.
    FORMAT_CLEAN = "pod.format.clean";
    /// The LNR half of the superblock is read afresh.
    OPEN_INVALIDATE = "pod.open.invalidate";
    /// A piece of a transfer is in memory before it is announced.
    TRANSFER_CLEAN = "pod.transfer.clean";
    /// A piece of a transfer is read afresh.
    TRANSFER_INVALIDATE = "pod.transfer.invalidate";
    /// A request for a replica is answered by one host.
    TRANSFER_ANSWER = "pod.transfer.answer";
    /// Seats, readiness and phase change in one step, and so does what is known of a fenced host.
    MEMBER_CHANGE = "pod.member.change";
    /// The last change is written to the seat that it is about before the next one is made.
    MEMBER_SETTLE = "pod.member.settle";
    /// It is not written any more once there were others.
    MEMBER_SAME = "pod.member.same";
    /// It is written once, over what was there before it.
    MEMBER_SEAT = "pod.member.seat";
    /// Who has lost its seat changes nothing.
    MEMBER_OURS = "pod.member.ours";
    /// What a host has been told by one that has died counts only as long as nobody has opened the pod anew.
    MEMBER_OPENED = "pod.member.opened";
    /// Who gives up leaves the phase alone, unless it is opening the pod itself.
    MEMBER_OPENER = "pod.member.opener";
    /// Whose seat was taken so may store something until it knows that: the seat is not free before.
    MEMBER_EXPEL_FENCED = "pod.member.expel-fenced";
    /// Who has a seat has said which process it is.
    JOIN_NAME = "pod.join.name";
    /// What a later claimer of its seat has said, a slow one leaves alone: it looks whether it has lost its claim.
    JOIN_CLAIMED = "pod.join.claimed";
    /// And when it has looked, too.
    JOIN_WORD = "pod.join.word";
    /// Who has lost its claim does not enter.
    JOIN_STILL_CLAIMED = "pod.join.still-claimed";
    /// Seats that were claimed, and not taken, are others'.
    JOIN_TAKE_OVER = "pod.join.take-over";
    /// Who joins a pod that is being closed is not ready.
    MEMBER_OPEN = "pod.member.open";
    /// When a pod has been closed, nobody has a seat in it.
    MEMBER_EXPEL = "pod.member.expel";
    /// The pod's clock never goes back.
    CLOCK_MAX = "pod.clock.max";
    /// Whoever reports that a deadline has passed makes it pass for all.
    CLOCK_ADVANCE = "pod.clock.advance";
    /// A request is in memory before it is posted.
    MAIL_CLEAN = "pod.mail.clean";
    /// A request is read afresh.
    MAIL_INVALIDATE = "pod.mail.invalidate";
    /// A request is taken by one thread, as it was when it was copied.
    MAIL_TAKE = "pod.mail.take";
    /// An answer is for a request that nobody has given up on.
    MAIL_ANSWER = "pod.mail.answer";
    /// Who gives up on a request says so before its slot is used again.
    MAIL_ABANDON = "pod.mail.abandon";
    /// Nobody takes what was meant for the last one in its seat.
    MAIL_STAY = "pod.mail.stay";
    /// Nobody gets an answer to what the last one in its seat had asked.
    MAIL_RENEW = "pod.mail.renew";
    /// Who has left is not waited for.
    MAIL_GONE = "pod.mail.gone";
    /// Nobody's bit in a doorbell is lost when another's is set.
    MAIL_RING = "pod.mail.ring";
    /// Nor when another's is cleared.
    MAIL_HEAR = "pod.mail.hear";
    /// A bit is cleared before the requests it stands for are looked for.
    MAIL_HEAR_FIRST = "pod.mail.hear-first";
    /// A bit is set again for the requests that are left.
    MAIL_MORE = "pod.mail.more";
}
