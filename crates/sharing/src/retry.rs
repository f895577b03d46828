//! How long an operation goes on trying while others are in its way.

use std::time::Duration;

use tombolo_memory::Memory;

use crate::Error;

/// Longer than it takes to go on without a host that has an object in use and is not given its
/// turn.
const LONGEST_RETRY: Duration = Duration::from_secs(10);

/// How long the wait before another attempt gets: some microseconds. A thread that looks at a lock
/// again and again keeps its line from the host that has to release it.
const MOST_PAUSES: u32 = 128;

/// Repeats `attempt` until it comes to something, for ten seconds at most, and waits twice as
/// long each time.
///
/// # Errors
/// [`Error::Busy`] when they are over, and those of `attempt`.
pub fn retry_with_backoff<M: Memory, T>(
    memory: &M,
    attempt: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    repeat(memory, MOST_PAUSES, attempt)
}

/// The same without waiting longer and longer: for a caller that waits for an answer, or answers
/// others in between.
///
/// # Errors
/// Those of [`retry_with_backoff`].
pub fn retry_spinning<M: Memory, T>(
    memory: &M,
    attempt: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    repeat(memory, 1, attempt)
}

fn repeat<M: Memory, T>(
    memory: &M,
    most_pauses: u32,
    mut attempt: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    let mut started = None;
    let mut pauses = 1;
    loop {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        let now = memory.uptime();
        let waited = now.saturating_sub(*started.get_or_insert(now));
        if waited > LONGEST_RETRY {
            return Err(Error::Busy { host: None, waited_ms: waited.as_millis() as u64 });
        }
        memory.back_off(pauses);
        pauses = most_pauses.min(2 * pauses);
    }
}
