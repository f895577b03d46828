//! Coherence records in SCR: a counter each, whose lowest bit is the lock, and whether it is in use
//! (MEGALON, sections 3.4.1 and 3.5.1).
//!
//! The counter is odd while somebody writes, and says who: while a record is locked, the six bits
//! next to the lock are its holder's number. So what a dead host held can be found, and taken over.
//! Taking the lock is one compare-and-swap, and so is releasing it, which fails if the lock was
//! taken over. A host that holds the lock of a record that no object has yet, or has no more, may
//! free it. A record may change hands and come to a counter it had before: what a host noted of an
//! earlier one does not count, since whose record it is follows from the log.
//!
//! How records lie in SCR, the [`Layout`] knows. Where their widths are mixed, records are wide
//! while there is room, which costs no events but holds few; narrow when they would have to be
//! taken from other objects. An object that is written so often that its narrow counter comes round
//! gets a wide record instead of the event that this would take.
//!
//! An object may have any record of its [`Sets`]. Which records are in use, and by which object,
//! every replica knows from the log. Where there are few, [`Owners`] keeps whose they are, as a
//! hint; of others the index tells. Only the compare-and-swap decides.

mod layout;
mod locked_by;
mod owners;
mod sets;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use smallvec::SmallVec;
use tombolo_memory::{Local, Memory};
use tombolo_sharing::ObjectArea;

pub(crate) use self::layout::RecordId;
use self::layout::{Layout, LockWords, WIDE_BYTES, WordStates};
pub(crate) use self::locked_by::LockedBy;
use self::owners::Owners;
use self::sets::Set;
pub(crate) use self::sets::{NOWHERE, Sets};
use crate::ids::KeyHash;
use crate::sites;

/// Used records out of which the one with the fewest writes is taken back.
const SAMPLE: usize = 8;

/// New records are narrow, if they can be, once this share of the bytes is in use, in percent.
const WIDE_PERCENT: u64 = 50;

/// The state of a record when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordWord {
    allocated: bool,
    /// The counter; of a locked record that somebody else holds, all but its lowest seven bits.
    counter: u32,
    /// The host that holds the lock.
    holder: Option<u8>,
}

impl RecordWord {
    const fn free(counter: u32) -> Self {
        Self { allocated: false, counter, holder: None }
    }

    const fn allocated(counter: u32) -> Self {
        Self { allocated: true, counter, holder: None }
    }

    /// The counter, if the record is in use and nobody writes.
    #[inline]
    pub(crate) fn readable(self) -> Option<u32> {
        (self.allocated && self.holder.is_none()).then_some(self.counter)
    }

    /// The host that has locked the record, if it is in use.
    #[inline]
    pub(crate) fn holder(self) -> Option<u8> {
        self.holder.filter(|_| self.allocated)
    }

    pub(crate) fn is_free(self) -> bool {
        !self.allocated && self.holder.is_none()
    }

    #[inline(always)]
    fn locked_by(self, host: u8) -> Self {
        Self { allocated: true, holder: Some(host), ..self }
    }
}

/// A record whose lock this thread holds; the counter was `counter` before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordLock {
    pub(crate) record: RecordId,
    pub(crate) counter: u32,
}

/// The lock of a record that is in use, for one write, at a counter at which it was seen.
pub(crate) struct PreparedLock<'a, M: Memory> {
    /// The lock, once it is taken.
    pub(crate) held: RecordLock,
    /// Where the counter is after the write.
    pub(crate) after: u32,
    lock_words: LockWords<'a, M>,
    abandoned: &'a AtomicBool,
}

impl<M: Memory> PreparedLock<'_, M> {
    /// Takes the lock, if the counter still is what it was.
    #[inline(always)]
    pub(crate) fn lock(&self) -> bool {
        self.lock_words.lock()
    }

    /// Releases the lock after the write; whether it was not taken over.
    #[inline(always)]
    pub(crate) fn release(&self) -> bool {
        !self.abandoned.load(Ordering::Relaxed) && self.lock_words.release()
    }
}

/// How many records of one width are in use. A replica may learn from one shard of the log that a
/// record is, and not yet from another that it was not, so it may be less than none for a while.
#[derive(Default)]
struct Used(AtomicI64);

impl Used {
    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed).max(0).cast_unsigned()
    }

    fn add(&self, records: i64) {
        self.0.fetch_add(records, Ordering::Relaxed);
    }
}

/// All numbers of a range, from one in it on and round.
fn round(range: Range<u32>, from: u64) -> impl Iterator<Item = u32> {
    let count = (range.end - range.start).max(1);
    let middle = range.start + (from % u64::from(count)) as u32;
    (middle..range.end).chain(range.start..middle.min(range.end))
}

pub(crate) struct Records<M> {
    layout: Layout<M>,
    sets: Sets,
    /// If there are few records.
    owners: Option<Owners>,
    /// Of the only width, or of the narrow ones.
    narrow: Used,
    wide: Used,
    host: u8,
    /// Where in a set this host looks first, next time: hosts start apart, so that they do not
    /// claim the same records, and one that was freed is used last.
    cursor: AtomicU64,
    abandoned: Abandoned,
}

/// Whether this host was fenced while it committed an event, and so does not know what it has: then
/// what it has locked or taken stays so, and others will find out. Shared by all that takes and
/// releases something.
#[derive(Clone, Default)]
pub(crate) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    #[inline(always)]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set<M: Memory>(&self, memory: &M) {
        if memory.keeps(sites::FENCED_ABANDONS) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<M: Memory> Records<M> {
    /// Those of a pod. Up to `known` of them this host knows by heart whose they are.
    pub(crate) fn new(area: &ObjectArea<M>, host: u8, known: u64, abandoned: Abandoned) -> Self {
        let layout = Layout::new(area);
        let numbers = layout.numbers();
        let sets = Sets::new(layout.first_wide());
        Self {
            owners: (numbers <= known).then(|| Owners::new(numbers)),
            narrow: Used::default(),
            wide: Used::default(),
            cursor: AtomicU64::new(u64::from(host) * sets.narrow_of_set() / area.geometry().hosts),
            sets,
            layout,
            host,
            abandoned,
        }
    }

    /// Which records an object may have.
    pub(crate) fn sets(&self) -> &Sets {
        &self.sets
    }

    /// How many records there could be at once.
    pub(crate) fn count(&self) -> u64 {
        self.layout.first_wide()
    }

    pub(crate) fn used(&self) -> u64 {
        self.narrow.count() + self.wide.count()
    }

    /// How many wide records are in use, where widths are mixed.
    pub(crate) fn used_wide(&self) -> u64 {
        self.wide.count()
    }

    /// Bytes of SCR that records in use take, and that there are for records.
    pub(crate) fn scr_bytes(&self) -> (u64, u64) {
        let narrow = self.narrow.count() * self.layout.least_bytes();
        (narrow + self.wide.count() * WIDE_BYTES, self.layout.bytes())
    }

    /// Whether more than so many percent of the space for records is in use.
    pub(crate) fn over(&self, percent: u64) -> bool {
        let (used, bytes) = self.scr_bytes();
        used > bytes * percent / 100
    }

    /// Whether `record` is one that the object with this hash may have. It can be any number.
    pub(crate) fn may_be_of(&self, hash: KeyHash, record: RecordId) -> bool {
        u64::from(record) < self.layout.numbers() && self.sets.may_have(hash, record)
    }

    /// Bytes of local memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.owners.as_ref().map_or(0, Owners::bytes)
    }

    /// Has a record fetched that will be loaded soon.
    #[inline]
    pub(crate) fn prefetch(&self, record: RecordId) {
        self.layout.prefetch(record);
    }

    #[inline(always)]
    pub(crate) fn load(&self, record: RecordId) -> RecordWord {
        self.layout.load(record)
    }

    /// Takes the lock of a record that is in use and was seen at `counter`, which is even.
    #[inline(always)]
    pub(crate) fn lock(&self, record: RecordId, counter: u32) -> Option<RecordLock> {
        let open = RecordWord::allocated(counter);
        let taken = self.layout.swap(sites::WRITE_LOCK, record, open, open.locked_by(self.host));
        taken.then_some(RecordLock { record, counter })
    }

    /// Prepares to take the lock of a record for a write, if it takes no more than that.
    #[inline(always)]
    pub(crate) fn prepare_lock(
        &self,
        record: RecordId,
        counter: u32,
    ) -> Option<PreparedLock<'_, M>> {
        let held = RecordLock { record, counter };
        if self.is_abandoned() || self.wraps(held) {
            return None;
        }
        let (open, after) = (RecordWord::allocated(counter), self.after_write(held));
        let locked = open.locked_by(self.host);
        let states = WordStates { open, locked, written: RecordWord::allocated(after) };
        let lock_words = self.layout.lock_words(record, states);
        Some(PreparedLock { held, after, lock_words, abandoned: &self.abandoned.0 })
    }

    /// Whether releasing this lock after a write makes the counter start again at zero.
    #[inline(always)]
    pub(crate) fn wraps(&self, held: RecordLock) -> bool {
        held.counter | 1 == self.layout.counter_mask(held.record)
    }

    /// Where the counter of this lock's record moves on to once something was written under it.
    #[inline(always)]
    pub(crate) fn after_write(&self, held: RecordLock) -> u32 {
        let next = held.counter.wrapping_add(2) & self.layout.counter_mask(held.record);
        if self.layout.memory().keeps(sites::WRITE_COUNTER) { next } else { held.counter }
    }

    /// Releases a lock. The counter moves on if something was written; returns where it is then, or
    /// `None` if the lock was taken over: then nothing that was written under it counts.
    pub(crate) fn unlock(&self, held: RecordLock, written: bool) -> Option<u32> {
        let counter = if written { self.after_write(held) } else { held.counter };
        self.unlock_at(held, counter).then_some(counter)
    }

    /// The same, with the counter where it is to be; whether the lock was not taken over.
    #[inline(always)]
    pub(crate) fn unlock_at(&self, held: RecordLock, counter: u32) -> bool {
        self.release(held, RecordWord::allocated(counter))
    }

    /// Whether this host does not know what it may still write or release.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.is_set()
    }

    /// This host does not know any more what it may release.
    pub(crate) fn abandon(&self) {
        self.abandoned.set(self.layout.memory());
    }

    #[inline(always)]
    fn release(&self, held: RecordLock, to: RecordWord) -> bool {
        !self.abandoned.is_set() && self.layout.release(held.record, self.word(held), to)
    }

    /// Takes over the lock of a record that was found like this, locked by a host that was fenced.
    /// The counter is another then: an event has to start a new generation before the lock is
    /// released.
    pub(crate) fn take_over(&self, record: RecordId, found: RecordWord) -> Option<RecordLock> {
        let counter = found.counter & self.layout.counter_mask(record) & !1;
        let ours = RecordWord::allocated(counter).locked_by(self.host);
        let taken = self.layout.swap(sites::WRITE_LOCK, record, found, ours);
        taken.then_some(RecordLock { record, counter })
    }

    /// Gives a lock back to the host from which it was taken over.
    pub(crate) fn hand_back(&self, held: RecordLock, host: u8) {
        self.release(held, RecordWord::allocated(held.counter).locked_by(host));
    }

    /// Whether the locks of a host that may still be at something can be taken over.
    pub(crate) fn may_take_over_early(&self) -> bool {
        self.layout.is_released_at_once()
    }

    /// The records that `host` has locked, by the numbers of what they are.
    pub(crate) fn locked_by(&self, host: u8) -> impl Iterator<Item = RecordId> {
        let numbers = (0..self.layout.numbers()).map(|number| RecordId(number as u32));
        numbers.filter(move |&record| {
            let wide = self.layout.wide_over(record);
            self.load(record).holder() == Some(host)
                && wide.is_none_or(|wide| self.load(wide).holder().is_none())
        })
    }

    #[inline(always)]
    fn word(&self, held: RecordLock) -> RecordWord {
        RecordWord::allocated(held.counter).locked_by(self.host)
    }

    /// Frees a record whose lock this thread holds and that no object has; unless its lock was
    /// taken over.
    pub(crate) fn free(&self, held: RecordLock) {
        self.release(held, RecordWord::free(held.counter));
    }

    /// A free record for the object with this hash, now in use by nobody and locked by this thread.
    pub(crate) fn claim(&self, hash: KeyHash) -> Option<RecordLock> {
        let roomy = !self.over(WIDE_PERCENT);
        roomy.then(|| self.claim_wide(hash)).flatten().or_else(|| self.claim_narrow(hash))
    }

    /// The same, where this host has just freed `record`, which is one that the object may have.
    pub(crate) fn claim_freed(&self, hash: KeyHash, record: RecordId) -> Option<RecordLock> {
        let mut freed = self.layout.narrow_in(record);
        freed.find_map(|record| self.try_claim(record)).or_else(|| self.claim_narrow(hash))
    }

    /// A free wide record for an object that has a narrow one.
    pub(crate) fn claim_wider(&self, hash: KeyHash, held: RecordLock) -> Option<RecordLock> {
        (!self.layout.is_wide(held.record)).then(|| self.claim_wide(hash)).flatten()
    }

    /// The sets of an object with this hash, in the order in which they are best tried.
    fn sets_of(&self, hash: KeyHash) -> impl Iterator<Item = Set> {
        self.sets.of(hash, self.scr_bytes().0 / self.layout.least_bytes())
    }

    fn claim_narrow(&self, hash: KeyHash) -> Option<RecordLock> {
        self.claim_of(hash, |set| self.sets.narrow(set))
    }

    fn claim_wide(&self, hash: KeyHash) -> Option<RecordLock> {
        self.layout.has_wide().then(|| self.claim_of(hash, |set| self.sets.wide(set))).flatten()
    }

    fn claim_of(&self, hash: KeyHash, numbers: impl Fn(Set) -> Range<u32>) -> Option<RecordLock> {
        let (used, bytes) = self.scr_bytes();
        if used >= bytes {
            return None;
        }
        let start = self.cursor.fetch_add(1, Ordering::Relaxed);
        self.sets_of(hash).find_map(|set| {
            round(numbers(set), start).find_map(|number| self.try_claim(RecordId(number)))
        })
    }

    fn try_claim(&self, record: RecordId) -> Option<RecordLock> {
        let found = Some(self.load(record)).filter(|found| found.is_free())?;
        let claimed = found.locked_by(self.host);
        let taken = self.layout.swap(sites::RECORD_CLAIM, record, found, claimed);
        taken.then_some(RecordLock { record, counter: found.counter })
    }

    /// The hash of the object that has `record`, if this replica knows of one; the outer `None` if
    /// it does not know by heart.
    pub(crate) fn owner(&self, record: RecordId) -> Option<Option<KeyHash>> {
        Some(self.owners.as_ref()?.of(record).map(|owner| owner.hash()))
    }

    /// Some used records that the object with this hash may have, and whose they are; those that
    /// have served the fewest writes since they were last sampled first. `None` if this host does
    /// not know by heart.
    pub(crate) fn victims(&self, hash: KeyHash) -> Option<Vec<(RecordId, KeyHash)>> {
        let owners = self.owners.as_ref()?;
        let sets: SmallVec<[Set; 16]> = self.sets_of(hash).collect();
        let start = self.layout.memory().random();
        let sets = round(0..sets.len() as u32, start).map(|number| sets[number as usize]);
        let records = sets.flat_map(|set| {
            let wide = self.layout.has_wide().then(|| self.sets.wide(set));
            let numbers = round(self.sets.narrow(set), start >> 32);
            numbers.chain(wide.into_iter().flatten()).map(RecordId)
        });
        let mut sample: Vec<(u32, RecordId, KeyHash)> = records
            .filter_map(|record| {
                self.owner_touched(record, true);
                let owner = owners.of(record)?;
                let counter = self.load(record).counter;
                let writes = owner.writes_until(counter, self.layout.counter_mask(record));
                owners.note(record, owner, counter);
                Some((writes, record, owner.hash()))
            })
            .take(SAMPLE)
            .collect();
        sample.sort_unstable();
        Some(sample.into_iter().map(|(_, record, hash)| (record, hash)).collect())
    }

    /// The log says that `record` belongs to an object with this hash.
    pub(crate) fn assigned(&self, record: RecordId, hash: KeyHash) {
        self.used_of(record).add(1);
        if let Some(owners) = &self.owners {
            self.owner_touched(record, true);
            owners.add(record, hash);
        }
    }

    /// The log says that `record` does not belong to the object with this hash any more.
    pub(crate) fn unassigned(&self, record: RecordId, hash: KeyHash) {
        self.used_of(record).add(-1);
        if let Some(owners) = &self.owners {
            self.owner_touched(record, true);
            owners.remove(record, hash);
        }
    }

    /// Tells what of this host's memory it takes to know who owns a record.
    fn owner_touched(&self, record: RecordId, write: bool) {
        self.layout.memory().touches(Local::Owners, write, || {
            let line = u64::from(record) / owners::PER_LINE;
            line..line + 1
        });
    }

    fn used_of(&self, record: RecordId) -> &Used {
        if self.layout.is_wide(record) { &self.wide } else { &self.narrow }
    }

    /// Records that are allocated, and not among those that objects have.
    pub(crate) fn unowned(&self, owned: &HashSet<RecordId>) -> u64 {
        let numbers = (0..self.layout.numbers()).map(|number| RecordId(number as u32));
        let unowned = numbers.filter(|record| {
            let wide = self.layout.wide_over(*record).map(|wide| self.load(wide).allocated);
            self.load(*record).allocated && wide != Some(true) && !owned.contains(record)
        });
        unowned.count() as u64
    }

    /// Frees all records: the pod is being opened, nobody uses any.
    pub(crate) fn free_all(&self) {
        self.layout.clear();
    }
}
