//! Reports: how the pages of a range ended up.

use std::fmt;

use tombolo_memory::paging::Refusal;

use crate::transaction::Outcome;

/// The outcome of a relocation. Pages that were left are where they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Pages that moved.
    pub moved: usize,
    /// Pages that were there.
    pub already: usize,
    /// Pages that were never filled: they will be there once they are.
    pub untouched: usize,
    /// Pages left because the program wrote them in each of ten passes.
    pub left_written: usize,
    /// Pages left because they are shared with a child of `fork()`, or pinned for a device.
    pub left_shared: usize,
    /// Pages left because they are locked, or not writable.
    pub left_unmovable: usize,
    /// Pages left because the tier has no room.
    pub left_no_room: usize,
    /// Pages left because the program gave them up or changed its mappings meanwhile.
    pub left_busy: usize,
    /// Passes over the pages.
    pub passes: usize,
    /// For how long touches of a page had to wait, in nanoseconds, over all pages.
    pub gap_nanoseconds: u64,
}

impl Report {
    /// Pages that were left where they were.
    pub fn left(&self) -> usize {
        self.left_written
            + self.left_shared
            + self.left_unmovable
            + self.left_no_room
            + self.left_busy
    }

    /// Notes a page that is not tried again.
    pub(crate) fn leave(&mut self, outcome: Outcome) {
        let count = match outcome {
            Outcome::Promoted | Outcome::DemotedByRemap | Outcome::DemotedByCopy => &mut self.moved,
            Outcome::Written => &mut self.left_written,
            Outcome::Refused(Refusal::Shared) => &mut self.left_shared,
            Outcome::Refused(Refusal::Unmovable) => &mut self.left_unmovable,
            Outcome::Refused(Refusal::NoMemory) => &mut self.left_no_room,
            Outcome::Busy | Outcome::Refused(_) => &mut self.left_busy,
        };
        *count += 1;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { moved, already, untouched, .. } = self;
        write!(f, "{moved} pages moved, {already} were there, {untouched} are not filled yet")?;
        for (left, reason) in [
            (self.left_written, "are written all the time"),
            (self.left_shared, "are shared with a child or pinned for a device"),
            (self.left_unmovable, "are locked or not writable"),
            (self.left_no_room, "found no room in the tier"),
            (self.left_busy, "were given up or remapped"),
        ] {
            if left > 0 {
                write!(f, "; {left} {reason}")?;
            }
        }
        Ok(())
    }
}
