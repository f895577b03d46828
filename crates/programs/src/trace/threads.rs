//! Threads of a trace by the numbers that the tracer gave them.

use std::collections::HashMap;

/// The most threads that a trace can have.
pub(super) const MAX_THREADS: usize = 4096;

/// Threads in the order in which they were met.
#[derive(Default)]
pub(super) struct Threads(HashMap<u64, u32>);

impl Threads {
    /// The number of a thread from 0 on, by its tracer's number.
    pub(super) fn number(&mut self, id: u64) -> Result<u32, String> {
        let next = self.0.len();
        if let Some(&number) = self.0.get(&id) {
            return Ok(number);
        }
        if next == MAX_THREADS {
            return Err(format!("thread {id} is one more than the {MAX_THREADS} there may be"));
        }
        self.0.insert(id, next as u32);
        Ok(next as u32)
    }

    /// How many were met.
    pub(super) fn count(&self) -> u32 {
        self.0.len() as u32
    }
}
