//! How many memory operations are simulated per second and core: lines that are accessed, and
//! words.
//!
//! `cargo bench -p tombolo-timing --bench speed`. 3 hosts with 8 threads each, 1 KiB objects in 256
//! MiB of LNR, chosen at random with seed 1; medians of 5 rounds, in time of the one processor that
//! does it all.

use rustix::time::{ClockId, clock_gettime};
use tombolo_memory::{FetchOp, LnrAddr, Memory, ScrAddr, Site};
use tombolo_timing::{Profile, Simulation, Spec, TimedMemory};

const SITE: Site = Site::new("bench");
const LNR: u64 = 256 << 20;
const OBJECT: u64 = 1024;
const OPERATIONS: u64 = 100_000;

/// One thread's share: `reads` objects, then a word that hosts contend for.
fn work(memory: &TimedMemory, reads: u64, objects: u64) {
    let mut buffer = [0; OBJECT as usize];
    for _ in 0..OPERATIONS / (reads + 1) {
        for _ in 0..reads {
            let object = memory.random() % objects;
            memory.read(LnrAddr::new(object * OBJECT), &mut buffer);
        }
        let word = memory.random() % 1024;
        memory.load(ScrAddr::<u64>::new(8 * word));
        memory.fetch(SITE, ScrAddr::<u64>::new(8 * word), FetchOp::Add, 1);
    }
}

/// How long this thread has had a processor: others may be at work on the machine, too.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Millions of accesses per second.
fn speed(profile: &Profile, reads: u64, objects: u64) -> f64 {
    let mut simulation = Simulation::new(Spec {
        profile: profile.clone(),
        scr_bytes: 64 << 10,
        lnr_bytes: LNR,
        seed: 1,
    });
    simulation.takes_time(true);
    for thread in 0..24 {
        simulation.spawn(thread % 3, thread / 3, move |memory| work(&memory, reads, objects));
    }
    let started = processor_seconds();
    simulation.run();
    simulation.counts().accesses as f64 / (processor_seconds() - started) / 1e6
}

fn main() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/megalon.toml");
    let profile = Profile::read(path.as_ref()).expect("the profile is sound");
    let rows = [
        ("words that hosts contend for", 0, 1),
        ("objects that are in the nearest caches", 8, 64),
        ("objects that are in the shared cache", 8, 16_000),
        ("objects all over the device", 8, LNR / OBJECT),
    ];
    println!("{:<40} million accesses per second", "accessed");
    for (name, reads, objects) in rows {
        let mut rounds: Vec<f64> = (0..5).map(|_| speed(&profile, reads, objects)).collect();
        rounds.sort_by(f64::total_cmp);
        println!("{name:<40} {:.1}", rounds[rounds.len() / 2]);
    }
}
