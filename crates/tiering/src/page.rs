//! The state word of a page: what this process holds of it besides the program's own mapping.
//!
//! ```text
//!            first touch                 promotion
//!   Removed ------------> Loose -------> Copying ------> Out ------> Shadowed
//!      ^                  |   ^             |             |              |
//!      |             park |   | touch       | abort       | demotion     | written
//!      |                  v   |             v             v              v
//!      +--- given up --- Parked           Loose         Parked         Loose
//! ```
//!
//! Invariant: a word changes from the phase that its thread has seen, by compare-and-swap. In `Out`
//! only the thread that brought the page there changes it.

use std::sync::atomic::{AtomicU32, Ordering};

/// Which thread holds what of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Phase {
    /// The program's mapping has the page, or the page was never touched. Nothing else is held.
    Loose,
    /// The page lies in the mirror, and a touch brings it back: a hint fault.
    Parked,
    /// The program's mapping has the page, and the mirror an older or equal copy.
    Shadowed,
    /// A transaction copies the page, which the program uses meanwhile.
    Copying,
    /// The page is taken out of the program's mapping; touches wait.
    Out,
    /// The program has given the page up, and the kernel may not have taken it yet. It does not
    /// move until a touch shows that it is gone.
    Removed,
    /// The program has unmapped the page, or moved it to another address.
    Gone,
}

impl Phase {
    const ALL: [Self; 7] = [
        Self::Loose,
        Self::Parked,
        Self::Shadowed,
        Self::Copying,
        Self::Out,
        Self::Removed,
        Self::Gone,
    ];

    /// Whether the mirror has a frame of the page.
    #[cfg(test)]
    pub(crate) fn has_mirror(self) -> bool {
        matches!(self, Self::Parked | Self::Shadowed)
    }
}

/// Properties of a page besides its phase: a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// No bit.
    pub(crate) const NONE: Self = Self(0);
    /// Its frame is, or will be, of the near node.
    pub(crate) const NEAR: Self = Self(1 << 8);
    /// It was filled: it may have a frame.
    pub(crate) const RESIDENT: Self = Self(1 << 9);
    /// It came near by a promotion, and has not left since.
    pub(crate) const PROMOTED: Self = Self(1 << 10);
    /// It was written while it had a shadow: a policy gives it none again.
    pub(crate) const WRITTEN: Self = Self(1 << 11);
    /// The program wants it near: it is not demoted.
    pub(crate) const HOLD_NEAR: Self = Self(1 << 12);
    /// The program wants it far: it is not promoted.
    pub(crate) const HOLD_FAR: Self = Self(1 << 13);
    /// It was written since the last sweep.
    pub(crate) const ACTIVE: Self = Self(1 << 14);

    /// Both sets.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

const PHASE: u32 = 0xff;
const SEEN_SHIFT: u32 = 16;
const SEEN_MOST: u32 = 0xff;
const VAIN_SHIFT: u32 = 24;
const VAIN_MOST: u32 = 0xf;

/// A state word, as it was at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State(u32);

impl State {
    pub(crate) fn phase(self) -> Phase {
        Phase::ALL[(self.0 & PHASE) as usize]
    }

    /// Whether all these bits are set.
    pub(crate) fn has(self, flags: Flags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether any of these bits is set.
    pub(crate) fn has_any(self, flags: Flags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Hint faults since the page last moved.
    pub(crate) fn seen(self) -> u32 {
        self.0 >> SEEN_SHIFT & SEEN_MOST
    }

    /// Promotions that a demotion has undone.
    pub(crate) fn in_vain(self) -> u32 {
        self.0 >> VAIN_SHIFT & VAIN_MOST
    }

    fn with_phase(self, phase: Phase) -> Self {
        Self(self.0 & !PHASE | phase as u32)
    }
}

/// The state word of one page.
#[derive(Debug, Default)]
pub(crate) struct Word(AtomicU32);

impl Word {
    pub(crate) fn get(&self) -> State {
        State(self.0.load(Ordering::Acquire))
    }

    /// Changes the phase, and returns whether it was `from`.
    pub(crate) fn change(&self, from: Phase, to: Phase) -> bool {
        self.update(|state| (state.phase() == from).then(|| state.with_phase(to))).is_some()
    }

    /// Sets and clears bits; returns the state before.
    pub(crate) fn mark(&self, set: Flags, clear: Flags) -> State {
        let marked = |state: State| Some(State(state.0 & !clear.0 | set.0));
        self.update(marked).expect("marking has no condition")
    }

    /// Changes the phase, sets and clears bits, whatever was there; returns the state before.
    pub(crate) fn force(&self, phase: Phase, set: Flags, clear: Flags) -> State {
        let forced = |state: State| Some(State(state.with_phase(phase).0 & !clear.0 | set.0));
        self.update(forced).expect("forcing has no condition")
    }

    /// Counts a hint fault; returns the state with it.
    pub(crate) fn see(&self) -> State {
        self.update(|state| {
            let seen = (state.seen() + 1).min(SEEN_MOST);
            Some(State(state.0 & !(SEEN_MOST << SEEN_SHIFT) | seen << SEEN_SHIFT))
        });
        self.get()
    }

    /// Forgets hint faults.
    pub(crate) fn forget_seen(&self) {
        self.update(|state| Some(State(state.0 & !(SEEN_MOST << SEEN_SHIFT))));
    }

    /// Counts a promotion that a demotion has undone, or forgets one that was.
    pub(crate) fn note_in_vain(&self, was_in_vain: bool) {
        self.update(|state| {
            let vain = state.in_vain();
            let vain = if was_in_vain { (vain + 1).min(VAIN_MOST) } else { vain.saturating_sub(1) };
            Some(State(state.0 & !(VAIN_MOST << VAIN_SHIFT) | vain << VAIN_SHIFT))
        });
    }

    fn update(&self, change: impl Fn(State) -> Option<State>) -> Option<State> {
        let changed = |word| change(State(word)).map(|state| state.0);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, changed).ok().map(State)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_changes_from_the_phase_that_was_seen() {
        let word = Word::default();
        assert!(word.change(Phase::Loose, Phase::Copying));
        assert!(!word.change(Phase::Loose, Phase::Parked));
        assert_eq!(word.get().phase(), Phase::Copying);
        for phase in Phase::ALL {
            word.force(phase, Flags::NEAR, Flags::NONE);
            assert_eq!(word.get().phase(), phase);
        }
        assert!(word.get().has(Flags::NEAR));
    }

    #[test]
    fn sightings_and_moves_in_vain_are_counted_apart_from_flags() {
        let word = Word::default();
        word.mark(Flags::NEAR.and(Flags::ACTIVE), Flags::NONE);
        (0..300).for_each(|_| {
            word.see();
        });
        assert_eq!(word.get().seen(), SEEN_MOST);
        word.forget_seen();
        (0..20).for_each(|_| word.note_in_vain(true));
        let state = word.get();
        assert_eq!((state.seen(), state.in_vain()), (0, VAIN_MOST));
        word.note_in_vain(false);
        assert_eq!(word.get().in_vain(), VAIN_MOST - 1);
        assert!(word.get().has(Flags::NEAR.and(Flags::ACTIVE)));
        word.mark(Flags::NONE, Flags::ACTIVE);
        assert!(!word.get().has_any(Flags::ACTIVE));
    }
}
