//! How hosts tell each other what they have used: each by a ring of lines in LNR.
//!
//! A line has the hashes of sixteen keys. The host writes lines, cleans them, and then advances the
//! end of its ring in SCR. Other hosts look at the ends now and then, and read the new lines. A
//! host that was slow misses some. Nothing depends on what a ring says but the choice of values to
//! evict. So nothing waits, and what a dead host has left there does no harm.

use std::sync::Mutex;

use tombolo_memory::{HostMutex, LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr};
use tombolo_sharing::ObjectArea;

use crate::sites;

/// Hashes in a line. 0 stands for none.
const HASHES: usize = LINE_BYTES as usize / size_of::<u32>();

pub(crate) struct UseRings<M: Memory> {
    memory: M,
    host: u8,
    hosts: u8,
    ends: ScrAddr<u64>,
    rings: LnrAddr,
    /// Lines of a ring.
    lines: u64,
    /// The values that this host has used, and not told yet. No memory of a pod is used while it is
    /// locked.
    untold: Mutex<Vec<u32>>,
    places: HostMutex<M, RingPlaces>,
}

/// How far rings are known.
struct RingPlaces {
    /// Lines that this host has told.
    told: u64,
    /// Lines of each host that this one has heard.
    heard: Vec<u64>,
}

impl<M: Memory> UseRings<M> {
    /// The rings of an area, as `host` uses them; `None` if it has none.
    pub(crate) fn new(area: &ObjectArea<M>, host: u8) -> Option<Self> {
        let (geometry, areas) = (area.geometry(), area.areas());
        let lines = geometry.use_ring_bytes / LINE_BYTES;
        let hosts = u8::try_from(geometry.hosts).ok()?;
        if lines == 0 || host >= hosts {
            return None;
        }
        let memory = area.memory().clone();
        // A new host hears what rings still have.
        let places = RingPlaces {
            told: memory.load(areas.use_ends.line(host.into())),
            heard: vec![0; usize::from(hosts)],
        };
        Some(Self {
            host,
            hosts,
            ends: areas.use_ends,
            rings: areas.use_rings,
            lines,
            untold: Mutex::default(),
            places: HostMutex::<M, _>::new(places),
            memory,
        })
    }

    /// Notes that others are to be told of this use. Whether there is a line of them.
    pub(crate) fn add(&self, hash: u32) -> bool {
        let mut untold = self.untold.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Of more, others would not hear.
        if untold.len() < self.most_at_once() as usize * HASHES {
            untold.push(hash.max(1));
        }
        untold.len() >= HASHES
    }

    /// Lines that a host writes before it says so. Those that it may be writing are read by none.
    fn most_at_once(&self) -> u64 {
        (self.lines / 8).max(1)
    }

    /// The last lines that a host has told, as far as they are whole.
    fn readable(&self) -> u64 {
        self.lines - self.most_at_once()
    }

    fn line(&self, host: u8, number: u64) -> LnrAddr {
        let line = u64::from(host) * self.lines + number % self.lines;
        self.rings.plus(line * LINE_BYTES)
    }

    /// Lines `from..to` of a host's ring, where they lie together.
    fn pieces(&self, host: u8, from: u64, to: u64) -> [Lines; 2] {
        let before_wrap = (self.lines - from % self.lines).min(to - from);
        let piece = |number, count| Lines::new(self.line(host, number).line(), count);
        [piece(from, before_wrap), piece(0, to - from - before_wrap)]
    }

    /// Tells others what this host has used, unless another thread does.
    pub(crate) fn tell(&self) {
        let Some(mut places) = self.places.try_lock() else { return };
        let untold = {
            let mut untold = self.untold.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            std::mem::take(&mut *untold)
        };
        if untold.is_empty() {
            return;
        }
        let from = places.told;
        for (number, hashes) in (from..).zip(untold.chunks(HASHES)) {
            let at = self.line(self.host, number);
            let mut bytes = [0; LINE_BYTES as usize];
            for (into, hash) in bytes.chunks_exact_mut(size_of::<u32>()).zip(hashes) {
                into.copy_from_slice(&hash.to_le_bytes());
            }
            self.memory.takes_blank(Lines::new(at.line(), 1));
            self.memory.write(at, &bytes);
        }
        let to = from + untold.len().div_ceil(HASHES) as u64;
        let pieces = self.pieces(self.host, from, to);
        self.memory.publish(sites::USES_CLEAN, pieces, |memory| {
            pieces.into_iter().for_each(|lines| memory.gives(lines, lines.bytes()));
            memory.store(self.ends.line(self.host.into()), to);
        });
        places.told = to;
    }

    /// Shows what other hosts have told since the last time, unless another thread is at it.
    pub(crate) fn hear(&self, mut visit: impl FnMut(u32)) {
        let Some(mut places) = self.places.try_lock() else { return };
        for host in (0..self.hosts).filter(|&host| host != self.host) {
            let heard = &mut places.heard[usize::from(host)];
            *heard = self.hear_host(host, *heard, &mut visit);
        }
    }

    /// The same of one host, of which this many lines were heard before; how many are now.
    fn hear_host(&self, host: u8, heard: u64, visit: &mut impl FnMut(u32)) -> u64 {
        let (memory, word) = (&self.memory, self.ends.line(host.into()));
        let since = memory.moment();
        let (from, to) = memory.consume(sites::USES_INVALIDATE, |memory| {
            let to = memory.load(word);
            let from = heard.max(to.saturating_sub(self.readable())).min(to);
            ((from, to), self.pieces(host, from, to))
        });
        if from == to {
            return to;
        }
        let mut bytes = vec![0; ((to - from) * LINE_BYTES) as usize];
        let mut rest = bytes.as_mut_slice();
        let pieces = self.pieces(host, from, to);
        for lines in pieces {
            let (piece, others) = rest.split_at_mut(lines.bytes() as usize);
            memory.read(lines.start(), piece);
            rest = others;
        }
        let whole = memory.load(word).wrapping_sub(from) <= self.readable();
        if memory.check(sites::USES_WHOLE, whole) {
            pieces.into_iter().for_each(|lines| {
                memory.relies_on(lines.start(), lines.bytes(), since);
            });
            let (hashes, _) = bytes.as_chunks();
            let hashes = hashes.iter().map(|&hash| u32::from_le_bytes(hash));
            hashes.filter(|&hash| hash != 0).for_each(visit);
        }
        to
    }
}
