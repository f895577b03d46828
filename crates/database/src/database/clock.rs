//! Time and chance, as a database's threads have them.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use tombolo_memory::Memory;

/// How a thread waits, and draws lots. [`Memory`] has it, in virtual time too.
pub trait Clock {
    /// A clock that never goes back.
    fn uptime(&self) -> Duration;

    /// Waits for so long.
    fn sleep(&self, time: Duration);

    /// A random number.
    fn random(&self) -> u64;
}

impl<M: Memory> Clock for M {
    fn uptime(&self) -> Duration {
        Memory::uptime(self)
    }

    fn sleep(&self, time: Duration) {
        Memory::sleep(self, time);
    }

    fn random(&self) -> u64 {
        Memory::random(self)
    }
}

/// The operating system's, for engines without a pod.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }

    fn random(&self) -> u64 {
        RandomState::new().hash_one(self.0.elapsed().as_nanos())
    }
}
