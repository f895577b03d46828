//! Scripts in Lua, as Redis runs them: without files, time or chance, within bounds of time and
//! memory, and with nothing that stays from one script to the next.
//!
//! Each thread that runs scripts has an interpreter. A script gets at the store by `redis.call`
//! alone, which its caller serves.

mod convert;
mod engine;
mod json;
mod library;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

pub(crate) use self::engine::{Declared, Ended, Outcome, Run, check, declare, run};

/// Bytes of all scripts that are kept, at most.
const MOST_BYTES: usize = 64 << 20;

/// The name of a script: the hash of its text in hexadecimal.
pub(crate) fn name_of(text: &[u8]) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}

/// The scripts that clients of this host have loaded, and those that run.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    kept: Mutex<Kept>,
    running: AtomicU64,
    /// How often the scripts that run have been told to end.
    kills: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Kept {
    texts: HashMap<String, Bytes>,
    bytes: usize,
}

impl Scripts {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a script. If there are too many bytes of them, all others are forgotten: clients load
    /// again what is not there.
    pub(crate) fn keep(&self, name: &str, text: &Bytes) {
        let mut kept = self.kept();
        if kept.texts.contains_key(name) {
            return;
        }
        if kept.bytes + text.len() > MOST_BYTES {
            *kept = Kept::default();
        }
        kept.bytes += text.len();
        kept.texts.insert(name.to_owned(), text.clone());
    }

    pub(crate) fn text(&self, name: &str) -> Option<Bytes> {
        self.kept().texts.get(name).cloned()
    }

    pub(crate) fn forget_all(&self) {
        *self.kept() = Kept::default();
    }

    /// Ends the scripts that run; whether there were any.
    pub(crate) fn kill(&self) -> bool {
        self.kills.fetch_add(1, Ordering::Relaxed);
        self.running.load(Ordering::Relaxed) > 0
    }
}
