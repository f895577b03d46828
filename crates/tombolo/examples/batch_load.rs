//! Loads many objects from several threads, and says how fast that was.
//!
//! `cargo run --release -p tombolo --example batch_load -- [OBJECTS] [BYTES] [THREADS]`

use std::time::Instant;

use tombolo::{CreateOptions, Objects, format_size};

const POD: &str = "/dev/shm/tombolo-example-batch-load";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Vec<u64> =
        std::env::args().skip(1).map(|arg| arg.parse()).collect::<Result<_, _>>()?;
    let number = |at: usize, usual| numbers.get(at).copied().unwrap_or(usual);
    let (objects, bytes, threads) = (number(0, 20_000), number(1, 1000), number(2, 2));

    // Each object takes its bytes, its key and a header, rounded up to a size class.
    let lnr_bytes = (objects * (bytes + 256) * 3 / 2).max(16 << 20);
    tombolo::create(POD, CreateOptions::sized(lnr_bytes).forced())?;
    let pod = Objects::join(POD)?;

    let started = Instant::now();
    std::thread::scope(|scope| {
        let load = |thread: u64| {
            let value = vec![thread as u8; bytes as usize];
            (thread..objects).step_by(threads as usize).try_for_each(|number| {
                pod.create(format!("object:{number}").as_bytes(), &value).map(|_| ())
            })
        };
        let running: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || load(thread))).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;
    let seconds = started.elapsed().as_secs_f64();

    let usage = pod.usage();
    println!(
        "{} objects of {bytes} bytes in {seconds:.2} s: {:.0} a second; {} used, {} of it here",
        usage.objects,
        objects as f64 / seconds,
        format_size(usage.lnr_used_bytes),
        format_size(usage.local_bytes),
    );
    pod.leave()?;
    Ok(std::fs::remove_file(POD)?)
}
