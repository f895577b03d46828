//! Something with a bandwidth, that many use: a link, a device, a host's memory.
//!
//! Time is divided into windows. Bytes that do not fit into one go into the next, as with a queue
//! of a fixed rate. A request that comes while much of the bandwidth is in use waits longer anyhow,
//! as the profile's curve says. Requests need not come in the order of their times.

use std::ops::Range;

use tombolo_memory::LINE_BYTES;

use crate::Ps;
use crate::profile::Bandwidth;

const WINDOW: Ps = 200_000;
const WINDOWS: usize = 1 << 12;

/// Lines of a window for which it is noted what is waited: as many as 1,300 GB/s are.
const NOTED: u64 = 1 << 12;

#[derive(Clone, Copy, Default)]
struct Window {
    number: u64,
    bytes: u64,
}

/// A pipe.
pub struct Pipe {
    windows: Box<[Window; WINDOWS]>,
    /// Bytes that go through in a window.
    capacity: u64,
    /// Shares of the bandwidth in use, and what is waited then.
    curve: Vec<(f64, f64)>,
    /// The waits, by the lines of a window that are in use; the last one is for all of its bytes.
    waits: Vec<Ps>,
    /// Windows without room.
    full: Range<u64>,
    /// Bytes that went through, and the time that was waited.
    pub(crate) bytes: u64,
    pub(crate) waited: Ps,
}

impl Pipe {
    /// One of this bandwidth.
    pub fn new(bandwidth: &Bandwidth) -> Self {
        // GB/s are bytes per nanosecond.
        let capacity = bandwidth.gb_per_s * WINDOW as f64 / 1000.0;
        let windows = vec![Window::default(); WINDOWS].into_boxed_slice();
        let mut pipe = Self {
            windows: windows.try_into().unwrap_or_else(|_| unreachable!("they are as many")),
            capacity: (capacity as u64).max(1),
            curve: bandwidth.curve.iter().map(|&[share, ns]| (share, ns * 1000.0)).collect(),
            waits: Vec::new(),
            full: 0..0,
            bytes: 0,
            waited: 0,
        };
        let lines = 0..=pipe.capacity.div_ceil(LINE_BYTES).min(NOTED);
        pipe.waits = lines.map(|line| pipe.at(pipe.capacity.min(line * LINE_BYTES))).collect();
        pipe
    }

    /// How long `bytes` bytes wait that come at `now`.
    #[inline]
    pub fn pass(&mut self, now: Ps, bytes: u64) -> Ps {
        let first = now / WINDOW;
        let before = self.windows[first.wrapping_sub(1) as usize % WINDOWS];
        let used = if before.number + 1 == first { before.bytes } else { 0 };
        let mut waits = self.waits_at(used);
        let capacity = self.capacity;
        let window = self.window(first);
        if window.bytes + bytes <= capacity {
            window.bytes += bytes;
        } else {
            waits = waits.max(self.take_later(first, bytes).saturating_sub(now));
        }
        self.bytes += bytes;
        self.waited += waits;
        waits
    }

    /// The wait while so many bytes of a window are in use: looked up if they are lines, or
    /// all.
    #[inline]
    fn waits_at(&self, used: u64) -> Ps {
        match self.waits.get(used.div_ceil(LINE_BYTES) as usize) {
            Some(&waits) if used.is_multiple_of(LINE_BYTES) || used == self.capacity => waits,
            _ => self.at(used),
        }
    }

    /// Bytes do not go through in the first window, but in later ones; when the first of these
    /// begins.
    #[cold]
    fn take_later(&mut self, first: u64, bytes: u64) -> Ps {
        let number = self.with_room(first);
        self.fill(number, bytes);
        number * WINDOW
    }

    /// The first window from `first` on that has room.
    fn with_room(&mut self, first: u64) -> u64 {
        // Nobody waits for longer than the windows there are; so slow a pipe is used up anyhow.
        let last = first + WINDOWS as u64 / 2;
        let known = self.full.contains(&first);
        let mut number = if known { self.full.end.min(last) } else { first };
        while self.window(number).bytes >= self.capacity && number < last {
            number += 1;
        }
        self.full = if known { self.full.start..number.max(self.full.end) } else { first..number };
        number
    }

    /// Bytes go through in window `number`, and what is too much for it in the next ones.
    fn fill(&mut self, mut number: u64, mut bytes: u64) {
        while bytes > 0 {
            let room = self.capacity.saturating_sub(self.window(number).bytes).min(bytes);
            self.window(number).bytes += room;
            bytes -= room;
            number += 1;
        }
    }

    fn window(&mut self, number: u64) -> &mut Window {
        let window = &mut self.windows[number as usize % WINDOWS];
        // Whether it is a new one, this machine's processor foretells badly.
        window.bytes = std::hint::select_unpredictable(window.number < number, 0, window.bytes);
        window.number = window.number.max(number);
        window
    }

    /// The wait while so many bytes of a window are in use.
    #[inline(never)]
    fn at(&self, used: u64) -> Ps {
        let share = used as f64 / self.capacity as f64;
        let mut before = (0.0, 0.0);
        for &(at, ps) in &self.curve {
            if share <= at {
                let part = if at > before.0 { (share - before.0) / (at - before.0) } else { 1.0 };
                return (before.1 + part * (ps - before.1)) as Ps;
            }
            before = (at, ps);
        }
        before.1 as Ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bandwidth() -> Bandwidth {
        Bandwidth { gb_per_s: 1.0, curve: vec![[0.0, 0.0], [0.5, 10.0], [1.0, 100.0]] }
    }

    fn pipe() -> Pipe {
        Pipe::new(&bandwidth())
    }

    #[test]
    fn no_more_goes_through_than_the_bandwidth_allows() {
        let mut pipe = pipe();
        let last = (0..1000).map(|_| pipe.pass(0, 64)).max().unwrap_or(0);
        // 64,000 bytes at a byte per nanosecond, to the window.
        assert!((62_000_000..=64_200_000).contains(&last), "{last}");
    }

    #[test]
    fn who_comes_late_but_was_early_finds_room() {
        let mut pipe = pipe();
        for _ in 0..3 {
            pipe.pass(10 * WINDOW, 64);
        }
        assert_eq!(pipe.pass(WINDOW, 64), 0);
    }

    #[test]
    fn waits_follow_the_curve() {
        let mut pipe = pipe();
        let half = pipe.capacity / 2;
        pipe.pass(0, half);
        assert_eq!(pipe.pass(WINDOW, 64), 10_000);
        assert_eq!(pipe.at(pipe.capacity / 4 * 3), 55_000);
        assert_eq!(pipe.at(2 * pipe.capacity), 100_000);
    }

    #[test]
    fn what_is_noted_is_what_the_curve_says() {
        for gb_per_s in [0.001, 1.0, 14.0, 5_000.0] {
            let pipe = Pipe::new(&Bandwidth { gb_per_s, ..bandwidth() });
            for used in (0..=pipe.capacity).step_by(16).chain([pipe.capacity]) {
                assert_eq!(pipe.waits_at(used), pipe.at(used), "{used} bytes of {gb_per_s} GB/s");
            }
        }
    }
}
