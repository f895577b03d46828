//! How many files this process may have open at a time: each client of a server is one.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a host opens besides those that it has open when it begins to serve.
const SPARE: u64 = 32;

/// Raises the limit to what is allowed, and returns how many of so many clients there may be.
pub(crate) fn clients_within_limit(wanted: usize) -> usize {
    let open = fs::read_dir("/proc/self/fd").map_or(SPARE, |files| files.count() as u64);
    let limit = getrlimit(Resource::Nofile);
    let allowed = Rlimit { current: limit.maximum, ..limit };
    // The limit that there is counts where it cannot be raised.
    let current = match setrlimit(Resource::Nofile, allowed) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let Some(current) = current else { return wanted };
    wanted.min(current.saturating_sub(open + SPARE).max(1) as usize)
}
