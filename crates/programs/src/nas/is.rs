//! IS: whole numbers, sorted by counting. Each thread puts its keys into buckets; each bucket is
//! then counted by the thread that comes first. Every round sorts the same keys.

use super::sequence::{START, Sequence};
use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::team::Member;

/// The most buckets, as a power of two.
const BUCKETS: u32 = 9;

pub(crate) struct Is {
    keys: Array<u32>,
    /// Values that keys have, as a power of two.
    key_bits: u32,
    bucket_bits: u32,
    /// Where each thread's keys of each bucket begin; before that, how many there are.
    places: Array<u32>,
    /// Where each bucket begins, and where the last one ends.
    starts: Array<u32>,
    /// The keys, by bucket.
    buffer: Array<u32>,
    /// How many keys have each value; then, where the next of them goes.
    ranks: Array<u32>,
    sorted: Array<u32>,
    rounds: u32,
}

impl Is {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let count = 1_usize << setup.scale;
        // As in classes W and A.
        let key_bits = setup.scale.saturating_sub(4).max(1);
        let bucket_bits = key_bits.min(BUCKETS);
        let buckets = 1 << bucket_bits;
        let mut sequence = Sequence::new(START);
        let mut key = || {
            let sum: f64 = (0..4).map(|_| sequence.next()).sum();
            (f64::from(1 << key_bits) / 4.0 * sum) as u32
        };
        let layout = &mut setup.layout;
        Self {
            keys: layout.array("keys", (0..count).map(|_| key())),
            key_bits,
            bucket_bits,
            places: layout.filled("keys of threads in buckets", setup.threads * buckets, 0),
            starts: layout.filled("starts of buckets", buckets + 1, 0),
            buffer: layout.filled("keys in buckets", count, 0),
            ranks: layout.filled("ranks", 1 << key_bits, 0),
            sorted: layout.filled("sorted keys", count, 0),
            rounds: setup.rounds,
        }
    }

    fn buckets(&self) -> usize {
        1 << self.bucket_bits
    }

    fn shift(&self) -> u32 {
        self.key_bits - self.bucket_bits
    }

    fn place(&self, thread: usize, bucket: usize) -> usize {
        thread * self.buckets() + bucket
    }

    /// How many of this thread's keys belong into each bucket.
    fn count<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for bucket in 0..self.buckets() {
            self.places.set(p, self.place(me.thread, bucket), 0);
        }
        for index in me.share(self.keys.len()) {
            let bucket = self.keys.follow(p, index) >> self.shift();
            let place = self.place(me.thread, bucket as usize);
            p.works(2);
            let count = self.places.get(p, place);
            self.places.set(p, place, count + 1);
        }
    }

    /// Where each bucket begins, and in it each thread's part.
    fn divide<P: Processor>(&self, me: &Member<P>) {
        let (p, starts) = (&me.processor, &self.starts);
        for bucket in me.share(self.buckets()) {
            let count = |thread| self.places.get(p, self.place(thread, bucket));
            starts.set(p, bucket + 1, (0..me.threads()).map(count).sum());
        }
        me.barrier();
        if me.leads() {
            let mut start = 0;
            for bucket in 0..self.buckets() {
                start += starts.get(p, bucket + 1);
                starts.set(p, bucket + 1, start);
            }
        }
        me.barrier();
        for bucket in me.share(self.buckets()) {
            let mut start = starts.get(p, bucket);
            for thread in 0..me.threads() {
                let place = self.place(thread, bucket);
                let count = self.places.get(p, place);
                self.places.set(p, place, start);
                start += count;
            }
        }
        me.barrier();
    }

    fn scatter<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for index in me.share(self.keys.len()) {
            let key = self.keys.follow(p, index);
            let place = self.place(me.thread, (key >> self.shift()) as usize);
            p.works(2);
            let target = self.places.follow(p, place);
            self.places.set(p, place, target + 1);
            self.buffer.set(p, target as usize, key);
        }
    }

    /// Sorts the keys of a bucket.
    fn sort<P: Processor>(&self, p: &P, bucket: usize) {
        let start = self.starts.follow(p, bucket);
        let keys = start as usize..self.starts.follow(p, bucket + 1) as usize;
        let values = bucket << self.shift()..(bucket + 1) << self.shift();
        values.clone().for_each(|value| self.ranks.set(p, value, 0));
        for index in keys.clone() {
            let key = self.buffer.follow(p, index) as usize;
            let count = self.ranks.get(p, key);
            self.ranks.set(p, key, count + 1);
        }
        let mut rank = start;
        for value in values {
            let count = self.ranks.get(p, value);
            self.ranks.set(p, value, rank);
            rank += count;
        }
        for index in keys {
            let key = self.buffer.follow(p, index);
            let rank = self.ranks.follow(p, key as usize);
            self.ranks.set(p, key as usize, rank + 1);
            self.sorted.set(p, rank as usize, key);
        }
    }
}

impl Kernel for Is {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for _ in 0..self.rounds {
            self.count(me);
            me.barrier();
            self.divide(me);
            self.scatter(me);
            me.barrier();
            me.each_piece(self.buckets(), 1, |bucket| self.sort(&me.processor, bucket.start));
            me.barrier();
        }
    }

    fn verify(&self) -> Result<(), String> {
        let mut right: Vec<u32> = self.keys.values().collect();
        right.sort_unstable();
        match self.sorted.values().zip(&right).position(|(key, right)| key != *right) {
            None => Ok(()),
            Some(index) => {
                let key = self.sorted.peek(index);
                Err(format!("key {index} is {key} instead of {}", right[index]))
            }
        }
    }
}
