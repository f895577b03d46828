//! The caches of one host: private ones of each core, and one that all share and that includes them.
//!
//! The shared cache notes which cores may have a line, whether it is dirty in any of them, and whether the
//! host has it alone, as it must before a core may change a line of SCR. A core that has changed a line
//! notes so in its own caches, and changes it again without asking.

use tombolo_coherence::{State, ones};
use tombolo_memory::prefetch;

use crate::cache::{Cache, Line, Place, Region};
use crate::{Ps, profile, ps};

/// What the shared cache notes of a line.
#[derive(Clone, Copy, Default)]
pub struct Note {
    /// A bit per core that may have it.
    cores: u64,
    /// The line, and above it what else is known of it.
    line: u64,
}

/// It is dirty.
const DIRTY: u64 = 1 << 63;
/// No other host has it; for lines of SCR.
const ALONE: u64 = 1 << 62;

impl Note {
    fn new(core: usize, line: Line, dirty: bool, alone: bool) -> Self {
        let flags = if dirty { DIRTY } else { 0 } | if alone { ALONE } else { 0 };
        Self { cores: 1 << core, line: line.bits() | flags }
    }

    /// The line.
    pub fn line(&self) -> Line {
        Line::from_bits(self.line & !(DIRTY | ALONE))
    }

    /// Whether it was changed.
    pub fn dirty(&self) -> bool {
        self.line & DIRTY != 0
    }

    fn alone(&self) -> bool {
        self.line & ALONE != 0
    }

    /// It is written back; whether it was dirty.
    fn clean(&mut self) -> bool {
        let dirty = self.dirty();
        self.line &= !DIRTY;
        dirty
    }
}

impl crate::cache::Note for Note {
    #[inline]
    fn is_of(notes: &[Self], place: Place, line: Line) -> bool {
        notes[place.0].line() == line
    }
}

/// What came of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The host's caches serve it, and it takes so long.
    Served(Ps),
    /// No cache of this host has the line.
    Missing,
    /// The host has the line here, but not alone.
    NotAlone(Found),
}

/// Where a host has a line that a core accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    shared: Place,
    /// Which of the core's own caches is the nearest that has it, and where.
    near: Option<(usize, Place)>,
}

struct Level<N> {
    cache: Cache<N>,
    latency: Ps,
}

impl<N: crate::cache::Note> Level<N> {
    fn new(cache: &profile::Cache) -> Self {
        Self { cache: Cache::new(cache.kib, cache.ways), latency: ps(cache.latency_ns) }
    }
}

/// The caches of a host.
pub struct HostCaches {
    /// By core, from the nearest cache on. Lines that this core may change are marked.
    private: Vec<Level<()>>,
    /// How many of them a core has.
    depth: usize,
    shared: Level<Note>,
    core_to_core: Ps,
}

impl HostCaches {
    /// The caches of a host with so many cores, from the core outwards; the last one is shared.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(caches: &[profile::Cache], cores: usize, core_to_core: Ps) -> Self {
        let (shared, private) = caches.split_last().expect("a host has caches");
        Self {
            private: (0..cores).flat_map(|_| private.iter().map(Level::new)).collect(),
            depth: private.len(),
            shared: Level::new(shared),
            core_to_core,
        }
    }

    /// A core's own caches.
    #[inline]
    fn of(&self, core: usize) -> &[Level<()>] {
        &self.private[core * self.depth..][..self.depth]
    }

    #[inline]
    fn of_mut(&mut self, core: usize) -> &mut [Level<()>] {
        &mut self.private[core * self.depth..][..self.depth]
    }

    /// What the host may do with a line.
    pub fn state(&mut self, line: Line) -> State {
        self.find(line).map_or(State::Invalid, |(_, state)| state)
    }

    /// Where the shared cache has a line, and what the host may do with it.
    #[inline]
    pub fn find(&mut self, line: Line) -> Option<(Place, State)> {
        let place = self.shared.cache.find(line)?;
        let note = self.shared.cache.note(place);
        let state = match (note.dirty(), note.alone()) {
            (true, _) => State::Modified,
            (false, true) => State::Exclusive,
            (false, false) => State::Shared,
        };
        Some((place, state))
    }

    /// From now on the host may do less with a line, because another one wants it; whether it was dirty.
    pub fn settle(&mut self, line: Line, state: State) -> bool {
        let place = self.shared.cache.find(line);
        place.is_some_and(|place| self.settle_at(place, line, state))
    }

    /// The same of a line that was found there.
    #[inline]
    pub fn settle_at(&mut self, place: Place, line: Line, state: State) -> bool {
        match state {
            State::Shared => self.share_found(place, line),
            _ => self.drop_found(place, line),
        }
    }

    /// A core will access these lines. Looking them up one after the other, this machine would wait for its
    /// own memory each time; unless they are those of just now.
    #[inline]
    pub fn foresee(&self, core: usize, lines: impl Iterator<Item = Line> + Clone) {
        let nearest = &self.of(core)[0].cache;
        if lines.clone().next().is_none_or(|line| nearest.find(line).is_none()) {
            self.foresee_far(core, lines);
        }
    }

    fn foresee_far(&self, core: usize, lines: impl Iterator<Item = Line> + Clone) {
        for line in lines.clone() {
            self.shared.cache.prefetch(line);
            self.of(core).iter().for_each(|level| level.cache.prefetch(line));
        }
        lines.for_each(|line| _ = self.foresee_note(line));
    }

    /// The same of one line, which is looked up in the nearest cache at once.
    #[inline]
    pub fn foresee_one(&self, core: usize, line: Line) {
        self.shared.cache.prefetch(line);
        self.of(core).iter().skip(1).for_each(|level| level.cache.prefetch(line));
    }

    /// Another host will ask about a line that this one may have.
    #[inline]
    pub fn foresee_snoop(&self, line: Line) {
        self.shared.cache.prefetch(line);
    }

    /// When its set has been fetched: what is noted of a line, or of the one that would have to go for it. Where that
    /// is, and whether the line is there.
    #[inline]
    pub fn foresee_note(&self, line: Line) -> (Place, bool) {
        let (place, found) = self.shared.cache.guess(line);
        prefetch(self.shared.cache.note_at(place));
        (place, found)
    }

    /// When that has been fetched, too: where the cores have that line that may have it.
    #[inline]
    pub fn foresee_cores(&self, place: Place) {
        let note = self.shared.cache.note_at(place);
        for core in ones(note.cores) {
            self.of(core).iter().for_each(|level| level.cache.prefetch(note.line()));
        }
    }

    /// A core reads a line, or changes it.
    #[inline]
    pub fn access(&mut self, core: usize, line: Line, write: bool) -> Access {
        let levels = self.of_mut(core);
        for number in 0..levels.len() {
            let (nearer, level) = levels.split_at_mut(number);
            let Some(place) = level[0].cache.touch(line) else { continue };
            let mine = level[0].cache.is_marked(place);
            let latency = level[0].latency;
            if !write || mine {
                for level in nearer {
                    level.cache.add(line, mine, ());
                }
                return Access::Served(latency);
            }
            return self.access_shared(core, line, write, Some((number, place)));
        }
        self.access_shared(core, line, write, None)
    }

    /// The same, where the core's own caches do not suffice; `near` is the nearest one that has the line.
    fn access_shared(
        &mut self,
        core: usize,
        line: Line,
        write: bool,
        near: Option<(usize, Place)>,
    ) -> Access {
        let Some(shared) = self.shared.cache.touch(line) else { return Access::Missing };
        let note = self.shared.cache.note(shared);
        if write && line.region() == Region::Scr && !note.alone() {
            return Access::NotAlone(Found { shared, near });
        }
        let others = note.cores & !(1 << core);
        let changed_elsewhere = note.dirty() && others.is_power_of_two();
        if write {
            note.cores = 1 << core;
            note.line |= DIRTY;
        } else {
            note.cores |= 1 << core;
        }
        let slow = others != 0 && (write || (changed_elsewhere && near.is_none()));
        for other in ones(others) {
            if write {
                self.drop_at(other, line);
            } else if changed_elsewhere {
                self.share_at(other, line);
            }
        }
        let nearest = near.map_or(self.shared.latency, |(number, _)| self.of(core)[number].latency);
        self.hold_at(core, line, write, near);
        Access::Served(if slow { nearest.max(self.core_to_core) } else { nearest })
    }

    /// A line has come from memory; what was noted of the one that had to go for it.
    pub fn fill(&mut self, core: usize, line: Line, write: bool, alone: bool) -> Option<Note> {
        let note = Note::new(core, line, write, alone);
        let gone = self.shared.cache.add(line, false, note);
        if let Some(note) = gone {
            ones(note.cores).for_each(|core| self.drop_at(core, note.line()));
        }
        self.add_at(core, line, write);
        gone
    }

    /// The host has a line alone from now on.
    pub fn has_alone(&mut self, line: Line) {
        if let Some(place) = self.shared.cache.find(line) {
            self.shared.cache.note(place).line |= ALONE;
        }
    }

    /// The host has a line alone from now on, and a core changes it.
    pub fn changes_alone(&mut self, core: usize, line: Line, Found { shared, near }: Found) {
        let note = self.shared.cache.note(shared);
        let others = note.cores & !(1 << core);
        note.cores = 1 << core;
        note.line |= ALONE | DIRTY;
        ones(others).for_each(|other| self.drop_at(other, line));
        self.hold_at(core, line, true, near);
    }

    /// Drops a line; whether it was there, and dirty.
    pub fn drop_line(&mut self, line: Line) -> Option<bool> {
        let place = self.shared.cache.find(line)?;
        Some(self.drop_found(place, line))
    }

    fn drop_found(&mut self, place: Place, line: Line) -> bool {
        let note = self.shared.cache.remove_at(place);
        ones(note.cores).for_each(|core| self.drop_at(core, line));
        note.dirty()
    }

    /// Writes a line back, which stays; whether it was dirty.
    pub(crate) fn clean(&mut self, line: Line) -> bool {
        let place = self.shared.cache.find(line);
        place.is_some_and(|place| self.change(place, line, Note::clean))
    }

    /// Another host reads a line that this one had alone; whether it was dirty.
    fn share_found(&mut self, place: Place, line: Line) -> bool {
        self.change(place, line, |note| {
            note.line &= !ALONE;
            note.clean()
        })
    }

    /// Changes what is noted of a line; cores have to ask again before they change it.
    fn change(&mut self, at: Place, line: Line, change: impl FnOnce(&mut Note) -> bool) -> bool {
        let note = self.shared.cache.note(at);
        let cores = note.cores;
        let dirty = change(note);
        if dirty {
            ones(cores).for_each(|core| self.share_at(core, line));
        }
        dirty
    }

    /// A core that has used a line has it in all of its caches. Those that are nearer than `near` do not have it yet.
    fn hold_at(&mut self, core: usize, line: Line, mine: bool, near: Option<(usize, Place)>) {
        let Some((number, place)) = near else { return self.add_at(core, line, mine) };
        let (nearer, rest) = self.of_mut(core).split_at_mut(number);
        for level in nearer {
            level.cache.add(line, mine, ());
        }
        let (nearest, farther) = rest.split_first_mut().expect("one has the line");
        nearest.cache.mark(place, mine);
        for level in farther {
            match level.cache.touch(line) {
                Some(place) => level.cache.mark(place, mine),
                None => drop(level.cache.add(line, mine, ())),
            }
        }
    }

    fn add_at(&mut self, core: usize, line: Line, mine: bool) {
        for level in self.of_mut(core) {
            level.cache.add(line, mine, ());
        }
    }

    fn drop_at(&mut self, core: usize, line: Line) {
        for level in self.of_mut(core) {
            level.cache.remove(line);
        }
    }

    fn share_at(&mut self, core: usize, line: Line) {
        for level in self.of_mut(core) {
            if let Some(place) = level.cache.find(line) {
                level.cache.mark(place, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostCaches {
        let mut profile = profile::tests::tiny();
        profile.core.core_to_core_ns = 50.0;
        let cores = profile.pod.cores as usize;
        HostCaches::new(&profile.cache, cores, ps(profile.core.core_to_core_ns))
    }

    const LNR: Line = Line::new(Region::Lnr, 5);
    const SCR: Line = Line::new(Region::Scr, 5);

    #[test]
    fn a_line_is_nearest_to_who_used_it_last() {
        let mut host = host();
        assert_eq!(host.access(0, LNR, false), Access::Missing);
        host.fill(0, LNR, false, false);
        assert_eq!(host.access(0, LNR, false), Access::Served(1_000));
        assert_eq!(host.access(1, LNR, false), Access::Served(20_000));
        assert_eq!(host.access(1, LNR, false), Access::Served(1_000));
    }

    #[test]
    fn a_line_that_another_core_has_changed_comes_from_there() {
        let mut host = host();
        host.fill(0, LNR, true, false);
        assert_eq!(host.access(0, LNR, true), Access::Served(1_000));
        assert_eq!(host.access(1, LNR, false), Access::Served(50_000));
        // Both have it now, so each change has to reach the other.
        assert_eq!(host.access(0, LNR, true), Access::Served(50_000));
        assert_eq!(host.access(0, LNR, true), Access::Served(1_000));
        assert_eq!(host.access(1, LNR, true), Access::Served(50_000));
    }

    #[test]
    fn a_coherent_line_is_changed_only_by_a_host_that_has_it_alone() {
        let mut host = host();
        host.fill(0, SCR, false, false);
        assert!(matches!(host.access(0, SCR, true), Access::NotAlone(_)));
        host.has_alone(SCR);
        assert_eq!(host.access(0, SCR, true), Access::Served(1_000));
        assert!(host.settle(SCR, State::Shared));
        assert_eq!(host.access(0, SCR, false), Access::Served(1_000));
        assert!(matches!(host.access(0, SCR, true), Access::NotAlone(_)));
    }

    #[test]
    fn a_clean_line_gets_dirty_again() {
        let mut host = host();
        host.fill(0, LNR, true, false);
        assert!(host.clean(LNR));
        assert!(!host.clean(LNR));
        assert_eq!(host.access(0, LNR, true), Access::Served(1_000));
        assert_eq!(host.drop_line(LNR), Some(true));
        assert_eq!(host.access(0, LNR, false), Access::Missing);
        assert_eq!(host.drop_line(LNR), None);
    }

    #[test]
    fn what_leaves_the_shared_cache_leaves_all() {
        let mut host = host();
        let mut gone = Vec::new();
        for number in 0..100_000 {
            gone.extend(host.fill(0, Line::new(Region::Lnr, number), false, false));
        }
        let line = gone[0].line();
        assert_eq!(host.access(0, line, false), Access::Missing);
    }
}
