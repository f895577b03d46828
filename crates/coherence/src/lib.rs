//! Floor 1: how the lines of a memory node are kept coherent among the hosts that cache them.
//!
//! A [`Protocol`] is four small tables: the host's request to the node, the node's question to
//! other hosts, their answer, and the grant. Messages are those of the CXL specification
//! ([`Message`]). [`INVALIDATING`], [`SHARING`] and [`BACK_INVALIDATION`] are three of them, each
//! with the node's knowledge as a parameter ([`Filter`]). [`SHARING_AS_PUBLISHED`] and
//! [`BACK_INVALIDATION_AS_PUBLISHED`] take more steps, as SDM's paper tells them.
//!
//! The tables are used twice:
//! * [`explore`] delivers messages one by one, in every order that the channels allow, and checks
//!   each state that can be reached: one writer or many readers, data that are the last written,
//!   nobody waiting for ever, no message without its counterpart.
//! * A [`Node`] runs a transaction from its first message to its last, and tells which messages it
//!   took and which of them one had to wait for. Simulated machines say what that costs.
//!
//! # Model
//!
//! * The node does one transaction on a line at a time; requests that arrive meanwhile wait. Data
//!   that hosts write back it takes at any time. So there is one snoop under way for a line and
//!   host.
//! * Messages from the node to a host arrive in order: a grant is there before the next snoop. (In
//!   CXL 3.0 the handshake of conflicts makes sure of that.) From a host to the node they do not.
//! * Clean lines are dropped without a message, so what the node knows of holders is no less than
//!   there are, but may be more.
//! * A host whose line is being written back says nothing about it until that has completed.
//!
//! Left out: credits, lost messages, poison, and hosts that fail.

mod explore;
mod hosts;
mod message;
mod protocol;
mod transaction;

pub use explore::{Explored, Fault, Limits, Violation, explore, wander};
pub use hosts::{Hosts, ones};
pub use message::{Channel, Message};
pub use protocol::{
    Access, Answer, Ask, BACK_INVALIDATION, BACK_INVALIDATION_AS_PUBLISHED, Filter, INVALIDATING,
    Known, PROTOCOLS, Protocol, SHARING, SHARING_AS_PUBLISHED, State,
};
pub use transaction::{Counts, Holders, Node, Transaction};
