//! A set-associative cache that holds tags: which lines are there, and in what state.
//!
//! A set remembers which of its lines were used lately, a bit each; once all were, only the last
//! one was. One that was not used lately is the one to go. Processors do so, too, instead of
//! keeping an order.
//!
//! A set is one line of this machine, because a simulation is limited by misses of its own tables.
//! Of a line there is a tag, and a bit each for whether it was used lately and whether it is
//! marked.

use tombolo_coherence::ones;
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

    /// Its page, as a line that has the page's number; `bits` is the logarithm of how many lines a
    /// page has.
    #[inline(always)]
    pub(crate) fn page(self, bits: u32) -> Self {
        Self(self.0 >> REGION << REGION | self.number() >> bits)
    }

    /// The one after it.
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The key by which caches look a line up.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub(crate) line: Line,
    /// The lower bits say which set it is in.
    pub(crate) set: u64,
    tag: u32,
}

impl Key {
    /// That of a line.
    #[inline(always)]
    pub const fn of(line: Line) -> Self {
        let tag = (line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32;
        // Regions start at different sets, so that their first lines do not meet in one.
        let set = line.0 ^ (line.0 >> REGION).wrapping_mul(0x9e37_79b9);
        Self { line, set, tag: if tag == NONE { NONE + 1 } else { tag } }
    }
}

/// The tag of a way without a line. Others are a part of a line's hash: 24 bits.
const NONE: u32 = 0;

/// A set: as much as is in a line of this machine.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Set {
    /// Each way's line; or [`NONE`].
    tags: Tags,
    /// A bit per way that there is.
    all: u16,
    /// A bit per way: its line was used lately.
    recent: u16,
    /// A bit per way: its line is marked.
    marked: u16,
}

impl Set {
    /// The ways that may have a line with this tag, a bit each.
    #[inline(always)]
    fn search(&self, tag: u32) -> u16 {
        self.tags.search(tag)
    }

    /// Which way the next line will have.
    #[inline(always)]
    fn vacant(&self) -> usize {
        // There is one, unless there is one way.
        self.recent.trailing_ones().min(self.all.trailing_ones() - 1) as usize
    }

    #[inline(always)]
    fn used(&mut self, bit: u16) {
        let recent = self.recent | bit;
        self.recent = if recent == self.all { bit } else { recent };
    }

    #[inline(always)]
    fn mark(&mut self, bit: u16, marked: bool) {
        self.marked = self.marked & !bit | if marked { bit } else { 0 };
    }

    #[inline(always)]
    fn remove(&mut self, way: usize) {
        self.tags.set(way, NONE);
        self.recent &= !(1 << way);
    }
}

/// Where a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(usize);

impl Place {
    #[inline(always)]
    fn new(set: usize, way: usize) -> Self {
        Self(set * TAGS + way)
    }

    #[inline(always)]
    fn set(self) -> usize {
        self.0 / TAGS
    }

    #[inline(always)]
    fn way(self) -> usize {
        self.0 % TAGS
    }

    #[inline(always)]
    fn bit(self) -> u16 {
        1 << self.way()
    }

    /// A number below [`Cache::places`].
    #[inline(always)]
    pub(crate) fn number(self) -> usize {
        self.0
    }
}

/// A table of so many, in huge pages if there are any.
pub(crate) fn blank<T: Copy + Default>(count: usize) -> Vec<T> {
    let mut table = Vec::with_capacity(count);
    prefer_huge_pages(table.spare_capacity_mut());
    table.resize(count, T::default());
    table
}

/// Some caches of one kind: one of each core, say.
///
/// Two lines of a set have the same tag once in a million searches. A caller that minds looks at
/// [`matches`](Self::matches), and knows which lines are there; others leave it at that.
pub(crate) struct Cache {
    /// Of one cache after the other.
    sets: Vec<Set>,
    /// How many a cache has: a power of two.
    each: usize,
}

impl Cache {
    /// `count` caches of `kib` KiB. The number of sets is a power of two; so that they hold as much
    /// as they are to, they may have more ways than `ways`, or fewer.
    pub(crate) fn new(kib: f64, ways: u32, count: usize) -> Self {
        Self::of_lines((kib * 1024.0) as usize / LINE_BYTES as usize, ways as usize, count)
    }

    /// Caches of so many lines.
    pub(crate) fn of_lines(lines: usize, ways: usize, count: usize) -> Self {
        let lines = lines.max(ways);
        let sets = 1 << (lines / ways).ilog2();
        // As many ways as a set has bits for.
        let each =
            if lines > sets * TAGS { lines.div_ceil(TAGS).next_power_of_two() } else { sets };
        let mut sets: Vec<Set> = blank(count * each);
        for (number, set) in sets.iter_mut().enumerate() {
            let ways = lines / each + usize::from(number % each < lines % each);
            set.all = u16::MAX >> (TAGS - ways);
        }
        Self { sets, each }
    }

    /// How many lines there is room for, and more.
    pub(crate) fn places(&self) -> usize {
        self.sets.len() * TAGS
    }

    /// How many sets each cache has: a power of two.
    pub(crate) fn sets(&self) -> usize {
        self.each
    }

    /// Where a line's set is, in one of the caches.
    #[inline(always)]
    fn set_of(&self, cache: usize, key: Key) -> usize {
        cache * self.each + (key.set as usize & (self.each - 1))
    }

    /// The lines with the same tag: where each of them is.
    #[inline(always)]
    pub(crate) fn matches(&self, cache: usize, key: Key) -> impl Iterator<Item = Place> + use<> {
        let set = self.set_of(cache, key);
        let ways = ones(self.sets[set].search(key.tag).into());
        ways.map(move |way| Place::new(set, way))
    }

    /// Where a line is.
    #[inline(always)]
    pub(crate) fn find(&self, cache: usize, key: Key) -> Option<Place> {
        self.matches(cache, key).next()
    }

    /// Where a line is, which is used; and whether it is marked.
    #[inline(always)]
    pub(crate) fn touch(&mut self, cache: usize, key: Key) -> Option<(Place, bool)> {
        let place = self.find(cache, key)?;
        let set = &mut self.sets[place.set()];
        set.used(place.bit());
        Some((place, set.marked & place.bit() != 0))
    }

    /// The line there is used.
    #[inline(always)]
    pub(crate) fn used(&mut self, place: Place) {
        self.sets[place.set()].used(place.bit());
    }

    /// Marks the line there, or does so no longer.
    #[inline(always)]
    pub(crate) fn mark(&mut self, place: Place, marked: bool) {
        self.sets[place.set()].mark(place.bit(), marked);
    }

    /// Adds a line that is not there; where it is now, and whether another one had to go.
    #[inline(always)]
    pub(crate) fn add(&mut self, cache: usize, key: Key, marked: bool) -> (Place, bool) {
        let number = self.set_of(cache, key);
        let set = &mut self.sets[number];
        let place = Place::new(number, set.vacant());
        let goes = set.tags.get(place.way()) != NONE;
        set.tags.set(place.way(), key.tag);
        set.mark(place.bit(), marked);
        set.used(place.bit());
        (place, goes)
    }

    /// Drops a line, if it is there.
    #[inline(always)]
    pub(crate) fn remove(&mut self, cache: usize, key: Key) {
        let set = self.set_of(cache, key);
        let set = &mut self.sets[set];
        if let Some(way) = ones(set.search(key.tag).into()).next() {
            set.remove(way);
        }
    }

    /// Drops the line there.
    #[inline(always)]
    pub(crate) fn remove_at(&mut self, place: Place) {
        self.sets[place.set()].remove(place.way());
    }

    /// Has this machine fetch a line's set.
    #[inline(always)]
    pub(crate) fn prefetch(&self, cache: usize, key: Key) {
        prefetch(&self.sets[self.set_of(cache, key)]);
    }

    /// Where a line is, or the one that would have to go for it; and whether it is there.
    #[inline(always)]
    pub(crate) fn guess(&self, cache: usize, key: Key) -> (Place, bool) {
        let set = self.set_of(cache, key);
        let vacant = || Place::new(set, self.sets[set].vacant());
        self.find(cache, key).map_or_else(|| (vacant(), false), |place| (place, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key::of(Line::new(Region::Lnr, number))
    }

    #[test]
    fn what_was_used_lately_stays() {
        let mut cache = Cache::of_lines(4, 4, 1);
        let mut lines = [0; 4];
        let mut add = |cache: &mut Cache, number| {
            let (place, goes) = cache.add(0, key(number), false);
            let gone = std::mem::replace(&mut lines[place.number()], number);
            goes.then_some(gone)
        };
        (1..=3).for_each(|number| assert_eq!(add(&mut cache, number), None));
        // The fourth makes all of them recent, and so only itself.
        assert_eq!(add(&mut cache, 4), None);
        assert!(cache.touch(0, key(1)).is_some());
        assert_eq!(add(&mut cache, 5), Some(2));
        cache.remove(0, key(1));
        assert_eq!(add(&mut cache, 6), None);
        assert_eq!(add(&mut cache, 7), Some(3));
        assert!(cache.find(0, key(2)).is_none());
        assert!(cache.find(0, key(4)).is_some());
    }

    #[test]
    fn marks_are_of_a_line() {
        let mut cache = Cache::new(1.0, 4, 1);
        cache.add(0, key(1), true);
        cache.add(0, key(2), false);
        let touch = |cache: &mut Cache| [1, 2].map(|number| cache.touch(0, key(number)).unwrap());
        let [(first, true), (second, false)] = touch(&mut cache) else { panic!() };
        cache.mark(first, false);
        cache.mark(second, true);
        assert_eq!(touch(&mut cache).map(|(_, marked)| marked), [false, true]);
        cache.remove_at(second);
        assert!(cache.find(0, key(2)).is_none());
    }

    #[test]
    fn lines_with_one_tag_are_told_apart() {
        let mut cache = Cache::of_lines(4, 4, 1);
        let mut same = (1..).filter(|&number| key(number).tag == key(0).tag);
        let numbers = [0, same.next().unwrap()];
        let places = numbers.map(|number| cache.add(0, key(number), false).0);
        assert!(numbers.iter().all(|&number| cache.matches(0, key(number)).eq(places)));
    }

    #[test]
    fn caches_hold_what_they_are_to_hold() {
        for (lines, ways) in
            [(60 * 1024, 15), (1024, 16), (16, 16), (80, 20), (126, 64), (4, 1), (585_728, 11)]
        {
            let mut caches = Cache::of_lines(lines, ways, 2);
            let numbers = 0..3 * lines as u64;
            for number in numbers.clone() {
                caches.add(1, key(number), false);
            }
            let held =
                |cache| numbers.clone().filter(|&n| caches.find(cache, key(n)).is_some()).count();
            assert_eq!([held(0), held(1)], [0, lines], "{lines} lines in {ways} ways");
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
