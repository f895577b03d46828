//! Where objects lie in LNR: chunks, and the slots they are divided into.
//!
//! The chunk table in SCR says who may promise a chunk's slots to new objects. Which slots hold
//! objects, every replica knows from the log; so freed slots need no messages and no shared bitmap,
//! and a chunk can change hands: the next holder applies the log and knows what is free.
//!
//! There is a `Space` per shard of the log. A chunk that is divided is one shard's: its word says
//! which, and only that shard's log tells what is in use there. To change shard it has to be free.
//! Whoever frees it has applied the deletes of all that was there, and so they lie below the tail of
//! their shard before anybody writes there for another. So a reader of the old shard, however late it is,
//! finds the delete when it looks at the tail again; and what replicas of the two shards know of the
//! chunk need not agree, since each looks at its own view only.
//!
//! Invariant: a slot is promised at most once. Only the holder of its chunk promises it, not before
//! it has applied the log since it took the chunk, and the chunk is handed on only when each promise
//! is settled: the object is in the log, or given up. Nor does it promise a slot whose last object may still
//! have its header there, as notes tell ([`underway`](crate::underway)).
//!
//! A chunk in whose memory somebody has met an error is *poisoned*, as its word says from then on: nobody takes it any more, and who
//! holds it gives it up, at once if he has met the error himself, and in his next ticks if not. So neither the slot is another object's from
//! then on, nor its neighbours, since a host that meets an error loses a page. What else lies in the chunk stays.
//!
//! Invariant: a slot begins with a header if and only if it holds an object, or a note names it. So the slots of
//! a chunk that is divided anew are voided first: what was in the middle of an object could look like a header.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tombolo_memory::{HostMutex, LINE_BYTES, Lines, Memory, Site, prefetch};
use tombolo_pod::Pod;
use tombolo_sharing::{Classes, HEADER_BYTES, MARK_BYTES, SPAN};

use crate::chunk::Chunk;
use crate::chunk_table::{ChunkState, ChunkTable, ChunkWord};
use crate::event::{Slot, SlotLine};
use crate::extent::Extent;
use crate::pins::{PinTable, PinWord};
use crate::records::Abandoned;
use crate::underway::{Notes, Place};
use crate::{Error, sites};

mod poisoned;
mod span;
mod sparse;

pub(crate) use sparse::Sparse;

/// What this host knows about the chunks.
struct View {
    chunks: Vec<Chunk>,
    /// The held chunk from which slots of each class are promised.
    active: Vec<Option<u32>>,
    used_lines: u64,
}

/// Whether a chunk is one to take, by what this replica knows of it.
type Wanted<'a> = &'a dyn Fn(&Chunk) -> bool;

pub(crate) struct Space<M: Memory> {
    memory: M,
    host: u8,
    shard: u8,
    table: ChunkTable<M>,
    first_line: u64,
    count: u64,
    classes: Classes,
    chunk_shift: u32,
    view: HostMutex<M, View>,
    /// Per chunk: class (8 bits) | chunks of the span that starts here (32) | lines of a slot, 0 if that is a span (24), for readers who do not
    /// wait for `view`. Whoever reads one that is changing finds out when it validates its read.
    extents: Box<[AtomicU64]>,
    /// Held while chunks are being acquired: threads of a host do it one at a time.
    acquiring: HostMutex<M, ()>,
    /// The chunk acquired last: the next is looked for from there on.
    last: AtomicU32,
    passed_over: AtomicU64,
    abandoned: Abandoned,
    notes: Notes<M>,
    pub(crate) pins: PinTable<M>,
}

impl<M: Memory> Space<M> {
    pub(crate) fn new(pod: &Pod<M>, host: u8, shard: u8, abandoned: Abandoned) -> Self {
        let geometry = pod.geometry();
        let classes = Classes::new(geometry.chunk_bytes);
        let view = View {
            chunks: (0..geometry.chunks).map(|_| Chunk::default()).collect(),
            active: vec![None; classes.count()],
            used_lines: 0,
        };
        Self {
            memory: pod.memory().clone(),
            host,
            shard,
            table: ChunkTable::new(pod),
            first_line: pod.areas().chunks.line(),
            count: geometry.chunks,
            // A power of two, as the geometry says.
            chunk_shift: classes.chunk_lines().trailing_zeros(),
            classes,
            view: HostMutex::<M, _>::new(view),
            extents: (0..geometry.chunks).map(|_| AtomicU64::new(0)).collect(),
            acquiring: HostMutex::<M, _>::new(()),
            last: AtomicU32::new(0),
            passed_over: AtomicU64::new(0),
            abandoned,
            notes: Notes::new(pod),
            pins: PinTable::new(pod),
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

    /// How many lines `slot` has, if its place and size make sense in this pod.
    pub(crate) fn slot_lines(&self, slot: Slot) -> Option<u64> {
        let chunk_lines = self.classes.chunk_lines();
        let (_, within) = self.chunk_of(slot.line)?;
        if slot.class == SPAN {
            let chunks = u64::from(slot.chunks);
            let sound = within == 0 && (1..=self.count).contains(&chunks);
            return sound.then_some(chunks * chunk_lines);
        }
        let lines = self.classes.slot_lines(slot.class)?;
        let sound =
            within.is_multiple_of(lines) && within + lines <= chunk_lines && slot.chunks == 0;
        sound.then_some(lines)
    }

    /// The chunk in which `line` is, and its number there.
    #[inline]
    fn chunk_of(&self, line: SlotLine) -> Option<(u64, u64)> {
        let offset = line.checked_sub(self.first_line)?;
        let chunk = offset >> self.chunk_shift;
        (chunk < self.count).then(|| (chunk, offset - (chunk << self.chunk_shift)))
    }

    /// Where `slot` is, if that makes sense. If it was freed meanwhile it may be anywhere in LNR, or
    /// nowhere.
    #[inline]
    pub(crate) fn extent(&self, slot: Slot) -> Option<Extent> {
        if slot.class == SPAN {
            return self.span_extent(slot);
        }
        let (_, within) = self.chunk_of(slot.line)?;
        let lines = self.classes.slot_lines(slot.class)?;
        let sound = within + lines <= self.classes.chunk_lines();
        sound.then(|| Extent::of(Lines::new(slot.line, lines)))
    }

    /// The slot at `line` as this replica knows it.
    #[inline]
    pub(crate) fn slot_at(&self, line: SlotLine) -> Option<Slot> {
        let (chunk, _) = self.chunk_of(line)?;
        let extent = self.extents[chunk as usize].load(Ordering::Relaxed);
        Some(Slot { line, class: extent as u8, chunks: (extent >> 8) as u32 })
    }

    /// Where the slot at `line` is.
    #[inline]
    pub(crate) fn extent_at(&self, line: SlotLine) -> Option<Extent> {
        self.extent(self.slot_at(line)?)
    }

    /// Has the processor fetch what says where the slot at `line` is; the chunk where it begins.
    pub(crate) fn fetch_place(&self, line: SlotLine) -> Option<u32> {
        let (chunk, _) = self.chunk_of(line)?;
        prefetch(&self.extents[chunk as usize]);
        self.table.prefetch(chunk as u32);
        Some(chunk as u32)
    }

    /// The lines of the slot at `line`, as this replica knows it, unless it is a span's.
    #[inline(always)]
    pub(crate) fn lines_at(&self, line: SlotLine) -> Option<Lines> {
        let (chunk, within) = self.chunk_of(line)?;
        let lines = self.extents.get(chunk as usize)?.load(Ordering::Relaxed) >> 40;
        let sound = lines > 0 && within + lines <= self.classes.chunk_lines();
        sound.then(|| Lines::new(line, lines))
    }

    /// Promises a slot for `bytes` bytes. `sync` applies the shard's log.
    pub(crate) fn reserve(
        &self,
        bytes: u64,
        sync: impl Fn() -> Result<(), Error>,
    ) -> Result<Slot, Error> {
        let Some(class) = self.classes.class_for(bytes) else {
            return self.reserve_span(bytes);
        };
        if let Some(slot) = self.promise(class) {
            return Ok(slot);
        }
        let _acquiring = self.acquiring.lock();
        loop {
            if let Some(slot) = self.promise(class) {
                return Ok(slot);
            }
            if !self.acquire(class, &sync)? {
                return Err(Error::LnrFull { bytes });
            }
        }
    }

    /// Settles a promise: the object is in the log, or nobody wants the slot any more.
    pub(crate) fn settle(&self, slot: Slot, used: bool) {
        if self.abandoned.is_set() {
            return;
        }
        if slot.class == SPAN {
            if !used {
                self.free_span(slot);
            }
            return;
        }
        let (number, index) = self.locate(slot);
        let mut view = self.view.lock();
        view.chunks[number as usize].settle(index);
        self.hand_on_if_idle(&mut view, number);
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
        if slot.class == SPAN {
            view.chunks[number as usize] = Chunk::span();
            return;
        }
        let slots = self.classes.slots(slot.class).unwrap_or(0);
        let chunk = &mut view.chunks[number as usize];
        if chunk.class != slot.class {
            chunk.divide(slot.class, slots);
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
        if slot.class == SPAN {
            view.chunks[number as usize] = Chunk::default();
        } else {
            view.chunks[number as usize].vacate(index);
        }
    }

    /// Hands on the chunks this host holds and has not used since the last call.
    pub(crate) fn release_idle(&self) {
        self.release_active(|_, chunk| chunk.take_idle());
    }

    /// Frees the shard's chunks that hold nothing, those included that this host holds for objects to
    /// come; whether there were any.
    pub(crate) fn free_empty(&self, sync: impl Fn() -> Result<(), Error>) -> Result<bool, Error> {
        let mut freed = self.release_active(|_, chunk| chunk.is_settled());
        sync()?;
        let mut from = 0;
        while let Some((distance, number)) = self.find(0, from, &Chunk::is_empty) {
            let word = self.table.word(number)?;
            let ours = word.state == ChunkState::Shared && word.shard == self.shard;
            let moving = ChunkWord::moving(self.host, word.class, self.shard);
            if ours && self.claim(number, word, moving, &sync)? {
                freed |= self.free_or(number, word);
            }
            from = distance + 1;
        }
        Ok(freed)
    }

    /// Whether any of them is free now.
    fn release_active(&self, idle: impl Fn(u32, &mut Chunk) -> bool) -> bool {
        let (mut view, mut freed) = (self.view.lock(), false);
        for class in 0..view.active.len() {
            if let Some(number) = view.active[class]
                && idle(number, &mut view.chunks[number as usize])
            {
                view.active[class] = None;
                freed |= self.hand_on_if_idle(&mut view, number);
            }
        }
        freed
    }

    /// A slot of the active chunk of `class`.
    fn promise(&self, class: u8) -> Option<Slot> {
        let mut view = self.view.lock();
        let number = view.active[usize::from(class)]?;
        let keep = self.memory.keeps(sites::SLOT_RESERVED);
        let start = self.chunk_start(number);
        let lines = self.classes.slot_lines(class)?;
        let chunk = &mut view.chunks[number as usize];
        let mut promised = chunk.promise(keep);
        // (What one sees of the pins here is not older than the log that told of the slots.)
        let free = || self.memory.check(sites::PIN_SLOT, !self.pins.is_pinned(number));
        if promised.is_none() && chunk.is_doubted() && free() {
            let left: Vec<SlotLine> = self.notes.left().collect();
            let has_header = |index| left.contains(&(start + index * lines));
            chunk.trust_all_but(|index| !self.memory.check(sites::SLOT_LEFT, !has_header(index)));
            promised = chunk.promise(keep);
        }
        let Some(index) = promised else {
            view.active[usize::from(class)] = None;
            self.hand_on_if_idle(&mut view, number);
            return None;
        };
        Some(Slot { line: start + index * lines, class, chunks: 0 })
    }

    /// Hands a held chunk on, unless slots are promised from it or will be; whether it is free now.
    fn hand_on_if_idle(&self, view: &mut View, number: u32) -> bool {
        let chunk = &mut view.chunks[number as usize];
        let settled = self.memory.check(sites::CHUNK_SETTLED, chunk.is_settled());
        if !chunk.held
            || !settled
            || self.abandoned.is_set()
            || view.active[usize::from(chunk.class)] == Some(number)
        {
            return false;
        }
        // Who takes it next looks at the notes first.
        chunk.let_go();
        let shared = ChunkWord::shared(chunk.class, self.shard);
        self.table.set(number, if chunk.is_empty() { self.freed(shared) } else { shared });
        chunk.is_empty()
    }

    fn freed(&self, word: ChunkWord) -> ChunkWord {
        if self.memory.keeps(sites::CHUNK_CLASS) { word.freed() } else { ChunkWord::FREE }
    }

    /// Takes a chunk for slots of `class`: a partly used one, or else a free one. Whether there was one.
    fn acquire(&self, class: u8, sync: &impl Fn() -> Result<(), Error>) -> Result<bool, Error> {
        // What others deleted meanwhile counts, too.
        sync()?;
        Ok(self.acquire_partly_used(class, sync)?
            || self.acquire_one(class, &Chunk::is_empty, ChunkState::Free, sync)?)
    }

    fn acquire_partly_used(
        &self,
        class: u8,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let partly_used = |chunk: &Chunk| chunk.class == class && chunk.has_room();
        self.acquire_one(class, &partly_used, ChunkState::Shared, sync)
    }

    /// Takes a chunk in this state that is `wanted`; whether there was one.
    fn acquire_one(
        &self,
        class: u8,
        wanted: Wanted<'_>,
        state: ChunkState,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let start = u64::from(self.last.load(Ordering::Relaxed));
        let mut from = 0;
        while let Some((distance, number)) = self.find(start, from, wanted) {
            let word = self.table.word(number)?;
            let same = word.shard == self.shard || word.state == ChunkState::Free;
            let ours = self.memory.check(sites::CHUNK_SHARD, same);
            if word.state == state && ours && self.try_acquire(number, word, class, sync)? {
                self.last.store(number, Ordering::Relaxed);
                return Ok(true);
            }
            from = distance + 1;
        }
        Ok(false)
    }

    /// The next chunk, going round from `start` and beginning `from` chunks further, that is
    /// `wanted`: how far it is, and its number.
    fn find(&self, start: u64, from: u64, wanted: Wanted<'_>) -> Option<(u64, u32)> {
        let view = self.view.lock();
        (from..self.count)
            .map(|distance| (distance, ((start + distance) % self.count) as u32))
            .find(|&(_, number)| wanted(&view.chunks[number as usize]))
    }

    fn try_acquire(
        &self,
        number: u32,
        word: ChunkWord,
        class: u8,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if !self.claim(number, word, word.claimed(self.host), sync)? {
            return Ok(false);
        }
        let is_divided = {
            let chunk = &self.view.lock().chunks[number as usize];
            let divided = chunk.class == class;
            (if divided { chunk.has_room() } else { chunk.is_empty() }).then_some(divided)
        };
        let Some(is_divided) = is_divided else {
            self.table.set(number, word);
            return Ok(false);
        };
        if !is_divided {
            self.void(sites::CHUNK_VOID, self.slots_in(number, class).map(|slot| slot.line));
        }
        let mut view = self.view.lock();
        let chunk = &mut view.chunks[number as usize];
        if !is_divided {
            chunk.divide(class, self.classes.slots(class).unwrap_or(0));
        }
        chunk.held = true;
        drop(view);
        // What leaves from here on is doubted. What has left before, its note tells.
        if self.is_being_left(number) {
            self.view.lock().chunks[number as usize].let_go();
            self.table.set(number, word);
            return Ok(false);
        }
        let mut view = self.view.lock();
        self.table.set(number, ChunkWord::held(self.host, class, self.shard));
        view.active[usize::from(class)] = Some(number);
        Ok(true)
    }

    /// Takes a chunk whose word is `from`, and learns what is in it; whether nobody was faster, or is still
    /// taking a header out of it.
    fn claim(
        &self,
        number: u32,
        from: ChunkWord,
        to: ChunkWord,
        sync: &impl Fn() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        if !self.memory.check(sites::CHUNK_POISONED, !from.poisoned)
            || !self.table.claim(number, from, to)
        {
            return Ok(false);
        }
        // Everything the last holder did with this chunk is in the log before it was handed on.
        if self.memory.keeps(sites::CHUNK_SYNC) {
            sync()?;
        }
        if self.is_being_left(number) {
            self.passed_over.fetch_add(1, Ordering::Relaxed);
            self.table.set(number, from);
            return Ok(false);
        }
        Ok(true)
    }

    /// Whether there may be something in a chunk whose objects have left: a header, or what somebody views.
    fn is_being_left(&self, number: u32) -> bool {
        self.being_left().contains(&number) || self.is_viewed(number)
    }

    /// Whether something in a chunk is viewed, or may be soon. By who has taken the chunk, and knows as of then what is in it.
    fn is_viewed(&self, number: u32) -> bool {
        !self.memory.check(sites::PIN_CHUNK, !self.pins.is_pinned(number))
    }

    /// Whether something is viewed in the chunk of a slot, which is left alone then. By who makes sure that nobody comes to view the slot from now on.
    pub(crate) fn is_pinned(&self, line: SlotLine) -> bool {
        self.pins_of(line).is_some_and(|pins| pins.is_set())
    }

    /// Where the pins of a slot's chunk are.
    #[inline(always)]
    pub(crate) fn pins_of(&self, line: SlotLine) -> Option<PinWord<'_, M>> {
        self.chunk_of(line).map(|(number, _)| self.pins.of(number as u32))
    }

    /// The chunks in which something lies.
    pub(crate) fn chunks_of(&self, extent: &Extent) -> impl Iterator<Item = u32> {
        extent.lines().flat_map(|lines| self.by_chunk(lines)).map(|(number, _)| number)
    }

    /// Chunks in slots of which there may be headers whose objects have left.
    fn being_left(&self) -> Vec<u32> {
        let left = self.notes.left().filter(|_| self.memory.keeps(sites::SLOT_LEFT));
        left.filter_map(|line| Some(self.chunk_of(line)?.0 as u32)).collect()
    }

    /// How often this host has passed over a chunk because a header was being taken out of it.
    pub(crate) fn passed_over(&self) -> u64 {
        self.passed_over.load(Ordering::Relaxed)
    }

    /// Takes headers out of slots that hold no objects.
    pub(crate) fn void(&self, site: Site, slots: impl IntoIterator<Item = SlotLine>) {
        let lines: Vec<Lines> = slots.into_iter().map(|line| Lines::new(line, 1)).collect();
        lines.iter().for_each(|&line| self.blank(line));
        self.memory.publish(site, lines.iter().copied(), |memory| {
            lines.iter().for_each(|&line| memory.gives(line, LINE_BYTES));
        });
        for line in lines.into_iter().filter(|&line| self.memory.poisoned(line)) {
            self.set_untrue(line.first());
        }
    }

    /// Takes the header out of a slot's first line; nothing else, if that is viewed.
    fn blank(&self, line: Lines) {
        if self.memory.check(sites::PIN_VOID, !self.is_pinned(line.first())) {
            self.memory.takes_blank(line);
            return self.blank_bytes(line, &[0; LINE_BYTES as usize]);
        }
        self.memory.consume(sites::PIN_INVALIDATE, |_| ((), [line]));
        self.memory.takes(line);
        self.blank_bytes(line, &[0; HEADER_BYTES]);
    }

    /// Who dies half way leaves no header, or the whole of it: one of another version would be another object's, which stays.
    fn blank_bytes(&self, line: Lines, zeros: &[u8]) {
        if self.memory.keeps(sites::SLOT_VOID_MARK) {
            let mark = HEADER_BYTES - MARK_BYTES..HEADER_BYTES;
            self.memory.write(line.start().plus(mark.start as u64), &zeros[mark]);
        }
        self.memory.write(line.start(), zeros);
    }

    /// Notes what has become of a new object of this host, in this slot.
    pub(crate) fn decide(&self, place: Place, slot: Slot, created: bool) {
        self.notes.decide(self.host, place, slot.line, created);
    }

    /// The shard of the log that tells what is in the chunk of a slot.
    pub(crate) fn shard_at(&self, line: SlotLine) -> Result<u8, Error> {
        Ok(self.word(self.chunk_at(line)?)?.shard)
    }

    /// The chunk in which a slot is that somebody has noted.
    pub(crate) fn chunk_at(&self, line: SlotLine) -> Result<u32, Error> {
        let nowhere =
            || Error::Damaged(format!("a slot at line {line} is noted, which is nowhere"));
        let (number, _) = self.chunk_of(line).ok_or_else(nowhere)?;
        Ok(number as u32)
    }

    /// The first line of a chunk.
    fn chunk_start(&self, number: u32) -> SlotLine {
        self.first_line + u64::from(number) * self.classes.chunk_lines()
    }

    /// Chunk and index in it.
    fn locate(&self, slot: Slot) -> (u32, u64) {
        let offset = slot.line - self.first_line;
        let chunk = offset >> self.chunk_shift;
        let lines = self.classes.slot_lines(slot.class).unwrap_or(self.classes.chunk_lines());
        (chunk as u32, (offset - (chunk << self.chunk_shift)) / lines)
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
        self.chunk_numbers().for_each(|number| self.set(number, ChunkWord::FREE));
    }

    /// The first line of a chunk.
    pub(crate) fn first_line_of(&self, number: u32) -> SlotLine {
        self.chunk_start(number)
    }

    /// Every slot that a chunk's word says there is, used or not.
    pub(crate) fn slots_of(&self, number: u32) -> Result<Vec<Slot>, Error> {
        let word = self.table.word(number)?;
        let start = self.chunk_start(number);
        Ok(match word.state {
            ChunkState::Free | ChunkState::Body => Vec::new(),
            ChunkState::Span => {
                vec![Slot { line: start, class: SPAN, chunks: self.span_chunks(number)? }]
            }
            ChunkState::Shared | ChunkState::Held | ChunkState::Moving => {
                self.slots_in(number, word.class).collect()
            }
        })
    }

    /// The slots of a chunk that is divided into slots of `class`.
    fn slots_in(&self, number: u32, class: u8) -> impl Iterator<Item = Slot> {
        let start = self.chunk_start(number);
        let lines = self.classes.slot_lines(class).unwrap_or(1);
        let slots = self.classes.slots(class).unwrap_or(0);
        (0..slots).map(move |index| Slot { line: start + index * lines, class, chunks: 0 })
    }

    pub(crate) fn chunk_numbers(&self) -> std::ops::Range<u32> {
        0..self.count as u32
    }

    /// Whether this replica knows of an object in `slot`.
    pub(crate) fn holds_object(&self, slot: Slot) -> bool {
        let (number, index) = self.locate(slot);
        let view = self.view.lock();
        let chunk = &view.chunks[number as usize];
        chunk.class == slot.class && chunk.is_occupied(index)
    }

    /// Hands on everything this host holds. Nothing may be promised any more.
    pub(crate) fn release_all(&self) {
        let mut view = self.view.lock();
        view.active.fill(None);
        for number in self.chunk_numbers() {
            self.hand_on_if_idle(&mut view, number);
        }
    }

    /// Gives back what a host had taken of the shard's chunks that is gone. The log says what is in them.
    pub(crate) fn take_back(&self, host: u8) -> Result<(), Error> {
        for number in self.chunk_numbers() {
            let word = self.table.word(number)?;
            if word.is_taken() && word.host == host && word.shard == self.shard {
                let view = self.view.lock();
                let chunk = &view.chunks[number as usize];
                let shared = ChunkWord::shared(chunk.class, self.shard);
                let left = if chunk.is_empty() { self.freed(word) } else { shared };
                self.table.claim(number, word, left);
            }
        }
        Ok(())
    }
}
