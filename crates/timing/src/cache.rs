//! A set-associative cache that holds tags: which lines are there, and in what state.
//!
//! A set remembers which of its lines were used lately, a bit each; once all were, only the last one was.
//! One that was not used lately is the one to go: what processors do, too, instead of keeping an order.
//!
//! A way is a word of 32 bits, so that a set of 16 ways is one line of this machine: what limits a
//! simulation is how many lines of its own tables it misses.

use tombolo_memory::{LINE_BYTES, prefer_huge_pages, prefetch, words_with};

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
    /// Whether it is this line's. Tags are so seldom the same for two lines of a set that a cache without
    /// notes may leave it at that.
    fn is_of(&self, line: Line) -> bool;
}

impl Note for () {
    fn is_of(&self, _: Line) -> bool {
        true
    }
}

/// The way's line was used lately.
const RECENT: u32 = 1;
/// A mark of the line, whose meaning is the caller's.
const MARK: u32 = 2;
/// Half of a line's hash; a way without a line has none.
const TAG: u32 = !(RECENT | MARK);

/// Words in a line of this machine.
const WORDS: usize = 16;

/// Ways of a set, as many as are in a line of this machine.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Ways([u32; WORDS]);

#[inline]
fn tag(line: Line) -> u32 {
    ((line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 & TAG).max(MARK + MARK)
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
pub struct Place {
    set: usize,
    way: usize,
}

pub(crate) struct Cache<N> {
    /// By set, a word per way.
    ways: Vec<Ways>,
    notes: Vec<N>,
    per_set: usize,
    /// How many of `ways` a set has.
    stride: usize,
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
        let per_set = (lines / sets) as usize;
        let stride = per_set.div_ceil(WORDS);
        let ways = blank(sets as usize * stride);
        let notes = blank(sets as usize * per_set);
        Self { ways, notes, per_set, stride, mask: sets - 1 }
    }

    #[inline(always)]
    fn set_of(&self, line: Line) -> usize {
        // Regions start at different sets, so that their first lines do not meet in one.
        ((line.0 ^ (line.0 >> REGION).wrapping_mul(0x9e37_79b9)) & self.mask) as usize
    }

    #[inline(always)]
    fn set(&self, set: usize) -> &[Ways] {
        &self.ways[set * self.stride..][..self.stride]
    }

    #[inline]
    fn word(&mut self, Place { set, way }: Place) -> &mut u32 {
        &mut self.ways[set * self.stride + way / WORDS].0[way % WORDS]
    }

    /// A bit per way of a set, where `bits` of its word are `value`.
    #[inline(always)]
    fn ways(&self, set: usize, bits: u32, value: u32) -> u64 {
        let (first, others) = self.set(set).split_first().expect("a set has ways");
        let mut ways = u64::from(words_with(&first.0, bits, value));
        for (number, words) in others.iter().enumerate() {
            ways |= u64::from(words_with(&words.0, bits, value)) << ((number + 1) * WORDS);
        }
        ways
    }

    /// Where a line is.
    #[inline(always)]
    pub(crate) fn find(&self, line: Line) -> Option<Place> {
        let set = self.set_of(line);
        let mut ways = self.ways(set, TAG, tag(line));
        while ways != 0 {
            let way = ways.trailing_zeros() as usize;
            if self.notes[set * self.per_set + way].is_of(line) {
                return Some(Place { set, way });
            }
            ways &= ways - 1;
        }
        None
    }

    /// Where the next line of a set will be, if `recent` were used lately.
    #[inline]
    fn vacate(&self, recent: u64) -> usize {
        (recent.trailing_ones() as usize).min(self.per_set - 1)
    }

    #[inline]
    fn used(&mut self, place: Place) {
        if *self.word(place) & RECENT == 0 {
            self.used_besides(place, self.ways(place.set, RECENT, RECENT));
        }
    }

    /// A line is used that was not lately, while others of its set were.
    #[inline]
    fn used_besides(&mut self, place: Place, others: u64) {
        if others | 1 << place.way == u64::MAX >> (64 - self.per_set) {
            for ways in &mut self.ways[place.set * self.stride..][..self.stride] {
                ways.0.iter_mut().for_each(|word| *word &= !RECENT);
            }
        }
        *self.word(place) |= RECENT;
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
        &mut self.notes[place.set * self.per_set + place.way]
    }

    /// Whether the line there is marked.
    #[inline]
    pub(crate) fn is_marked(&mut self, place: Place) -> bool {
        *self.word(place) & MARK != 0
    }

    /// Marks the line there, or does so no longer.
    #[inline]
    pub(crate) fn mark(&mut self, place: Place, marked: bool) {
        let word = self.word(place);
        *word = *word & !MARK | if marked { MARK } else { 0 };
    }

    /// Adds a line that is not there; what was noted of the one that had to go, if one had to.
    #[inline]
    pub(crate) fn add(&mut self, line: Line, marked: bool, note: N) -> Option<N> {
        let set = self.set_of(line);
        let recent = self.ways(set, RECENT, RECENT);
        let place = Place { set, way: self.vacate(recent) };
        let gone = std::mem::replace(self.note(place), note);
        let word = self.word(place);
        let had = *word & TAG != 0;
        *word = tag(line) | if marked { MARK } else { 0 };
        self.used_besides(place, recent & !(1 << place.way));
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
        *self.word(place) = 0;
        *self.note(place)
    }

    /// Has this machine fetch a line's set.
    #[inline]
    pub(crate) fn prefetch(&self, line: Line) {
        self.set(self.set_of(line)).iter().for_each(prefetch);
    }

    /// Where a line is, or the one that would have to go for it; and whether it is there. What is noted is not looked
    /// at: of lines with the same tag it may be the wrong one.
    #[inline]
    pub(crate) fn guess(&self, line: Line) -> (Place, bool) {
        let set = self.set_of(line);
        match self.ways(set, TAG, tag(line)) {
            0 => (Place { set, way: self.vacate(self.ways(set, RECENT, RECENT)) }, false),
            ways => (Place { set, way: ways.trailing_zeros() as usize }, true),
        }
    }

    /// What is noted there.
    #[inline]
    pub(crate) fn note_at(&self, place: Place) -> &N {
        &self.notes[place.set * self.per_set + place.way]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line's number.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    struct Number(u64);

    impl Note for Number {
        fn is_of(&self, line: Line) -> bool {
            self.0 == line.number()
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
