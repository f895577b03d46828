//! Slot sizes.
//!
//! A chunk is divided into slots of one class. Classes grow by an eighth of a power of two, so of a
//! slot with several lines at most an eighth of the lines is lost to rounding. Slots of more than
//! an eighth of a chunk are whole fractions of it. Larger objects take whole chunks: an *extent
//! chain*.

use tombolo_memory::LINE_BYTES;

/// The class of the chunks of an extent chain.
pub const CHAIN: u8 = 0xff;
/// The class of a chunk that is not divided.
pub const UNDIVIDED: u8 = 0;

/// The slot sizes of a pod, by class number; classes start at 1.
pub struct Classes {
    lines: Vec<u64>,
    chunk_lines: u64,
}

impl Classes {
    /// The sizes for chunks of `chunk_bytes`.
    pub fn new(chunk_bytes: u64) -> Self {
        let chunk_lines = chunk_bytes / LINE_BYTES;
        let eighths =
            (0..).flat_map(|power: u32| (8..16).map(move |part: u64| (part << power) / 8));
        let steps = eighths.take_while(|lines| lines * 8 <= chunk_lines);
        let fractions = (1..8).map(|parts| chunk_lines / parts).filter(|&lines| lines > 0);
        let mut lines: Vec<u64> = steps.chain(fractions).collect();
        lines.sort_unstable();
        lines.dedup();
        assert!(lines.len() < CHAIN as usize, "too many classes");
        Self { lines, chunk_lines }
    }

    /// The least class whose slots hold `bytes`; `None` if only an extent chain does.
    pub fn class_for(&self, bytes: u64) -> Option<u8> {
        let lines = bytes.div_ceil(LINE_BYTES);
        let index = self.lines.partition_point(|&size| size < lines);
        (index < self.lines.len()).then(|| index as u8 + 1)
    }

    /// Lines of a slot of `class`, or `None` if there is no such class.
    #[inline]
    pub fn slot_lines(&self, class: u8) -> Option<u64> {
        self.lines.get(usize::from(class).checked_sub(1)?).copied()
    }

    /// Slots in a chunk of `class`.
    pub fn slots(&self, class: u8) -> Option<u64> {
        self.slot_lines(class).map(|lines| self.chunk_lines / lines)
    }

    /// Lines of a chunk.
    #[inline]
    pub fn chunk_lines(&self) -> u64 {
        self.chunk_lines
    }

    /// One more than the highest class.
    pub fn count(&self) -> usize {
        self.lines.len() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_up_to_a_chunk_has_a_tight_class() {
        for chunk in [1 << 10, 64 << 10, 1 << 20, 2 << 20, 64 << 20] {
            let classes = Classes::new(chunk);
            for bytes in (1..=chunk)
                .step_by(61 + chunk as usize / 20_000)
                .chain([1064, chunk])
                .filter(|&bytes| bytes <= chunk)
            {
                let class = classes.class_for(bytes).unwrap();
                let lines = classes.slot_lines(class).unwrap();
                assert!(lines * LINE_BYTES >= bytes);
                assert!(classes.slots(class).unwrap() >= 1);
                let smaller = classes.slot_lines(class - 1).unwrap_or(0);
                assert!(smaller * LINE_BYTES < bytes, "a smaller class would do for {bytes}");
                if lines * 8 <= classes.chunk_lines() {
                    let lost = lines - bytes.div_ceil(LINE_BYTES);
                    assert!(lost * 8 < lines, "{lost} of {lines} lines for {bytes} bytes");
                }
            }
            assert_eq!(classes.class_for(chunk + 1), None);
        }
    }
}
