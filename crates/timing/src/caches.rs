//! The caches of one host: private ones of each core, and one that all share and that includes
//! them.
//!
//! The shared cache notes which cores may have a line, whether it is dirty in any of them, and
//! whether the host has it alone, as it must before a core may change a coherent line (others it
//! has alone always). A core that has changed a line notes so in its own caches, and changes it
//! again without asking.

use tombolo_coherence::{State, ones};

use crate::cache::{Cache, Key, Line, Place};
use crate::shared::{Note, Shared};
use crate::{Ps, profile, ps};

/// The outcome of an access.
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

/// The cores' own caches of one level.
struct Level {
    /// By core. Lines that the core may change are marked.
    caches: Cache,
    latency: Ps,
}

/// The caches of a host.
pub struct HostCaches {
    /// From the nearest to the cores on.
    private: Vec<Level>,
    shared: Shared,
    latency: Ps,
    core_to_core: Ps,
}

impl HostCaches {
    /// The caches of a host with so many cores, from the core outwards; the last one is shared.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(caches: &[profile::Cache], cores: usize, core_to_core: Ps) -> Self {
        let (shared, private) = caches.split_last().expect("a host has caches");
        let level = |shape: &profile::Cache| Level {
            caches: Cache::new(shape.kib, shape.ways, cores),
            latency: ps(shape.latency_ns),
        };
        Self {
            private: private.iter().map(level).collect(),
            latency: ps(shared.latency_ns),
            shared: Shared::new(shared),
            core_to_core,
        }
    }

    /// Where the shared cache has a line, and what the host may do with it.
    #[inline]
    pub fn find(&self, key: Key) -> Option<(Place, State)> {
        let place = self.shared.find(key)?;
        Some((place, self.shared.note(place).state()))
    }

    /// From now on the host may do less with a line, which it has there, because another one wants
    /// it; whether it was dirty.
    #[inline(always)]
    pub fn settle_at(&mut self, place: Place, key: Key, state: State) -> bool {
        match state {
            State::Shared => self.share_found(place, key),
            _ => self.drop_found(place, key),
        }
    }

    /// A core will access these lines. Looking them up one after the other, this machine would wait
    /// for its own memory each time; unless they are those of just now.
    #[inline]
    pub fn foresee(&self, core: usize, lines: impl Iterator<Item = Line> + Clone) {
        let Some(first) = lines.clone().next() else { return };
        if !self.has_near(core, Key::of(first)) {
            self.foresee_far(core, lines);
        }
    }

    /// Whether a core has a line in its nearest cache.
    #[inline]
    fn has_near(&self, core: usize, key: Key) -> bool {
        self.private.first().is_some_and(|level| level.caches.find(core, key).is_some())
    }

    fn foresee_far(&self, core: usize, lines: impl Iterator<Item = Line> + Clone) {
        lines.clone().for_each(|line| self.foresee_one(core, line));
        lines.for_each(|line| _ = self.foresee_note(line));
    }

    /// The same of one line, which is looked up in the nearest cache at once.
    #[inline]
    pub fn foresee_one(&self, core: usize, line: Line) {
        self.prefetch(core, Key::of(line));
    }

    #[inline]
    fn prefetch(&self, core: usize, key: Key) {
        self.shared.prefetch(key);
        // The nearest caches are so small that this machine has them at hand.
        self.private.iter().skip(1).for_each(|level| level.caches.prefetch(core, key));
    }

    /// Another host will ask about a line that this one may have.
    #[inline]
    pub fn foresee_snoop(&self, line: Line) {
        self.shared.prefetch(Key::of(line));
    }

    /// When its set has been fetched: the note of a line, or of the one that would have to go for
    /// it. Where that is, and whether the line is there.
    #[inline]
    pub fn foresee_note(&self, line: Line) -> (Place, bool) {
        self.shared.prefetch_note(Key::of(line))
    }

    /// When that has been fetched, too: where the cores have that line that may have it.
    #[inline]
    pub fn foresee_cores(&self, place: Place) {
        let note = self.shared.note(place);
        let key = Key::of(note.line());
        for core in ones(note.cores) {
            self.private.iter().for_each(|level| level.caches.prefetch(core, key));
        }
    }

    /// A core reads a line, or changes it.
    #[inline(always)]
    pub fn access(&mut self, core: usize, key: Key, write: bool) -> Access {
        for (number, level) in self.private.iter_mut().enumerate() {
            let Some((place, mine)) = level.caches.touch(core, key) else { continue };
            if !write || mine {
                let takes = level.latency;
                self.add_near(number, core, key, mine);
                return Access::Served(takes);
            }
            return self.access_shared(core, key, write, Some((number, place)));
        }
        self.access_shared(core, key, write, None)
    }

    /// The same, where the core's own caches do not suffice; `near` is the nearest one that has the
    /// line.
    #[inline(always)]
    fn access_shared(
        &mut self,
        core: usize,
        key: Key,
        write: bool,
        near: Option<(usize, Place)>,
    ) -> Access {
        let Some(shared) = self.shared.touch(key) else { return Access::Missing };
        let note = self.shared.note_mut(shared);
        if write && !note.alone() {
            return Access::NotAlone(Found { shared, near });
        }
        let others = note.cores & !(1 << core);
        let changed_elsewhere = note.dirty() && others.is_power_of_two();
        if write {
            note.change(core);
        } else {
            note.cores |= 1 << core;
        }
        let slow = others != 0 && (write || (changed_elsewhere && near.is_none()));
        if write {
            ones(others).for_each(|other| self.drop_at(other, key));
        } else if changed_elsewhere {
            ones(others).for_each(|other| self.share_at(other, key));
        }
        let nearest = near.map_or(self.latency, |(number, _)| self.private[number].latency);
        self.hold_at(core, key, write, near);
        Access::Served(if slow { nearest.max(self.core_to_core) } else { nearest })
    }

    /// A line has come from memory; returns the note of the one that had to go for it.
    #[inline(always)]
    pub fn fill(&mut self, core: usize, key: Key, write: bool, alone: bool) -> Option<Note> {
        let gone = self.shared.add(key, Note::new(core, key.line, write, alone));
        if let Some(note) = gone {
            let key = Key::of(note.line());
            ones(note.cores).for_each(|core| self.drop_at(core, key));
        }
        self.add_at(core, key, write);
        gone
    }

    /// The host has a line alone from now on, and a core changes it.
    #[inline(always)]
    pub fn changes_alone(&mut self, core: usize, key: Key, Found { shared, near }: Found) {
        let note = self.shared.note_mut(shared);
        note.set_alone(true);
        let others = note.change(core);
        ones(others).for_each(|other| self.drop_at(other, key));
        self.hold_at(core, key, true, near);
    }

    /// Drops a line; whether it was there, and dirty.
    pub fn drop_line(&mut self, line: Line) -> Option<bool> {
        let key = Key::of(line);
        let place = self.shared.find(key)?;
        Some(self.drop_found(place, key))
    }

    #[inline(always)]
    fn drop_found(&mut self, place: Place, key: Key) -> bool {
        let note = self.shared.remove_at(place);
        ones(note.cores).for_each(|core| self.drop_at(core, key));
        note.dirty()
    }

    /// Writes a line back, which stays; whether it was dirty.
    pub fn clean(&mut self, line: Line) -> bool {
        let key = Key::of(line);
        self.shared.find(key).is_some_and(|place| self.clean_found(place, key))
    }

    /// Another host reads a line that this one had alone; whether it was dirty.
    fn share_found(&mut self, place: Place, key: Key) -> bool {
        self.shared.note_mut(place).set_alone(false);
        self.clean_found(place, key)
    }

    /// Cores have to ask again before they change a line that was dirty.
    fn clean_found(&mut self, place: Place, key: Key) -> bool {
        let note = self.shared.note_mut(place);
        let (cores, dirty) = (note.cores, note.clean());
        if dirty {
            ones(cores).for_each(|core| self.share_at(core, key));
        }
        dirty
    }

    /// A core that has used a line has it in all of its caches. Those that are nearer than `near`
    /// do not have it yet.
    #[inline(always)]
    fn hold_at(&mut self, core: usize, key: Key, mine: bool, near: Option<(usize, Place)>) {
        let Some((number, place)) = near else { return self.add_at(core, key, mine) };
        self.add_near(number, core, key, mine);
        self.private[number].caches.mark(place, mine);
        for level in &mut self.private[number + 1..] {
            match level.caches.touch(core, key) {
                Some((place, _)) => level.caches.mark(place, mine),
                None => _ = level.caches.add(core, key, mine),
            }
        }
    }

    #[inline(always)]
    fn add_at(&mut self, core: usize, key: Key, mine: bool) {
        self.add_near(self.private.len(), core, key, mine);
    }

    /// Adds a line to a core's nearest caches, as many as that.
    #[inline(always)]
    fn add_near(&mut self, count: usize, core: usize, key: Key, mine: bool) {
        for level in &mut self.private[..count] {
            level.caches.add(core, key, mine);
        }
    }

    fn drop_at(&mut self, core: usize, key: Key) {
        self.private.iter_mut().for_each(|level| level.caches.remove(core, key));
    }

    fn share_at(&mut self, core: usize, key: Key) {
        for level in &mut self.private {
            if let Some(place) = level.caches.find(core, key) {
                level.caches.mark(place, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Region;

    fn host() -> HostCaches {
        let mut profile = profile::tests::tiny();
        profile.core.core_to_core_ns = 50.0;
        let cores = profile.pod.cores as usize;
        HostCaches::new(&profile.cache, cores, ps(profile.core.core_to_core_ns))
    }

    const LNR: Key = Key::of(Line::new(Region::Lnr, 5));
    const SCR: Key = Key::of(Line::new(Region::Scr, 5));

    #[test]
    fn a_line_is_nearest_to_who_used_it_last() {
        let mut host = host();
        assert_eq!(host.access(0, LNR, false), Access::Missing);
        host.fill(0, LNR, false, true);
        assert_eq!(host.access(0, LNR, false), Access::Served(1_000));
        assert_eq!(host.access(1, LNR, false), Access::Served(20_000));
        assert_eq!(host.access(1, LNR, false), Access::Served(1_000));
    }

    #[test]
    fn a_line_that_another_core_has_changed_comes_from_there() {
        let mut host = host();
        host.fill(0, LNR, true, true);
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
        let Access::NotAlone(found) = host.access(0, SCR, true) else { panic!() };
        host.changes_alone(0, SCR, found);
        assert_eq!(host.access(0, SCR, true), Access::Served(1_000));
        let (place, state) = host.find(SCR).expect("the host has it");
        assert_eq!(state, State::Modified);
        assert!(host.settle_at(place, SCR, State::Shared));
        assert_eq!(host.access(0, SCR, false), Access::Served(1_000));
        assert!(matches!(host.access(0, SCR, true), Access::NotAlone(_)));
    }

    #[test]
    fn a_clean_line_gets_dirty_again() {
        let mut host = host();
        host.fill(0, LNR, true, true);
        assert!(host.clean(LNR.line));
        assert!(!host.clean(LNR.line));
        assert_eq!(host.access(0, LNR, true), Access::Served(1_000));
        assert_eq!(host.drop_line(LNR.line), Some(true));
        assert_eq!(host.access(0, LNR, false), Access::Missing);
        assert_eq!(host.drop_line(LNR.line), None);
    }

    #[test]
    fn what_leaves_the_shared_cache_leaves_all() {
        let mut host = host();
        let mut gone = Vec::new();
        for number in 0..100_000 {
            gone.extend(host.fill(0, Key::of(Line::new(Region::Lnr, number)), false, false));
        }
        let key = Key::of(gone[0].line());
        assert_eq!(host.access(0, key, false), Access::Missing);
    }
}
