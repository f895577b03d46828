//! Names of the places in a pod, for reports: the simulator knows addresses only.

use tombolo_memory::{LINE_BYTES, LnrAddr, ScrAddr, Word};

/// Names for stretches of SCR and LNR.
#[derive(Clone, Debug, Default)]
pub struct Places {
    scr: Vec<Stretch>,
    lnr: Vec<Stretch>,
}

/// Things of one kind, side by side.
#[derive(Clone, Debug)]
struct Stretch {
    name: &'static str,
    start: u64,
    /// Bytes of each.
    unit: u64,
    count: u64,
}

impl Places {
    /// `count` things called `name`, of `unit` bytes each, lie in SCR from `start` on.
    #[must_use]
    pub fn scr<W: Word>(
        mut self,
        name: &'static str,
        start: ScrAddr<W>,
        unit: u64,
        count: u64,
    ) -> Self {
        self.scr.push(Stretch { name, start: start.offset(), unit, count });
        self
    }

    /// The same in LNR; `unit` is a multiple of the line.
    #[must_use]
    pub fn lnr(mut self, name: &'static str, start: LnrAddr, unit: u64, count: u64) -> Self {
        self.lnr.push(Stretch { name, start: start.offset(), unit, count });
        self
    }

    /// The name of the word at a byte of SCR.
    pub(crate) fn word(&self, offset: u64) -> String {
        let named = self.scr.iter().find_map(|stretch| stretch.name_of(offset, 8, "word"));
        named.unwrap_or_else(|| format!("scr+{offset:#x}"))
    }

    /// The name of a line of LNR.
    pub(crate) fn line(&self, line: u32) -> String {
        let offset = u64::from(line) * LINE_BYTES;
        let named = self.lnr.iter().find_map(|stretch| stretch.name_of(offset, LINE_BYTES, "line"));
        named.unwrap_or_else(|| format!("line {line}"))
    }
}

impl Stretch {
    /// The thing at `offset`, and which of its parts of `part` bytes, if it has several.
    fn name_of(&self, offset: u64, part: u64, part_name: &str) -> Option<String> {
        let within = offset.checked_sub(self.start)?;
        if within >= self.unit * self.count {
            return None;
        }
        let (index, rest) = (within / self.unit, within % self.unit);
        let thing =
            if self.count == 1 { self.name.to_owned() } else { format!("{} {index}", self.name) };
        Some(if self.unit > part { format!("{thing}, {part_name} {}", rest / part) } else { thing })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_and_their_parts_have_names() {
        let places = Places::default()
            .scr("tail", ScrAddr::<u64>::new(64), 8, 1)
            .scr("record", ScrAddr::<u32>::new(128), 4, 3)
            .lnr("chunk", LnrAddr::new(1024), 128, 2);
        let words = [64, 72, 128, 136].map(|offset| places.word(offset));
        assert_eq!(words, ["tail", "scr+0x48", "record 0", "record 2"]);
        let lines = [15, 16, 19, 20].map(|line| places.line(line));
        assert_eq!(lines, ["line 15", "chunk 0, line 0", "chunk 1, line 1", "line 20"]);
    }
}
