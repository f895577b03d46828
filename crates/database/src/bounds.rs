//! The bounds of scans.

use std::ops::{Bound, Range};

use crate::{Direction, Mode, OrderedKey, Scan, TableId, TableSpec, TxError, key_width};

/// The bounds of a scan, as keys.
pub struct Bounds {
    /// The lower bound, and whether it is part of the range.
    pub lower: (OrderedKey, bool),
    /// The upper bound, likewise.
    pub upper: (OrderedKey, bool),
    /// The order.
    pub direction: Direction,
    /// How rows within the range are locked.
    pub mode: Mode,
}

impl Bounds {
    /// The bounds of a scan of `table`.
    ///
    /// # Errors
    /// [`TxError::KeyLength`].
    pub fn new(table: TableId, spec: &TableSpec, scan: &Scan<'_>) -> Result<Self, TxError> {
        let (width, most) = (key_width(spec.key_bytes), usize::from(spec.key_bytes));
        let key = |bytes: &[u8]| match bytes.len() {
            length if length > most => Err(TxError::KeyLength { table, bytes: length, most }),
            _ => Ok(OrderedKey::new(bytes, width)),
        };
        Ok(Self {
            lower: match scan.range.0 {
                Bound::Included(bytes) => (key(bytes)?, true),
                Bound::Excluded(bytes) => (key(bytes)?, false),
                Bound::Unbounded => (OrderedKey::new(&[], width), true),
            },
            upper: match scan.range.1 {
                Bound::Included(bytes) => (key(bytes)?, true),
                Bound::Excluded(bytes) => (key(bytes)?, false),
                Bound::Unbounded => (OrderedKey::END, false),
            },
            direction: scan.direction,
            mode: if scan.for_update { Mode::Exclusive } else { Mode::Shared },
        })
    }

    /// Whether a key is within the range.
    pub fn has(&self, key: &OrderedKey) -> bool {
        let ((lower, with_lower), (upper, with_upper)) = (self.lower, self.upper);
        let above = *key > lower || with_lower && *key == lower;
        above && (*key < upper || with_upper && *key == upper)
    }

    /// Whether no key can be within the range.
    pub fn is_empty(&self) -> bool {
        self.lower.0 > self.upper.0
    }
}

impl TableSpec {
    /// The partitions, out of so many, that a scan's range touches.
    pub fn partitions_of(&self, scan: &Scan<'_>, partitions: u32) -> Range<u32> {
        let of_bound = |bound: &Bound<&[u8]>, fill: u8, open: u32| match bound {
            Bound::Included(bytes) | Bound::Excluded(bytes) => {
                let mut first = [fill; 4];
                let length = bytes.len().min(4);
                first[..length].copy_from_slice(&bytes[..length]);
                self.partition_of(&first, partitions)
            }
            Bound::Unbounded => open,
        };
        let first = of_bound(&scan.range.0, 0, 0);
        first..of_bound(&scan.range.1, u8::MAX, partitions - 1) + 1
    }
}
