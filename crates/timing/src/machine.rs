//! Caches, links, memories and the directory: how long an access takes, and what it moves.

use tombolo_coherence::{Holders, State};
use tombolo_memory::LINE_BYTES;

use crate::cache::{Cache, Key, Line, Place, Region};
use crate::caches::{Access, HostCaches};
use crate::counts::Counts;
use crate::directory::{Directory, Granted};
use crate::overlap::Overlap;
use crate::pipe::Pipe;
use crate::profile::Profile;
use crate::shared::Note;
use crate::{Ps, ps};

struct Host {
    cores: Vec<Core>,
    /// Which pages each core knows the places of.
    pages: Cache,
    caches: HostCaches,
    /// A bit per page of LNR that it has touched.
    touched: Vec<u64>,
    local: Pipe,
    link: Pipe,
}

/// The hosts' caches, as far as a line is concerned.
struct Others<'a> {
    hosts: &'a mut [Host],
    device: &'a mut Pipe,
    key: Key,
    now: Ps,
    /// Where the host that was asked last has the line.
    found: Option<Place>,
}

impl Holders for Others<'_> {
    #[inline(always)]
    fn state(&mut self, host: usize) -> State {
        let found = self.hosts[host].caches.find(self.key);
        self.found = found.map(|(place, _)| place);
        found.map_or(State::Invalid, |(_, state)| state)
    }

    #[inline(always)]
    fn settle(&mut self, host: usize, state: State) {
        let Host { caches, link, .. } = &mut self.hosts[host];
        let Some(place) = self.found.take() else { return };
        if caches.settle_at(place, self.key, state) {
            transfer(link, self.device, self.now);
        }
    }
}

/// A line goes over a host's link and in or out of the device; how long it waits for that.
fn transfer(link: &mut Pipe, device: &mut Pipe, now: Ps) -> Ps {
    link.pass(now, LINE_BYTES) + device.pass(now, LINE_BYTES)
}

/// A core of a host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CoreId {
    pub(crate) host: usize,
    pub(crate) core: usize,
}

/// Times that the profile states, in picoseconds.
struct Costs {
    local: Ps,
    device: Ps,
    copy: Ps,
    miss_gap: Ps,
    clean: Ps,
    clean_more: Ps,
    invalidate: Ps,
    invalidate_more: Ps,
    stores_at_once: usize,
    /// The logarithm of the lines of a page.
    page_bits: u32,
    /// One less than the number of pages that a core remembers: each is the last one of some sets.
    page_mask: u64,
    page_walk: Ps,
    first_touch: Ps,
}

/// Pages that a core remembers: a power of two.
const PAGES: usize = 4;

/// The state of a core besides its caches.
#[derive(Clone, Default)]
struct Core {
    /// Pages that it has looked up lately: of those in some sets the last one each. Looking that up
    /// again would change nothing.
    pages: [Line; PAGES],
    /// The line after the last one it has read.
    next: Line,
    /// When its next miss may begin.
    misses: Ps,
}

pub(crate) struct Machine {
    hosts: Vec<Host>,
    device: Pipe,
    directory: Directory,
    costs: Costs,
    counts: Counts,
    /// When misses are through that are under way at once: of the core whose turn it is.
    under_way: Vec<Ps>,
}

impl Machine {
    pub(crate) fn new(profile: &Profile, scr_bytes: u64, lnr_bytes: u64) -> Self {
        let tlb = &profile.tlb;
        let page_bits = ((tlb.page_kib * 1024.0) as u64 / LINE_BYTES).ilog2();
        let pages = lnr_bytes.div_ceil(LINE_BYTES << page_bits);
        let cores = profile.pod.cores as usize;
        // As many ways as usual.
        let known = || Cache::of_lines(tlb.pages as usize, 8, cores);
        let page_mask = known().sets().min(PAGES) as u64 - 1;
        let host = |_| Host {
            cores: vec![Core::default(); cores],
            pages: known(),
            caches: HostCaches::new(&profile.cache, cores, ps(profile.core.core_to_core_ns)),
            touched: vec![0; pages.div_ceil(64) as usize],
            local: Pipe::new(&profile.local.bandwidth()),
            link: Pipe::new(&profile.link),
        };
        let (core, flush, device) = (&profile.core, &profile.flush, ps(profile.device.latency_ns));
        Self {
            hosts: (0..profile.pod.hosts).map(host).collect(),
            device: Pipe::new(&profile.device.bandwidth()),
            directory: Directory::new(
                &profile.coherence,
                profile.pod.hosts as usize,
                scr_bytes,
                device,
            ),
            costs: Costs {
                local: ps(profile.local.latency_ns),
                device,
                copy: ps(core.copy_ns),
                miss_gap: ps(core.miss_gap_ns),
                clean: ps(flush.clean_ns),
                clean_more: ps(flush.clean_more_ns),
                invalidate: ps(flush.invalidate_ns),
                invalidate_more: ps(flush.invalidate_more_ns),
                stores_at_once: core.stores_at_once as usize,
                page_bits,
                page_mask,
                page_walk: ps(tlb.miss_ns),
                first_touch: ps(tlb.first_ns),
            },
            counts: Counts::default(),
            under_way: vec![0; core.misses_at_once as usize],
        }
    }

    /// The events so far.
    pub(crate) fn counts(&self) -> Counts {
        let all = |figure: fn(&Host) -> u64| self.hosts.iter().map(figure).sum::<u64>();
        let waited = all(|host| host.link.waited + host.local.waited) + self.device.waited;
        Counts {
            link_bytes: all(|host| host.link.bytes),
            link_bytes_by_host: self.hosts.iter().map(|host| host.link.bytes).collect(),
            local_bytes: all(|host| host.local.bytes),
            device_bytes: self.device.bytes,
            queueing_ns: waited / 1000,
            back_invalidations: self.directory.snoops(),
            ..self.counts.clone()
        }
    }

    /// How long a core's access to a line takes that begins at `now`.
    #[inline(always)]
    pub(crate) fn access(&mut self, at: CoreId, line: Line, write: bool, now: Ps) -> Ps {
        self.counts.accesses += 1;
        let key = Key::of(line);
        match self.hosts[at.host].caches.access(at.core, key, write) {
            Access::Served(takes) => takes,
            Access::Missing => self.miss(at, key, write, now),
            Access::NotAlone(found) => {
                *self.misses(line.region()) += 1;
                let takes = self.grant((at.host, State::Shared), key, true, now).takes;
                self.hosts[at.host].caches.changes_alone(at.core, key, found);
                takes
            }
        }
    }

    /// How long a core's access to a word takes that begins at `now`.
    #[inline]
    pub(crate) fn access_word(&mut self, at: CoreId, line: Line, write: bool, now: Ps) -> Ps {
        let walks = self.walk(at, line);
        walks + self.access(at, line, write, now + walks)
    }

    /// How long it takes to find out where the page of a line is.
    #[inline(always)]
    fn walk(&mut self, at: CoreId, line: Line) -> Ps {
        let key = Key::of(line.page(self.costs.page_bits));
        let slot = (key.set & self.costs.page_mask) as usize % PAGES;
        let last = &mut self.hosts[at.host].cores[at.core].pages[slot];
        if *last == key.line {
            return 0;
        }
        *last = key.line;
        self.walk_elsewhere(at, key)
    }

    /// The same, of a line in another page than the last ones: few are, so it is not in the way of
    /// the others.
    #[cold]
    fn walk_elsewhere(&mut self, at: CoreId, key: Key) -> Ps {
        let host = &mut self.hosts[at.host];
        if host.pages.touch(at.core, key).is_some() {
            return 0;
        }
        host.pages.add(at.core, key, false);
        let page = key.line;
        let first = page.region() == Region::Lnr && self.touch_page(at.host, page.number());
        self.costs.page_walk + if first { self.costs.first_touch } else { 0 }
    }

    /// How long that takes for lines of which each is the next one, from `first` on: most are in
    /// the page of the one before.
    #[inline(always)]
    fn walk_on(&mut self, at: CoreId, line: Line, first: Line) -> Ps {
        let begins_page = line.number().trailing_zeros() >= self.costs.page_bits;
        if begins_page || line == first { self.walk(at, line) } else { 0 }
    }

    /// A host touches a page of LNR; whether it is the first time.
    fn touch_page(&mut self, host: usize, page: u64) -> bool {
        let word = &mut self.hosts[host].touched[(page / 64) as usize];
        let before = *word;
        *word |= 1 << (page % 64);
        before != *word
    }

    /// A host touches lines of LNR, which takes no time.
    pub(crate) fn touch(&mut self, host: usize, lines: std::ops::Range<u64>) {
        let page_lines = 1 << self.costs.page_bits;
        let pages = lines.start / page_lines..lines.end.div_ceil(page_lines);
        for page in pages {
            self.touch_page(host, page);
        }
    }

    /// How many accesses to a region the caches could not serve.
    #[inline]
    fn misses(&mut self, region: Region) -> &mut u64 {
        match region {
            Region::Local => &mut self.counts.local_misses,
            Region::Lnr => &mut self.counts.lnr_misses,
            Region::Scr => &mut self.counts.scr_misses,
        }
    }

    fn miss(&mut self, at: CoreId, key: Key, write: bool, now: Ps) -> Ps {
        let region = key.line.region();
        *self.misses(region) += 1;
        let core = &mut self.hosts[at.host].cores[at.core];
        let begins = now.max(core.misses);
        core.misses = begins + self.costs.miss_gap;
        let (waited, now) = (begins - now, begins);
        let (takes, alone) = if self.directory.keeps(region) {
            let waits = self.transfer(at.host, now);
            let granted = self.grant((at.host, State::Invalid), key, write, now);
            (granted.takes + waits, granted.alone)
        } else if region == Region::Lnr {
            (self.costs.device + self.transfer(at.host, now), true)
        } else {
            (self.costs.local + self.hosts[at.host].local.pass(now, LINE_BYTES), true)
        };
        if let Some(gone) = self.hosts[at.host].caches.fill(at.core, key, write, alone) {
            self.evicted(at.host, gone, now);
        }
        waited + takes
    }

    /// A line goes over a host's link and in or out of the device; how long it waits for that.
    fn transfer(&mut self, host: usize, now: Ps) -> Ps {
        transfer(&mut self.hosts[host].link, &mut self.device, now)
    }

    /// A host gets a coherent line that it has in a state, alone if it is to be written.
    fn grant(&mut self, host: (usize, State), key: Key, write: bool, now: Ps) -> Granted {
        let Self { directory, hosts, device, .. } = self;
        let mut others = Others { hosts, device, key, now, found: None };
        directory.grant(host, key.line, write, now, &mut others)
    }

    fn evicted(&mut self, host: usize, note: Note, now: Ps) {
        let line = note.line();
        if self.directory.keeps(line.region()) {
            self.directory.evicted(host, line);
        }
        if !note.dirty() {
            return;
        }
        match line.region() {
            Region::Local => _ = self.hosts[host].local.pass(now, LINE_BYTES),
            Region::Scr | Region::Lnr => _ = self.transfer(host, now),
        }
    }

    /// Reads lines, of which each is the next one; when that is done.
    pub(crate) fn read(
        &mut self,
        at: CoreId,
        lines: impl Iterator<Item = Line> + Clone,
        now: Ps,
    ) -> Ps {
        self.hosts[at.host].caches.foresee(at.core, lines.clone());
        let Some(first) = lines.clone().next() else { return now };
        let (copy, mut under_way) = (self.costs.copy, std::mem::take(&mut self.under_way));
        let at_once = under_way.len() as u64;
        let mut overlap = Overlap::new(&mut under_way, now);
        let mut goes_on = self.hosts[at.host].cores[at.core].next == first;
        let mut last = first;
        for line in lines {
            let walks = self.walk_on(at, line, first);
            let ahead = std::mem::take(&mut goes_on);
            overlap.begin(copy, |begins| {
                let takes = self.access(at, line, false, begins + walks);
                walks + if ahead { takes / at_once } else { takes }
            });
            last = line;
        }
        let end = overlap.end.max(overlap.next);
        self.hosts[at.host].cores[at.core].next = last.next();
        self.under_way = under_way;
        end
    }

    /// Writes lines, of which each is the next one; when the core may go on, and when all is done.
    pub(crate) fn write(
        &mut self,
        at: CoreId,
        lines: impl Iterator<Item = Line> + Clone,
        now: Ps,
    ) -> (Ps, Ps) {
        self.hosts[at.host].caches.foresee(at.core, lines.clone());
        let Some(first) = lines.clone().next() else { return (now, now) };
        let (copy, mut under_way) = (self.costs.copy, std::mem::take(&mut self.under_way));
        let mut overlap = Overlap::new(&mut under_way, now);
        let mut goes_on = now;
        for line in lines {
            let walks = self.walk_on(at, line, first);
            overlap.begin(copy, |begins| walks + self.access(at, line, true, begins + walks));
            goes_on = (goes_on + copy).max(overlap.done_before(self.costs.stores_at_once));
        }
        let end = overlap.end;
        self.under_way = under_way;
        (goes_on, end)
    }

    /// Writes dirty lines of LNR back; when that is done.
    pub(crate) fn clean(
        &mut self,
        at: CoreId,
        lines: impl IntoIterator<Item = u64>,
        now: Ps,
    ) -> Ps {
        let mut end = now;
        let mut dirty = 0;
        for number in lines {
            if self.hosts[at.host].caches.clean(Line::new(Region::Lnr, number)) {
                let issued = now + dirty * self.costs.clean_more;
                let waits = self.transfer(at.host, issued);
                end = end.max(issued + waits + self.costs.clean);
                dirty += 1;
            }
        }
        self.counts.lnr_cleans += dirty;
        end
    }

    /// Drops lines of LNR; when that is done.
    pub(crate) fn invalidate(&mut self, at: CoreId, lines: std::ops::Range<u64>, now: Ps) -> Ps {
        let count = lines.end - lines.start;
        for number in lines {
            let mut holders = self.directory.dropped(number);
            holders.insert(at.host);
            for host in holders.iter() {
                self.drop_line(host, Line::new(Region::Lnr, number), now);
            }
        }
        if count == 0 {
            return now;
        }
        now + self.costs.invalidate + (count - 1) * self.costs.invalidate_more
    }

    fn drop_line(&mut self, host: usize, line: Line, now: Ps) {
        if self.hosts[host].caches.drop_line(line) == Some(true) {
            self.transfer(host, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    const AT: CoreId = CoreId { host: 0, core: 0 };
    const OTHER: CoreId = CoreId { host: 1, core: 0 };

    fn machine() -> Machine {
        Machine::new(&profile::tests::tiny(), 4096, 1 << 20)
    }

    fn lnr(number: u64) -> Line {
        Line::new(Region::Lnr, number)
    }

    #[test]
    fn misses_overlap() {
        let mut machine = machine();
        let one = machine.read(AT, [lnr(0)].into_iter(), 0);
        let many = machine.read(AT, (100..108).map(lnr), 0);
        assert_eq!(one, 300_000);
        // A thread that goes on where it was has the next line under way.
        assert_eq!(machine.read(AT, [lnr(108)].into_iter(), many) - many, 75_000);
        // Four at once.
        assert!((600_000..620_000).contains(&many), "{many}");
        assert!(machine.read(AT, (100..108).map(lnr), many) - many < 20_000);
    }

    #[test]
    fn misses_begin_one_after_the_other() {
        let mut profile = profile::tests::tiny();
        (profile.core.misses_at_once, profile.core.miss_gap_ns) = (16, 10.0);
        let mut machine = Machine::new(&profile, 4096, 1 << 20);
        assert_eq!(machine.read(AT, (0..9).map(lnr), 0), 300_000 + 8 * 10_000);
        // A line in a cache does not wait, nor does another core.
        assert!(machine.read(AT, (0..9).map(lnr), 400_000) < 420_000);
        machine.read(AT, (20..29).map(lnr), 1_000_000);
        assert_eq!(machine.read(OTHER, [lnr(40)].into_iter(), 1_000_000), 1_300_000);
    }

    #[test]
    fn the_first_touch_of_a_page_takes_longer() {
        let mut profile = profile::tests::tiny();
        (profile.tlb.miss_ns, profile.tlb.first_ns) = (10.0, 500.0);
        let mut machine = Machine::new(&profile, 4096, 1 << 20);
        machine.touch(1, 60..70);
        let mut now = 0;
        let mut takes = |at, number| {
            let done = machine.read(at, [lnr(number)].into_iter(), now);
            done - std::mem::replace(&mut now, done)
        };
        assert_eq!(takes(AT, 0), 810_000);
        assert_eq!(takes(AT, 2), 300_000);
        // The other host has touched this page and the next one already.
        assert_eq!(takes(OTHER, 4), 310_000);
        assert_eq!(takes(OTHER, 80), 310_000);
        assert_eq!(takes(OTHER, 130), 810_000);
    }

    #[test]
    fn whether_pages_are_remembered_changes_no_times() {
        let mut profile = profile::tests::tiny();
        (profile.tlb.miss_ns, profile.tlb.first_ns, profile.tlb.pages) = (10.0, 500.0, 64);
        let [mut machine, mut forgetful] = [0; 2].map(|_| Machine::new(&profile, 1 << 20, 1 << 20));
        assert_eq!(machine.costs.page_mask, PAGES as u64 - 1);
        forgetful.costs.page_mask = 0;
        let mut dice: u64 = 1;
        for now in (0..20_000).map(|step| 1_000_000 * step) {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let region = if dice >> 63 == 0 { Region::Scr } else { Region::Lnr };
            // Some pages more often than others.
            let (page, number) = (((dice >> 40) % 96) & (dice >> 50), (dice >> 33) % 64);
            let line = Line::new(region, page << machine.costs.page_bits | number);
            let takes = [&mut machine, &mut forgetful].map(|m| m.access_word(AT, line, false, now));
            assert_eq!(takes[0], takes[1], "{line:?}");
        }
    }

    #[test]
    fn hosts_contend_for_a_line_of_scr() {
        let mut machine = machine();
        let word = Line::new(Region::Scr, 1);
        assert_eq!(machine.access(AT, word, true, 0), 200_000);
        assert_eq!(machine.access(AT, word, true, 300_000), 1_000);
        assert_eq!(machine.access(OTHER, word, true, 400_000), 350_000);
        assert_eq!(machine.access(AT, word, false, 1_000_000), 350_000);
        assert_eq!(machine.counts().back_invalidations, 2);
        assert_eq!(machine.counts().scr_misses, 3);
    }

    #[test]
    fn lines_of_lnr_are_coherent_if_the_profile_says_so() {
        let mut profile = profile::tests::tiny();
        let takes_of = |profile: &Profile| {
            let mut machine = Machine::new(profile, 4096, 1 << 20);
            let mut takes = vec![
                machine.access(AT, lnr(1), true, 0),
                machine.access(OTHER, lnr(1), false, 1_000_000),
                machine.access(AT, lnr(1), true, 2_000_000),
                machine.access(AT, lnr(1), true, 3_000_000),
            ];
            // A host that drops it, drops it for all.
            machine.invalidate(OTHER, 1..2, 4_000_000);
            takes.push(machine.access(AT, lnr(1), false, 5_000_000));
            takes
        };
        assert_eq!(takes_of(&profile), [300_000, 300_000, 1_000, 1_000, 1_000]);
        profile.coherence.lnr = true;
        assert_eq!(takes_of(&profile), [300_000, 350_000, 350_000, 1_000, 300_000]);
    }

    #[test]
    fn of_coherent_lines_of_lnr_only_those_are_known_that_somebody_has() {
        let mut profile = profile::tests::tiny();
        profile.coherence.lnr = true;
        let mut machine = Machine::new(&profile, 4096, 64 << 20);
        let lines = 1 << 20;
        for number in 0..lines {
            machine.access(AT, lnr(number), false, 0);
        }
        let known =
            (0..lines).filter(|&number| !machine.directory.dropped(number).is_empty()).count();
        // As many as its caches hold.
        assert_eq!(known, 4096);
    }

    #[test]
    fn only_dirty_lines_are_written_back() {
        let mut machine = machine();
        let (goes_on, done) = machine.write(AT, (0..2).map(lnr), 0);
        assert!(goes_on < done);
        let cleaned = machine.clean(AT, 0..10, done);
        assert_eq!(cleaned - done, 120_000);
        assert_eq!(machine.clean(AT, 0..10, cleaned), cleaned);
        assert_eq!(machine.counts().lnr_cleans, 2);
    }

    #[test]
    fn a_dropped_line_has_to_be_fetched_again() {
        let mut machine = machine();
        machine.read(AT, [lnr(3)].into_iter(), 0);
        let now = machine.invalidate(AT, 3..5, 1_000_000);
        assert_eq!(now, 1_000_000 + 40_000 + 5_000);
        assert_eq!(machine.read(AT, [lnr(3)].into_iter(), now), now + 300_000);
    }
}
