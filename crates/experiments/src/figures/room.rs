//! This machine's memory, of which pods take gigabytes.

use std::sync::{Condvar, Mutex};

use super::WHOLE;

/// Memory that those who run side by side share.
pub(super) struct Room {
    bytes: u64,
    free: Mutex<u64>,
    freed: Condvar,
}

impl Room {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, free: Mutex::new(bytes), freed: Condvar::new() }
    }

    /// Does `work`, which takes so many bytes, once there are as many. Work that needs more than
    /// there are at all has all of them.
    pub(super) fn with<R>(&self, bytes: u64, work: impl FnOnce() -> R) -> R {
        let bytes = bytes.min(self.bytes);
        let free = self.free.lock().expect(WHOLE);
        *self.freed.wait_while(free, |free| *free < bytes).expect(WHOLE) -= bytes;
        let _taken = Taken { room: self, bytes };
        work()
    }
}

/// Memory that is given back, also if `work` panics.
struct Taken<'a> {
    room: &'a Room,
    bytes: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.room.free.lock().expect(WHOLE) += self.bytes;
        self.room.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let (room, taken) = (Room::new(10), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for bytes in [3, 7, 4, 12, 6, 10] {
                let (room, taken) = (&room, &taken);
                scope.spawn(move || {
                    for _ in 0..100 {
                        room.with(bytes, || {
                            let bytes = bytes.min(10);
                            assert!(taken.fetch_add(bytes, Ordering::SeqCst) + bytes <= 10);
                            std::thread::yield_now();
                            taken.fetch_sub(bytes, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
        assert_eq!(*room.free.lock().unwrap(), 10);
    }
}
