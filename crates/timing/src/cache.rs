//! A set-associative cache that holds tags: which lines are there, and in what state.
//!
//! A set is kept in the order of use, so the last way is the one to go.

use tombolo_memory::LINE_BYTES;

/// A line of some region, as caches know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Tags and notes apart: a search looks at tags alone.
pub(crate) struct Cache<N> {
    tags: Vec<u64>,
    notes: Vec<N>,
    per_set: usize,
    mask: u64,
}

impl<N: Note> Cache<N> {
    /// A cache of `kib` KiB. The number of sets is a power of two; so that it holds as much as it is to, it
    /// may have more ways than `ways`.
    pub(crate) fn new(kib: f64, ways: u32) -> Self {
        let lines = ((kib * 1024.0) as u64 / LINE_BYTES).max(u64::from(ways));
        let sets = 1 << (lines / u64::from(ways)).ilog2();
        let per_set = (lines / sets) as usize;
        let all = per_set * sets as usize;
        Self { tags: vec![0; all], notes: vec![N::default(); all], per_set, mask: sets - 1 }
    }

    /// Where a line's set begins.
    #[inline]
    fn set(&self, line: Line) -> usize {
        // Regions start at different sets, so that their first lines do not meet in one.
        let index = (line.0 ^ (line.0 >> REGION).wrapping_mul(0x9e37_79b9)) & self.mask;
        index as usize * self.per_set
    }

    /// Where a line is.
    #[inline]
    fn find(&self, line: Line) -> Option<usize> {
        let start = self.set(line);
        let set = &self.tags[start..start + self.per_set];
        if set[0] == line.0 {
            return Some(start);
        }
        // Without a way out in between, so that ways are compared several at a time.
        let mut found = usize::MAX;
        for (way, &tag) in set.iter().enumerate() {
            if tag == line.0 {
                found = way;
            }
        }
        (found != usize::MAX).then(|| start + found)
    }

    /// Makes the line at `place` the most recently used one of the set that begins at `start`.
    fn to_front(&mut self, start: usize, place: usize, tag: u64, note: N) {
        self.tags.copy_within(start..place, start + 1);
        self.notes.copy_within(start..place, start + 1);
        self.tags[start] = tag;
        self.notes[start] = note;
    }

    /// The note of a line, which is the most recently used one of its set from now on.
    #[inline]
    pub(crate) fn touch(&mut self, line: Line) -> Option<&mut N> {
        let (start, place) = (self.set(line), self.find(line)?);
        if place != start {
            self.to_front(start, place, line.0, self.notes[place]);
        }
        Some(&mut self.notes[start])
    }

    /// The note of a line.
    pub(crate) fn peek(&mut self, line: Line) -> Option<&mut N> {
        let place = self.find(line)?;
        Some(&mut self.notes[place])
    }

    /// Adds a line that is not there; the one that had to go, if one had to.
    pub(crate) fn add(&mut self, line: Line, note: N) -> Option<(Line, N)> {
        let start = self.set(line);
        let last = start + self.per_set - 1;
        let gone = (Line(self.tags[last]), self.notes[last]);
        self.to_front(start, last, line.0, note);
        (gone.0.0 != 0).then_some(gone)
    }

    /// Drops a line; its note, if it was there.
    pub(crate) fn remove(&mut self, line: Line) -> Option<N> {
        let place = self.find(line)?;
        let note = self.notes[place];
        let end = self.set(line) + self.per_set;
        self.tags.copy_within(place + 1..end, place);
        self.notes.copy_within(place + 1..end, place);
        self.tags[end - 1] = 0;
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> Line {
        Line::new(Region::Lnr, number)
    }

    #[test]
    fn the_least_recently_used_line_goes() {
        let mut cache: Cache<u8> = Cache::new(0.25, 4);
        assert_eq!((cache.per_set, cache.mask), (4, 0));
        (1..=4).for_each(|number| assert!(cache.add(line(number), number as u8).is_none()));
        assert_eq!(cache.touch(line(1)), Some(&mut 1));
        assert_eq!(cache.add(line(5), 5), Some((line(2), 2)));
        assert_eq!(cache.remove(line(3)), Some(3));
        assert!(cache.add(line(6), 6).is_none());
        assert_eq!(cache.add(line(7), 7), Some((line(4), 4)));
        assert_eq!(cache.peek(line(2)), None);
        assert_eq!(cache.peek(line(1)), Some(&mut 1));
    }

    #[test]
    fn a_cache_holds_what_it_is_to_hold() {
        let cache: Cache<()> = Cache::new(60.0 * 1024.0, 15);
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
