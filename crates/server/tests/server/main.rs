//! The server over a socket, byte by byte.

mod against_redis;
mod client;
mod commands;
mod connections;
mod functions;
mod introspection;
// The store that the example serves.
#[path = "../../examples/in_memory/map.rs"]
mod map;
mod patient;
mod pubsub;
mod scripting;
mod tracking;
