//! Errors of messages.

use tombolo_pod::PodError;

/// Why messages cannot be had, or one was not sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The pod, or its area.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// The area for messages is damaged.
    #[error("the pod's messages cannot be used: {0}; create the pod anew")]
    Damaged(String),
    /// A message does not fit the ring.
    #[error(
        "a message of {bytes} bytes is too long: this pod's messages have {most} bytes at most; \
         create a pod with more room for messages"
    )]
    TooLong {
        /// Bytes of the message.
        bytes: usize,
        /// Bytes that it may have.
        most: usize,
    },
}
