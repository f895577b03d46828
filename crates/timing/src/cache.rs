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

#[derive(Clone, Copy)]
struct Way<N> {
    line: u64,
    note: N,
}

pub(crate) struct Cache<N> {
    ways: Vec<Way<N>>,
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
        let empty = Way { line: 0, note: N::default() };
        Self { ways: vec![empty; per_set * sets as usize], per_set, mask: sets - 1 }
    }

    fn set(&mut self, line: Line) -> &mut [Way<N>] {
        // Regions start at different sets, so that their first lines do not meet in one.
        let index = (line.0 ^ (line.0 >> REGION).wrapping_mul(0x9e37_79b9)) & self.mask;
        let start = index as usize * self.per_set;
        &mut self.ways[start..start + self.per_set]
    }

    /// The note of a line, which is the most recently used one of its set from now on.
    #[inline]
    pub(crate) fn touch(&mut self, line: Line) -> Option<&mut N> {
        let set = self.set(line);
        let way = set.iter().position(|way| way.line == line.0)?;
        let found = set[way];
        set.copy_within(0..way, 1);
        set[0] = found;
        Some(&mut set[0].note)
    }

    /// The note of a line.
    pub(crate) fn peek(&mut self, line: Line) -> Option<&mut N> {
        self.set(line).iter_mut().find(|way| way.line == line.0).map(|way| &mut way.note)
    }

    /// Adds a line that is not there; the one that had to go, if one had to.
    pub(crate) fn add(&mut self, line: Line, note: N) -> Option<(Line, N)> {
        let set = self.set(line);
        let last = set[set.len() - 1];
        set.copy_within(0..set.len() - 1, 1);
        set[0] = Way { line: line.0, note };
        (last.line != 0).then_some((Line(last.line), last.note))
    }

    /// Drops a line; its note, if it was there.
    pub(crate) fn remove(&mut self, line: Line) -> Option<N> {
        let set = self.set(line);
        let way = set.iter().position(|way| way.line == line.0)?;
        let note = set[way].note;
        set.copy_within(way + 1.., way);
        let last = set.len() - 1;
        set[last] = Way { line: 0, note: N::default() };
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
        assert_eq!(cache.ways.len() as u64 * LINE_BYTES, 60 << 20);
    }

    #[test]
    fn lines_of_regions_are_told_apart() {
        let all = [Region::Local, Region::Scr, Region::Lnr];
        let lines = all.map(|region| Line::new(region, 77));
        assert_eq!(lines.map(Line::region), all);
        assert_eq!(lines.map(Line::number), [77; 3]);
    }
}
