//! How full a pod gets when sizes change: a host fills it with objects of one range of sizes, deletes nine
//! in ten of them at random, goes on with another range, and so on.
//!
//! `cargo bench -p tombolo --bench fragmentation`. 256 MiB; what is printed is the share of the memory for
//! objects that they take up when there is no room for one more.

use tombolo::{CreateOptions, Error, Objects};

const SIZES: [(u64, u64); 6] =
    [(64, 256), (1_000, 4_000), (200, 600), (10_000, 40_000), (64, 256), (4_000, 10_000)];

fn main() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pod = folder.path().join("pod").to_str().unwrap().to_owned();
    tombolo::create(&pod, CreateOptions::sized(256 << 20)).unwrap();
    let host = Objects::join(&pod).unwrap();
    let mut state = 1u64;
    let mut dice = move |end: u64| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) % end
    };
    let (mut next, mut objects) = (0u64, Vec::new());
    println!("sizes            used when full");
    for (from, to) in SIZES {
        loop {
            let value = vec![7; (from + dice(to - from)) as usize];
            match host.create(&next.to_le_bytes(), &value) {
                Ok(_) => objects.push(next),
                Err(Error::LnrFull { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            next += 1;
        }
        let usage = host.usage();
        let share = usage.lnr_used_bytes as f64 / usage.lnr_bytes as f64;
        println!("{from:6} to {to:6}  {:8.1} %", 100.0 * share);
        objects.retain(|number| dice(10) == 0 || !host.delete(&number.to_le_bytes()).unwrap());
    }
}
