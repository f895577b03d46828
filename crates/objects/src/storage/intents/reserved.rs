//! Intents that one thread has for itself, in which nothing is recorded yet.

use std::sync::atomic::{AtomicBool, Ordering};

use tombolo_memory::{Located, Memory};

use super::{Change, HostIntents, Intent, IntentSlot};
use crate::sites;

/// An intent that is reserved for now.
pub(crate) struct ReservedIntent<'a, M: Memory> {
    pub(super) intents: &'a HostIntents<M>,
    pub(super) intent_slot: IntentSlot,
}

impl<'a, M: Memory> ReservedIntent<'a, M> {
    /// It stays reserved until it [ends](HostIntents::end).
    #[inline(always)]
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// The intent to record for a write.
    #[inline(always)]
    pub(crate) fn of_write(&self, change: Change) -> WriteIntent<'a, M> {
        self.intents.write_intent(self.intent_slot, change)
    }
}

impl<M: Memory> HostIntents<M> {
    /// The intent of a write, and its place.
    #[inline(always)]
    pub(super) fn write_intent(
        &self,
        intent_slot: IntentSlot,
        change: Change,
    ) -> WriteIntent<'_, M> {
        let memory = &self.table.memory;
        let words = |intent: Intent| intent.encode().map(Option::unwrap_or_default);
        let [writes, slot, ..] = words(Intent::Writes(change));
        let [through, ..] = words(Intent::Through { by: change.by() });
        let first = self.at(intent_slot);
        WriteIntent {
            memory,
            head: memory.locate(first),
            line: memory.locate(first.element(1)),
            used: &self.used[usize::from(intent_slot.0)],
            writes,
            slot,
            through,
            intent_slot,
        }
    }
}

impl<M: Memory> Drop for ReservedIntent<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        self.intents.end(self.intent_slot, false);
    }
}

/// The intent of a write, recorded from its first store to its end. The words, and their places,
/// are worked out before its lock is taken.
pub(crate) struct WriteIntent<'a, M: Memory> {
    memory: &'a M,
    head: M::Located<'a, u64>,
    line: M::Located<'a, u64>,
    used: &'a AtomicBool,
    writes: u64,
    slot: u64,
    through: u64,
    intent_slot: IntentSlot,
}

impl<M: Memory> WriteIntent<'_, M> {
    /// Which intent it is.
    pub(crate) fn slot(&self) -> IntentSlot {
        self.intent_slot
    }

    /// Records that the object is about to be changed, before anything of it is.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        if self.memory.keeps(sites::WRITE_NOTED) {
            self.line.store(self.slot);
            self.head.store(self.writes);
        }
    }

    /// As [`HostIntents::through`].
    #[inline(always)]
    pub(crate) fn through(&self) {
        if self.memory.keeps(sites::WRITE_THROUGH) {
            self.head.store(self.through);
        }
    }

    /// As [`HostIntents::end`].
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.head.store(0);
        self.used.store(false, Ordering::Release);
    }
}
