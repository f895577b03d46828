//! Where objects lie in LNR: chunks, and the slots they are carved into.
//!
//! The chunk table in SCR says who may reserve a chunk's slots for new objects. Which slots hold
//! objects, every replica knows from the log; so freed slots need no messages and no shared bitmap,
//! and a chunk can change hands: the next holder applies the log and knows what is free.
//!
//! There is a `Space` per shard of the log. A chunk that is carved is one shard's: its word says
//! which, and only that shard's log tells what is in use there. To change shard it has to be free.
//! The host that frees it has applied the deletes of all that was there, and so they lie below the
//! tail of their shard before anybody writes there for another. So a reader of the old shard,
//! however late it is, finds the delete when it looks at the tail again; and what replicas of the
//! two shards know of the chunk need not agree, since each looks at its own view only.
//!
//! Invariant: a slot is reserved at most once. Only the holder of its chunk reserves it, not before
//! it has applied the log since it took the chunk, and the chunk is released only when each
//! reservation is resolved: the object is in the log, or given up. Nor does it reserve a slot whose
//! last object may still have its header there, as intents tell
//! ([`intents`](crate::storage::intents)).
//!
//! A chunk in whose memory somebody has met an error is *poisoned*, as its word says from then on:
//! nobody takes it any more, and who holds it gives it up, at once if he has met the error himself,
//! and in his next ticks if not. So neither the slot is another object's from then on, nor its
//! neighbours, since a host that meets an error loses a page. All else in the chunk stays.
//!
//! Invariant: a slot begins with a header if and only if it holds an object, or an intent names it.
//! So the slots of a chunk that is carved anew are scrubbed first: what was in the middle of an
//! object could look like a header.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tombolo_memory::{HostMutex, LINE_BYTES, Lines, Memory, Site};
use tombolo_sharing::{CHAIN, Classes, HEADER_BYTES, MARK_BYTES, ObjectArea};

use crate::ids::{Slot, SlotLine};
use crate::storage::intents::{IntentSlot, IntentTable};
use crate::storage::records::Abandoned;
use crate::storage::space::chunk::ChunkSlots;
use crate::storage::space::chunk_table::{ChunkState, ChunkTable, ChunkWord};
use crate::storage::space::give_back::Rounds;
use crate::storage::space::pins::{PinTable, PinWord};
use crate::{Error, sites};

mod acquire;
pub(crate) mod away;
pub(crate) mod census;
mod chain;
mod chunk;
pub(crate) mod chunk_table;
pub(crate) mod extent;
mod give_back;
mod grow;
pub(crate) mod map;
pub(crate) mod pins;
mod places;
mod poisoned;
mod sparse;

pub(crate) use sparse::Sparse;

/// This host's knowledge of the chunks.
struct KnownChunks {
    chunks: Vec<ChunkSlots>,
    /// The held chunk from which slots of each class are reserved.
    active: Vec<Option<u32>>,
    used_lines: u64,
}

pub(crate) struct Space<M: Memory> {
    memory: M,
    host: u8,
    shard: u8,
    table: ChunkTable<M>,
    first_line: u64,
    count: u64,
    classes: Classes,
    chunk_shift: u32,
    view: HostMutex<M, KnownChunks>,
    /// Per chunk: class (8 bits) | chunks of the chain that starts here (32) | lines of a slot, 0
    /// if that is a chain (24), for readers who do not wait for `view`. A reader of one that is
    /// changing finds out when it validates its read.
    extents: Box<[AtomicU64]>,
    /// How far the search for chunks that are not used any more is.
    rounds: HostMutex<M, Rounds>,
    /// Held while chunks are being acquired: threads of a host do it one at a time.
    acquiring: HostMutex<M, ()>,
    /// The chunk acquired last: the next is looked for from there on.
    last: AtomicU32,
    passed_over: AtomicU64,
    abandoned: Abandoned,
    intents: IntentTable<M>,
    pub(crate) pins: PinTable<M>,
}

impl<M: Memory> Space<M> {
    pub(crate) fn new(area: &ObjectArea<M>, host: u8, shard: u8, abandoned: Abandoned) -> Self {
        let geometry = area.geometry();
        let classes = Classes::new(geometry.chunk_bytes);
        let view = KnownChunks {
            chunks: (0..geometry.chunks).map(|_| ChunkSlots::default()).collect(),
            active: vec![None; classes.count()],
            used_lines: 0,
        };
        Self {
            memory: area.memory().clone(),
            host,
            shard,
            table: ChunkTable::new(area),
            first_line: area.areas().chunks.line(),
            count: geometry.chunks,
            // A power of two, as the geometry says.
            chunk_shift: classes.chunk_lines().trailing_zeros(),
            classes,
            view: HostMutex::<M, _>::new(view),
            extents: (0..geometry.chunks).map(|_| AtomicU64::new(0)).collect(),
            rounds: HostMutex::<M, _>::new(Rounds::default()),
            acquiring: HostMutex::<M, _>::new(()),
            last: AtomicU32::new(0),
            passed_over: AtomicU64::new(0),
            abandoned,
            intents: IntentTable::new(area),
            pins: PinTable::new(area),
        }
    }

    /// Bytes of LNR that the shard's objects take up.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.view.lock().used_lines * LINE_BYTES
    }

    /// Bytes of LNR there are for objects, of whatever shard.
    pub(crate) fn bytes(&self) -> u64 {
        self.count * self.classes.chunk_lines() * LINE_BYTES
    }

    /// The most bytes that one object may take.
    pub(crate) fn largest(&self) -> u64 {
        self.bytes().min(u64::from(u32::MAX))
    }

    /// Reserves a slot for `bytes` bytes. `sync` applies the shard's log.
    pub(crate) fn reserve(
        &self,
        bytes: u64,
        sync: impl Fn() -> Result<(), Error>,
    ) -> Result<Slot, Error> {
        let Some(class) = self.classes.class_for(bytes) else {
            return self.reserve_chain(bytes);
        };
        if let Some(slot) = self.reserve_slot(class) {
            return Ok(slot);
        }
        let _acquiring = self.acquiring.lock();
        loop {
            if let Some(slot) = self.reserve_slot(class) {
                return Ok(slot);
            }
            if !self.grow(class)? && !self.acquire(class, &sync)? {
                return Err(Error::LnrFull { bytes });
            }
        }
    }

    /// Resolves a reservation: the object is in the log, or nobody wants the slot any more.
    pub(crate) fn resolve(&self, slot: Slot, used: bool) {
        if self.abandoned.is_set() {
            return;
        }
        if slot.class == CHAIN {
            if !used {
                self.free_chain(slot);
            }
            return;
        }
        let (number, index) = self.locate(slot);
        let mut view = self.view.lock();
        view.chunks[number as usize].resolve(index);
        self.release_if_idle(&mut view, number);
    }

    /// The log says that `slot` holds an object.
    pub(crate) fn occupied(&self, slot: Slot) {
        let mut view = self.view.lock();
        let Some(lines) = self.slot_lines(slot) else { return };
        view.used_lines += lines;
        let (number, index) = self.locate(slot);
        let slot_lines = self.classes.slot_lines(slot.class).unwrap_or(0);
        let extent = slot_lines << 40 | u64::from(slot.chunks) << 8 | u64::from(slot.class);
        self.extents[number as usize].store(extent, Ordering::Relaxed);
        if slot.class == CHAIN {
            view.chunks[number as usize] = ChunkSlots::chain_head();
            return;
        }
        let slots = self.classes.slots(slot.class).unwrap_or(0);
        let chunk = &mut view.chunks[number as usize];
        if chunk.class != slot.class {
            chunk.carve(slot.class, slots);
        }
        chunk.occupy(index);
    }

    /// The log says that the slot at `line` holds no object any more.
    pub(crate) fn vacated(&self, line: SlotLine) {
        let Some(slot) = self.slot_at(line) else { return };
        let Some(lines) = self.slot_lines(slot) else { return };
        let (number, index) = self.locate(slot);
        let mut view = self.view.lock();
        view.used_lines = view.used_lines.saturating_sub(lines);
        if slot.class == CHAIN {
            view.chunks[number as usize] = ChunkSlots::default();
        } else {
            view.chunks[number as usize].vacate(index);
        }
    }

    /// Hands on the chunks this host holds and has not used since the last call.
    pub(crate) fn release_idle(&self) {
        self.release_active(|_, chunk| chunk.take_idle());
    }

    /// Frees the shard's chunks that hold nothing, those included that this host holds for objects
    /// to come; whether there were any.
    pub(crate) fn free_empty(&self, sync: impl Fn() -> Result<(), Error>) -> Result<bool, Error> {
        let mut freed = self.release_active(|_, chunk| chunk.is_resolved());
        sync()?;
        let mut from = 0;
        while let Some((distance, number)) = self.find(0, from, &ChunkSlots::is_empty) {
            let word = self.table.word(number)?;
            if word.state == ChunkState::Shared && word.shard == self.shard {
                freed |= self.free_if_empty(number, word, &sync)?;
            }
            from = distance + 1;
        }
        Ok(freed)
    }

    /// Whether any of them is free now.
    fn release_active(&self, idle: impl Fn(u32, &mut ChunkSlots) -> bool) -> bool {
        let (mut view, mut freed) = (self.view.lock(), false);
        for class in 0..view.active.len() {
            if let Some(number) = view.active[class]
                && idle(number, &mut view.chunks[number as usize])
            {
                view.active[class] = None;
                freed |= self.release_if_idle(&mut view, number);
            }
        }
        freed
    }

    /// A slot of the active chunk of `class`.
    fn reserve_slot(&self, class: u8) -> Option<Slot> {
        let mut view = self.view.lock();
        let number = view.active[usize::from(class)]?;
        let keep = self.memory.keeps(sites::SLOT_RESERVED);
        let start = self.first_line_of(number);
        let lines = self.classes.slot_lines(class)?;
        let chunk = &mut view.chunks[number as usize];
        let mut reserved = chunk.reserve_slot(keep);
        // (What one sees of the pins here is not older than the log that told of the slots.)
        let free = || self.memory.check(sites::PIN_SLOT, !self.pins.is_pinned(number));
        if reserved.is_none() && chunk.has_pending_scrub() && free() {
            let left: Vec<SlotLine> = self.intents.left().collect();
            let has_header = |index| left.contains(&(start + index * lines));
            chunk
                .scrubbed_all_but(|index| !self.memory.check(sites::SLOT_LEFT, !has_header(index)));
            reserved = chunk.reserve_slot(keep);
        }
        if reserved.is_none() && chunk.may_grow() {
            return None;
        }
        let Some(index) = reserved else {
            view.active[usize::from(class)] = None;
            self.release_if_idle(&mut view, number);
            return None;
        };
        Some(Slot { line: start + index * lines, class, chunks: 0 })
    }

    /// Releases a held chunk, unless slots are reserved from it or will be; whether it is free now.
    fn release_if_idle(&self, view: &mut KnownChunks, number: u32) -> bool {
        let chunk = &mut view.chunks[number as usize];
        let resolved = self.memory.check(sites::CHUNK_SETTLED, chunk.is_resolved());
        if !chunk.held
            || !resolved
            || self.abandoned.is_set()
            || view.active[usize::from(chunk.class)] == Some(number)
        {
            return false;
        }
        // The host that takes it next looks at the intents first.
        chunk.release();
        let held = ChunkWord::held(self.host, chunk.class, self.shard);
        let shared = held.with_prepared(chunk.prepared()).shared();
        self.table.set(number, if chunk.is_empty() { self.freed(shared) } else { shared });
        chunk.is_empty()
    }

    fn freed(&self, word: ChunkWord) -> ChunkWord {
        if self.memory.keeps(sites::CHUNK_CLASS) { word.freed() } else { ChunkWord::EMPTIED }
    }

    /// Whether something is viewed in the chunk of a slot, which is left alone then. By who makes
    /// sure that nobody comes to view the slot from now on.
    pub(crate) fn is_pinned(&self, line: SlotLine) -> bool {
        self.pins_of(line).is_some_and(|pins| pins.is_set())
    }

    /// Where the pins of a slot's chunk are.
    #[inline(always)]
    pub(crate) fn pins_of(&self, line: SlotLine) -> Option<PinWord<'_, M>> {
        self.chunk_of(line).map(|(number, _)| self.pins.of(number as u32))
    }

    /// Takes headers out of slots that hold no objects.
    pub(crate) fn scrub<I>(&self, site: Site, slots: I)
    where
        I: IntoIterator<Item = SlotLine, IntoIter: Clone>,
    {
        let lines = slots.into_iter().map(|line| Lines::new(line, 1));
        lines.clone().for_each(|line| self.blank(line));
        self.memory.publish(site, lines.clone(), |memory| {
            lines.clone().for_each(|line| memory.gives(line, LINE_BYTES));
        });
        for line in lines.filter(|&line| self.memory.poisoned(line)) {
            self.set_untrue(line.first());
        }
    }

    /// Takes the header out of a slot's first line; nothing else, if that is viewed.
    fn blank(&self, line: Lines) {
        if self.memory.check(sites::PIN_SCRUB, !self.is_pinned(line.first())) {
            self.memory.takes_blank(line);
            return self.blank_bytes(line, &[0; LINE_BYTES as usize]);
        }
        self.memory.consume(sites::PIN_INVALIDATE, |_| ((), [line]));
        self.memory.takes(line);
        self.blank_bytes(line, &[0; HEADER_BYTES]);
    }

    /// A host that dies half way leaves no header, or the whole of it: one of another version would
    /// be another object's, which stays.
    fn blank_bytes(&self, line: Lines, zeros: &[u8]) {
        if self.memory.keeps(sites::SLOT_SCRUB_MARK) {
            let mark = HEADER_BYTES - MARK_BYTES..HEADER_BYTES;
            self.memory.write(line.start().plus(mark.start as u64), &zeros[mark]);
        }
        self.memory.write(line.start(), zeros);
    }

    /// Records what has become of a new object of this host, in this slot.
    pub(crate) fn decide(&self, intent_slot: IntentSlot, slot: Slot, created: bool) {
        self.intents.decide(self.host, intent_slot, slot.line, created);
    }

    /// The shard of the log that tells what is in the chunk of a slot.
    pub(crate) fn shard_at(&self, line: SlotLine) -> Result<u8, Error> {
        Ok(self.word(self.chunk_at(line)?)?.shard)
    }

    pub(crate) fn word(&self, number: u32) -> Result<ChunkWord, Error> {
        self.table.word(number)
    }

    /// Changes a chunk's word, whatever it was: the pod is being opened, nobody uses it.
    pub(crate) fn set(&self, number: u32, word: ChunkWord) {
        self.table.set(number, word);
    }

    /// Nothing is anywhere. In a pod that nobody else uses.
    pub(crate) fn free_everything(&self) {
        for number in self.chunk_numbers() {
            let unused = self.word(number).is_ok_and(|word| word == ChunkWord::FREE);
            self.set(number, if unused { ChunkWord::FREE } else { ChunkWord::EMPTIED });
        }
    }

    /// Whether this replica knows of an object in `slot`.
    pub(crate) fn holds_object(&self, slot: Slot) -> bool {
        let (number, index) = self.locate(slot);
        let view = self.view.lock();
        let chunk = &view.chunks[number as usize];
        chunk.class == slot.class && chunk.is_occupied(index)
    }

    /// Releases everything this host holds. Nothing may be reserved any more.
    pub(crate) fn release_all(&self) {
        let mut view = self.view.lock();
        view.active.fill(None);
        for number in self.chunk_numbers() {
            self.release_if_idle(&mut view, number);
        }
    }

    /// Gives back what a host had taken of the shard's chunks that is gone. The log says what is in
    /// them. How many chunks it gave back.
    pub(crate) fn take_back(&self, host: u8) -> Result<u64, Error> {
        let mut given_back = 0;
        for number in self.chunk_numbers() {
            let word = self.table.word(number)?;
            if word.is_taken() && word.host == host && word.shard == self.shard {
                let view = self.view.lock();
                let is_empty = view.chunks[number as usize].is_empty();
                let left = if is_empty { self.freed(word) } else { word.shared() };
                given_back += u64::from(self.table.claim(number, word, left));
            }
        }
        Ok(given_back)
    }
}
