//! A server that speaks Redis' protocol, RESP2 and RESP3, over any [`Store`].
//!
//! One task per connection reads what has arrived, executes all whole commands in it, and sends
//! their replies together: pipelines cost one system call a batch. Commands run where they were
//! read; those that may take long move other connections to other threads first.
//!
//! Invariants:
//! * No length that a peer claims is allocated for: buffers grow as bytes arrive, up to a bound for
//!   all connections. Requests are
//!   arrays of strings, so nothing a peer sends nests.
//! * Before a client has given the password, if there is one, it can do nothing but give it, and
//!   not much is kept of what it sends.
//! * No value is read that the reply has no room for, and all replies share one bound.
//! * A server without a password listens on loopback only, and executes nothing that comes in an
//!   HTTP request: web pages can reach loopback, too.
//! * Replies and errors are those of Redis 7 for what is supported (where several things are wrong
//!   with a request, it may name another first); everything else gets a clean error.
//! * The commands between `MULTI` and `EXEC`, and those of a script, happen in one step, or not at
//!   all.
//!
//! Left out: types other than strings, persistence, TLS.

mod bus;
mod clients;
mod commands;
mod config;
mod connection;
mod database;
mod decimal;
mod decode;
mod events;
mod functions;
mod glob;
mod hear;
mod held;
mod inline;
mod latency;
mod monitors;
mod outbox;
mod pause;
mod pipeline;
mod reply;
mod room;
mod scripts;
mod server;
mod session;
mod shared;
mod stats;
mod store;
mod subscriptions;
mod tally;
mod tracking;
mod view;

pub use bus::{Bus, Heard, Topic};
pub use config::{Config, ServerError};
pub use latency::CommandLatency;
pub use server::Server;
pub use stats::Stats;
pub use store::{Eviction, InfoSection, Store, StoreError, StoreUsage};
pub use tombolo_kv::{Change, DeadlineChange, Entry, Found, Removal, RemovalHook, Stat, Watch};
pub use view::atomically;
