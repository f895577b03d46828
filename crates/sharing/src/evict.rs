//! Eviction: the choices that a pod keeps for all of its hosts, and objects that may go.
//!
//! The choices are words beside the one that names the scheme. A host loads them when it needs
//! room, and at each of its ticks; so a change by one host holds for all.

use std::fmt;
use std::str::FromStr;

use tombolo_memory::{FetchOp, Memory, ScrAddr, Site};

use crate::ObjectArea;

/// Which values go when there is no room. The names are those of Redis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EvictionPolicy {
    /// None: a write that finds no room fails.
    #[default]
    NoEviction,
    /// The one that was used least recently.
    AllKeysLru,
    /// The one that is used least often.
    AllKeysLfu,
    /// Any.
    AllKeysRandom,
    /// Of those with a deadline, the one that was used least recently.
    VolatileLru,
    /// Of those with a deadline, the one that is used least often.
    VolatileLfu,
    /// The one with the earliest deadline.
    VolatileTtl,
    /// Any with a deadline.
    VolatileRandom,
}

impl EvictionPolicy {
    /// All of them, each at the place that is its code in a pod.
    pub const ALL: [Self; 8] = [
        Self::NoEviction,
        Self::AllKeysLru,
        Self::AllKeysLfu,
        Self::AllKeysRandom,
        Self::VolatileLru,
        Self::VolatileLfu,
        Self::VolatileTtl,
        Self::VolatileRandom,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoEviction => "noeviction",
            Self::AllKeysLru => "allkeys-lru",
            Self::AllKeysLfu => "allkeys-lfu",
            Self::AllKeysRandom => "allkeys-random",
            Self::VolatileLru => "volatile-lru",
            Self::VolatileLfu => "volatile-lfu",
            Self::VolatileTtl => "volatile-ttl",
            Self::VolatileRandom => "volatile-random",
        }
    }

    /// Whether only values with a deadline go.
    pub fn is_volatile(self) -> bool {
        use EvictionPolicy::{VolatileLfu, VolatileLru, VolatileRandom, VolatileTtl};
        matches!(self, VolatileLru | VolatileLfu | VolatileTtl | VolatileRandom)
    }

    /// Whether it looks at how values were used.
    pub fn looks_at_uses(self) -> bool {
        use EvictionPolicy::{AllKeysLfu, AllKeysLru, VolatileLfu, VolatileLru};
        matches!(self, AllKeysLru | AllKeysLfu | VolatileLru | VolatileLfu)
    }

    /// Its place among [all](Self::ALL).
    pub fn code(self) -> usize {
        self as usize
    }

    /// The inverse of [`code`](Self::code). A word that is no code evicts nothing.
    fn of_code(code: u64) -> Self {
        usize::try_from(code).ok().and_then(|at| Self::ALL.get(at).copied()).unwrap_or_default()
    }
}

impl fmt::Display for EvictionPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for EvictionPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|policy| policy.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("{text:?} is no policy of eviction: there are {}", names.join(", "))
        })
    }
}

/// Why a value had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionReason {
    /// A writer found no room.
    Room,
    /// The values took more than the limit.
    Limit,
    /// A host made room ahead of writers.
    Ahead,
}

impl EvictionReason {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Room, Self::Limit, Self::Ahead];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Room => "room",
            Self::Limit => "limit",
            Self::Ahead => "ahead",
        }
    }
}

/// Words of the line that begins with the scheme.
const POLICY: u64 = 1;
const LIMIT: u64 = 2;
const TICKS: u64 = 3;
/// The first of one for each reason.
const EVICTED: u64 = 4;
const EVICTED_BYTES: u64 = 7;

impl<M: Memory> ObjectArea<M> {
    /// The policy by which hosts evict values.
    pub fn eviction_policy(&self) -> EvictionPolicy {
        EvictionPolicy::of_code(self.memory().load(self.eviction_word(POLICY)))
    }

    /// Changes the policy, for all hosts.
    pub fn set_eviction_policy(&self, policy: EvictionPolicy) {
        self.memory().store(self.eviction_word(POLICY), policy.code() as u64);
    }

    /// The most bytes that objects may take up, unless that is all there are.
    pub fn byte_limit(&self) -> Option<u64> {
        Some(self.memory().load(self.eviction_word(LIMIT))).filter(|&bytes| bytes > 0)
    }

    /// Changes how many bytes objects may take up at most, for all hosts.
    pub fn set_byte_limit(&self, bytes: Option<u64>) {
        self.memory().store(self.eviction_word(LIMIT), bytes.unwrap_or(0));
    }

    /// The clock of uses: hosts advance it as they put values.
    pub fn use_ticks(&self) -> u64 {
        self.memory().load(self.eviction_word(TICKS))
    }

    /// Advances the clock of uses, as the step that `site` names; returns what it says then.
    pub fn advance_use_ticks(&self, site: Site, ticks: u64) -> u64 {
        let before = self.memory().fetch(site, self.eviction_word(TICKS), FetchOp::Add, ticks);
        before.wrapping_add(ticks)
    }

    /// Counts values that a host has evicted, and their bytes, as the step that `site` names.
    pub fn count_evicted(&self, site: Site, reason: EvictionReason, values: u64, bytes: u64) {
        let count = |word, count| {
            self.memory().fetch(site, self.eviction_word(word), FetchOp::Add, count);
        };
        count(EVICTED + reason as u64, values);
        count(EVICTED_BYTES, bytes);
    }

    /// How many values all hosts have evicted since the pod was created, for each
    /// [reason](EvictionReason::ALL).
    pub fn evicted(&self) -> [u64; 3] {
        EvictionReason::ALL
            .map(|reason| self.memory().load(self.eviction_word(EVICTED + reason as u64)))
    }

    /// Bytes of LNR that these values took up.
    pub fn evicted_bytes(&self) -> u64 {
        self.memory().load(self.eviction_word(EVICTED_BYTES))
    }

    fn eviction_word(&self, word: u64) -> ScrAddr<u64> {
        self.areas().scheme.element(word)
    }
}

/// An object that a host may evict, as its index told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The hash of its key.
    pub hash: u32,
    /// The last event about it.
    pub generation: u32,
    /// The first line of its slot.
    pub slot: u64,
    /// Bytes of LNR that its slot takes up.
    pub bytes: u64,
}

/// The outcome of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The object is gone.
    Done,
    /// It has changed since it was looked at, or was gone already.
    Changed,
    /// A host views it, or has locked it.
    InUse,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_reads_back() {
        for (code, policy) in EvictionPolicy::ALL.into_iter().enumerate() {
            assert_eq!((policy.code(), policy.name().parse()), (code, Ok(policy)));
            assert_eq!(EvictionPolicy::of_code(code as u64), policy);
        }
        assert_eq!(EvictionPolicy::of_code(8), EvictionPolicy::NoEviction);
        let refused = "lru".parse::<EvictionPolicy>().unwrap_err();
        assert!(refused.contains("allkeys-lru"), "{refused}");
    }
}
