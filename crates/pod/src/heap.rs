//! An allocator for cells of a few sizes, in SCR or in LNR.
//!
//! The stretch is divided into chunks. A table in SCR has a word for each chunk, which names the
//! host that has it. A host takes a chunk by one compare-and-swap, and divides it into cells of one
//! size. It gives a chunk back when all of its cells are free.
//!
//! Invariants:
//! * A chunk belongs to one host, or to none.
//! * The host that has reserved a cell is the one that frees it.
//!
//! Left out: chunks of hosts that have died. The tenant formats the table when it opens its area.

use std::collections::{BTreeMap, BTreeSet};

use tombolo_memory::{HostMutex, Memory, ScrAddr};

use crate::layout::Stretch;
use crate::sites;

/// Where a heap lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapPlaces {
    /// A word for each chunk.
    pub table: ScrAddr<u64>,
    /// The chunks.
    pub cells: Stretch,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
}

impl HeapPlaces {
    /// How many chunks there are.
    pub fn chunks(&self) -> u64 {
        self.cells.bytes / self.chunk_bytes
    }
}

/// A heap, as one host uses it. Shared by the host's threads.
pub struct Heap<M: Memory> {
    memory: M,
    places: HeapPlaces,
    host: u8,
    own: HostMutex<M, Own>,
}

/// This host's part of it.
#[derive(Default)]
struct Own {
    chunks: BTreeMap<u64, Chunk>,
    /// Chunks with free cells, by the size of a cell.
    roomy: BTreeMap<u64, BTreeSet<u64>>,
    /// Bytes of cells that are in use.
    used_bytes: u64,
    /// The chunk to look at next.
    next: u64,
}

struct Chunk {
    cell_bytes: u64,
    /// Cells that were freed.
    free: Vec<u64>,
    /// Cells from here on were never used.
    untouched: u64,
    used: u64,
}

impl<M: Memory> Heap<M> {
    /// Frees all chunks, of whichever host. No host uses the heap meanwhile.
    pub fn format(memory: &M, places: &HeapPlaces) {
        (0..places.chunks()).for_each(|chunk| memory.store(places.table.element(chunk), 0));
    }

    /// The heap, for `host`, which has no chunk of it. It looks for free chunks from `share` of the
    /// way on, a number from 0 to 1.
    pub fn new(memory: &M, places: HeapPlaces, host: u8, share: f64) -> Self {
        let next = (places.chunks() as f64 * share) as u64;
        let own = HostMutex::<M, _>::new(Own { next, ..Own::default() });
        Self { memory: memory.clone(), places, host, own }
    }

    /// A cell of `cell_bytes`; `None` if there is no room. Where it starts, in bytes.
    ///
    /// # Panics
    /// If a chunk is smaller than the cell.
    pub fn reserve(&self, cell_bytes: u64) -> Option<u64> {
        let cells = self.places.chunk_bytes / cell_bytes;
        assert!(cells > 0, "a cell of {cell_bytes} bytes is larger than a chunk");
        let mut own = self.own.lock();
        let roomy = own.roomy.get(&cell_bytes).and_then(|chunks| chunks.first().copied());
        let number = match roomy {
            Some(number) => number,
            None => self.take_chunk(&mut own, cell_bytes)?,
        };
        let chunk = own.chunks.get_mut(&number)?;
        let cell = chunk.free.pop().unwrap_or_else(|| {
            chunk.untouched += 1;
            chunk.untouched - 1
        });
        chunk.used += 1;
        if chunk.used == cells {
            own.roomy.entry(cell_bytes).or_default().remove(&number);
        }
        own.used_bytes += cell_bytes;
        Some(self.places.cells.start + number * self.places.chunk_bytes + cell * cell_bytes)
    }

    /// Frees the cell that starts at `at`.
    ///
    /// # Panics
    /// If this host has reserved no such cell.
    pub fn free(&self, at: u64, cell_bytes: u64) {
        let offset = at - self.places.cells.start;
        let (number, within) = (offset / self.places.chunk_bytes, offset % self.places.chunk_bytes);
        let mut own = self.own.lock();
        own.used_bytes -= cell_bytes;
        let chunk = own.chunks.get_mut(&number).expect("a cell of this host");
        assert!(
            chunk.cell_bytes == cell_bytes && within.is_multiple_of(cell_bytes),
            "{at} is no cell"
        );
        chunk.free.push(within / cell_bytes);
        chunk.used -= 1;
        if chunk.used > 0 {
            own.roomy.entry(cell_bytes).or_default().insert(number);
            return;
        }
        own.chunks.remove(&number);
        own.roomy.entry(cell_bytes).or_default().remove(&number);
        self.memory.store(self.places.table.element(number), 0);
    }

    /// Bytes of cells that this host has in use.
    pub fn used_bytes(&self) -> u64 {
        self.own.lock().used_bytes
    }

    fn take_chunk(&self, own: &mut Own, cell_bytes: u64) -> Option<u64> {
        let (memory, chunks) = (&self.memory, self.places.chunks());
        let mut numbers = (0..chunks).map(|n| (own.next + n) % chunks);
        let number = numbers.find(|&number| {
            let at = self.places.table.element(number);
            let taken = u64::from(self.host) + 1;
            memory.load(at) == 0 && memory.compare_exchange(sites::HEAP_TAKE, at, 0, taken).is_ok()
        })?;
        own.next = (number + 1) % chunks;
        own.chunks.insert(number, Chunk { cell_bytes, free: Vec::new(), untouched: 0, used: 0 });
        own.roomy.entry(cell_bytes).or_default().insert(number);
        Some(number)
    }
}
