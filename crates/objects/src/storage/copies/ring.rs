//! Where copies lie: one after the other in an arena, round which a hand goes.
//!
//! ```text
//! copy   counter (4 bytes) | hash (4) | generation (4) | lines (4) | header (16) | key | value
//! hole   0 | 0 | 0 | lines
//! ```
//!
//! A thread that keeps a copy moves the hand on until it has passed enough room, and copies on the
//! way make it, except those that were read since the hand was there last.
//!
//! Invariants:
//! * The note of an object names a copy only from when it is whole until before its place is
//!   another's: a thread that makes room takes it out of the note, counts that, and then writes.
//! * A reader of a copy loads the count of its place, finds the copy named in its object's own
//!   cell, and uses what it has read if the count is still the same.
//! * A thread that keeps a copy has the hand, or gives up; readers take no lock.

use smallvec::SmallVec;
use tombolo_memory::{HostMutex, LINE_BYTES, Local, Memory, MemoryError};
use tombolo_sharing::{HEADER_BYTES, Header};

use crate::ids::{Generation, KeyHash};
use crate::sites;
use crate::storage::index::validated;
use crate::storage::index::validated::NEVER_VALIDATED;
use crate::storage::index::{Found, Index};
use crate::sync::{Arena, AtomicU64, Ordering};

const NOTE_BYTES: usize = 16;

/// Places whose evictions are counted together.
const STRIPES: usize = 256;

/// Copies that the hand passes at once before it gives up, besides those that it takes for room.
const PASSES: u64 = 64;

/// Lines that are fetched before it is known how long a copy is.
const FETCHED: u64 = 16;

/// The parts that a copy is made of.
pub(crate) struct CopyContents<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) generation: Generation,
    pub(crate) counter: u32,
    pub(crate) header: Header,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// Lines that a copy of an object with this header takes.
pub(crate) fn lines(header: &Header) -> u64 {
    (NOTE_BYTES as u64 + header.total_bytes()).div_ceil(LINE_BYTES)
}

/// The block under the hand.
#[derive(Clone, Copy)]
struct Block {
    hash: KeyHash,
    /// None has 0: that is a hole.
    generation: Generation,
    lines: u32,
}

/// The copies of one host.
pub(crate) struct Copies<M: Memory> {
    arena: Arena,
    /// The line at which the next copy is put, if there is room.
    hand: HostMutex<M, u64>,
    evictions: Box<[AtomicU64]>,
    /// Lines that are not in holes.
    lines: AtomicU64,
}

impl<M: Memory> Copies<M> {
    /// Room for copies, of `bytes` bytes in all; nothing, if that is not a line.
    pub(crate) fn new(bytes: u64) -> Result<Option<Self>, MemoryError> {
        let lines = (bytes / LINE_BYTES).min(validated::COPY_LINES);
        if lines == 0 {
            return Ok(None);
        }
        let copies = Self {
            arena: Arena::new(lines)?,
            hand: HostMutex::<M, _>::new(0),
            evictions: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            lines: AtomicU64::new(0),
        };
        copies.leave_hole(0, lines);
        Ok(Some(copies))
    }

    /// Bytes that are in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.lines.load(Ordering::Relaxed) * LINE_BYTES
    }

    /// Has the first lines of a copy fetched.
    #[inline]
    pub(crate) fn fetch(&self, line: u32) {
        self.arena.prefetch(u64::from(line)..u64::from(line) + FETCHED);
    }

    /// The copy that an object's note named when it was found, if it still does.
    #[inline]
    pub(crate) fn hold(&self, memory: &M, found: &Found<'_>) -> Option<Copy<'_, M>> {
        let line = validated::copy_line(found.cell.validated_at)?;
        let evictions = self.evictions_at(line);
        // Pairs with the release in `evict`: what was evicted before is named no more.
        let before = evictions.load(Ordering::Acquire);
        // Pairs with the release in `keep`: what is named is whole.
        let validated_at = found.cell.validated_at(&found.entry);
        let same = validated_at.is_some_and(|validated_at| {
            validated::unused(validated_at) == validated::unused(found.cell.validated_at)
        });
        let start = u64::from(line) * LINE_BYTES;
        memory.check(sites::COPY_NAMED, same).then_some(Copy { copies: self, start, before })
    }

    /// Keeps a copy of an object that has been found, and is noted as fresh; unless another thread
    /// is at it, or there is no room.
    pub(crate) fn keep<'a>(
        &self,
        memory: &M,
        found: &Found<'_>,
        contents: &CopyContents<'_>,
        index_of: impl Fn(KeyHash) -> &'a Index,
    ) {
        let CopyContents { generation, counter, .. } = *contents;
        let lines = lines(&contents.header);
        if lines > self.arena.lines() || found.cell.validated_at(&found.entry) != Some(counter) {
            return;
        }
        let Some(mut hand) = self.hand.try_lock() else { return };
        let evict = |line, block| self.evict(memory, line, block, index_of(block.hash));
        let Some(line) = self.make_room(memory, &mut hand, lines, evict) else { return };
        memory.touches(Local::Copies, true, || line..line + lines);
        self.write(line, contents);
        self.lines.fetch_add(lines, Ordering::Relaxed);
        memory.step();
        // If the note has changed, nobody finds the copy until the hand comes round.
        found.cell.mark_validated(
            generation,
            counter,
            validated::copied(line as u32),
            Ordering::Release,
        );
    }

    fn write(&self, line: u64, contents: &CopyContents<'_>) {
        let &CopyContents { hash, generation, counter, header, key, value } = contents;
        self.write_intent(line, counter, Block { hash, generation, lines: lines(&header) as u32 });
        let start = line * LINE_BYTES + NOTE_BYTES as u64;
        let mut prefix: SmallVec<[u8; 128]> = SmallVec::from_slice(&header.encode());
        prefix.extend_from_slice(key);
        self.arena.write(start, &prefix);
        self.arena.write(start + prefix.len() as u64, value);
    }

    fn write_intent(&self, line: u64, counter: u32, block: Block) {
        let words = [counter, block.hash, block.generation, block.lines];
        let mut note = [0; NOTE_BYTES];
        for (bytes, word) in note.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
        self.arena.write(line * LINE_BYTES, &note);
    }

    fn block(&self, line: u64) -> Block {
        let mut note = [0; NOTE_BYTES];
        self.arena.read(line * LINE_BYTES, &mut note);
        let word = |number: usize| u32::from_le_bytes(note.as_chunks().0[number]);
        Block { hash: word(1), generation: word(2), lines: word(3) }
    }

    fn leave_hole(&self, line: u64, lines: u64) {
        if lines > 0 {
            self.write_intent(line, 0, Block { hash: 0, generation: 0, lines: lines as u32 });
        }
    }

    /// Moves the hand past `lines` lines without a copy, and tells the first of them.
    fn make_room(
        &self,
        memory: &M,
        hand: &mut u64,
        lines: u64,
        evict: impl Fn(u64, Block) -> bool,
    ) -> Option<u64> {
        let (mut first, mut free) = (*hand, 0);
        let mut room = None;
        for _ in 0..PASSES + 2 * lines {
            let at = first + free;
            if at == self.arena.lines() {
                self.leave_hole(first, free);
                (first, free) = (0, 0);
                continue;
            }
            memory.touches(Local::Copies, false, || at..at + 1);
            let block = self.block(at);
            if block.generation == 0 || evict(at, block) {
                free += u64::from(block.lines);
            } else {
                self.leave_hole(first, free);
                (first, free) = (at + u64::from(block.lines), 0);
            }
            if free >= lines {
                room = Some(first);
                (first, free) = (first + lines, free - lines);
                break;
            }
        }
        self.leave_hole(first, free);
        *hand = first;
        room
    }

    /// Takes a copy out of its object's note, so that its place may be another's; unless it was
    /// read since the hand was there last.
    fn evict(&self, memory: &M, line: u64, block: Block, index: &Index) -> bool {
        let named = validated::copied(line as u32);
        let names = |found: &&Found<'_>| {
            found.entry.generation == block.generation
                && validated::unused(found.cell.validated_at) == named
        };
        while memory.keeps(sites::COPY_UNNAMED) {
            let all = index.find(memory, block.hash);
            let Some(found) = all.iter().find(names) else { break };
            let is_wanted = found.cell.validated_at != named;
            let new = if is_wanted { named } else { NEVER_VALIDATED };
            memory.step();
            if found.cell.mark_validated(
                block.generation,
                found.cell.validated_at,
                new,
                Ordering::Relaxed,
            ) {
                if is_wanted {
                    return false;
                }
                break;
            }
        }
        // Pairs with the acquire in `hold`: a thread that counts this one, too, finds the copy
        // named no more. And with `is_still`: a thread that reads what is written there from now on
        // finds that the count has changed.
        self.evictions_at(line as u32).fetch_add(1, Ordering::Release);
        self.lines.fetch_sub(u64::from(block.lines), Ordering::Relaxed);
        true
    }

    fn evictions_at(&self, line: u32) -> &AtomicU64 {
        &self.evictions[line as usize % STRIPES]
    }
}

/// A copy that is being read.
pub(crate) struct Copy<'a, M: Memory> {
    copies: &'a Copies<M>,
    start: u64,
    /// Evictions from its place before.
    before: u64,
}

impl<M: Memory> Copy<'_, M> {
    /// The counter at which it was made, and its header; none if it is no copy.
    #[inline]
    pub(crate) fn start(&self) -> (u32, Option<Header>) {
        let arena = &self.copies.arena;
        let most = arena.lines() * LINE_BYTES - self.start - NOTE_BYTES as u64;
        let mut bytes = [0; NOTE_BYTES + HEADER_BYTES];
        arena.read(self.start, &mut bytes);
        let counter = bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        (counter, Header::decode(&bytes[NOTE_BYTES..], most))
    }

    /// Whether it is of the object with this key.
    #[inline]
    pub(crate) fn has_key(&self, header: &Header, key: &[u8]) -> bool {
        let start = self.start + (NOTE_BYTES + HEADER_BYTES) as u64;
        usize::from(header.key_bytes) == key.len() && self.copies.arena.holds(start, key)
    }

    /// Replaces what is in `into` by some bytes of the value.
    #[inline]
    pub(crate) fn value(&self, header: &Header, offset: u64, bytes: u64, into: &mut Vec<u8>) {
        let start = self.start + NOTE_BYTES as u64 + header.value_offset();
        into.clear();
        self.copies.arena.append(start + offset, bytes, into);
    }

    /// The counter at which it was made, if it is still there.
    pub(crate) fn counter(&self, memory: &M) -> Option<u32> {
        let mut bytes = [0; 4];
        self.copies.arena.read(self.start, &mut bytes);
        self.is_still(memory).then_some(u32::from_le_bytes(bytes))
    }

    /// Whether all that was read is of this copy.
    #[inline]
    pub(crate) fn is_still(&self, memory: &M) -> bool {
        // After what was read, which ends with an acquire fence.
        let line = (self.start / LINE_BYTES) as u32;
        let now = self.copies.evictions_at(line).load(Ordering::Relaxed);
        memory.check(sites::COPY_STILL, now == self.before)
    }

    /// Lets the hand pass it once.
    #[inline]
    pub(crate) fn use_again_soon(&self, found: &Found<'_>) {
        let used = validated::used(found.cell.validated_at);
        if found.cell.validated_at != used {
            found.cell.mark_validated(
                found.entry.generation,
                found.cell.validated_at,
                used,
                Ordering::Relaxed,
            );
        }
    }
}
