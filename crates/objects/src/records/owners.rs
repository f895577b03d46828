//! What this host knows of each record: a hint for finding free records and victims.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::Record;
use crate::event::KeyHash;

/// Per record: in use (1 bit) | hash of its object (32) | counter when last sampled (31). There may be
/// many more records than are ever used, so blocks of them come to be when first written.
pub(super) struct Owners {
    blocks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

/// An object's use of a record, as of when it was looked at.
#[derive(Clone, Copy)]
pub(super) struct Owner(u64);

const BLOCK: usize = 4096;

const IN_USE: u64 = 1 << 63;
const NOTED: u64 = (1 << 31) - 1;

impl Owner {
    fn new(hash: KeyHash) -> Self {
        Self(IN_USE | u64::from(hash) << 31)
    }

    pub(super) fn hash(self) -> KeyHash {
        (self.0 >> 31) as u32
    }

    /// The counter that was noted when the record was last sampled.
    pub(super) fn noted(self) -> u32 {
        (self.0 & NOTED) as u32
    }
}

impl Owners {
    pub(super) fn new(records: u64) -> Self {
        let blocks = (records as usize).div_ceil(BLOCK);
        Self { blocks: (0..blocks).map(|_| OnceLock::new()).collect() }
    }

    /// Who uses `record`, if anybody does.
    pub(super) fn of(&self, record: Record) -> Option<Owner> {
        let cell = &self.blocks[record as usize / BLOCK].get()?[record as usize % BLOCK];
        let owner = cell.load(Ordering::Relaxed);
        (owner & IN_USE != 0).then_some(Owner(owner))
    }

    /// Notes who uses `record`; who did before.
    pub(super) fn set(&self, record: Record, hash: KeyHash) -> Option<Owner> {
        let before = self.cell(record).swap(Owner::new(hash).0, Ordering::Relaxed);
        (before & IN_USE != 0).then_some(Owner(before))
    }

    /// Notes that the object with this hash does not use `record` any more; whether it did.
    pub(super) fn clear(&self, record: Record, hash: KeyHash) -> bool {
        let used = self.of(record).is_some_and(|owner| owner.hash() == hash);
        if used {
            self.cell(record).store(0, Ordering::Relaxed);
        }
        used
    }

    /// Notes a record's counter, unless its use has changed since it was looked at.
    pub(super) fn note(&self, record: Record, owner: Owner, counter: u32) {
        let noted = owner.0 & !NOTED | u64::from(counter);
        let cell = self.cell(record);
        let _ = cell.compare_exchange(owner.0, noted, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Bytes of local memory.
    pub(super) fn bytes(&self) -> u64 {
        let blocks = self.blocks.iter().filter(|block| block.get().is_some()).count();
        (size_of_val(&*self.blocks) + blocks * BLOCK * size_of::<AtomicU64>()) as u64
    }

    fn cell(&self, record: Record) -> &AtomicU64 {
        let new = || (0..BLOCK).map(|_| AtomicU64::new(0)).collect();
        &self.blocks[record as usize / BLOCK].get_or_init(new)[record as usize % BLOCK]
    }
}
