//! The gain of splitting the log: two hosts that do nothing but create and delete objects, in pods
//! whose logs have 1, 2 and 4 shards.
//!
//! `cargo bench -p tombolo --bench shards -- [SECONDS]`. Each host has its own mapping of the pod,
//! and 1 or 2 threads with keys of their own; objects of 100 bytes, 20 at a time per thread.
//! Medians of 7 interleaved rounds of so many seconds, half a second unless told otherwise.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tombolo::{CreateOptions, OBJECTS, Objects, Pod, PodSpec};
use tombolo_log::Ring;

const HOSTS: usize = 2;
const ROUNDS: usize = 7;
const SHARDS: [u64; 3] = [1, 2, 4];
const THREADS: [usize; 2] = [1, 2];
const BATCH: u64 = 20;

struct Case {
    shards: u64,
    pod: Pod,
    hosts: Vec<Objects>,
}

/// The result of a round.
#[derive(Clone, Copy)]
struct Round {
    events_per_s: f64,
    /// Events that each host applied, per event of its own.
    applied: f64,
    /// Places in the log lost to other entries, per thousand events.
    lost: f64,
}

fn main() {
    let seconds = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(0.5);
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let cases = SHARDS.map(|shards| {
        let path = folder.path().join(shards.to_string()).to_str().unwrap().to_owned();
        case(&path, shards)
    });
    println!("threads  shards  events/s  applied per own event  places lost per 1,000 events");
    for threads in THREADS {
        let mut rounds = SHARDS.map(|_| Vec::new());
        for round in 0..=ROUNDS {
            for (case, rounds) in cases.iter().zip(&mut rounds) {
                let done = run(case, threads, Duration::from_secs_f64(seconds));
                if round > 0 {
                    rounds.push(done);
                }
            }
        }
        for (case, rounds) in cases.iter().zip(&rounds) {
            println!(
                "{:7}  {:6}  {:8.0}  {:21.2}  {:28.2}",
                HOSTS * threads,
                case.shards,
                median(rounds, |round| round.events_per_s),
                median(rounds, |round| round.applied),
                median(rounds, |round| round.lost),
            );
        }
    }
}

fn case(path: &str, shards: u64) -> Case {
    let mut options = CreateOptions::sized(256 << 20);
    options.layout.log_shards = Some(shards);
    tombolo::create(path, options).unwrap();
    let spec: PodSpec = path.parse().unwrap();
    let hosts = (0..HOSTS).map(|_| Objects::join(path).unwrap()).collect();
    Case { shards, pod: tombolo_pod::administer(&spec).unwrap(), hosts }
}

fn run(case: &Case, threads: usize, time: Duration) -> Round {
    let tails = || {
        let area = case.pod.area_of(OBJECTS).expect("it was created with one");
        let tail = |shard| Ring::new(&area, shard).tail();
        area.layout().shards().map(tail).sum::<u64>()
    };
    let lost = || case.hosts.iter().map(|host| host.lost_places()).sum::<u64>();
    let (tails_before, lost_before) = (tails(), lost());
    let (stop, events) = (AtomicBool::new(false), AtomicU64::new(0));
    let started = Instant::now();
    thread::scope(|scope| {
        for (number, host) in case.hosts.iter().enumerate() {
            for thread in 0..threads {
                let (stop, events) = (&stop, &events);
                scope.spawn(move || {
                    let done = create_and_delete(host, (number * threads + thread) as u64, stop);
                    events.fetch_add(done, Ordering::Relaxed);
                });
            }
        }
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    let events = events.into_inner() as f64;
    Round {
        events_per_s: events / started.elapsed().as_secs_f64(),
        applied: (tails() - tails_before) as f64 / (events / HOSTS as f64),
        lost: (lost() - lost_before) as f64 / events * 1e3,
    }
}

fn create_and_delete(host: &Objects, thread: u64, stop: &AtomicBool) -> u64 {
    let keys: Vec<String> =
        (0..BATCH).map(|number| format!("{thread:04}user{number:012}")).collect();
    let mut events = 0;
    while !stop.load(Ordering::Relaxed) {
        for key in &keys {
            host.create(key.as_bytes(), &[7; 100]).unwrap();
        }
        for key in &keys {
            host.delete(key.as_bytes()).unwrap();
        }
        events += 2 * BATCH;
    }
    events
}

fn median(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
