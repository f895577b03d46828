//! LNR: memory, and every host's cache over it.
//!
//! **Fault model.** Per host and line: absent; clean, as of some version of memory; or dirty, with
//! a mask of the bytes that were written. A dirty line goes back whole, as hardware writes it, over
//! whatever newer bytes memory holds. A clean or an invalidate is issued first and completes at any
//! time until its fence.
//!
//! A line may be *poisoned*: memory that cannot be read any more. Hosts that have it in their
//! caches go on with that. A host that fetches it meets the poison, and loses the line's whole page
//! to a private one of zeros. Its stores there reach no other host, while others go on reading the
//! page's other lines. Dirty ones of those are written back. Nothing heals a line.
//!
//! A line's memory may be *given back*: it is zeros from then on, whatever caches still hold, and
//! may not be written until there is memory again.
//!
//! Leaves out associativity and levels: the adversary evicts whatever it likes. Bytes of different
//! hosts never mix within a transfer.

use tombolo_memory::{LINE_BYTES, Lines};

use crate::config::Platform;
use crate::sanitizer::{Owner, Rule, Violation};
use crate::schedule::Outcome;
use crate::timeline::Origin;

pub(crate) type LineBytes = [u8; LINE_BYTES as usize];

const ABSENT: u32 = u32::MAX;

/// Lines of a page, which a host that meets poison loses together.
const PAGE_LINES: u32 = 4;

/// A line of memory.
#[derive(Clone)]
struct Line {
    bytes: LineBytes,
    /// Bytes that a write-back has replaced by older ones.
    reverted: u64,
    owner: Owner,
    touched: bool,
    poisoned: bool,
    /// The operation that gave the line's memory back, unless there is some again.
    hole: Option<Origin>,
    /// A bit per host that has met poison in the line's page.
    met: u64,
}

/// A line in a host's cache.
#[derive(Clone)]
struct Cached {
    bytes: LineBytes,
    /// Place in the list of lines that are present, or [`ABSENT`].
    place: u32,
    /// The bytes that were written.
    dirty: u64,
    /// When memory moved on, and by whose write; not at all if the line is as new as memory.
    stale: Option<(u64, Origin)>,
    written: Option<Origin>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            bytes: [0; LINE_BYTES as usize],
            reverted: 0,
            owner: Owner::Nobody,
            touched: false,
            poisoned: false,
            hole: None,
            met: 0,
        }
    }
}

impl Default for Cached {
    fn default() -> Self {
        Self {
            bytes: [0; LINE_BYTES as usize],
            place: ABSENT,
            dirty: 0,
            stale: None,
            written: None,
        }
    }
}

/// An operation on a cached line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maintenance {
    Clean,
    Invalidate,
}

impl Maintenance {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Invalidate => "invalidate",
        }
    }
}

/// A clean or an invalidate that no fence has completed.
#[derive(Clone, Copy)]
pub(crate) struct Issued {
    pub(crate) host: usize,
    pub(crate) thread: u16,
    pub(crate) line: u32,
    pub(crate) what: Maintenance,
}

/// Memory and caches of a run; recycled, because most lines of most runs are never touched.
#[derive(Default)]
pub(crate) struct Lnr {
    lines: Vec<Line>,
    caches: Vec<Vec<Cached>>,
    present: Vec<Vec<u32>>,
    touched: Vec<u32>,
    pub(crate) issued: Vec<Issued>,
    recent: [u32; Self::RECENT],
    touches: usize,
    platform: Platform,
    /// Draws what a faulty platform does.
    faults: u64,
}

impl Lnr {
    const RECENT: usize = 16;

    pub(crate) fn prepare(&mut self, hosts: usize, lines: usize, platform: Platform, seed: u64) {
        (self.platform, self.faults) = (platform, seed);
        for line in self.touched.drain(..) {
            self.lines[line as usize] = Line::default();
            self.caches.iter_mut().for_each(|cache| cache[line as usize] = Cached::default());
        }
        self.issued.clear();
        self.recent = [0; Self::RECENT];
        self.touches = 0;
        self.present.iter_mut().for_each(Vec::clear);
        if self.lines.len() != lines || self.caches.len() != hosts {
            self.lines = vec![Line::default(); lines];
            self.caches = vec![vec![Cached::default(); lines]; hosts];
            self.present = vec![Vec::new(); hosts];
        }
    }

    /// The cache that a host looks into: one for all, where lines are coherent.
    fn cache_of(&self, host: usize) -> usize {
        if self.platform.coherent_lines { 0 } else { host }
    }

    /// Whether a fault that comes once in `rate` times comes now.
    fn fails(&mut self, rate: u64) -> bool {
        if rate == 0 {
            return false;
        }
        self.faults = self.faults.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(rate | 1);
        (self.faults >> 33).is_multiple_of(rate)
    }

    /// One of the lines touched lately, or its neighbour: a line nobody uses is stale for nobody.
    pub(crate) fn recent(&self, dice: u64) -> u32 {
        let line = self.recent[dice as usize % Self::RECENT] + (dice >> 8) as u32 % 2;
        line.min(self.lines.len() as u32 - 1)
    }

    /// One of the lines in a host's cache.
    pub(crate) fn some_present(&self, host: usize, dice: u64) -> Option<u32> {
        let present = &self.present[self.cache_of(host)];
        let index = (dice as usize).checked_rem(present.len())?;
        Some(present[index])
    }

    /// Lines that are dirty in a host's cache.
    pub(crate) fn dirty_lines(&self, host: usize) -> usize {
        let host = self.cache_of(host);
        let dirty = |line: &&u32| self.caches[host][**line as usize].dirty != 0;
        self.present[host].iter().filter(dirty).count()
    }

    pub(crate) fn is_present(&self, host: usize, line: u32) -> bool {
        self.caches[self.cache_of(host)][line as usize].place != ABSENT
    }

    fn touch(&mut self, line: u32) {
        assert!((line as usize) < self.lines.len(), "line {line} is outside LNR");
        if self.recent[self.touches.wrapping_sub(1) % Self::RECENT] != line {
            self.recent[self.touches % Self::RECENT] = line;
            self.touches += 1;
        }
        let found = &mut self.lines[line as usize];
        if !found.touched {
            found.touched = true;
            self.touched.push(line);
        }
    }

    /// Brings a line into a cache, unless it is there.
    pub(crate) fn fetch(&mut self, host: usize, line: u32) {
        if self.is_present(host, line) {
            return;
        }
        let host = self.cache_of(host);
        self.touch(line);
        if self.lines[line as usize].poisoned && !self.has_met_poison(host, line) {
            self.meet_poison(host, line);
        }
        let bytes = match self.has_met_poison(host, line) {
            true => [0; LINE_BYTES as usize],
            false => self.lines[line as usize].bytes,
        };
        let place = self.present[host].len() as u32;
        self.present[host].push(line);
        self.caches[host][line as usize] = Cached { bytes, place, ..Cached::default() };
    }

    /// A host loses the page of a poisoned line.
    fn meet_poison(&mut self, host: usize, line: u32) {
        let first = line - line % PAGE_LINES;
        for line in first..(first + PAGE_LINES).min(self.lines.len() as u32) {
            self.touch(line);
            if self.is_present(host, line) {
                // A host with an older copy is not blamed for it.
                self.evict(host, line, u64::MAX);
            }
            self.lines[line as usize].met |= 1 << host;
        }
    }

    /// From here on a line cannot be read from memory.
    pub(crate) fn poison(&mut self, line: u32) {
        self.touch(line);
        let memory = &mut self.lines[line as usize];
        memory.poisoned = true;
    }

    /// The memory behind a line is given back.
    pub(crate) fn discard(
        &mut self,
        line: u32,
        origin: Origin,
        life: u32,
        step: u64,
    ) -> Result<(), Violation> {
        // There may be none already.
        self.populate(line);
        self.may_write(line, origin, life)?;
        let own = &self.caches[usize::from(origin.host)][line as usize];
        if own.dirty != 0 {
            let earlier = own.written;
            return Err(Violation { rule: Rule::LeftDirty, line, origin, earlier });
        }
        let memory = &mut self.lines[line as usize];
        (memory.bytes, memory.reverted, memory.hole) = (Line::default().bytes, 0, Some(origin));
        for cache in &mut self.caches {
            let cached = &mut cache[line as usize];
            if cached.place != ABSENT && cached.stale.is_none() {
                cached.stale = Some((step, origin));
            }
        }
        Ok(())
    }

    /// No memory is behind a line that nobody has used.
    pub(crate) fn leave_hole(&mut self, line: u32, origin: Origin) {
        self.touch(line);
        self.lines[line as usize].hole = Some(origin);
    }

    /// There is memory behind a line.
    pub(crate) fn populate(&mut self, line: u32) {
        self.touch(line);
        self.lines[line as usize].hole = None;
    }

    /// Whether a host has met poison in a line's page.
    pub(crate) fn has_met_poison(&self, host: usize, line: u32) -> bool {
        self.lines[line as usize].met >> host & 1 == 1
    }

    /// Copies part of a line out of a host's cache; since when it is stale, if it is.
    pub(crate) fn read(
        &mut self,
        host: usize,
        line: u32,
        from: usize,
        into: &mut [u8],
    ) -> Option<(u64, Origin)> {
        self.touch(line);
        self.fetch(host, line);
        let cached = &self.caches[self.cache_of(host)][line as usize];
        into.copy_from_slice(&cached.bytes[from..from + into.len()]);
        cached.stale
    }

    /// Stores into part of a line of a host's cache.
    pub(crate) fn write(&mut self, line: u32, from: usize, bytes: &[u8], origin: Origin) {
        self.touch(line);
        let host = self.cache_of(usize::from(origin.host));
        self.fetch(host, line);
        let cached = &mut self.caches[host][line as usize];
        cached.bytes[from..from + bytes.len()].copy_from_slice(bytes);
        cached.dirty |= mask(from, bytes.len());
        cached.written = Some(origin);
    }

    /// Writes a line back if it is dirty; whether it was. It stays, clean.
    pub(crate) fn clean(&mut self, host: usize, line: u32, step: u64) -> bool {
        let host = self.cache_of(host);
        if self.caches[host][line as usize].dirty == 0 {
            return false;
        }
        let (lost, torn) = (self.fails(self.platform.lost), self.fails(self.platform.torn));
        let cached = &mut self.caches[host][line as usize];
        let memory = &mut self.lines[line as usize];
        if memory.poisoned || memory.met >> host & 1 == 1 {
            (cached.dirty, cached.stale) = (0, None);
            return true;
        }
        if cached.stale.is_some() {
            memory.reverted |= !cached.dirty;
        }
        memory.reverted &= !cached.dirty;
        let arrives = match (lost, torn) {
            (true, _) => 0,
            (false, true) => memory.bytes.len() / 2,
            (false, false) => memory.bytes.len(),
        };
        memory.bytes[..arrives].copy_from_slice(&cached.bytes[..arrives]);
        (cached.dirty, cached.stale) = (0, None);
        let written = cached.written;
        for (other, cache) in self.caches.iter_mut().enumerate() {
            let cached = &mut cache[line as usize];
            let own = memory.met >> other & 1 == 1;
            if other != host && cached.place != ABSENT && cached.stale.is_none() && !own {
                cached.stale = written.map(|origin| (step, origin));
            }
        }
        true
    }

    /// Writes a line back if it is dirty, and drops it; whether it was dirty or stale.
    pub(crate) fn evict(&mut self, host: usize, line: u32, step: u64) -> bool {
        let was_dirty = self.clean(host, line, step);
        self.drop_line(host, line) || was_dirty
    }

    /// Drops a line, whatever is in it; whether it was stale.
    fn drop_line(&mut self, host: usize, line: u32) -> bool {
        let host = self.cache_of(host);
        let cached = &mut self.caches[host][line as usize];
        let (place, stale) = (cached.place, cached.stale.is_some());
        if place == ABSENT {
            return false;
        }
        *cached = Cached::default();
        self.present[host].swap_remove(place as usize);
        if let Some(&moved) = self.present[host].get(place as usize) {
            self.caches[host][moved as usize].place = place;
        }
        stale
    }

    /// Does what was issued; whether it made a difference.
    pub(crate) fn complete(&mut self, issued: Issued, step: u64) -> bool {
        match issued.what {
            Maintenance::Clean => self.clean(issued.host, issued.line, step),
            Maintenance::Invalidate if self.fails(self.platform.stuck) => {
                self.clean(issued.host, issued.line, step)
            }
            Maintenance::Invalidate => self.evict(issued.host, issued.line, step),
        }
    }

    /// A host's caches are gone; some of what was dirty was written back before.
    pub(crate) fn die(&mut self, host: usize, outcome: Outcome, step: u64) {
        self.issued.retain(|issued| issued.host != host);
        if self.platform.coherent_lines {
            // Others may have the lines, too.
            return;
        }
        let mut dirty = 0;
        while let Some(&line) = self.present[host].last() {
            if self.caches[host][line as usize].dirty != 0 {
                if outcome.writes(dirty) {
                    self.clean(host, line, step);
                }
                dirty += 1;
            }
            self.drop_line(host, line);
        }
        for line in &mut self.lines {
            if matches!(line.owner, Owner::Host { host: of, .. } if usize::from(of) == host) {
                line.owner = Owner::Nobody;
            }
        }
    }
}

/// The rules.
impl Lnr {
    /// Whether a host may write a line now.
    pub(crate) fn may_write(&self, line: u32, origin: Origin, life: u32) -> Result<(), Violation> {
        let host = usize::from(origin.host);
        let violation = |rule, earlier| Violation { rule, line, origin, earlier };
        for (other, cache) in self.caches.iter().enumerate() {
            let cached = &cache[line as usize];
            if other != host && cached.dirty != 0 {
                return Err(violation(Rule::TwoWriters, cached.written));
            }
        }
        if let Some(at) = self.lines[line as usize].hole {
            return Err(violation(Rule::Hole, Some(at)));
        }
        match self.lines[line as usize].owner {
            Owner::Host { host, life: since, .. } if host == origin.host && life == since => Ok(()),
            Owner::Host { at, .. } => Err(violation(Rule::NotOwner, Some(at))),
            Owner::Nobody => Err(violation(Rule::NotOwner, None)),
        }
    }

    /// `lines` are a host's from now on.
    pub(crate) fn take(
        &mut self,
        lines: Lines,
        blank: bool,
        origin: Origin,
        life: u32,
    ) -> Result<(), Violation> {
        for line in numbers(lines) {
            self.touch(line);
            let found = &mut self.lines[line as usize];
            if let Owner::Host { host, life: since, at, .. } = found.owner
                && (host, since) != (origin.host, life)
            {
                return Err(Violation { rule: Rule::TwoOwners, line, origin, earlier: Some(at) });
            }
            found.owner = Owner::Host { host: origin.host, life, at: origin };
            if blank {
                found.reverted = 0;
            }
        }
        Ok(())
    }

    /// No line is this host's any more.
    pub(crate) fn give_all(&mut self, origin: Origin) -> Result<(), Violation> {
        for (line, number) in self.lines.iter_mut().zip(0u32..) {
            if matches!(line.owner, Owner::Host { host, .. } if host == origin.host) {
                let cached = &self.caches[usize::from(origin.host)][number as usize];
                if cached.dirty != 0 {
                    let earlier = cached.written;
                    return Err(Violation { rule: Rule::LeftDirty, line: number, origin, earlier });
                }
                line.owner = Owner::Nobody;
            }
        }
        Ok(())
    }

    /// `lines` are not this host's any more; the first `bytes` bytes count.
    pub(crate) fn give(
        &mut self,
        lines: Lines,
        bytes: u64,
        origin: Origin,
        life: u32,
    ) -> Result<(), Violation> {
        for line in numbers(lines) {
            let owned = matches!(self.lines[line as usize].owner,
                Owner::Host { host, life: since, .. } if (host, since) == (origin.host, life));
            if !owned {
                continue;
            }
            let cached = &self.caches[usize::from(origin.host)][line as usize];
            let violation = |rule| Err(Violation { rule, line, origin, earlier: cached.written });
            if cached.dirty != 0 {
                return violation(Rule::LeftDirty);
            }
            let live = bytes.saturating_sub((u64::from(line) - lines.first()) * LINE_BYTES);
            let found = &mut self.lines[line as usize];
            let lost = found.poisoned || found.met >> origin.host & 1 == 1;
            if !lost && found.reverted & mask(0, live.min(LINE_BYTES) as usize) != 0 {
                return violation(Rule::Reverted);
            }
            found.owner = Owner::Nobody;
        }
        Ok(())
    }
}

pub(crate) fn numbers(lines: Lines) -> impl Iterator<Item = u32> {
    lines.numbers().map(|line| line as u32)
}

/// The bits of `length` bytes from `from` on.
fn mask(from: usize, length: usize) -> u64 {
    if length == 0 { 0 } else { u64::MAX >> (64 - length) << from }
}
