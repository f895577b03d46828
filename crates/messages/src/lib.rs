//! Floor 3: messages from each host of a pod to all others that listen.
//!
//! Each host has a ring in LNR that it alone writes, and two positions in SCR. A message goes into
//! the ring as whole lines. Receivers keep their own positions to themselves, so a sender waits for
//! no receiver: it overwrites the oldest messages, and a receiver that was too slow finds out that
//! it has [missed](Received::Missed) some. A word for each topic says which hosts listen to it, and
//! a message to which no host listens is not written.
//!
//! ```text
//! begun  up to this position of the ring bytes may be overwritten just now
//! end    up to this position messages are whole
//! ```
//!
//! # Invariants
//!
//! * A message is whole in memory before `end` passes it, so a host that dies leaves none in part.
//! * A ring's bytes change only after `begun` says so, and `begun` is at most a ring ahead of what
//!   a receiver may read.
//! * A receiver gets the messages of one sender in their order, each once, or learns that some are
//!   missing.
//! * A message that is sent after [`listen`](Messages::listen) has returned is received, or missed.
//!
//! # Left out
//!
//! Messages to the sender's own host, an order among several senders, and messages that outlast
//! their ring.

mod error;
mod layout;
mod member;
mod receive;
mod send;
pub mod sites;

pub use error::MessageError;
pub use layout::{KIND, MAX_TOPICS, Places, Shape, VERSION, area_request};
pub use member::Messages;
pub use receive::Received;
pub use sites::ALL as SITES;
