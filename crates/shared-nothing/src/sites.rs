//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// A request is in memory before it is in its receiver's queue.
    REQUEST_CLEAN = "shared-nothing.request.clean";
    /// A request becomes part of the queue, whatever other senders do meanwhile.
    REQUEST_PUSH = "shared-nothing.request.push";
    /// A receiver takes all requests that there are, and loses none that comes meanwhile.
    REQUEST_TAKE = "shared-nothing.request.take";
    /// A receiver drops its cached lines of a request after it has taken the request.
    REQUEST_INVALIDATE = "shared-nothing.request.invalidate";
    /// A reply is in memory before its word says that it is there.
    REPLY_CLEAN = "shared-nothing.reply.clean";
    /// A requester drops its cached lines of a reply after it has read the reply's word.
    REPLY_INVALIDATE = "shared-nothing.reply.invalidate";
    /// A worker's request to a host waits for the reply to the one before.
    REQUEST_NEXT = "shared-nothing.request.next";
    /// A branch that is prepared keeps its home's log from passing the epoch that it will commit
    /// in.
    PREPARE_PIN = "shared-nothing.prepare.pin";
    /// The row behind an absent one is locked.
    GAP_LOCK = "shared-nothing.gap.lock";
    /// A row is inserted only where no other transaction has locked the gap.
    GAP_LOCKED = "shared-nothing.gap.locked";
    /// A transaction commits no earlier than what it has read at its own host was written.
    LEASE_LOCAL = "shared-nothing.lease.local";
    /// A row is written after all leases of what it was.
    LEASE_AFTER = "shared-nothing.lease.after";
    /// A row that was read is still the same when its lease is renewed.
    LEASE_SAME = "shared-nothing.lease.same";
    /// A row that another transaction is about to write is not leased for longer.
    LEASE_FREE = "shared-nothing.lease.free";
    /// A renewed lease is noted at the row.
    LEASE_NOTED = "shared-nothing.lease.noted";
    /// Gaps that were read are leased.
    LEASE_GAP = "shared-nothing.lease.gap";
}
