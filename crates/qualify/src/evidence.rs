//! Evidence of hosts, and the verdict that follows from it.

use tombolo_pod::{DETAILS, Flaw, Verdict};

/// Widths of words that are tried, in bits.
pub const WIDTHS: [u32; 4] = [8, 16, 32, 64];

/// Ways to write a line back, by number. A place is never given to another way: records have them.
pub const WAYS: [&str; 8] = [
    "CLWB",
    "CLFLUSHOPT",
    "CLFLUSH",
    "non-temporal stores",
    "MOVDIR64B",
    "dc cvac",
    "dc civac",
    "write and clean",
];

/// The fate of a line whose writer died after it had cleaned it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AfterDeath {
    /// No writer died.
    #[default]
    Untried,
    /// It was there.
    Survived,
    /// It was not.
    Lost,
}

/// Times, in buckets: the first one is for less than 128 ns, each further one for up to twice as
/// much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram(pub [u16; Self::BUCKETS]);

impl Histogram {
    /// Buckets, the last of which is for all that took longer.
    pub const BUCKETS: usize = 16;

    /// Counts a time in nanoseconds.
    pub fn count(&mut self, ns: u64) {
        let bucket = (ns / 64).max(1).ilog2() as usize;
        let count = &mut self.0[bucket.min(Self::BUCKETS - 1)];
        *count = count.saturating_add(1);
    }

    /// The time in nanoseconds below which a bucket's times are.
    pub fn below_ns(bucket: usize) -> u64 {
        128 << bucket
    }

    fn and(self, other: Self) -> Self {
        Self(std::array::from_fn(|bucket| self.0[bucket].saturating_add(other.0[bucket])))
    }
}

/// The times of steps for one host alone, in nanoseconds; the median of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// A load of a word.
    pub load_ns: u64,
    /// A compare-and-swap of a word.
    pub replace_ns: u64,
    /// A write of a line, and its clean.
    pub clean_ns: u64,
    /// An invalidate of a line, and a read of it.
    pub read_ns: u64,
    /// Bytes in a second, of lines that are written and cleaned together.
    pub clean_bytes_s: u64,
    /// Bytes in a second, of lines that are invalidated together and read.
    pub read_bytes_s: u64,
}

/// The evidence of hosts. Counts are of all pairs of hosts; times and costs are the worst of any.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Lines that were cleaned for the other host to see.
    pub lines: u64,
    /// Of these, lines that a host which did not invalidate them saw as they were before.
    pub stale_lines: u64,
    /// Lines that came only later.
    pub late_lines: u64,
    /// Lines that came in part.
    pub torn_lines: u64,
    /// Lines that never came.
    pub lost_lines: u64,
    /// Lines that were stored, and not cleaned.
    pub stored_lines: u64,
    /// Of these, lines that the other host did not see.
    pub unseen_lines: u64,
    /// Words that were stored for the other host to see.
    pub words: u64,
    /// Of these, words that it saw as they were before.
    pub stale_words: u64,
    /// Changes of each kind and width that two hosts made at once.
    pub changes: u64,
    /// Fetch-and-adds that were lost, by width.
    pub lost_adds: [u64; 4],
    /// Compare-and-swaps that were lost, by width.
    pub lost_replaces: [u64; 4],
    /// Plain stores beside another host's that were lost, by width.
    pub lost_stores: [u64; 4],
    /// Words of 64 bits of which a host saw two halves of different stores.
    pub torn_words: u64,
    /// Looks at two lines that were cleaned one after the other.
    pub looks: u64,
    /// Of these, looks that saw the later one alone.
    pub out_of_order: u64,
    /// A bit for each way to write back that was tried.
    pub ways_tried: u64,
    /// A bit for each of them by which a line did not come.
    pub ways_failed: u64,
    /// Whether a line outlives its writer.
    pub after_death: AfterDeath,
    /// By how many milliseconds hosts' clocks differ, at most.
    pub clocks_differ_ms: u64,
    /// Half a round trip through two lines: the median, the 99th percentile and the longest.
    pub visible_ns: [u64; 3],
    /// All of them.
    pub visible: Histogram,
    /// The times of steps.
    pub costs: Costs,
    /// Whether stale lines were too rare to show that an invalidate drops them.
    pub unproven: bool,
}

impl Evidence {
    /// The verdict on this memory; in `one_memory`, stale lines tell of words, too.
    pub fn verdict(&self, one_memory: bool) -> Verdict {
        if let Some(flaw) = self.flaws().max() {
            return Verdict::Unfit(flaw);
        }
        let stale_lines = self.stale_lines + self.unseen_lines;
        if self.stale_words > 0 || (one_memory && stale_lines > 0) {
            return Verdict::WriteBackWorks;
        }
        let lost = [self.lost_adds, self.lost_replaces, self.lost_stores];
        if self.torn_words > 0 || lost.iter().flatten().any(|&lost| lost > 0) {
            return Verdict::CoherentWithoutAtomics;
        }
        Verdict::CoherentWithAtomics
    }

    /// Whether hosts have seen each other's lines without doing anything for it.
    pub fn lines_are_coherent(&self) -> bool {
        self.stale_lines + self.unseen_lines == 0
    }

    fn flaws(&self) -> impl Iterator<Item = Flaw> {
        let met = [
            (Flaw::Unproven, self.unproven),
            (Flaw::NotVisible, self.lost_lines > 0),
            (Flaw::Torn, self.torn_lines > 0),
            (Flaw::Late, self.late_lines > 0),
            (Flaw::OutOfOrder, self.out_of_order > 0),
            (Flaw::LostAtDeath, self.after_death == AfterDeath::Lost),
        ];
        met.into_iter().filter_map(|(flaw, met)| met.then_some(flaw))
    }

    /// The evidence of both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        let merge = |kind: Kind, own: u64, other: u64| match kind {
            Kind::Count => own.saturating_add(other),
            Kind::Bits => own | other,
            Kind::Most => own.max(other),
            // One of them may not have been measured.
            Kind::Least if own.min(other) == 0 => own.max(other),
            Kind::Least => own.min(other),
        };
        let (own, others) = (self.to_words(), other.to_words());
        let words = std::array::from_fn(|at| merge(Kind::of(at), own[at], others[at]));
        let visible = self.visible.and(other.visible);
        Self { visible, ..Self::from_words(&words) }
    }

    /// As words of a record.
    pub(crate) fn to_words(&self) -> [u64; DETAILS] {
        let Self { costs, .. } = self;
        let mut words = vec![
            self.lines,
            self.stale_lines,
            self.late_lines,
            self.torn_lines,
            self.lost_lines,
            self.stored_lines,
            self.unseen_lines,
            self.words,
            self.stale_words,
            self.changes,
        ];
        words.extend([self.lost_adds, self.lost_replaces, self.lost_stores].iter().flatten());
        words.extend([self.torn_words, self.looks, self.out_of_order]);
        words.extend([self.ways_tried, self.ways_failed]);
        words.extend([self.after_death as u64, self.clocks_differ_ms]);
        words.extend(self.visible_ns);
        words.extend(self.visible.0.chunks(4).map(|counts| {
            counts.iter().rev().fold(0, |word, &count| word << 16 | u64::from(count))
        }));
        words.extend([costs.load_ns, costs.replace_ns, costs.clean_ns, costs.read_ns]);
        words.extend([costs.clean_bytes_s, costs.read_bytes_s, u64::from(self.unproven)]);
        words.resize(DETAILS, 0);
        words.try_into().expect("as many as there are")
    }

    /// The evidence of a record.
    pub(crate) fn from_words(words: &[u64; DETAILS]) -> Self {
        let mut rest = words.iter().copied();
        let mut next = || rest.next().unwrap_or(0);
        Self {
            lines: next(),
            stale_lines: next(),
            late_lines: next(),
            torn_lines: next(),
            lost_lines: next(),
            stored_lines: next(),
            unseen_lines: next(),
            words: next(),
            stale_words: next(),
            changes: next(),
            lost_adds: std::array::from_fn(|_| next()),
            lost_replaces: std::array::from_fn(|_| next()),
            lost_stores: std::array::from_fn(|_| next()),
            torn_words: next(),
            looks: next(),
            out_of_order: next(),
            ways_tried: next(),
            ways_failed: next(),
            after_death: match next() {
                0 => AfterDeath::Untried,
                1 => AfterDeath::Survived,
                _ => AfterDeath::Lost,
            },
            clocks_differ_ms: next(),
            visible_ns: std::array::from_fn(|_| next()),
            visible: {
                let words: [u64; 4] = std::array::from_fn(|_| next());
                Histogram(std::array::from_fn(|at| (words[at / 4] >> (16 * (at % 4))) as u16))
            },
            costs: Costs {
                load_ns: next(),
                replace_ns: next(),
                clean_ns: next(),
                read_ns: next(),
                clean_bytes_s: next(),
                read_bytes_s: next(),
            },
            unproven: next() != 0,
        }
    }
}

/// How a word of two pairs' evidence becomes one.
enum Kind {
    Count,
    Bits,
    Most,
    Least,
}

impl Kind {
    /// Of the word with this number.
    fn of(at: usize) -> Self {
        match at {
            0..25 => Self::Count,
            25..27 => Self::Bits,
            40..42 => Self::Least,
            _ => Self::Most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Evidence {
        let words = std::array::from_fn(|at| if at == 27 { 1 } else { at as u64 + 1 });
        Evidence::from_words(&words)
    }

    #[test]
    fn evidence_reads_back() {
        let mut evidence = some();
        (0..40).for_each(|power| evidence.visible.count(1 << power));
        assert_eq!(Evidence::from_words(&evidence.to_words()), evidence);
    }

    #[test]
    fn two_pairs_make_one() {
        let both = some().and(&Evidence { lines: 3, ways_failed: 64, ..Evidence::default() });
        assert_eq!((both.lines, both.ways_failed), (4, 27 | 64));
        assert_eq!((both.after_death, both.costs), (AfterDeath::Survived, some().costs));
        assert_eq!(both.visible.0, some().visible.0);
    }

    #[test]
    fn the_worst_counts() {
        let verdict = |change: fn(&mut Evidence)| {
            let mut evidence = Evidence::default();
            change(&mut evidence);
            (evidence.verdict(false), evidence.verdict(true))
        };
        let fine = Verdict::CoherentWithAtomics;
        assert_eq!(verdict(|_| ()), (fine, fine));
        assert_eq!(verdict(|found| found.stale_lines = 1), (fine, Verdict::WriteBackWorks));
        assert_eq!(verdict(|found| found.stale_words = 1).0, Verdict::WriteBackWorks);
        assert_eq!(verdict(|found| found.lost_adds[0] = 1).0, Verdict::CoherentWithoutAtomics);
        let flawed = verdict(|found| {
            (found.stale_words, found.torn_lines, found.out_of_order) = (1, 1, 1);
        });
        assert_eq!(flawed.0, Verdict::Unfit(Flaw::Torn));
    }
}
