//! Eviction: the host that needs room removes the values that are wanted least.
//!
//! There is no coordinator, and a read stores nothing into the pod. Each host keeps for itself what
//! it has used ([`uses`]), and tells the others in the background ([`ring`]). A host that needs
//! room samples its index, and removes the best candidates ([`victims`]), each only if it is still
//! the version that the host has looked at.
//!
//! A host also removes some values in its ticks, before the pod is full. So writers seldom do.

mod ring;
mod uses;
mod victims;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tombolo_memory::Memory;
use tombolo_sharing::{
    Eviction, EvictionPolicy, EvictionReason, KeyHasher, ObjectArea, Resident, Scheme, Version,
};

use self::ring::UseRings;
use self::uses::{TICKS_A_LAP, Uses};
use self::victims::{Candidate, Candidates, Looked, SAMPLE, STEPS, VOLATILE_SAMPLE, rank};
use crate::removal::Removal;
use crate::value::{PREFIX_BYTES, Prefix, decode_prefix};
use crate::{Error, Store, sites};

/// Attempts to find a value to evict that may fail in a row: in use, used again, or of no store.
const FRUITLESS: u32 = 256;

/// A part of the room that hosts keep free ahead of writers.
const AHEAD_PART: u64 = 128;
/// Where that is less than a chunk, a chunk, but no more than this part.
const AHEAD_MOST_PART: u64 = 16;
/// Values that a host removes in one tick, at most.
const AHEAD_AT_ONCE: u64 = 128;

/// After a write that found the pod full, hosts take it for full at that. In each tick this part of
/// the rest is forgotten.
const FORGET_PART: u64 = 1024;

/// How often a write makes room and tries again.
const TRIES: u32 = 32;
/// The room that it makes doubles after so many tries: room for one large value is scattered.
const TRIES_TO_DOUBLE: u32 = 4;

/// A host's state for eviction.
pub(crate) struct Evictor<M: Memory> {
    /// Whether there is a policy, or a limit: as of the last tick.
    active: AtomicBool,
    /// Whether uses are noted: as of the last tick.
    notes_uses: AtomicBool,
    limit: AtomicU64,
    uses: Uses,
    rings: Option<UseRings<M>>,
    hasher: KeyHasher,
    candidates: Candidates,
    /// Where the next sample begins.
    cursor: AtomicU64,
    /// Bytes that were put since the clock of uses was advanced by this host.
    put_bytes: AtomicU64,
    /// Bytes that values took when this host last found the pod full, or more.
    full_at: AtomicU64,
    evicted: [[AtomicU64; EvictionReason::ALL.len()]; EvictionPolicy::ALL.len()],
}

impl<M: Memory> Evictor<M> {
    pub(crate) fn new(area: &ObjectArea<M>, host: Option<u8>) -> Self {
        Self {
            active: AtomicBool::new(false),
            notes_uses: AtomicBool::new(false),
            limit: AtomicU64::new(0),
            uses: Uses::new(),
            rings: host.and_then(|host| UseRings::new(area, host)),
            hasher: KeyHasher::of(area.pod()),
            candidates: Candidates::default(),
            cursor: AtomicU64::new(area.memory().random()),
            put_bytes: AtomicU64::new(0),
            full_at: AtomicU64::new(u64::MAX),
            evicted: Default::default(),
        }
    }

    fn hash(&self, key: &[u8]) -> Option<u32> {
        self.hasher.hash(key).ok().map(|hash| hash as u32)
    }
}

/// How many values a host has evicted by one policy, for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The policy.
    pub policy: EvictionPolicy,
    /// The reason.
    pub reason: EvictionReason,
    /// How many.
    pub values: u64,
}

impl<S: Scheme> Store<S> {
    /// The policy by which values are evicted from the pod.
    pub fn eviction_policy(&self) -> EvictionPolicy {
        self.objects.area().eviction_policy()
    }

    /// Changes the policy, for all hosts; others act on it at their next tick.
    pub fn set_eviction_policy(&self, policy: EvictionPolicy) {
        self.objects.area().set_eviction_policy(policy);
        self.follow_eviction();
    }

    /// The most bytes of LNR that values may take up, unless that is all there are.
    pub fn byte_limit(&self) -> Option<u64> {
        self.objects.area().byte_limit()
    }

    /// Changes how many bytes values may take up at most, for all hosts. Without a policy, writes
    /// over it fail.
    pub fn set_byte_limit(&self, bytes: Option<u64>) {
        self.objects.area().set_byte_limit(bytes);
        self.follow_eviction();
    }

    /// How many values this host has evicted.
    pub fn evicted_values(&self) -> u64 {
        self.evicted().iter().map(|evicted| evicted.values).sum()
    }

    /// How many values this host has evicted, for each policy that evicts and each reason.
    pub fn evicted(&self) -> Vec<Evicted> {
        let policies = EvictionPolicy::ALL.into_iter().skip(1);
        let of = |policy: EvictionPolicy| {
            EvictionReason::ALL.map(|reason| {
                let count = &self.evictor.evicted[policy.code()][reason as usize];
                Evicted { policy, reason, values: count.load(Ordering::Relaxed) }
            })
        };
        policies.flat_map(of).collect()
    }

    /// Looks at what the pod says of eviction.
    pub(crate) fn follow_eviction(&self) {
        let (area, evictor) = (self.objects.area(), &self.evictor);
        let (policy, limit) = (area.eviction_policy(), area.byte_limit().unwrap_or(0));
        let notes_uses = policy.looks_at_uses();
        if notes_uses {
            // (A log that cannot be applied is told of elsewhere.)
            evictor.uses.fit(self.objects.object_count().unwrap_or(0));
            evictor.uses.set_now(area.use_ticks());
        }
        evictor.limit.store(limit, Ordering::Relaxed);
        evictor.notes_uses.store(notes_uses, Ordering::Relaxed);
        let active = policy != EvictionPolicy::NoEviction || limit > 0;
        evictor.active.store(active, Ordering::Relaxed);
    }

    /// Does a little of what can be done ahead of writers.
    pub(crate) fn evict_ahead(&self) -> Result<(), Error> {
        self.follow_eviction();
        if !self.evictor.active.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.exchange_uses();
        self.forget_that_it_was_full();
        let (used, capacity) = (self.objects.used_bytes(), self.capacity());
        let chunk = self.objects.area().geometry().chunk_bytes;
        let free = (capacity / AHEAD_PART).max(chunk.min(capacity / AHEAD_MOST_PART));
        let most = capacity.saturating_sub(free);
        if used <= most {
            return Ok(());
        }
        // The other hosts do their part of it.
        let hosts = self.objects.pod().stays_in(tombolo_pod::SeatState::Seated).count().max(1);
        let share = (used - most).div_ceil(hosts as u64);
        let limit = self.evictor.limit.load(Ordering::Relaxed);
        let over = limit > 0 && used > limit;
        let reason = if over { EvictionReason::Limit } else { EvictionReason::Ahead };
        self.evict_bytes(share, AHEAD_AT_ONCE, reason).map(drop)
    }

    /// Bytes that values can take, as far as this host has found out.
    fn capacity(&self) -> u64 {
        let limit = self.evictor.limit.load(Ordering::Relaxed);
        let full_at = self.evictor.full_at.load(Ordering::Relaxed);
        let all = self.room_for_all().min(full_at);
        if limit > 0 { all.min(limit) } else { all }
    }

    fn room_for_all(&self) -> u64 {
        let geometry = self.objects.area().geometry();
        geometry.chunks * geometry.chunk_bytes
    }

    fn forget_that_it_was_full(&self) {
        let (full_at, all) = (&self.evictor.full_at, self.room_for_all());
        let known = full_at.load(Ordering::Relaxed).min(all);
        full_at.store(known + (all - known).div_ceil(FORGET_PART), Ordering::Relaxed);
    }

    /// The value of `key` was used.
    #[inline(always)]
    pub(crate) fn note_use(&self, key: &[u8]) {
        if self.evictor.notes_uses.load(Ordering::Relaxed) {
            self.note_use_of(key);
        }
    }

    #[inline(never)]
    fn note_use_of(&self, key: &[u8]) {
        let Some(hash) = self.evictor.hash(key) else { return };
        if self.evictor.uses.note(hash)
            && let Some(rings) = &self.evictor.rings
        {
            rings.add(hash);
        }
    }

    /// A value of so many bytes was put.
    #[inline(always)]
    pub(crate) fn note_put(&self, key: &[u8], bytes: usize) {
        if self.evictor.notes_uses.load(Ordering::Relaxed) {
            self.note_put_of(key, (key.len() + bytes) as u64);
        }
    }

    #[inline(never)]
    fn note_put_of(&self, key: &[u8], bytes: u64) {
        let evictor = &self.evictor;
        let tick_bytes = (self.capacity() / TICKS_A_LAP).max(1);
        let put = evictor.put_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let ticks = put / tick_bytes;
        if ticks > 0 {
            evictor.put_bytes.fetch_sub(ticks * tick_bytes, Ordering::Relaxed);
            let now = self.objects.area().advance_use_ticks(sites::USES_TICK, ticks);
            evictor.uses.set_now(now);
        }
        let Some(hash) = evictor.hash(key) else { return };
        if evictor.uses.note(hash)
            && let Some(rings) = &evictor.rings
            && rings.add(hash)
        {
            rings.tell();
        }
    }

    /// Tells others what this host has used, and hears what they have.
    fn exchange_uses(&self) {
        let evictor = &self.evictor;
        if let Some(rings) = &evictor.rings
            && evictor.notes_uses.load(Ordering::Relaxed)
        {
            rings.tell();
            rings.hear(|hash| evictor.uses.heard(hash));
        }
    }

    /// Before a value of so many bytes is put: makes room for it below the limit.
    ///
    /// # Errors
    /// [`tombolo_sharing::Error::LnrFull`] if there is none to be made.
    #[inline(always)]
    pub(crate) fn keep_limit(&self, bytes: usize) -> Result<(), Error> {
        if self.evictor.limit.load(Ordering::Relaxed) == 0 { Ok(()) } else { self.limited(bytes) }
    }

    #[cold]
    fn limited(&self, bytes: usize) -> Result<(), Error> {
        let limit = self.evictor.limit.load(Ordering::Relaxed);
        let wanted = bytes as u64;
        let over = || (self.objects.used_bytes() + wanted).saturating_sub(limit);
        for _ in 0..TRIES {
            let over = over();
            if over == 0 {
                return Ok(());
            }
            if self.evict_bytes(over, u64::MAX, EvictionReason::Limit)? == 0 {
                break;
            }
        }
        Err(tombolo_sharing::Error::LnrFull { bytes: wanted }.into())
    }

    /// Repeats `attempt`, which has found no room, while evicting values makes some.
    ///
    /// # Errors
    /// That of the last attempt, if values are not to be evicted, or not enough of them can be.
    #[cold]
    pub(crate) fn evict_for<T>(
        &self,
        mut full: tombolo_sharing::Error,
        mut attempt: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.evictor.full_at.store(self.objects.used_bytes(), Ordering::Relaxed);
        for tries in 0..TRIES {
            let bytes = match full {
                tombolo_sharing::Error::LnrFull { bytes } => bytes,
                _ => 1,
            };
            let wanted = bytes.saturating_mul(1 << (tries / TRIES_TO_DOUBLE));
            if self.evict_bytes(wanted, u64::MAX, EvictionReason::Room)? == 0 {
                break;
            }
            match attempt() {
                Err(Error::Objects(error)) if crate::expiry::is_full(&error) => full = error,
                outcome => return outcome,
            }
        }
        Err(full.into())
    }

    /// Evicts values until they took so many bytes, or are so many; returns the bytes. None, if
    /// there is no policy, or no value to be found that it lets go.
    fn evict_bytes(&self, bytes: u64, most: u64, reason: EvictionReason) -> Result<u64, Error> {
        let policy = self.eviction_policy();
        if policy == EvictionPolicy::NoEviction {
            return Ok(0);
        }
        if policy.looks_at_uses() {
            self.exchange_uses();
        }
        let (mut freed, mut values, mut fruitless) = (0, 0, 0);
        let mut outcome = Ok(());
        while freed < bytes && values < most && fruitless < FRUITLESS {
            match self.evict_one(policy) {
                Ok(Some(more)) => (freed, values, fruitless) = (freed + more, values + 1, 0),
                Ok(None) => fruitless += 1,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        if values > 0 {
            let count = &self.evictor.evicted[policy.code()][reason as usize];
            count.fetch_add(values, Ordering::Relaxed);
            self.objects.area().count_evicted(sites::EVICT_COUNT, reason, values, freed);
        }
        outcome.map(|()| freed)
    }

    /// Evicts the value that goes first of some; the bytes that it took.
    fn evict_one(&self, policy: EvictionPolicy) -> Result<Option<u64>, Error> {
        let sample = self.candidates(policy)?;
        let Some(Candidate { rank: chosen, resident }) =
            self.evictor.candidates.take(policy, &sample)
        else {
            return Ok(None);
        };
        let mut key = Vec::new();
        let Some((version, deadline_ms)) = self.inspect(resident, &mut key)? else {
            return Ok(None);
        };
        let has_passed = self.has_passed(deadline_ms);
        let used_since = policy.looks_at_uses() && self.rank(policy, resident, 0) > chosen;
        let stays = policy.is_volatile() && deadline_ms.is_none();
        if !has_passed && (used_since || stays) {
            return Ok(None);
        }
        if self.objects.evict(resident, &key, version)? != Eviction::Done {
            return Ok(None);
        }
        let removal = if has_passed { Removal::Expired } else { Removal::Evicted };
        self.removal_hook.tell(removal, &key);
        Ok(Some(resident.bytes))
    }

    /// Some values, with their places in the order of a policy.
    fn candidates(&self, policy: EvictionPolicy) -> Result<Vec<Candidate>, Error> {
        let wanted = if policy.is_volatile() { VOLATILE_SAMPLE } else { SAMPLE };
        let (mut residents, mut key) = (Vec::with_capacity(2 * SAMPLE), Vec::new());
        let mut cursor = self.evictor.cursor.load(Ordering::Relaxed);
        for _ in 0..STEPS {
            cursor = self.objects.sample(cursor, |resident| residents.push(resident));
            if residents.len() >= wanted {
                break;
            }
        }
        self.evictor.cursor.store(cursor, Ordering::Relaxed);
        let mut candidates = Vec::with_capacity(residents.len());
        for resident in residents {
            let mut deadline_ms = 0;
            if policy.is_volatile() {
                let Some((_, Some(found))) = self.inspect(resident, &mut key)? else { continue };
                deadline_ms = found;
            }
            candidates.push(Candidate { rank: self.rank(policy, resident, deadline_ms), resident });
        }
        Ok(candidates)
    }

    fn rank(&self, policy: EvictionPolicy, resident: Resident, deadline_ms: u64) -> u64 {
        let random = self.objects.memory().random();
        let looked = Looked { uses: &self.evictor.uses, random, deadline_ms };
        rank(policy, resident.hash, looked)
    }

    /// The version and the deadline of an object that was sampled, if it is a value, and not in
    /// use.
    fn inspect(
        &self,
        resident: Resident,
        key: &mut Vec<u8>,
    ) -> Result<Option<(Version, Option<u64>)>, Error> {
        let mut prefix = [0; PREFIX_BYTES];
        let Some(version) = self.objects.inspect(resident, key, &mut prefix)? else {
            return Ok(None);
        };
        Ok(match decode_prefix(&prefix) {
            Ok(Prefix::Near(deadline_ms)) => Some((version, deadline_ms)),
            // In some thousand years.
            Ok(Prefix::Far(_)) => Some((version, Some(u64::MAX))),
            Err(_) => None,
        })
    }
}
