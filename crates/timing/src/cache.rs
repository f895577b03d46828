//! A set-associative cache that holds tags: which lines are there, and in what state.
//!
//! A set remembers which of its lines were used lately, a bit each; once all were, only the last one was.
//! One that was not used lately is the one to go: what processors do, too, instead of keeping an order.

use tombolo_memory::LINE_BYTES;

/// A line of some region, as caches know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line(u64);

/// The memory a line is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    /// A host's own memory.
    Local = 1,
    Scr = 2,
    Lnr = 3,
}

const REGION: u32 = 60;

impl Line {
    pub(crate) const fn new(region: Region, number: u64) -> Self {
        Self((region as u64) << REGION | number)
    }

    pub(crate) fn region(self) -> Region {
        match self.0 >> REGION {
            1 => Region::Local,
            2 => Region::Scr,
            _ => Region::Lnr,
        }
    }

    pub(crate) fn number(self) -> u64 {
        self.0 & ((1 << REGION) - 1)
    }
}

/// What a cache notes of a line; nothing, at first.
pub(crate) trait Note: Copy + Default {}

impl<T: Copy + Default> Note for T {}

/// How a cache tells lines apart; 0 is none.
pub(crate) trait Tag: Copy + Default + Eq {
    fn of(line: Line) -> Self;
}

/// The line itself.
impl Tag for Line {
    fn of(line: Line) -> Self {
        line
    }
}

/// Half of a line's hash: so small that a search is fast, and so seldom the same for two lines of a set that
/// nobody will notice.
impl Tag for u32 {
    fn of(line: Line) -> Self {
        (line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1
    }
}

/// Tags, notes and use apart: a search looks at tags alone.
pub(crate) struct Cache<T, N> {
    tags: Vec<T>,
    notes: Vec<N>,
    /// By set, a bit per way that was used lately.
    recent: Vec<u64>,
    per_set: usize,
    mask: u64,
}

impl<T: Tag, N: Note> Cache<T, N> {
    /// A cache of `kib` KiB. The number of sets is a power of two; so that it holds as much as it is to, it
    /// may have more ways than `ways`.
    pub(crate) fn new(kib: f64, ways: u32) -> Self {
        Self::of_lines((kib * 1024.0) as u64 / LINE_BYTES, ways)
    }

    /// A cache of so many lines.
    pub(crate) fn of_lines(lines: u64, ways: u32) -> Self {
        let lines = lines.max(u64::from(ways));
        let sets = 1 << (lines / u64::from(ways)).ilog2();
        let per_set = (lines / sets) as usize;
        let all = per_set * sets as usize;
        Self {
            tags: vec![T::default(); all],
            notes: vec![N::default(); all],
            recent: vec![0; sets as usize],
            per_set,
            mask: sets - 1,
        }
    }

    #[inline]
    fn set(&self, line: Line) -> usize {
        // Regions start at different sets, so that their first lines do not meet in one.
        ((line.0 ^ (line.0 >> REGION).wrapping_mul(0x9e37_79b9)) & self.mask) as usize
    }

    /// The set of a line and its way there, if it is there.
    #[inline]
    fn find(&self, line: Line) -> (usize, Option<usize>) {
        let set = self.set(line);
        let tag = T::of(line);
        // Without a way out in between, so that ways are compared several at a time.
        let mut found = usize::MAX;
        for (way, &there) in self.tags[set * self.per_set..][..self.per_set].iter().enumerate() {
            if there == tag {
                found = way;
            }
        }
        (set, (found != usize::MAX).then_some(found))
    }

    #[inline]
    fn used(&mut self, set: usize, way: usize) {
        let recent = self.recent[set] | 1 << way;
        let all = u64::MAX >> (64 - self.per_set);
        self.recent[set] = if recent == all { 1 << way } else { recent };
    }

    /// The note of a line, which is used.
    #[inline]
    pub(crate) fn touch(&mut self, line: Line) -> Option<&mut N> {
        let (set, way) = self.find(line);
        self.used(set, way?);
        Some(&mut self.notes[set * self.per_set + way?])
    }

    /// The note of a line.
    pub(crate) fn peek(&mut self, line: Line) -> Option<&mut N> {
        let (set, way) = self.find(line);
        Some(&mut self.notes[set * self.per_set + way?])
    }

    /// Adds a line that is not there; the one that had to go, if one had to.
    pub(crate) fn add(&mut self, line: Line, note: N) -> Option<(T, N)> {
        let set = self.set(line);
        let way = (self.recent[set].trailing_ones() as usize).min(self.per_set - 1);
        let place = set * self.per_set + way;
        let gone = (self.tags[place], self.notes[place]);
        self.tags[place] = T::of(line);
        self.notes[place] = note;
        self.used(set, way);
        (gone.0 != T::default()).then_some(gone)
    }

    /// Looks at all that a line's set consists of, so that what this machine has to fetch for it is under way.
    #[inline]
    pub(crate) fn foresee(&self, line: Line) -> u64 {
        let set = self.set(line);
        let (first, last) = (set * self.per_set, (set + 1) * self.per_set - 1);
        let empty = [first, last].map(|place| u64::from(self.tags[place] == T::default()));
        std::hint::black_box((self.notes[first], self.notes[last]));
        empty[0] ^ empty[1] ^ self.recent[set]
    }

    /// Drops a line; its note, if it was there.
    pub(crate) fn remove(&mut self, line: Line) -> Option<N> {
        let (set, way) = self.find(line);
        let place = set * self.per_set + way?;
        self.tags[place] = T::default();
        self.recent[set] &= !(1 << way?);
        Some(self.notes[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> Line {
        Line::new(Region::Lnr, number)
    }

    #[test]
    fn what_was_used_lately_stays() {
        let mut cache: Cache<Line, u8> = Cache::new(0.25, 4);
        assert_eq!((cache.per_set, cache.mask), (4, 0));
        (1..=3).for_each(|number| assert!(cache.add(line(number), number as u8).is_none()));
        // The fourth makes all of them recent, and so only itself.
        assert!(cache.add(line(4), 4).is_none());
        assert_eq!(cache.touch(line(1)), Some(&mut 1));
        assert_eq!(cache.add(line(5), 5), Some((line(2), 2)));
        assert_eq!(cache.remove(line(1)), Some(1));
        assert!(cache.add(line(6), 6).is_none());
        assert_eq!(cache.add(line(7), 7), Some((line(3), 3)));
        assert_eq!(cache.peek(line(2)), None);
        assert_eq!(cache.peek(line(4)), Some(&mut 4));
    }

    #[test]
    fn a_cache_holds_what_it_is_to_hold() {
        let cache: Cache<u32, ()> = Cache::new(60.0 * 1024.0, 15);
        assert_eq!(cache.tags.len() as u64 * LINE_BYTES, 60 << 20);
    }

    #[test]
    fn lines_of_regions_are_told_apart() {
        let all = [Region::Local, Region::Scr, Region::Lnr];
        let lines = all.map(|region| Line::new(region, 77));
        assert_eq!(lines.map(Line::region), all);
        assert_eq!(lines.map(Line::number), [77; 3]);
    }
}
