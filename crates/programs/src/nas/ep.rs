//! EP: pairs of Gaussian numbers, counted by how far out they are. Threads meet at the end only.

use super::is_close;
use super::sequence::Sequence;
use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::team::Member;

const START: u64 = 271_828_183;
const RINGS: usize = 10;
/// A thread's counts take whole lines.
const RING_STRIDE: usize = 16;
/// The most pairs that are made at a time, as a power of two: the suite's batch.
const BATCH: u32 = 16;
/// The cost of making a number and a pair, in instructions.
const NUMBER_WORK: u64 = 12;
const PAIR_WORK: u64 = 60;

/// The scale of class S, and its sums.
const CLASS_S: (u32, [f64; 2]) = (24, [-3.247_834_652_034_74e3, -6.958_407_078_382_297e3]);
const TOLERANCE: f64 = 1e-8;

pub(crate) struct Ep {
    scale: u32,
    rounds: u32,
    batch: usize,
    /// Each thread's numbers.
    numbers: Array<f64>,
    /// Each thread's counts.
    rings: Array<u64>,
    sums: Array<f64>,
    counts: Array<u64>,
}

impl Ep {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let (threads, layout) = (setup.threads, &mut setup.layout);
        // 64 batches at least, so that there is something to do for many threads.
        let batch = 1 << setup.scale.saturating_sub(6).min(BATCH);
        Self {
            scale: setup.scale,
            rounds: setup.rounds,
            batch,
            numbers: layout.filled("numbers", threads * 2 * batch, 0.0),
            rings: layout.filled("counts of threads", threads * RING_STRIDE, 0),
            sums: layout.filled("Gaussian sums", 2, f64::NAN),
            counts: layout.filled("counts", RINGS, 0),
        }
    }

    /// Adds a batch to this thread's counts and to the sums.
    fn batch<P: Processor>(&self, me: &Member<P>, number: usize, sums: &mut [f64; 2]) {
        let p = &me.processor;
        let start = me.thread * 2 * self.batch;
        let skipped = 2 * self.batch as u64 * number as u64;
        let mut sequence = Sequence::new(START).skip(skipped);
        for index in 0..2 * self.batch {
            p.works(NUMBER_WORK);
            self.numbers.set(p, start + index, sequence.next());
        }
        for pair in 0..self.batch {
            let [x, y] = [0, 1].map(|part| self.numbers.get(p, start + 2 * pair + part));
            p.depends();
            p.works(PAIR_WORK);
            if let Some((gauss, ring)) = gaussian(x, y) {
                let ring = me.thread * RING_STRIDE + ring;
                let count = self.rings.get(p, ring);
                self.rings.set(p, ring, count + 1);
                sums[0] += gauss[0];
                sums[1] += gauss[1];
            }
        }
    }

    fn round<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for ring in 0..RINGS {
            self.rings.set(p, me.thread * RING_STRIDE + ring, 0);
        }
        let mut sums = [0.0; 2];
        let batches = (1_usize << self.scale) / self.batch;
        for number in me.share(batches) {
            self.batch(me, number, &mut sums);
        }
        let sums = sums.map(|sum| me.sum(sum));
        if me.leads() {
            for (index, sum) in sums.into_iter().enumerate() {
                self.sums.set(p, index, sum);
            }
            for ring in 0..RINGS {
                let count = |thread| self.rings.get(p, thread * RING_STRIDE + ring);
                self.counts.set(p, ring, (0..me.threads()).map(count).sum());
            }
        }
        me.barrier();
    }

    fn oracle(&self) -> ([f64; 2], [u64; RINGS]) {
        let mut sequence = Sequence::new(START);
        let (mut sums, mut counts) = ([0.0; 2], [0; RINGS]);
        for _ in 0..1_u64 << self.scale {
            let (x, y) = (sequence.next(), sequence.next());
            if let Some((gauss, ring)) = gaussian(x, y) {
                counts[ring] += 1;
                sums[0] += gauss[0];
                sums[1] += gauss[1];
            }
        }
        (sums, counts)
    }
}

impl Kernel for Ep {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for _ in 0..self.rounds {
            self.round(me);
        }
    }

    fn verify(&self) -> Result<(), String> {
        let (sums, counts) = self.oracle();
        let found: Vec<u64> = self.counts.values().collect();
        if found != counts {
            return Err(format!("the counts are {found:?} instead of {counts:?}"));
        }
        let published = (self.scale == CLASS_S.0).then_some(CLASS_S.1);
        for right in [Some(sums), published].into_iter().flatten() {
            let found = [self.sums.peek(0), self.sums.peek(1)];
            if !found.iter().zip(right).all(|(&sum, right)| is_close(sum, right, TOLERANCE)) {
                return Err(format!("the sums are {found:?} instead of {right:?}"));
            }
        }
        Ok(())
    }
}

/// Two Gaussian numbers from two uniform ones, and their ring; for those inside a circle only.
fn gaussian(x: f64, y: f64) -> Option<([f64; 2], usize)> {
    let (x, y) = (2.0 * x - 1.0, 2.0 * y - 1.0);
    let square = x * x + y * y;
    if square > 1.0 {
        return None;
    }
    let factor = (-2.0 * libm::log(square) / square).sqrt();
    let (x, y) = (x * factor, y * factor);
    Some(([x, y], x.abs().max(y.abs()) as usize))
}
