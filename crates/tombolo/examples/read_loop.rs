//! Readers and a writer of one object, by guards: readers copy parts of the object into their own
//! buffers, as often as they like, and ask at the end whether all of it was one version.
//!
//! `cargo run --release -p tombolo --example read_loop`

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tombolo::{CreateOptions, Error, Objects};

const POD: &str = "/dev/shm/tombolo-example-read-loop";
const KEY: &[u8] = b"gauge";
const ROUNDS: u64 = 5_000;

/// An object of 64 KiB whose first and last eight bytes are the same number.
const BYTES: u64 = 64 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tombolo::create(POD, CreateOptions::sized(16 << 20).forced())?;
    // Two hosts in one process, for the sake of a short example; they share nothing but the pod.
    let (writer, reader) = (Objects::join(POD)?, Objects::join(POD)?);
    writer.create(KEY, &vec![0; BYTES as usize])?;

    let writing = AtomicBool::new(true);
    let (read, torn) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_all(&reader, &writing));
        for round in 1..=ROUNDS {
            write(&writer, round)?;
            std::thread::sleep(Duration::from_micros(20));
        }
        writing.store(false, Ordering::Relaxed);
        reading.join().expect("the reader does not panic")
    })?;
    println!("{read} good reads while {ROUNDS} writes happened; {torn} were refused as torn");

    reader.leave()?;
    writer.leave()?;
    Ok(std::fs::remove_file(POD)?)
}

fn write(objects: &Objects, round: u64) -> Result<(), Error> {
    let mut guard = objects.write_start(KEY)?;
    guard.write(0, &round.to_le_bytes())?;
    guard.write(BYTES - 8, &round.to_le_bytes())?;
    guard.write_end()?;
    Ok(())
}

fn read_all(objects: &Objects, writing: &AtomicBool) -> Result<(u64, u64), Error> {
    let (mut read, mut torn) = (0, 0);
    let (mut first, mut last) = ([0; 8], [0; 8]);
    while writing.load(Ordering::Relaxed) {
        let guard = objects.read_start(KEY)?;
        guard.read(0, &mut first)?;
        guard.read(BYTES - 8, &mut last)?;
        match guard.read_end() {
            Ok(()) => {
                // Only now do the bytes count.
                assert_eq!(first, last, "a good read is of one version");
                read += 1;
            }
            Err(Error::Torn) => torn += 1,
            Err(error) => return Err(error),
        }
    }
    Ok((read, torn))
}
