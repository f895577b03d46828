//! What this machine's caches, memory and instructions take.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tombolo_memory::{
    Backing, LINE_BYTES, Lines, LnrAddr, Mapped, Memory, MemorySpec, Site, Window,
};

use super::{Entry, least};

const SITE: Site = Site::new("calibrate");
const ROUNDS: usize = 9;
/// Memory that no cache holds.
const LARGE: u64 = 512 << 20;
/// Lines of an object that is copied or flushed.
const OBJECT_LINES: u64 = 17;
const PAGE: u64 = 4096;
/// Pages of so many bytes a processor remembers where they are.
const KNOWN: u64 = 4 << 20;
/// Pages of more bytes it does not.
const REACH: u64 = TLB_PAGES * PAGE;
const TLB_PAGES: u64 = 2048;

/// What was measured, section by section.
pub(super) struct Machine {
    pub(super) core: [Entry; 6],
    pub(super) tlb: [Entry; 3],
    pub(super) caches: Vec<[Entry; 3]>,
    pub(super) local: [Entry; 2],
    pub(super) coherence: [Entry; 2],
    pub(super) flush: [Entry; 4],
}

pub(super) fn measure(hosts: u32) -> Result<Machine> {
    let region = Arc::new(Backing::open(&MemorySpec::anonymous(LARGE))?.map(LARGE)?);
    let memory = Mapped::new(
        Window::new(Arc::clone(&region), 0, PAGE),
        Window::new(region, PAGE, LARGE - PAGE),
    );
    let latency = chase_flushed(&memory);
    let walk = (chase(&memory, LARGE - PAGE) - latency).max(0.0);
    let mut caches = Vec::new();
    let levels = levels()?;
    for (number, level) in levels.iter().enumerate() {
        let half = (level.kib * 1024.0 / 2.0) as u64;
        let near = chase(&memory, half.min(KNOWN));
        let shared = number + 1 == levels.len();
        let kib = if shared {
            // Who else is on the processor has part of it.
            let takes = chase(&memory, half) - walk * (1.0 - REACH as f64 / half as f64).max(0.0);
            let found = ((latency - takes) / (latency - near)).clamp(0.05, 1.0);
            level.kib * if found > 0.95 { 1.0 } else { found / 2.0 } / f64::from(hosts)
        } else {
            level.kib
        };
        let source = if shared {
            "what dependent loads in half of it find there, divided among the hosts"
        } else {
            "the system"
        };
        caches.push([
            ("kib", kib, source),
            ("ways", level.ways, "the system"),
            ("latency_ns", near, "dependent loads in half of it, or 4 MiB"),
        ]);
    }
    let copy = copy_near(&memory);
    let far = copy_far(&memory);
    let rest = (OBJECT_LINES - 1) as f64;
    // What is left of an object's copy after the first miss.
    let misses =
        (rest * latency / (far - latency - walk).max(rest * copy)).clamp(1.0, 64.0).round();
    let core_to_core = ping_pong();
    let flush = flush(&memory);
    Ok(Machine {
        core: [
            ("atomic_ns", atomic(), "a compare-and-swap in the nearest cache"),
            ("pause_ns", pause(), "the instruction by which loops wait"),
            ("copy_ns", copy, "copying 17 lines in the nearest cache, each"),
            (
                "misses_at_once",
                misses,
                "copying 17 lines from memory takes so much less than 17 misses",
            ),
            ("stores_at_once", 28.0, "not measured: the store buffers of current processors"),
            ("core_to_core_ns", core_to_core, "two threads that hand a line to and fro"),
        ],
        tlb: [
            ("page_kib", PAGE as f64 / 1024.0, "the system"),
            ("pages", TLB_PAGES as f64, "not measured: that of current processors"),
            (
                "miss_ns",
                walk,
                "dependent loads all over 512 MiB, less those in pages that are known",
            ),
        ],
        caches,
        local: [
            ("latency_ns", latency, "dependent loads of lines that were dropped"),
            ("gb_per_s", bandwidth(), "all processors read 512 MiB in a row"),
        ],
        coherence: [
            ("latency_ns", core_to_core, "hosts are processes: a line comes from another core"),
            ("snoop_ns", 0.0, "included"),
        ],
        flush,
    })
}

struct Level {
    kib: f64,
    ways: f64,
}

/// The data caches of the first processor, as the system knows them.
fn levels() -> Result<Vec<Level>> {
    let mut levels = Vec::new();
    for index in 0.. {
        let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{index}");
        let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}"));
        let Ok(kind) = read("type") else { break };
        if kind.trim() == "Instruction" {
            continue;
        }
        let size = read("size")?;
        let kib = size.trim().trim_end_matches('K').parse();
        let ways = read("ways_of_associativity")?.trim().parse();
        let strange = || format!("{folder} is not understood");
        levels.push(Level { kib: kib.with_context(strange)?, ways: ways.with_context(strange)? });
    }
    anyhow::ensure!(
        levels.len() >= 2,
        "the system does not tell about its caches in /sys/devices/system/cpu"
    );
    Ok(levels)
}

/// Nanoseconds of each repetition of `body`, which does so many at once.
fn time(repetitions: u64, mut body: impl FnMut()) -> f64 {
    let round = |_| {
        let started = Instant::now();
        body();
        started.elapsed().as_nanos() as f64 / repetitions as f64
    };
    least((0..ROUNDS).map(round))
}

/// A load from one of `bytes` bytes, whose place the load before tells.
fn chase(memory: &Mapped, bytes: u64) -> f64 {
    let start = prepare(memory, bytes);
    let steps = 500_000;
    time(steps, || follow(memory, start, steps))
}

/// The same, where no line is in any cache, but all pages are known.
fn chase_flushed(memory: &Mapped) -> f64 {
    let start = prepare(memory, KNOWN);
    let lines = KNOWN / LINE_BYTES;
    least((0..ROUNDS).map(|_| {
        memory.invalidate(SITE, Lines::new(0, lines));
        let started = Instant::now();
        follow(memory, start, lines);
        started.elapsed().as_nanos() as f64 / lines as f64
    }))
}

/// Writes into each line of `bytes` bytes which one comes next, in random order; the first.
fn prepare(memory: &Mapped, bytes: u64) -> u64 {
    let mut lines: Vec<u64> = (0..bytes / LINE_BYTES).collect();
    let mut dice = ChaCha8Rng::seed_from_u64(1);
    for last in (1..lines.len()).rev() {
        lines.swap(last, (dice.next_u64() % (last as u64 + 1)) as usize);
    }
    for (&line, next) in lines.iter().zip(lines.iter().cycle().skip(1)) {
        memory.write(LnrAddr::of_line(line), &next.to_le_bytes());
    }
    lines[0]
}

fn follow(memory: &Mapped, mut line: u64, steps: u64) {
    let mut bytes = [0; 8];
    for _ in 0..steps {
        memory.read(LnrAddr::of_line(line), &mut bytes);
        line = u64::from_le_bytes(bytes);
    }
    black_box(line);
}

fn object(number: u64) -> LnrAddr {
    LnrAddr::of_line(number * OBJECT_LINES)
}

/// Copying a line that is in the nearest cache.
fn copy_near(memory: &Mapped) -> f64 {
    let mut buffer = [0; (OBJECT_LINES * LINE_BYTES) as usize];
    time(10_000, || {
        for number in 0..10_000 {
            memory.read(object(number % 8), &mut buffer);
            black_box(&buffer);
        }
    }) / OBJECT_LINES as f64
}

/// Copying 17 lines that are in no cache.
fn copy_far(memory: &Mapped) -> f64 {
    let objects = (LARGE - PAGE) / LINE_BYTES / OBJECT_LINES;
    let mut buffer = [0; (OBJECT_LINES * LINE_BYTES) as usize];
    let mut dice = ChaCha8Rng::seed_from_u64(2);
    let mut after = 0;
    time(50_000, || {
        for _ in 0..50_000 {
            // The next place depends on what was read, as it does in an index.
            let number = (dice.next_u64() + after) % objects;
            memory.read(object(number), &mut buffer);
            after = u64::from(buffer[0]);
        }
    })
}

fn atomic() -> f64 {
    let word = AtomicU64::new(0);
    time(100_000, || {
        for count in 0..100_000 {
            let _ = black_box(&word).compare_exchange(
                count,
                count + 1,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
        word.store(0, Ordering::Relaxed);
    })
}

fn pause() -> f64 {
    time(100_000, || (0..100_000).for_each(|_| std::hint::spin_loop()))
}

/// Handing a line to another core, one way.
fn ping_pong() -> f64 {
    const TURNS: u64 = 20_000;
    let word = AtomicU64::new(0);
    let play = |mine: u64| {
        for turn in 0..TURNS {
            while word.load(Ordering::Acquire) != 2 * turn + mine {
                std::hint::spin_loop();
            }
            word.store(2 * turn + mine + 1, Ordering::Release);
        }
    };
    time(2 * TURNS, || {
        word.store(0, Ordering::Release);
        std::thread::scope(|scope| {
            scope.spawn(|| play(1));
            play(0);
        });
    })
}

/// What all processors together read in a row, in GB/s.
fn bandwidth() -> f64 {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let words = LARGE as usize / 8 / threads;
    let parts: Vec<Vec<u64>> = (0..threads).map(|part| vec![part as u64; words]).collect();
    let ns_per_byte = time((words * 8 * threads) as u64, || {
        std::thread::scope(|scope| {
            for part in &parts {
                scope.spawn(|| {
                    black_box(part.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)))
                });
            }
        });
    });
    1.0 / ns_per_byte
}

/// Cleaning and dropping lines.
fn flush(memory: &Mapped) -> [Entry; 4] {
    const OBJECTS: u64 = 256;
    let bytes = [7; (OBJECT_LINES * LINE_BYTES) as usize];
    let prepare = |lines: u64, write: bool| {
        let mut buffer = bytes;
        for number in 0..OBJECTS {
            if write {
                memory.write(object(number), &bytes[..(lines * LINE_BYTES) as usize]);
            } else {
                memory.read(object(number), &mut buffer[..(lines * LINE_BYTES) as usize]);
            }
        }
    };
    let each = |lines: u64, write: bool, flush: &dyn Fn(Lines)| {
        let round = |_| {
            prepare(lines, write);
            let started = Instant::now();
            for number in 0..OBJECTS {
                flush(Lines::new(object(number).line(), lines));
            }
            started.elapsed().as_nanos() as f64 / OBJECTS as f64
        };
        least((0..ROUNDS).map(round))
    };
    let clean = |lines| each(lines, true, &|lines| memory.clean(SITE, lines));
    let invalidate = |lines| each(lines, false, &|lines| memory.invalidate(SITE, lines));
    let more = |one: f64, many: f64| ((many - one) / (OBJECT_LINES - 1) as f64).max(0.0);
    let (clean_one, clean_many) = (clean(1), clean(OBJECT_LINES));
    let (drop_one, drop_many) = (invalidate(1), invalidate(OBJECT_LINES));
    [
        ("clean_ns", clean_one, "cleaning a dirty line"),
        ("clean_more_ns", more(clean_one, clean_many), "cleaning 17 dirty lines, each one more"),
        ("invalidate_ns", drop_one, "dropping a line"),
        ("invalidate_more_ns", more(drop_one, drop_many), "dropping 17 lines, each one more"),
    ]
}
