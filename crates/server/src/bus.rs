//! How a server reaches the servers of other hosts.

use crate::store::StoreError;

/// The topics of messages between servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Clients publish, and clients subscribe.
    Published,
    /// Keys were changed, and clients want to know of all changes.
    Changed,
    /// Something has happened to a key, and clients subscribe to such events.
    Event,
}

/// A message from servers of other hosts.
#[derive(Clone, Copy, Debug)]
pub enum Heard<'a> {
    /// A message.
    Message(Topic, &'a [u8]),
    /// Messages were lost, since this host was too slow.
    Missed,
    /// Another host has come, left or died, perhaps before it has sent what it was going to.
    Turnover,
}

/// Messages between the servers of a pod. Calls do not wait for other hosts.
pub trait Bus: Send + Sync {
    /// Whether a server of another host listens to `topic`.
    fn is_heard(&self, topic: Topic) -> bool;

    /// Whether a message may have so many bytes.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if it may not.
    fn check_length(&self, bytes: usize) -> Result<(), StoreError>;

    /// Sends a message to all other servers that listen to `topic`.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if it is too long.
    fn send(&self, topic: Topic, message: &[u8]) -> Result<(), StoreError>;

    /// Listens to `topic` from here on.
    fn listen(&self, topic: Topic);

    /// Listens to `topic` no longer.
    fn ignore(&self, topic: Topic);

    /// Shows what has come since the last time.
    fn receive(&self, show: &mut dyn FnMut(Heard<'_>));

    /// Does a little of the background work, some ten times a second.
    fn tick(&self);
}
