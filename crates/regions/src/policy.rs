//! Which mode a block is to have, from what was seen of it.
//!
//! A block is looked at whenever its accesses and faults have cost a multiple of what a look does,
//! so looks are a fixed share of all costs, however busy or idle a block is. At a look, the costs
//! since the last one are compared with what they would have been in each other mode. The savings
//! that a mode would have brought add up; its additional costs are subtracted, down to nothing.
//! Once a mode would have saved more than a change to it costs ([`BreakEven`]), the block changes,
//! if there is enough left of what all changes may cost ([`Purse`]).
//!
//! Misses are counted by hardware: the device's counters, or the cores' events. A host counts
//! faults itself, where software keeps the pages. Where the hardware does, one page of the block is
//! replicated as a probe between every other pair of looks, and its faults stand for those of the
//! other pages in use. Nothing counts before the probe is used, and one that goes back and forth
//! ends early. Which hosts use a page, accessed bits of page tables tell.
//!
//! Areas follow from blocks: an area is as many blocks in a row as have one mode. A block that
//! changes splits its area, and blocks that come to one mode are one area again.

use tombolo_placement::{BreakEven, Costs as Move, Place, Placement, Profile};

use crate::{BlockMode, Mode};

/// The costs of accesses, faults and changes. All in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A miss that goes to the pod's memory.
    pub far: u64,
    /// A miss that goes to the host's own memory.
    pub near: u64,
    /// The additional cost of a miss for which the hardware has to ask other hosts.
    pub snoop: u64,
    /// A fault on an owned page, its share of what other hosts do included.
    pub owned: u64,
    /// A fault on a replicated page, likewise.
    pub replicated: u64,
    /// Mapping a block directly.
    pub map: u64,
    /// Mapping one of its pages directly.
    pub map_page: u64,
    /// A change of a block's mode, but for the faults that follow.
    pub change: u64,
}

/// Misses that are under way together share their time: a miss alone has this weight.
pub const WEIGHT: u64 = 1024;
/// Costs between looks, in costs of a look.
const LOOKS_APART: u64 = 16;
/// A probe ends early once so many hand-overs are known of it.
const MOST_PROBED: u64 = 8;
/// How much more what was seen of a probe counts, at most.
const MOST_TIMES: u64 = 64;
/// How much rarer looks become, as a power of two, while a block is far from changing.
const MOST_PATIENCE: u32 = 4;
/// A change that is followed by another one within so many looks was in vain.
const SOON: u32 = 8;
/// How often the gain that a change takes is doubled, at most, after changes that were in vain.
const MOST_IN_VAIN: u32 = 6;
const LINES: u64 = 64;

/// The budget of changes: a share of what accesses and faults of all blocks have cost so far. So
/// changes that were in vain never cost more than that.
#[derive(Clone, Copy, Debug, Default)]
pub struct Purse {
    spent: u64,
    paid: u64,
}

/// The share is one in so many.
const SHARE: u64 = 8;

impl Purse {
    /// Whether a change may cost so much.
    fn allows(&self, price: u64) -> bool {
        (self.paid + price).saturating_mul(SHARE) <= self.spent
    }
}

/// The misses and faults of a block since the last look.
#[derive(Clone, Debug, Default)]
struct Seen {
    misses: u64,
    /// The misses' weights.
    weight: u64,
    /// Weights of misses for which the hardware asked other hosts.
    snooped: u64,
    /// Faults, but for those that there are because a page was not mapped after a change.
    faults: u64,
    /// Faults on the probe.
    probed: u64,
}

/// The record of a block, of 64 pages at most, by which its mode is chosen.
#[derive(Clone, Debug)]
pub struct Watch {
    seen: Seen,
    /// Hosts that have missed in the block since the last change.
    hosts: u64,
    /// How many pairs there are of a host and a page that it has used.
    users: u64,
    /// The page that is probed, and whether that has been used since.
    probe: Option<usize>,
    probing: bool,
    /// By page, hosts that have had a fault since its mode has changed.
    faulters: Box<[u64; 64]>,
    /// Pages that were missed in since the last look.
    active: u64,
    /// The costs that each mode would have saved since the last change; never below nothing.
    gains: [u64; Mode::ALL.len()],
    /// Costs at which the next look is due.
    due: u64,
    spent: u64,
    /// Costs since the last look that are not part of `spent`.
    before: u64,
    patience: u32,
    looks: u32,
    in_vain: u32,
    random: u64,
}

impl Watch {
    /// A block of which nothing is known. The seed draws the pages that are probed.
    pub fn new(seed: u64) -> Self {
        Self {
            seen: Seen::default(),
            hosts: 0,
            users: 0,
            probe: None,
            probing: false,
            faulters: Box::new([0; 64]),
            active: 0,
            gains: [0; Mode::ALL.len()],
            due: 0,
            spent: 0,
            before: 0,
            patience: 0,
            looks: 0,
            in_vain: 0,
            random: seed.wrapping_mul(2).wrapping_add(1),
        }
    }

    /// A host's caches have missed in a page of the block, with such a weight; the hardware may
    /// have asked other hosts.
    #[inline]
    pub fn missed(&mut self, page: usize, host: usize, weight: u64, cost: u64, snooped: bool) {
        self.used(page);
        self.seen.misses += 1;
        self.seen.weight += weight;
        self.seen.snooped += if snooped { weight } else { 0 };
        self.hosts |= 1 << (host % 64);
        self.active |= 1 << (page % 64);
        self.spent += cost * weight / WEIGHT;
    }

    /// A host had a fault in the block, which is not direct or whose probe that was; `written` by
    /// another host was the page since its last fault.
    pub fn faulted(&mut self, page: usize, host: usize, written: bool, mode: BlockMode, cost: u64) {
        self.used(page);
        let faulters = &mut self.faulters[page % 64];
        let again = written || *faulters & 1 << (host % 64) != 0;
        *faulters |= 1 << (host % 64);
        if again && mode.mode == Mode::Direct {
            self.seen.probed += 1;
        } else if again {
            self.seen.faults += 1;
            self.spent += cost;
        }
    }

    /// A page is used. Misses and faults seen before a probe's first use say nothing of it.
    #[inline]
    fn used(&mut self, page: usize) {
        if self.probe == Some(page % 64) && !self.probing {
            self.probing = true;
            self.before += std::mem::take(&mut self.spent);
            (self.seen, self.active) = (Seen::default(), 0);
        }
    }

    /// Whether it is time to look.
    #[inline]
    pub fn is_due(&self, costs: &Costs) -> bool {
        let waits = self.probe.is_some() && !self.probing;
        let due = self.due.max(LOOKS_APART * costs.change);
        !waits && self.spent >= due || self.seen.probed >= MOST_PROBED
    }

    /// Looks: the mode that the block is to have from now on, if another one. `first` is the number
    /// of its first page, and `users` how many pairs there are of a host and a page that it uses.
    pub fn look(
        &mut self,
        now: BlockMode,
        allowed: &[Mode],
        (first, users): (usize, u64),
        costs: &Costs,
        purse: &mut Purse,
    ) -> Option<BlockMode> {
        purse.spent += self.spent + std::mem::take(&mut self.before);
        // Costs seen by a probe that ended early count as much as those seen by a whole one.
        let whole = self.due.max(LOOKS_APART * costs.change);
        let times = (whole / self.spent.max(1)).clamp(1, MOST_TIMES);
        self.users = users;
        let seen = std::mem::take(&mut self.seen);
        let active = std::mem::take(&mut self.active);
        let informed = now.mode != Mode::Direct || now.probe.is_some();
        self.spent = 0;
        self.looks += 1;
        let mut to = now.mode;
        if informed {
            let totals = totals(&seen, now, active, costs).map(|total| total * times);
            self.add_up(now.mode, totals, allowed);
            to = self.best(now.mode, allowed, costs, purse);
        }
        // A page is taken from all hosts that use the block, and taken back. Where software keeps
        // the pages, nothing has to be done to know of faults, and looks are as close as they may.
        let look = 2 * costs.change + u64::from(self.hosts()) * (costs.replicated + costs.map_page);
        let direct = to == Mode::Direct;
        self.due = if direct { (LOOKS_APART * look) << self.patience } else { 0 };
        if to != now.mode {
            purse.paid += self.price(to, costs);
            self.changed();
            return Some(BlockMode::all(to));
        }
        // A page that was probed is direct again for a while.
        let rests = now.probe.is_some() || now.mode != Mode::Direct;
        let probe = if rests { None } else { self.draw(active) };
        probe.into_iter().for_each(|page| self.faulters[page] = 0);
        (self.probe, self.probing) = (probe, false);
        let next = BlockMode { mode: to, probe: probe.map(|page| first + page) };
        (next != now).then_some(next)
    }

    /// Adds what each mode would have saved.
    fn add_up(&mut self, now: Mode, totals: [u64; Mode::ALL.len()], allowed: &[Mode]) {
        let spent = totals[now as usize];
        for &mode in allowed {
            let gain = &mut self.gains[mode as usize];
            *gain = (*gain + spent).saturating_sub(totals[mode as usize]);
        }
        let others = || allowed.iter().filter(|&&mode| mode != now);
        let far_off = others().all(|&mode| totals[mode as usize] / 2 > spent);
        self.patience = if far_off { (self.patience + 1).min(MOST_PATIENCE) } else { 0 };
    }

    /// The mode that has paid for the change to it, and for most beyond that.
    fn best(&self, now: Mode, allowed: &[Mode], costs: &Costs, purse: &Purse) -> Mode {
        let seen = Profile { reads: 1, in_vain: self.in_vain, ..Profile::default() };
        let worth = |&mode: &Mode| {
            let gain = self.gains[mode as usize];
            let bring = self.price(mode, costs);
            let moves = Move { far: gain, near: 0, bring, give_back: 0 };
            let place = BreakEven.place(&seen, Place::Shared, &moves);
            (mode != now && place != Place::Shared && purse.allows(bring))
                .then(|| (gain.saturating_sub(bring), mode))
        };
        allowed.iter().filter_map(worth).max().map_or(now, |(_, mode)| mode)
    }

    /// The cost of a change, faults of all hosts that use the block included.
    fn price(&self, mode: Mode, costs: &Costs) -> u64 {
        let faults = match mode {
            Mode::Direct => u64::from(self.hosts()) * costs.map,
            Mode::Owned => self.users * costs.owned,
            Mode::Replicated => self.users * costs.replicated,
        };
        costs.change + faults
    }

    /// Hosts that use the block.
    fn hosts(&self) -> u32 {
        self.hosts.count_ones()
    }

    fn changed(&mut self) {
        self.in_vain = if self.looks <= SOON {
            (self.in_vain + 1).min(MOST_IN_VAIN)
        } else {
            self.in_vain.saturating_sub(1)
        };
        self.looks = 0;
        self.patience = 0;
        self.gains = [0; Mode::ALL.len()];
        self.hosts = 0;
        self.probe = None;
        self.faulters.fill(0);
    }

    /// One of the pages in use.
    fn draw(&mut self, active: u64) -> Option<usize> {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let nth = (self.random >> 33) as u32 % active.count_ones().max(1);
        (0..64).filter(|page| active & 1 << page != 0).nth(nth as usize)
    }
}

/// The costs that the misses and faults seen would have had in each mode.
fn totals(seen: &Seen, now: BlockMode, active: u64, costs: &Costs) -> [u64; Mode::ALL.len()] {
    let direct = now.mode == Mode::Direct;
    let pages = u64::from(active.count_ones());
    let faults = if direct { seen.probed * pages } else { seen.faults };
    // Each line that was written elsewhere is missed after a hand-over.
    let handed = seen.misses.min(LINES * faults);
    let snooped = if direct { seen.snooped } else { seen.weight * handed / seen.misses.max(1) };
    let far = seen.weight * costs.far / WEIGHT;
    let near = seen.weight * costs.near / WEIGHT;
    [
        far + snooped * costs.snoop / WEIGHT,
        far + faults * costs.owned,
        near + faults * costs.replicated,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: Costs = Costs {
        far: 500,
        near: 100,
        snoop: 400,
        owned: 6000,
        replicated: 8000,
        map: 20_000,
        map_page: 4000,
        change: 10_000,
    };

    /// Misses and faults of four hosts until there is a change, in a block that is in this mode;
    /// the mode then, and the looks that it took.
    fn settles(from: Mode, allowed: &[Mode], misses: u64, snooped: bool) -> (Mode, u32) {
        let mut watch = Watch::new(1);
        let (mut mode, mut purse) = (BlockMode::all(from), Purse::default());
        for look in 0..100_000 {
            // All of this happens to each page between two hand-overs of it.
            for page in 0..64 {
                for miss in 0..misses {
                    watch.missed(page, miss as usize % 4, WEIGHT, 500, snooped);
                }
                if mode.of(page) != Mode::Direct {
                    watch.faulted(page, look as usize % 4, true, mode, 6000);
                }
            }
            if !watch.is_due(&COSTS) {
                continue;
            }
            match watch.look(mode, allowed, (0, 256), &COSTS, &mut purse) {
                Some(next) if next.mode != from => return (next.mode, look),
                Some(next) => mode = next,
                None => {}
            }
        }
        (mode.mode, 100_000)
    }

    #[test]
    fn pages_that_are_read_often_between_hand_overs_are_replicated() {
        assert_eq!(settles(Mode::Direct, &Mode::ALL, 200, false).0, Mode::Replicated);
        assert_eq!(settles(Mode::Owned, &Mode::ALL, 200, false).0, Mode::Replicated);
        let without = [Mode::Owned, Mode::Replicated];
        assert_eq!(settles(Mode::Owned, &without, 200, false).0, Mode::Replicated);
    }

    #[test]
    fn pages_that_go_back_and_forth_are_direct_or_owned() {
        assert_eq!(settles(Mode::Direct, &Mode::ALL, 4, true).0, Mode::Direct);
        assert_eq!(settles(Mode::Replicated, &Mode::ALL, 4, true).0, Mode::Direct);
        let without = [Mode::Owned, Mode::Replicated];
        assert_eq!(settles(Mode::Replicated, &without, 4, true).0, Mode::Owned);
        assert_eq!(settles(Mode::Owned, &without, 4, true).0, Mode::Owned);
    }

    #[test]
    fn changes_in_vain_make_later_ones_dearer() {
        let mut watch = Watch::new(1);
        let rich = Purse { spent: u64::MAX, paid: 0 };
        watch.gains[Mode::Replicated as usize] = 3 * COSTS.change;
        assert_eq!(watch.best(Mode::Direct, &Mode::ALL, &COSTS, &rich), Mode::Replicated);
        watch.in_vain = 2;
        assert_eq!(watch.best(Mode::Direct, &Mode::ALL, &COSTS, &rich), Mode::Direct);
    }

    #[test]
    fn changes_cost_a_share_of_all_at_most() {
        let mut watch = Watch::new(1);
        watch.gains[Mode::Replicated as usize] = 3 * COSTS.change;
        let poor = Purse { spent: SHARE * COSTS.change, paid: 1 };
        assert_eq!(watch.best(Mode::Direct, &Mode::ALL, &COSTS, &poor), Mode::Direct);
        let enough = Purse { paid: 0, ..poor };
        assert_eq!(watch.best(Mode::Direct, &Mode::ALL, &COSTS, &enough), Mode::Replicated);
    }

    #[test]
    fn what_is_lost_in_between_is_taken_from_the_gain() {
        let mut watch = Watch::new(1);
        watch.add_up(Mode::Direct, [100, 100, 40], &Mode::ALL);
        assert_eq!(watch.gains[Mode::Replicated as usize], 60);
        watch.add_up(Mode::Direct, [100, 100, 150], &Mode::ALL);
        assert_eq!(watch.gains[Mode::Replicated as usize], 10);
        watch.add_up(Mode::Direct, [100, 100, 500], &Mode::ALL);
        assert_eq!(watch.gains[Mode::Replicated as usize], 0);
    }
}
