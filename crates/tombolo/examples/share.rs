//! Two processes share an object: this one writes it, the one it starts reads it and answers.
//!
//! `cargo run --release -p tombolo --example share`

use std::process::Command;

use tombolo::{CreateOptions, Objects};

const POD: &str = "/dev/shm/tombolo-example-share";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut value = Vec::new();
    if std::env::args().nth(1).as_deref() == Some("answer") {
        let objects = Objects::join(POD)?;
        objects.read(b"question", &mut value)?;
        objects.put(b"answer", &[b"I have read: ", &value[..]].concat())?;
        return Ok(());
    }
    tombolo::create(POD, CreateOptions::sized(16 << 20).forced())?;
    let objects = Objects::join(POD)?;
    objects.put(b"question", b"is anybody there?")?;
    Command::new(std::env::current_exe()?).arg("answer").status()?;
    objects.read(b"answer", &mut value)?;
    println!("{}", String::from_utf8_lossy(&value));
    objects.leave()?;
    Ok(std::fs::remove_file(POD)?)
}
