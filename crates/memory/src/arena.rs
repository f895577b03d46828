//! Bytes of this process' own memory that its threads copy in and out at the same time.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::{LINE_BYTES, Lines, MemoryError, Region, Window, copy};

/// Lines of memory that belongs to this process, zeros at first; memory is taken where they are
/// used.
///
/// Threads may copy bytes in and out of the same place at the same time. Bytes copied out then are
/// torn: validate before use.
#[derive(Debug)]
pub struct Arena {
    window: Window,
}

impl Arena {
    /// An arena of so many lines, in huge pages where the system has them.
    ///
    /// # Errors
    /// [`MemoryError::Os`].
    pub fn new(lines: u64) -> Result<Self, MemoryError> {
        let bytes = lines.saturating_mul(LINE_BYTES);
        let map = || -> io::Result<Region> {
            let region = Region::private(bytes)?;
            // Without them it works as well.
            let _ = region.use_huge_pages();
            Ok(region)
        };
        let region = map().map_err(|reason| MemoryError::Os {
            doing: "take",
            path: format!("{bytes} bytes of this host's own memory"),
            reason,
        })?;
        Ok(Self { window: Window::new(Arc::new(region), 0, bytes) })
    }

    /// How many lines.
    pub fn lines(&self) -> u64 {
        self.window.bytes() / LINE_BYTES
    }

    /// Copies bytes out, from `offset` on; completed before any later access.
    ///
    /// # Panics
    /// If they are not all in the arena.
    #[inline]
    #[allow(unsafe_code)]
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        let from = self.window.at(offset, into.len() as u64).as_ptr();
        // SAFETY: the window was asked for as many bytes.
        unsafe { copy::read(from, into) };
    }

    /// Appends `bytes` bytes to `to`, from `offset` on; completed before any later access.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[inline]
    #[allow(unsafe_code)]
    pub fn append(&self, offset: u64, bytes: u64, to: &mut Vec<u8>) {
        let from = self.window.at(offset, bytes).as_ptr();
        // SAFETY: as above.
        unsafe { copy::append(from, bytes as usize, to) };
    }

    /// Whether these bytes lie there, from `offset` on; completed before any later access.
    ///
    /// # Panics
    /// As [`read`](Self::read).
    #[inline]
    pub fn holds(&self, offset: u64, bytes: &[u8]) -> bool {
        let (words, rest) = bytes.as_chunks();
        let same = words.iter().zip((offset..).step_by(8)).all(|(word, at)| {
            let mut found = [0; 8];
            self.read(at, &mut found);
            u64::from_ne_bytes(found) == u64::from_ne_bytes(*word)
        });
        let mut last = [0; 8];
        let last = &mut last[..rest.len()];
        self.read(offset + (bytes.len() - rest.len()) as u64, last);
        same && last == rest
    }

    /// Copies bytes in, from `offset` on, after all earlier accesses.
    ///
    /// # Panics
    /// If they are not all in the arena.
    #[inline]
    #[allow(unsafe_code)]
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let to = self.window.at(offset, bytes.len() as u64).as_ptr();
        // SAFETY: as above.
        unsafe { copy::write(to, bytes) };
    }

    /// Has the processor fetch lines, as far as they are in the arena.
    #[inline]
    pub fn prefetch(&self, lines: Range<u64>) {
        self.window.prefetch(Lines::new(lines.start, lines.end - lines.start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        let arena = Arena::new(3).unwrap();
        let mut bytes = [1; 100];
        arena.read(92, &mut bytes);
        assert_eq!(bytes, [0; 100]);
        arena.write(61, b"across lines");
        arena.prefetch(1..20);
        arena.read(60, &mut bytes[..14]);
        assert_eq!(&bytes[..14], b"\0across lines\0");
        let mut longer = b"some".to_vec();
        arena.append(60, 14, &mut longer);
        assert_eq!(longer, b"some\0across lines\0");
        assert!(arena.holds(61, b"across lines") && arena.holds(60, b"\0across "));
        assert!(!arena.holds(61, b"across lane") && !arena.holds(61, b"acrosslines!"));
    }

    #[test]
    #[should_panic(expected = "outside their region")]
    fn there_is_nothing_beyond_the_end() {
        Arena::new(3).unwrap().read(150, &mut [0; 43]);
    }

    #[test]
    fn too_much_memory_is_refused() {
        let refused = Arena::new(u64::MAX / LINE_BYTES).unwrap_err().to_string();
        assert!(refused.contains("bytes of this host's own memory"), "{refused}");
    }
}
