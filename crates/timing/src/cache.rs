//! A set-associative cache that holds tags: which lines are there, and in what state.
//!
//! A set remembers which of its lines were used lately, a bit each; once all were, only the last one was.
//! One that was not used lately is the one to go: what processors do, too, instead of keeping an order.
//!
//! A set of 16 ways is one line of this machine: what limits a simulation is how many lines of its own tables it
//! misses. Of a line there is a tag, and a bit each for whether it was used lately and whether it is marked.

use tombolo_memory::{LINE_BYTES, TAGS, Tags, prefer_huge_pages, prefetch};

/// A line of some region, as caches know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line(u64);

/// The memory a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// A host's own memory.
    Local = 1,
    /// Memory that is kept coherent.
    Scr = 2,
    /// Memory that is not.
    Lnr = 3,
}

const REGION: u32 = 60;

impl Line {
    /// Line `number` of a region.
    pub const fn new(region: Region, number: u64) -> Self {
        Self((region as u64) << REGION | number)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    /// The region.
    pub fn region(self) -> Region {
        match self.0 >> REGION {
            1 => Region::Local,
            2 => Region::Scr,
            _ => Region::Lnr,
        }
    }

    #[inline]
    /// Its number there.
    pub fn number(self) -> u64 {
        self.0 & ((1 << REGION) - 1)
    }
}

/// What a cache notes of a line.
pub(crate) trait Note: Copy + Default {
    /// Whether the note at a place is this line's. Two lines of a set have the same tag once in a million searches, so a cache
    /// without notes may leave it at that.
    fn is_of(notes: &[Self], place: Place, line: Line) -> bool;
}

impl Note for () {
    #[inline]
    fn is_of(_: &[Self], _: Place, _: Line) -> bool {
        true
    }
}

/// The tag of a way without a line.
const NONE: u32 = 0;

/// Ways of a set, as many as are in a line of this machine.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Ways {
    /// A part of the hash of each one's line; or [`NONE`].
    tags: Tags,
    /// A bit per way: its line was used lately.
    recent: u16,
    /// A bit per way: its line is marked.
    marked: u16,
}

impl Ways {
    #[inline]
    fn mark(&mut self, bit: u16, marked: bool) {
        self.marked = self.marked & !bit | if marked { bit } else { 0 };
    }
}

/// The tag of a line: 24 bits, and not [`NONE`].
#[inline]
fn tag(line: Line) -> u32 {
    ((line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32).max(NONE + 1)
}

/// A table of so many, in huge pages if there are any.
fn blank<T: Copy + Default>(count: usize) -> Vec<T> {
    let mut table = Vec::with_capacity(count);
    prefer_huge_pages(table.spare_capacity_mut());
    table.resize(count, T::default());
    table
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub(crate) usize);

impl Place {
    #[inline]
    fn new(first: usize, way: u32) -> Self {
        Self(first * TAGS + way as usize)
    }

    /// Which of a cache's [`Ways`] it is among.
    #[inline]
    fn ways(self) -> usize {
        self.0 / TAGS
    }

    /// Its bit there.
    #[inline]
    fn bit(self) -> u16 {
        1 << (self.0 % TAGS)
    }
}

pub(crate) struct Cache<N> {
    /// By set.
    ways: Vec<Ways>,
    /// By place.
    notes: Vec<N>,
    per_set: u32,
    /// A bit per way of a set.
    all: u64,
    /// How many of `ways` a set has: a power of two.
    stride: usize,
    /// The first of `ways` of the last set.
    mask: u64,
}

impl<N: Note> Cache<N> {
    /// A cache of `kib` KiB. The number of sets is a power of two; so that it holds as much as it is to, it
    /// may have more ways than `ways`.
    pub(crate) fn new(kib: f64, ways: u32) -> Self {
        Self::of_lines((kib * 1024.0) as u64 / LINE_BYTES, ways)
    }

    /// A cache of so many lines.
    pub(crate) fn of_lines(lines: u64, ways: u32) -> Self {
        let lines = lines.max(u64::from(ways));
        let sets = 1 << (lines / u64::from(ways)).ilog2();
        // As many as a set has bits for.
        let sets = if lines / sets > 64 { 2 * sets } else { sets };
        let per_set = (lines / sets) as u32;
        let stride = (per_set as usize).div_ceil(TAGS).next_power_of_two();
        let ways = blank(sets as usize * stride);
        let notes = blank(ways.len() * TAGS);
        let all = u64::MAX >> (64 - per_set);
        Self { ways, notes, per_set, all, stride, mask: (sets - 1) * stride as u64 }
    }

    /// The first of `ways` of a line's set.
    #[inline(always)]
    fn set_of(&self, line: Line) -> usize {
        // Regions start at different sets, so that their first lines do not meet in one.
        let set = line.0 ^ (line.0 >> REGION).wrapping_mul(0x9e37_79b9);
        (set.wrapping_mul(self.stride as u64) & self.mask) as usize
    }

    /// A bit per way of the set that begins there.
    #[inline(always)]
    fn bits(&self, first: usize, of: impl Fn(&Ways) -> u16) -> u64 {
        let mut bits = u64::from(of(&self.ways[first]));
        for number in 1..self.stride {
            bits |= u64::from(of(&self.ways[first + number])) << (number * TAGS);
        }
        bits
    }

    /// The ways of that set that may have a line with this tag.
    #[inline(always)]
    fn search(&self, first: usize, tag: u32) -> u64 {
        self.bits(first, |ways| ways.tags.search(tag))
    }

    /// The ways of that set that were used lately.
    #[inline(always)]
    fn recent(&self, first: usize) -> u64 {
        self.bits(first, |ways| ways.recent)
    }

    /// Where a line is.
    #[inline(always)]
    pub(crate) fn find(&self, line: Line) -> Option<Place> {
        let first = self.set_of(line);
        let mut ways = self.search(first, tag(line));
        while ways != 0 {
            let place = Place::new(first, ways.trailing_zeros());
            if N::is_of(&self.notes, place, line) {
                return Some(place);
            }
            ways &= ways - 1;
        }
        None
    }

    /// Which way of a set the next line will have, if `recent` were used lately.
    #[inline]
    fn vacate(&self, recent: u64) -> u32 {
        recent.trailing_ones().min(self.per_set - 1)
    }

    /// The line there is used.
    #[inline]
    pub(crate) fn used(&mut self, place: Place) {
        let ways = &mut self.ways[place.ways()];
        if ways.recent & place.bit() == 0 {
            ways.recent |= place.bit();
            let first = self.first(place);
            if self.recent(first) == self.all {
                self.used_alone(first, place);
            }
        }
    }

    /// All lines of a set were used lately, and a line after all others.
    fn used_alone(&mut self, first: usize, place: Place) {
        self.ways[first..][..self.stride].iter_mut().for_each(|ways| ways.recent = 0);
        self.ways[place.ways()].recent = place.bit();
    }

    /// The first of `ways` of the set that a place is in.
    #[inline]
    fn first(&self, place: Place) -> usize {
        place.ways() & !(self.stride - 1)
    }

    /// Where a line is, which is used.
    #[inline(always)]
    pub(crate) fn touch(&mut self, line: Line) -> Option<Place> {
        let place = self.find(line)?;
        self.used(place);
        Some(place)
    }

    #[inline]
    pub(crate) fn note(&mut self, place: Place) -> &mut N {
        &mut self.notes[place.0]
    }

    /// Whether the line there is marked.
    #[inline]
    pub(crate) fn is_marked(&self, place: Place) -> bool {
        self.ways[place.ways()].marked & place.bit() != 0
    }

    /// Marks the line there, or does so no longer.
    #[inline]
    pub(crate) fn mark(&mut self, place: Place, marked: bool) {
        self.ways[place.ways()].mark(place.bit(), marked);
    }

    /// Adds a line that is not there; what was noted of the one that had to go, if one had to.
    #[inline]
    pub(crate) fn add(&mut self, line: Line, marked: bool, note: N) -> Option<N> {
        let first = self.set_of(line);
        let recent = self.recent(first);
        let way = self.vacate(recent);
        let place = Place::new(first, way);
        let gone = std::mem::replace(self.note(place), note);
        let ways = &mut self.ways[place.ways()];
        let had = ways.tags.get(place.0 % TAGS) != NONE;
        ways.tags.set(place.0 % TAGS, tag(line));
        ways.mark(place.bit(), marked);
        ways.recent |= place.bit();
        if recent | 1 << way == self.all {
            self.used_alone(first, place);
        }
        had.then_some(gone)
    }

    /// Drops a line; what was noted of it, if it was there.
    #[inline]
    pub(crate) fn remove(&mut self, line: Line) -> Option<N> {
        let place = self.find(line)?;
        Some(self.remove_at(place))
    }

    /// Drops the line there; what was noted of it.
    #[inline]
    pub(crate) fn remove_at(&mut self, place: Place) -> N {
        let ways = &mut self.ways[place.ways()];
        ways.tags.set(place.0 % TAGS, NONE);
        ways.recent &= !place.bit();
        *self.note(place)
    }

    /// Has this machine fetch a line's set.
    #[inline]
    pub(crate) fn prefetch(&self, line: Line) {
        let first = self.set_of(line);
        prefetch(&self.ways[first]);
        self.ways[first + 1..first + self.stride].iter().for_each(prefetch);
    }

    /// Where a line is, or the one that would have to go for it; and whether it is there. What is noted is not looked
    /// at: of lines with the same tag it may be the wrong one.
    #[inline]
    pub(crate) fn guess(&self, line: Line) -> (Place, bool) {
        let first = self.set_of(line);
        match self.search(first, tag(line)) {
            0 => (Place::new(first, self.vacate(self.recent(first))), false),
            ways => (Place::new(first, ways.trailing_zeros()), true),
        }
    }

    /// What is noted there.
    #[inline]
    pub(crate) fn note_at(&self, place: Place) -> &N {
        &self.notes[place.0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line's number.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Number(u64);

    impl Note for Number {
        fn is_of(notes: &[Self], place: Place, line: Line) -> bool {
            notes[place.0].0 == line.number()
        }
    }

    fn line(number: u64) -> Line {
        Line::new(Region::Lnr, number)
    }

    #[test]
    fn what_was_used_lately_stays() {
        let mut cache: Cache<Number> = Cache::new(0.25, 4);
        let add = |cache: &mut Cache<Number>, number| {
            cache.add(line(number), false, Number(number)).map(|note| note.0)
        };
        assert_eq!((cache.per_set, cache.mask), (4, 0));
        (1..=3).for_each(|number| assert_eq!(add(&mut cache, number), None));
        // The fourth makes all of them recent, and so only itself.
        assert_eq!(add(&mut cache, 4), None);
        let place = cache.touch(line(1)).unwrap();
        assert_eq!(cache.note(place), &Number(1));
        assert_eq!(add(&mut cache, 5), Some(2));
        assert_eq!(cache.remove(line(1)), Some(Number(1)));
        assert_eq!(add(&mut cache, 6), None);
        assert_eq!(add(&mut cache, 7), Some(3));
        assert!(cache.find(line(2)).is_none());
        assert!(cache.find(line(4)).is_some());
    }

    #[test]
    fn marks_are_of_a_line() {
        let mut cache: Cache<()> = Cache::new(1.0, 4);
        cache.add(line(1), true, ());
        cache.add(line(2), false, ());
        let places = [1, 2].map(|number| cache.touch(line(number)).unwrap());
        assert_eq!(places.map(|place| cache.is_marked(place)), [true, false]);
        cache.mark(places[0], false);
        cache.mark(places[1], true);
        assert_eq!(places.map(|place| cache.is_marked(place)), [false, true]);
        assert!(cache.find(line(2)).is_some());
    }

    #[test]
    fn lines_with_one_tag_are_told_apart() {
        let mut cache: Cache<Number> = Cache::of_lines(4, 4);
        let mut same = (1..).filter(|&number| tag(line(number)) == tag(line(0)));
        let numbers = [0, same.next().unwrap()];
        for number in numbers {
            cache.add(line(number), false, Number(number));
        }
        assert_eq!(
            numbers.map(|number| cache.remove(line(number))),
            numbers.map(|n| Some(Number(n)))
        );
    }

    #[test]
    fn a_cache_holds_what_it_is_to_hold() {
        let held = |lines, ways| {
            let mut cache: Cache<()> = Cache::of_lines(lines, ways);
            for number in 0..lines {
                cache.add(line(number), false, ());
            }
            (0..lines).filter(|&number| cache.find(line(number)).is_some()).count() as u64
        };
        for (lines, ways) in [(60 * 1024, 15), (1024, 16), (16, 16), (80, 20), (126, 64), (4, 1)] {
            assert_eq!(held(lines, ways), lines, "{lines} lines in {ways} ways");
        }
    }

    #[test]
    fn lines_of_regions_are_told_apart() {
        let all = [Region::Local, Region::Scr, Region::Lnr];
        let lines = all.map(|region| Line::new(region, 77));
        assert_eq!(lines.map(Line::region), all);
        assert_eq!(lines.map(Line::number), [77; 3]);
    }
}
