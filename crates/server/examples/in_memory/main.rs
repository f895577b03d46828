//! A server over a map in this process' own memory: the smallest `Store` there can be.
//!
//! `cargo run --release -p tombolo-server --example in_memory -- 127.0.0.1:7000 [PASSWORD]`

mod map;

use std::sync::Arc;

use tombolo_server::{Config, Server};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let listen = args.next().unwrap_or_else(|| "127.0.0.1:7000".to_owned());
    let config = Config { listen, password: args.next(), ..Config::default() };
    let server = Server::start(config, Arc::new(map::Map::default()))?;
    println!("listening on {}; end with Ctrl-C", server.local_addr());
    loop {
        std::thread::park();
    }
}
