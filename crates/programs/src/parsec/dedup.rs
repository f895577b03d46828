//! Like dedup: a stream of bytes is cut into chunks where its content says so, chunks that are
//! there already are left out, the others are compressed. Threads take fragments of the stream, and
//! meet in the table of chunks and at the end of the store.

use std::collections::HashSet;
use std::ops::Range;

use super::compress::{Compressor, decompress};
use crate::Processor;
use crate::array::Array;
use crate::element::element;
use crate::program::{Kernel, Setup};
use crate::random::{Random, mix};
use crate::team::Member;

/// Stream of random numbers.
const BYTES: u64 = 26;
/// Chunks are cut where so many bits of a rolling hash are zero, which is after some 256 bytes
/// more.
const CUT: u64 = 0xff << 40;
/// Chunks have so many bytes, but for the last of a fragment, which may have fewer.
const SHORTEST: usize = 64;
pub(super) const LONGEST: usize = 1024;
/// The bytes of a fragment.
const FRAGMENTS: usize = 64;
const LARGEST_FRAGMENT: usize = 1 << 16;
const FREE: u32 = 0;

/// A chunk. Its number is that of the unit of [`SHORTEST`] bytes it begins in.
#[derive(Clone, Copy, Default)]
struct Chunk {
    hash: u64,
    /// None, if no chunk begins there.
    bytes: u32,
    start: u32,
    /// The chunk that it equals; its own number if it is stored.
    equal_to: u32,
    /// Where it is stored, and in how many bytes.
    place: u32,
    size: u32,
}

element!(Chunk { hash: u64, bytes: u32, start: u32, equal_to: u32, place: u32, size: u32 });

pub(crate) struct Dedup {
    input: Array<u8>,
    fragment: usize,
    chunks: Array<Chunk>,
    /// Numbers of chunks plus one, by hash.
    table: Array<u32>,
    store: Array<u8>,
    /// Where the store ends.
    end: Array<u64>,
    /// The chunks that make the stream: numbers of stored ones.
    recipe: Array<u32>,
    recipe_length: Array<u32>,
    compressor: Compressor,
    rounds: u32,
}

impl Dedup {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let bytes = 1_usize << setup.scale;
        let units = bytes.div_ceil(SHORTEST);
        let fragment = (bytes / FRAGMENTS).clamp(LONGEST, LARGEST_FRAGMENT);
        let layout = &mut setup.layout;
        Self {
            input: layout.array("input", input(bytes, setup.parameters.seed)),
            fragment,
            chunks: layout.filled("chunks", units, Chunk::default()),
            table: layout.filled("table of chunks", (2 * units).next_power_of_two(), FREE),
            // Compressed chunks may be longer by a byte per 128, and one each.
            store: layout.filled("store", bytes + bytes / 128 + 2 * units, 0),
            end: layout.padded("end of the store", std::iter::repeat_n(0, 1)),
            recipe: layout.filled("recipe", units, 0),
            recipe_length: layout.filled("length of the recipe", 1, 0),
            compressor: Compressor::new(layout, setup.threads),
            rounds: setup.rounds,
        }
    }

    fn begin<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        me.share(self.chunks.len()).for_each(|unit| self.chunks.set(p, unit, Chunk::default()));
        me.share(self.table.len()).for_each(|place| self.table.set(p, place, FREE));
        if me.leads() {
            self.end.set(p, 0, 0);
        }
        me.barrier();
    }

    fn take_fragment<P: Processor>(&self, me: &Member<P>, fragment: Range<usize>) {
        let p = &me.processor;
        let mut start = fragment.start;
        let mut cutter = Cutter::default();
        for index in fragment.clone() {
            p.works(8);
            let cuts = cutter.cuts(self.input.get(p, index));
            if cuts || index + 1 == fragment.end {
                self.take_chunk(me, start..index + 1, cutter.finish());
                start = index + 1;
            }
        }
    }

    fn take_chunk<P: Processor>(&self, me: &Member<P>, bytes: Range<usize>, hash: u64) {
        let p = &me.processor;
        let number = bytes.start / SHORTEST;
        let mut chunk = Chunk {
            hash,
            bytes: bytes.len() as u32,
            start: bytes.start as u32,
            equal_to: number as u32,
            ..Chunk::default()
        };
        // Others may look at it as soon as it is in the table.
        self.chunks.set(p, number, chunk);
        chunk.equal_to = self.find_or_insert(p, number, &chunk);
        if chunk.equal_to == number as u32 {
            let size = self.compressor.compress(me, &self.input, bytes);
            let place = self.end.update(p, 0, |end| end + size as u64) as usize;
            self.compressor.copy_to(me, size, &self.store, place);
            (chunk.place, chunk.size) = (place as u32, size as u32);
        }
        self.chunks.set(p, number, chunk);
    }

    /// The number of the equal chunk in the table, which is this one if there was none.
    fn find_or_insert<P: Processor>(&self, p: &P, number: usize, chunk: &Chunk) -> u32 {
        let mut place = chunk.hash as usize % self.table.len();
        loop {
            let entry = self.table.follow(p, place);
            p.works(4);
            if entry == FREE {
                if self.table.compare_exchange(p, place, FREE, number as u32 + 1) {
                    return number as u32;
                }
                continue;
            }
            let other = self.chunks.follow(p, entry as usize - 1);
            if (other.hash, other.bytes) == (chunk.hash, chunk.bytes)
                && self.are_equal(p, chunk, &other)
            {
                return entry - 1;
            }
            place = (place + 1) % self.table.len();
        }
    }

    fn are_equal<P: Processor>(&self, p: &P, a: &Chunk, b: &Chunk) -> bool {
        let byte = |chunk: &Chunk, index: u32| self.input.get(p, (chunk.start + index) as usize);
        (0..a.bytes).all(|index| byte(a, index) == byte(b, index))
    }

    /// Writes down, in order, which stored chunks make the stream.
    fn write_recipe<P: Processor>(&self, p: &P) {
        let mut length = 0;
        for unit in 0..self.chunks.len() {
            let chunk = self.chunks.get(p, unit);
            if chunk.bytes > 0 {
                self.recipe.set(p, length, chunk.equal_to);
                length += 1;
            }
        }
        self.recipe_length.set(p, 0, length as u32);
    }

    fn restored(&self) -> Result<Vec<u8>, String> {
        let store: Vec<u8> = self.store.values().collect();
        let mut stream = Vec::with_capacity(self.input.len());
        for index in 0..self.recipe_length.peek(0) as usize {
            let number = self.recipe.peek(index) as usize;
            let chunk = self.chunks.peek(number);
            if chunk.equal_to as usize != number {
                return Err(format!("chunk {number} is needed, and not stored"));
            }
            let bytes = &store[chunk.place as usize..][..chunk.size as usize];
            decompress(bytes, &mut stream).ok_or(format!("chunk {number} is damaged"))?;
        }
        Ok(stream)
    }
}

impl Kernel for Dedup {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let bytes = self.input.len();
        for _ in 0..self.rounds {
            self.begin(me);
            me.each_piece(bytes.div_ceil(self.fragment), 1, |fragment| {
                let start = fragment.start * self.fragment;
                self.take_fragment(me, start..bytes.min(start + self.fragment));
            });
            me.barrier();
            if me.leads() {
                self.write_recipe(&me.processor);
            }
            me.barrier();
        }
    }

    fn verify(&self) -> Result<(), String> {
        let input: Vec<u8> = self.input.values().collect();
        let stream = self.restored()?;
        if stream != input {
            let (had, has) = (input.len(), stream.len());
            return Err(format!("what was restored is another stream, of {has} bytes for {had}"));
        }
        let different: HashSet<&[u8]> = input.chunks(self.fragment).flat_map(cut).collect();
        let is_stored =
            |(unit, chunk): (usize, Chunk)| chunk.bytes > 0 && chunk.equal_to as usize == unit;
        let stored = self.chunks.values().enumerate().filter(|&chunk| is_stored(chunk)).count();
        if stored != different.len() {
            let different = different.len();
            return Err(format!("{stored} chunks are stored, but {different} are different"));
        }
        Ok(())
    }
}

/// Finds out where to cut, and the hash of what is cut off.
#[derive(Default)]
struct Cutter {
    bytes: usize,
    rolling: u64,
    hash: u64,
}

impl Cutter {
    /// Whether the chunk ends with this byte.
    fn cuts(&mut self, byte: u8) -> bool {
        self.bytes += 1;
        self.rolling = (self.rolling << 1).wrapping_add(mix(byte.into()));
        self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        self.bytes == LONGEST || self.bytes >= SHORTEST && self.rolling & CUT == 0
    }

    /// The hash of the chunk; begins the next one.
    fn finish(&mut self) -> u64 {
        mix(std::mem::take(self).hash)
    }
}

/// The chunks of a fragment.
fn cut(mut fragment: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let mut cutter = Cutter::default();
        let end = fragment.iter().position(|&byte| cutter.cuts(byte));
        let (chunk, rest) = fragment.split_at(end.map_or(fragment.len(), |end| end + 1));
        fragment = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Words, and repetitions of what came before.
fn input(bytes: usize, seed: u64) -> Vec<u8> {
    const WORDS: usize = 512;
    let mut random = Random::new(seed, BYTES);
    let mut stream = Vec::with_capacity(bytes + 4 * LONGEST);
    while stream.len() < bytes {
        if random.below(2) == 0 && stream.len() > 2 * LONGEST {
            let length = 1 + random.below((8 * LONGEST).min(stream.len()));
            let start = random.below(stream.len() - length + 1);
            stream.extend_from_within(start..start + length);
        } else {
            for _ in 0..random.below(512) {
                let word = mix(random.below(WORDS) as u64);
                let letters = 3 + word as usize % 6;
                stream.extend((0..letters).map(|letter| b'a' + (word >> (8 * letter)) as u8 % 26));
                stream.push(b' ');
            }
        }
    }
    stream.truncate(bytes);
    stream
}
