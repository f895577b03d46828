//! Compression of chunks: literals, and copies of what came before in the chunk.
//!
//! A byte below 128 is followed by so many literals and one more. Another one says that so many
//! bytes over 124 come again, from as far back as the two bytes after it say.

use std::ops::Range;

use super::dedup::LONGEST;
use crate::Processor;
use crate::array::{Array, Layout};
use crate::team::Member;

const LEAST_MATCH: usize = 4;
const MOST_MATCH: usize = LEAST_MATCH + 127;
const MOST_LITERALS: usize = 128;
/// The greatest size of a compressed chunk.
const MOST_BYTES: usize = LONGEST + LONGEST / MOST_LITERALS + 1;
/// Places of four bytes that each thread remembers.
const PLACES: usize = 256;
const NOWHERE: u16 = u16::MAX;

/// All threads' scratch space.
pub(super) struct Compressor {
    outputs: Array<u8>,
    /// Where in the chunk four bytes with such a hash were last.
    places: Array<u16>,
}

impl Compressor {
    pub(super) fn new(layout: &mut Layout, threads: usize) -> Self {
        Self {
            outputs: layout.filled("compressed chunks", threads * MOST_BYTES, 0),
            places: layout.filled("places in chunks", threads * PLACES, NOWHERE),
        }
    }

    /// Compresses a chunk of the input into the thread's scratch space; its size there.
    pub(super) fn compress<P: Processor>(
        &self,
        me: &Member<P>,
        input: &Array<u8>,
        chunk: Range<usize>,
    ) -> usize {
        let p = &me.processor;
        (0..PLACES).for_each(|hash| self.places.set(p, me.thread * PLACES + hash, NOWHERE));
        let mut output = Output { array: &self.outputs, me, size: 0 };
        let (mut index, mut literals) = (0, 0);
        while index < chunk.len() {
            let found = self.find(me, input, &chunk, index);
            let Some((back, length)) = found else {
                index += 1;
                continue;
            };
            output.literals(input, chunk.start + literals..chunk.start + index);
            output.push(128 + (length - LEAST_MATCH) as u8);
            (back as u16).to_le_bytes().into_iter().for_each(|byte| output.push(byte));
            index += length;
            literals = index;
        }
        output.literals(input, chunk.start + literals..chunk.end);
        output.size
    }

    /// How far back the bytes from here on come from, and how many; remembers this place.
    fn find<P: Processor>(
        &self,
        me: &Member<P>,
        input: &Array<u8>,
        chunk: &Range<usize>,
        index: usize,
    ) -> Option<(usize, usize)> {
        let p = &me.processor;
        let byte = |index: usize| input.get(p, chunk.start + index);
        if index + LEAST_MATCH > chunk.len() {
            return None;
        }
        let word = (index..index + LEAST_MATCH).fold(0, |word, at| word << 8 | u32::from(byte(at)));
        let hash = (word.wrapping_mul(0x9e37_79b1) >> 24) as usize;
        let place = me.thread * PLACES + hash;
        p.works(6);
        let before = self.places.follow(p, place);
        self.places.set(p, place, index as u16);
        if before == NOWHERE {
            return None;
        }
        let before = usize::from(before);
        let most = MOST_MATCH.min(chunk.len() - index);
        let length = (0..most).take_while(|at| byte(before + at) == byte(index + at)).count();
        (length >= LEAST_MATCH).then_some((index - before, length))
    }

    /// Copies what was compressed last to where it belongs.
    pub(super) fn copy_to<P: Processor>(
        &self,
        me: &Member<P>,
        size: usize,
        store: &Array<u8>,
        place: usize,
    ) {
        for index in 0..size {
            let byte = self.outputs.get(&me.processor, me.thread * MOST_BYTES + index);
            store.set(&me.processor, place + index, byte);
        }
    }
}

/// A thread's part of the outputs.
struct Output<'a, P> {
    array: &'a Array<u8>,
    me: &'a Member<P>,
    size: usize,
}

impl<P: Processor> Output<'_, P> {
    fn push(&mut self, byte: u8) {
        let place = self.me.thread * MOST_BYTES + self.size;
        self.array.set(&self.me.processor, place, byte);
        self.size += 1;
    }

    fn literals(&mut self, input: &Array<u8>, mut bytes: Range<usize>) {
        while !bytes.is_empty() {
            let count = bytes.len().min(MOST_LITERALS);
            self.push(count as u8 - 1);
            for index in bytes.by_ref().take(count) {
                self.push(input.get(&self.me.processor, index));
            }
        }
    }
}

/// Adds what was compressed to the stream, unless it is damaged.
pub(super) fn decompress(mut bytes: &[u8], stream: &mut Vec<u8>) -> Option<()> {
    let start = stream.len();
    while let Some((&mark, rest)) = bytes.split_first() {
        let mark = usize::from(mark);
        if mark < MOST_LITERALS {
            let (literals, rest) = rest.split_at_checked(mark + 1)?;
            stream.extend_from_slice(literals);
            bytes = rest;
        } else {
            let (back, rest) = rest.split_first_chunk()?;
            let back = usize::from(u16::from_le_bytes(*back));
            if back == 0 || back > stream.len() - start {
                return None;
            }
            for _ in 0..mark - 128 + LEAST_MATCH {
                stream.push(stream[stream.len() - back]);
            }
            bytes = rest;
        }
    }
    Some(())
}
