//! The steps of this crate that the simulator can take out.

tombolo_memory::sites! {
    /// A host notes that it listens before it takes what is sent from then on for all there is.
    LISTEN_NOTE = "messages.listen.note";
    /// A host that listens no longer costs senders nothing.
    LISTEN_END = "messages.listen.end";
    /// Receivers can know that bytes are overwritten before those are.
    SEND_BEGIN = "messages.send.begin";
    /// A message is in memory before its ring ends behind it.
    SEND_CLEAN = "messages.send.clean";
    /// A receiver drops its cached lines of messages after it has read where the ring ends.
    RECEIVE_INVALIDATE = "messages.receive.invalidate";
    /// A receiver uses what it has read only if none of it was overwritten meanwhile.
    RECEIVE_WHOLE = "messages.receive.whole";
    /// A receiver learns that a host is not what it was: that one may have died before it sent.
    RECEIVE_TURNOVER = "messages.receive.turnover";
    /// A dead host does not listen.
    CLEAR_AUDIENCE = "messages.clear.audience";
}
