//! Lines that this thread has stored past the caches: they need not be cleaned.
//!
//! A non-temporal store has its line evicted, and goes to memory itself; a fence of stores makes
//! sure that it has arrived. To clean such a line all the same takes as long as to clean a dirty
//! one. So lines that are stored that way are noted here, and left out of the next clean. No other
//! code has to know: a writer cleans the lines that it has written, in whatever way that came
//! about.
//!
//! Invariant: none of the lines that are noted is dirty by this thread's doing. So no thread cleans
//! what another writes: a guard that holds a lock to write stays with its thread (it is not
//! `Send`).

use std::cell::Cell;
use std::ops::Range;

/// Pieces that are noted; one for which there is no room is cleaned like any other.
const PIECES: usize = 16;

/// The bytes of some lines, by address.
pub(crate) type Bytes = Range<usize>;

struct Past {
    count: Cell<usize>,
    pieces: [Cell<(usize, usize)>; PIECES],
}

thread_local! {
    static PAST: Past = const {
        let pieces = [const { Cell::new((0, 0)) }; PIECES];
        Past { count: Cell::new(0), pieces }
    };
}

impl Past {
    /// A piece that has any of these bytes.
    #[inline(always)]
    fn among(&self, bytes: &Bytes) -> Option<Bytes> {
        let pieces = self.pieces.iter().take(self.count.get()).map(Cell::get);
        pieces
            .map(|(start, end)| start..end)
            .find(|piece| piece.start < bytes.end && bytes.start < piece.end)
    }

    /// Forgets pieces of which any byte is among these.
    #[cold]
    fn forget(&self, bytes: &Bytes) {
        let mut kept = 0;
        for piece in 0..self.count.get() {
            let (start, end) = self.pieces[piece].get();
            if end <= bytes.start || bytes.end <= start {
                self.pieces[kept].set((start, end));
                kept += 1;
            }
        }
        self.count.set(kept);
    }
}

/// Notes whole lines that were stored past the caches.
#[inline]
pub(crate) fn note(lines: Bytes) {
    PAST.with(|past| {
        let count = past.count.get();
        if let Some(last) = past.pieces[..count].last()
            && last.get().1 == lines.start
        {
            last.set((last.get().0, lines.end));
        } else if let Some(piece) = past.pieces.get(count) {
            piece.set((lines.start, lines.end));
            past.count.set(count + 1);
        }
    });
}

/// Bytes are about to be stored through the caches.
#[inline]
pub(crate) fn forget(bytes: Bytes) {
    PAST.with(|past| {
        if past.count.get() > 0 {
            past.forget(&bytes);
        }
    });
}

/// Shows some lines to `clean`, but for one piece of them that is noted, if there is one.
#[inline]
pub(crate) fn others(lines: Bytes, mut clean: impl FnMut(Bytes)) {
    let Some(piece) = PAST.with(|past| past.among(&lines)) else { return clean(lines) };
    for others in [lines.start..piece.start, piece.end..lines.end] {
        if !others.is_empty() {
            clean(others);
        }
    }
}

/// All that was noted is in memory: stores have been fenced.
#[inline]
pub(crate) fn forget_all() {
    PAST.with(|past| past.count.set(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn others_of(lines: Bytes) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        others(lines, |bytes| all.push((bytes.start, bytes.end)));
        all
    }

    #[test]
    fn what_was_stored_past_the_caches_is_left_out() {
        assert_eq!(others_of(0..640), [(0, 640)]);
        note(128..192);
        note(192..640);
        note(64..128);
        note(1024..2048);
        assert_eq!(others_of(0..704), [(0, 128), (640, 704)]);
        assert_eq!(others_of(64..128), []);
        assert_eq!(others_of(192..576), []);
        assert_eq!(others_of(640..1024), [(640, 1024)]);
        assert_eq!(others_of(1600..2112), [(2048, 2112)]);
        forget_all();
        assert_eq!(others_of(0..640), [(0, 640)]);
    }

    #[test]
    fn what_is_stored_through_the_caches_later_is_not() {
        note(0..64);
        note(128..256);
        note(320..640);
        forget(250..321);
        assert_eq!(others_of(64..704), [(64, 704)]);
        forget(64..128);
        assert_eq!(others_of(0..64), []);
    }

    #[test]
    fn what_there_is_no_room_for_is_cleaned() {
        (0..PIECES + 1).for_each(|piece| note(128 * piece..128 * piece + 64));
        let last = 128 * PIECES;
        assert_eq!(others_of(last - 128..last + 64), [(last - 64, last + 64)]);
    }
}
