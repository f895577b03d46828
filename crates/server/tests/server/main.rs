//! The server over a socket, byte by byte.

mod client;
mod commands;
mod connections;
mod map;
