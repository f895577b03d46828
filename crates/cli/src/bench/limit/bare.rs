//! The least that the machine takes: a map and values of this process alone, lines that are written
//! and cleaned, words that are changed.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rustix::time::{ClockId, clock_gettime};
use tombolo_memory::{
    Arena, Backing, LINE_BYTES, Lines, LnrAddr, Mapped, Memory, ScrAddr, Site, Window,
};

use super::keys::{Key, key};
use crate::place::Place;

pub(super) const SITE: Site = Site::new("limit");
/// Bytes that are written and cleaned, and chased through: as many as values have, but no fewer and
/// no more.
const BYTES: (u64, u64) = (64 << 20, 1 << 30);
const PAGE: u64 = 4096;
/// Locks, each in a line of its own, all of which are in the nearest cache.
const LOCKS: u64 = 16;
/// Two threads contend for a word as long as this.
const CONTENTION: Duration = Duration::from_millis(20);

/// The processor's time that something takes: what others do on the processor meanwhile does not
/// count.
pub(super) fn timed(act: impl FnOnce() -> Result<()>) -> Result<Duration> {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let started = now();
    act()?;
    Ok(now() - started)
}

/// The program that shares nothing: a hash map, and values side by side.
pub(super) struct Plain {
    places: HashMap<Key, u32, FixedState>,
    values: Arena,
    value_bytes: usize,
}

impl Plain {
    pub(super) fn new(objects: u64, value_bytes: usize) -> Result<Self> {
        let mut places = HashMap::with_capacity_and_hasher(objects as usize, FixedState::default());
        places.extend((0..objects).map(|number| (key(number), number as u32)));
        let bytes = objects * value_bytes as u64;
        let values = Arena::new(bytes.div_ceil(LINE_BYTES))?;
        let value = vec![7; value_bytes];
        (0..objects).for_each(|number| values.write(number * value_bytes as u64, &value));
        Ok(Self { places, values, value_bytes })
    }

    /// The number of the place where the value of `key` is.
    #[inline]
    pub(super) fn find(&self, key: &Key) -> u64 {
        u64::from(self.places[key])
    }

    #[inline]
    pub(super) fn read(&self, key: &Key, into: &mut [u8]) {
        let start = self.find(key) * self.value_bytes as u64;
        // The standard library's copy takes up to six times as long where addresses differ in
        // certain ways.
        self.values.read(start, &mut into[..self.value_bytes]);
    }
}

/// So many bytes of memory as a pod's, and some words, for as long as the place is there.
pub(super) fn map(bytes: u64) -> Result<(Mapped, Place)> {
    let total = (bytes + PAGE).next_multiple_of(PAGE);
    let place = Place::new(None, &format!("limit-{bytes}"), total);
    let (mut backing, _) = Backing::open_or_create(&place.spec.scr)?;
    backing.reserve(total)?;
    let region = Arc::new(backing.map(total)?);
    // The written part begins with a huge page.
    let lnr = Window::new(Arc::clone(&region), 0, total - PAGE);
    Ok((Mapped::new(Window::new(region, total - PAGE, PAGE), lnr), place))
}

/// Memory as a pod's, without a pod in it.
pub(super) struct Bare {
    memory: Mapped,
    through_caches: Mapped,
    /// Says which line is chased next: other ones each time, since caches have those of before.
    chased: Cell<u64>,
    _place: Place,
}

impl Bare {
    /// As much as so many bytes of values take, within reason.
    pub(super) fn new(values: u64) -> Result<Self> {
        let bytes = values.clamp(BYTES.0, BYTES.1).next_multiple_of(1 << 20);
        let (memory, place) = map(bytes)?;
        let mib = vec![7; 1 << 20];
        (0..bytes >> 20).for_each(|number| memory.write(LnrAddr::new(number << 20), &mib));
        let through_caches = memory.clone().through_caches();
        Ok(Self { memory, through_caches, chased: Cell::new(1), _place: place })
    }

    /// Writes `bytes` through the caches over the place that `number` says, and cleans it.
    #[inline]
    pub(super) fn store(&self, number: u64, bytes: &[u8]) {
        store(&self.through_caches, number, bytes);
    }

    /// The same, past the caches if there is so much to be written.
    #[inline]
    pub(super) fn store_past_caches(&self, number: u64, bytes: &[u8]) {
        store(&self.memory, number, bytes);
    }

    /// The same under one of some locks, which the place says: a word that is taken by a
    /// compare-and-swap before, and released by a store after, which nobody waits for.
    #[inline]
    pub(super) fn store_locked(&self, number: u64, bytes: &[u8]) {
        let lock = self.lock(number);
        self.store(number, bytes);
        self.memory.store(lock, 0);
    }

    /// The same, released by a compare-and-swap: a thread that comes back from that knows that the
    /// bytes are in memory, and that the lock was still its own when they were.
    #[inline]
    pub(super) fn store_acknowledged(&self, number: u64, bytes: &[u8]) {
        let lock = self.lock(number);
        self.store(number, bytes);
        let _ = black_box(self.memory.compare_exchange(SITE, lock, 1, 0));
    }

    /// Writes and cleans a line, and then changes a word: the least by which an entry of a log is
    /// there for others.
    #[inline]
    pub(super) fn append(&self, number: u64) {
        self.store(number, &[7; LINE_BYTES as usize]);
        swap_once(&self.memory, ScrAddr::new(0));
    }

    #[inline]
    fn lock(&self, number: u64) -> ScrAddr<u64> {
        let lock = ScrAddr::new((2 + number % LOCKS) * LINE_BYTES);
        let _ = black_box(self.memory.compare_exchange(SITE, lock, 0, 1));
        lock
    }

    /// Follows so many lines, each of which says where the next one is.
    pub(super) fn chase(&self, steps: usize) -> Result<Duration> {
        let lines = self.memory.lnr_bytes() / LINE_BYTES;
        let mut state = self.chased.get();
        timed(|| {
            for _ in 0..steps {
                let mut word = [0; 8];
                self.memory.read(LnrAddr::of_line((state >> 32) % lines), &mut word);
                // The bytes read are part of the next address, and all lines hold the same,
                // which is odd.
                let read = black_box(u64::from_le_bytes(word)) % 2;
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(read);
            }
            self.chased.set(state);
            Ok(())
        })
    }

    /// Changes a word that no other thread uses, so many times.
    pub(super) fn swap_alone(&self, times: usize) -> Result<Duration> {
        let word = ScrAddr::<u64>::new(0);
        timed(|| {
            (0..times).for_each(|_| swap_once(&self.memory, word));
            Ok(())
        })
    }

    /// The time in which each of two threads changes the same word.
    pub(super) fn swap_contended(&self) -> f64 {
        let (ending, swaps) = (AtomicBool::new(false), AtomicU64::new(0));
        let (memory, word) = (&self.memory, ScrAddr::<u64>::new(LINE_BYTES));
        let body = || {
            let mut mine = 0;
            while !ending.load(Ordering::Relaxed) {
                swap_once(memory, word);
                mine += 1;
            }
            swaps.fetch_add(mine, Ordering::Relaxed);
        };
        thread::scope(|scope| {
            scope.spawn(body);
            scope.spawn(body);
            thread::sleep(CONTENTION);
            ending.store(true, Ordering::Relaxed);
        });
        2.0 * CONTENTION.as_nanos() as f64 / swaps.into_inner().max(1) as f64
    }
}

/// Writes `bytes` over the place that `number` says, and cleans it.
#[inline]
fn store(memory: &Mapped, number: u64, bytes: &[u8]) {
    let room = (bytes.len() as u64).next_multiple_of(LINE_BYTES);
    let at = LnrAddr::new(number % (memory.lnr_bytes() / room) * room);
    memory.write(at, bytes);
    memory.clean(SITE, Lines::covering(at, bytes.len() as u64));
}

#[inline]
fn swap_once(memory: &Mapped, word: ScrAddr<u64>) {
    let found = memory.load(word);
    let _ = black_box(memory.compare_exchange(SITE, word, found, found + 1));
}
