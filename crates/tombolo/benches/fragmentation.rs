//! How full a pod gets when sizes change: a host fills it with objects of one range of sizes,
//! deletes nine in ten of them at random, goes on with another range, and so on.
//!
//! `cargo bench -p tombolo --bench fragmentation`. 256 MiB; what is printed is the share of the
//! memory for objects that their slots take up when there is no room for one more, and the share of
//! keys and values.

use tombolo::{CreateOptions, Error, Objects};

const SIZES: [(u64, u64); 9] = [
    (64, 256),
    (1_000, 4_000),
    (200, 600),
    (10_000, 40_000),
    (64, 256),
    (1_000_000, 4_000_000),
    (4_000, 10_000),
    (300_000, 1_000_000),
    (1_000_000, 4_000_000),
];

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
    let (mut next, mut objects) = (0u64, Vec::<(u64, u64)>::new());
    println!("sizes                     slots  keys and values");
    for (from, to) in SIZES {
        loop {
            let bytes = from + dice(to - from);
            let value = vec![7; bytes as usize];
            match host.create(&next.to_le_bytes(), &value) {
                Ok(_) => objects.push((next, bytes + 8)),
                Err(Error::LnrFull { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            next += 1;
        }
        let usage = host.usage();
        let percent = |bytes: u64| 100.0 * bytes as f64 / usage.lnr_bytes as f64;
        let (slots, own) = (percent(usage.lnr_used_bytes), objects.iter().map(|(_, bytes)| bytes));
        println!("{from:9} to {to:9}  {slots:6.1} %  {:6.1} %", percent(own.sum()));
        objects.retain(|(number, _)| dice(10) == 0 || !host.delete(&number.to_le_bytes()).unwrap());
    }
}
