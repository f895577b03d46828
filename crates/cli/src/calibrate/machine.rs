//! The times of this machine's caches, memory and instructions.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use anyhow::{Context, Result};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tombolo_memory::{
    Backing, LINE_BYTES, Lines, LnrAddr, Mapped, Memory, MemorySpec, Site, Window,
};

use super::{Entry, in_company, least, median};
use crate::place::Place;

const SITE: Site = Site::new("calibrate");
const ROUNDS: usize = 9;
/// Memory that no cache holds.
const LARGE: u64 = 512 << 20;
/// A file that is mapped again and again.
const FILE: u64 = 256 << 20;
/// Lines of an object that is copied or flushed.
const OBJECT_LINES: u64 = 17;
const PAGE: u64 = 4096;
/// Pages of so many bytes a processor remembers where they are.
const KNOWN: u64 = 4 << 20;
const TLB_PAGES: u64 = 2048;

/// The measured entries of the profile, by section. Caches and memory, which others on the
/// processor use, too, are as quick as they were in half of the rounds; instructions, as they can
/// be.
pub(super) struct Machine {
    pub(super) core: [Entry; 7],
    pub(super) tlb: [Entry; 4],
    pub(super) caches: Vec<[Entry; 3]>,
    pub(super) local: [Entry; 2],
    pub(super) coherence: [Entry; 2],
    pub(super) flush: [Entry; 4],
}

pub(super) fn measure(hosts: u32) -> Result<Machine> {
    let memories: Vec<Mapped> = (0..hosts).map(|_| large()).collect::<Result<_>>()?;
    let alone = Alone {
        hosts: f64::from(hosts),
        levels: levels()?,
        core_to_core: ping_pong(),
        bandwidth: bandwidth(),
        first_touch: first_touch(&memories[0])?,
    };
    let together = Barrier::new(hosts as usize);
    in_company(hosts, |host| {
        let company = Company { memory: &memories[host as usize], together: &together };
        Ok(measure_one(&company, &alone))
    })
}

/// The times that one processor measures by itself, or all do together.
struct Alone {
    hosts: f64,
    levels: Vec<Level>,
    core_to_core: f64,
    bandwidth: f64,
    first_touch: f64,
}

fn large() -> Result<Mapped> {
    let region = Arc::new(Backing::open(&MemorySpec::anonymous(LARGE))?.map(LARGE)?);
    let window = |offset, bytes| Window::new(Arc::clone(&region), offset, bytes);
    // The caches are what is measured.
    Ok(Mapped::new(window(0, PAGE), window(PAGE, LARGE - PAGE)).through_caches())
}

/// A host's memory, and what makes all hosts measure the same at the same time.
struct Company<'a> {
    memory: &'a Mapped,
    together: &'a Barrier,
}

/// The times that the processor of one host measures.
fn measure_one(company: &Company<'_>, alone: &Alone) -> Machine {
    let latency = chase_dropped(company);
    let walk = (chase(company, LARGE - PAGE) - latency).max(0.0);
    let mut caches = Vec::new();
    for (number, level) in alone.levels.iter().enumerate() {
        let bytes = ((level.kib * 1024.0) as u64).min(LARGE - PAGE);
        let near = chase(company, (bytes / 2).min(KNOWN));
        let (kib, source) = if number + 1 == alone.levels.len() {
            let ours = ours(&found(company, bytes, near, latency));
            let source = "what dependent loads find there, on all hosts at once";
            (ours.min(bytes as f64 / alone.hosts) / 1024.0, source)
        } else {
            (level.kib, "the system")
        };
        caches.push([
            ("kib", kib, source),
            ("ways", level.ways, "the system"),
            ("latency_ns", near, "dependent loads in half of it, or 4 MiB"),
        ]);
    }
    let copy = copy_near(company);
    let far = copy_far(company);
    let rest = (OBJECT_LINES - 1) as f64;
    // The rest of the time of an object's copy after the first miss.
    let gap = ((far - latency - walk) / rest).max(copy);
    let flush = flush(company);
    Machine {
        core: [
            ("atomic_ns", atomic(company), "a compare-and-swap in the nearest cache"),
            ("pause_ns", pause(company), "the instruction by which loops wait"),
            ("copy_ns", copy, "copying 17 lines in the nearest cache, each"),
            (
                "misses_at_once",
                (latency / gap).clamp(1.0, 64.0).round(),
                "copying 17 lines from memory takes so much less than 17 misses",
            ),
            ("miss_gap_ns", gap, "the same: what each line takes besides the first"),
            ("stores_at_once", 28.0, "not measured: the store buffers of current processors"),
            ("core_to_core_ns", alone.core_to_core, "two threads that hand a line to and fro"),
        ],
        tlb: [
            ("page_kib", PAGE as f64 / 1024.0, "the system"),
            ("pages", TLB_PAGES as f64, "not measured: that of current processors"),
            (
                "miss_ns",
                walk,
                "dependent loads all over 512 MiB, less those in pages that are known",
            ),
            (
                "first_ns",
                alone.first_touch,
                "loads from another mapping of a file, less those when they are repeated; each page",
            ),
        ],
        caches,
        local: [
            (
                "latency_ns",
                latency,
                "dependent loads of dropped lines, each in a page that is known",
            ),
            ("gb_per_s", alone.bandwidth, "all processors read 512 MiB in a row"),
        ],
        coherence: [
            (
                "latency_ns",
                alone.core_to_core,
                "hosts are processes: a line comes from another core",
            ),
            ("snoop_ns", 0.0, "included"),
        ],
        flush,
    }
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

/// Nanoseconds of each repetition of `body`, which does so many at once, round by round.
fn rounds(together: &Barrier, repetitions: u64, mut body: impl FnMut()) -> Vec<f64> {
    let round = |_| {
        together.wait();
        let started = Instant::now();
        body();
        started.elapsed().as_nanos() as f64 / repetitions as f64
    };
    (0..ROUNDS).map(round).collect()
}

/// The same of the quickest round, for what nobody else has to do with.
fn time(together: &Barrier, repetitions: u64, body: impl FnMut()) -> f64 {
    least(rounds(together, repetitions, body))
}

/// A load from one of `bytes` bytes, whose place the load before tells.
fn chase(company: &Company<'_>, bytes: u64) -> f64 {
    let mut line = prepare(company.memory, bytes);
    let steps = 500_000;
    // Each round goes on where the one before ended: its lines may still be in a cache.
    median(rounds(company.together, steps, || line = follow(company.memory, line, steps)))
}

/// The same, where no line is in any cache, but all pages are known. They lie far from each other:
/// lines in a row would be quick, since memory has their row open.
fn chase_dropped(company: &Company<'_>) -> f64 {
    let memory = company.memory;
    let mut dice = ChaCha8Rng::seed_from_u64(3);
    let page_lines = PAGE / LINE_BYTES;
    let pages = (LARGE - PAGE) / PAGE;
    let pages: BTreeSet<u64> = (0..KNOWN / PAGE).map(|_| dice.next_u64() % pages).collect();
    let lines: Vec<u64> =
        pages.iter().map(|page| page * page_lines + dice.next_u64() % page_lines).collect();
    let start = link(memory, lines.clone());
    company.together.wait();
    let round = |_| {
        lines.iter().for_each(|&line| memory.invalidate(SITE, Lines::new(line, 1)));
        let started = Instant::now();
        black_box(follow(memory, start, lines.len() as u64));
        started.elapsed().as_nanos() as f64 / lines.len() as f64
    };
    median((0..10 * ROUNDS).map(round).collect())
}

/// The extra nanoseconds of a load from a page of a file in memory that this mapping has not
/// touched yet, and another one has. The system takes note of such a page, and of some pages around
/// it.
fn first_touch(other: &Mapped) -> Result<f64> {
    let place = Place::new(None, "calibrate", FILE);
    let (mut backing, _) = Backing::open_or_create(&place.spec.scr)?;
    backing.reserve(FILE)?;
    let map = || -> Result<Mapped> {
        let region = Arc::new(backing.map(FILE)?);
        let window = |offset, bytes| Window::new(Arc::clone(&region), offset, bytes);
        Ok(Mapped::new(window(0, PAGE), window(PAGE, FILE - PAGE)))
    };
    let pages = FILE / PAGE - 1;
    let start = link(&map()?, (0..pages).map(|page| page * PAGE / LINE_BYTES).collect());
    let elsewhere = prepare(other, LARGE - PAGE);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let memory = map()?;
        // The system's notes of these pages leave the caches.
        black_box(follow(other, elsewhere, LARGE / PAGE * 4));
        let [first, again] = [(); 2].map(|()| {
            let started = Instant::now();
            black_box(follow(&memory, start, pages));
            started.elapsed().as_nanos() as f64 / pages as f64
        });
        rounds.push((first - again).max(0.0));
    }
    Ok(median(rounds))
}

/// Going round in as many bytes as the last cache has, or a part of them, finds such a share of the
/// lines there. A load takes `near` if it finds its line, and `far` if not: page walks find what
/// they need in nearer caches, while it is about so few bytes.
fn found(company: &Company<'_>, bytes: u64, near: f64, far: f64) -> [(u64, f64); 8] {
    // All of them, since all hosts have to measure the same.
    [1, 2, 3, 4, 6, 8, 12, 16].map(|part| {
        let round = bytes * part / 16;
        (round, (far - chase(company, round)) / (far - near))
    })
}

/// How many bytes of a cache are ours, if going round in so many finds such a share of the lines
/// there: others on the processor may have the rest.
fn ours(found: &[(u64, f64)]) -> f64 {
    // Going round in much more than is ours finds next to nothing, whatever that is.
    let beyond = found.iter().find(|(_, found)| *found < 0.5).or(found.last());
    beyond.map_or(0.0, |&(round, found)| round as f64 * share(found))
}

/// How much smaller a cache is than what one goes round in, if this share of the lines is found
/// there. With lines replaced at random, one is still there after so many misses with a probability
/// of `exp(-misses / size)`.
fn share(found: f64) -> f64 {
    let found = found.clamp(0.01, 0.99);
    ((1.0 - found) / -found.ln()).min(1.0)
}

fn prepare(memory: &Mapped, bytes: u64) -> u64 {
    link(memory, (0..bytes / LINE_BYTES).collect())
}

/// Writes into each line which one comes next, in random order; the first.
fn link(memory: &Mapped, mut lines: Vec<u64>) -> u64 {
    let mut dice = ChaCha8Rng::seed_from_u64(1);
    for last in (1..lines.len()).rev() {
        lines.swap(last, (dice.next_u64() % (last as u64 + 1)) as usize);
    }
    for (&line, next) in lines.iter().zip(lines.iter().cycle().skip(1)) {
        memory.write(LnrAddr::of_line(line), &next.to_le_bytes());
    }
    lines[0]
}

fn follow(memory: &Mapped, mut line: u64, steps: u64) -> u64 {
    let mut bytes = [0; 8];
    for _ in 0..steps {
        memory.read(LnrAddr::of_line(line), &mut bytes);
        line = u64::from_le_bytes(bytes);
    }
    line
}

fn object(number: u64) -> LnrAddr {
    LnrAddr::of_line(number * OBJECT_LINES)
}

/// Copying a line that is in the nearest cache.
fn copy_near(company: &Company<'_>) -> f64 {
    let mut buffer = [0; (OBJECT_LINES * LINE_BYTES) as usize];
    time(company.together, 10_000, || {
        for number in 0..10_000 {
            company.memory.read(object(number % 8), &mut buffer);
            black_box(&buffer);
        }
    }) / OBJECT_LINES as f64
}

/// Copying 17 lines that are in no cache.
fn copy_far(company: &Company<'_>) -> f64 {
    let objects = (LARGE - PAGE) / LINE_BYTES / OBJECT_LINES;
    let mut buffer = [0; (OBJECT_LINES * LINE_BYTES) as usize];
    let mut dice = ChaCha8Rng::seed_from_u64(2);
    let mut after = 0;
    median(rounds(company.together, 50_000, || {
        for _ in 0..50_000 {
            // The next place depends on what was read, as it does in an index.
            let number = (dice.next_u64() + after) % objects;
            company.memory.read(object(number), &mut buffer);
            after = u64::from(buffer[0]);
        }
    }))
}

fn atomic(company: &Company<'_>) -> f64 {
    let word = AtomicU64::new(0);
    time(company.together, 100_000, || {
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

fn pause(company: &Company<'_>) -> f64 {
    time(company.together, 100_000, || (0..100_000).for_each(|_| std::hint::spin_loop()))
}

/// Handing a line to another core, one way. Processors of a virtual machine may be near to each
/// other in one minute, and far in the next.
fn ping_pong() -> f64 {
    const TURNS: u64 = 20_000;
    let word = AtomicU64::new(0);
    let play = |mine: u64, round: u64| {
        for turn in round * TURNS..(round + 1) * TURNS {
            while word.load(Ordering::Acquire) != 2 * turn + mine {
                std::hint::spin_loop();
            }
            word.store(2 * turn + mine + 1, Ordering::Release);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| (0..=ROUNDS as u64).for_each(|round| play(1, round)));
        // Until it has a processor.
        play(0, 0);
        let mut round = 0;
        median(rounds(&Barrier::new(1), 2 * TURNS, || {
            round += 1;
            play(0, round);
        }))
    })
}

/// The bandwidth of reading in a row by all processors together, in GB/s.
fn bandwidth() -> f64 {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let words = LARGE as usize / 8 / threads;
    let parts: Vec<Vec<u64>> = (0..threads).map(|part| vec![part as u64; words]).collect();
    let ns_per_byte = time(&Barrier::new(1), (words * 8 * threads) as u64, || {
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

/// Cleaning and dropping lines of objects that lie far from each other: in a row they would be
/// quick, since memory has their row open.
fn flush(company: &Company<'_>) -> [Entry; 4] {
    let memory = company.memory;
    let mut dice = ChaCha8Rng::seed_from_u64(4);
    let objects = (LARGE - PAGE) / LINE_BYTES / OBJECT_LINES;
    let objects: Vec<LnrAddr> = (0..256).map(|_| object(dice.next_u64() % objects)).collect();
    let each = |lines: u64, write: bool, flush: &dyn Fn(Lines)| {
        let mut bytes = [7; (OBJECT_LINES * LINE_BYTES) as usize];
        let bytes = &mut bytes[..(lines * LINE_BYTES) as usize];
        let round = |_| {
            for &object in &objects {
                if write { memory.write(object, bytes) } else { memory.read(object, bytes) }
            }
            company.together.wait();
            let started = Instant::now();
            objects.iter().for_each(|object| flush(Lines::new(object.line(), lines)));
            started.elapsed().as_nanos() as f64 / objects.len() as f64
        };
        median((0..ROUNDS).map(round).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_ours_as_far_as_lines_are_found() {
        // Going round in a cache of which half is ours finds two lines in ten.
        assert!((share(0.203) - 0.5).abs() < 0.001);
        assert!(share(1.2) > 0.99);
        assert!(share(-0.1) < 0.25);
        // A quarter of it is ours; what is found in much more is noise.
        let found = [(2, 1.02), (4, 0.98), (6, 0.9), (8, 0.65), (12, 0.41), (16, 0.203), (32, 0.3)];
        assert!((ours(&found) - 8.0).abs() < 0.1, "{}", ours(&found));
        assert_eq!(ours(&[(16, 0.999)]), 16.0 * share(0.99));
    }
}
