use tombolo_timing::Ps;

use super::Dice;
use crate::{Access, Load, Use};

/// The time to compute a page of features, memory aside.
const COMPUTING: Ps = 300_000;
/// Changes of the instances' values for each page of features, and lines of each.
const CHANGES: u32 = 2;
const CHANGED_LINES: u32 = 8;

/// Liblinear's L1-regularized logistic regression.
///
/// Each of its threads passes through its part of the features again and again. For each feature,
/// it changes values of instances that have it, which may be anywhere among the instances.
/// The original's data cannot be had: only sizes are as in the paper.
#[derive(Debug)]
pub struct Liblinear {
    dice: Dice,
    instances: u32,
    features: u32,
    passes: u32,
    /// By thread: its next page of features, the passes that are left, changes before the next.
    threads: Vec<(u32, u32, u32)>,
}

impl Liblinear {
    /// So many pages of instances' values, and then of features.
    pub fn new(instances: u32, features: u32, passes: u32, threads: usize, seed: u64) -> Self {
        let dice = Dice::new(seed);
        let mut load = Self { dice, instances, features, passes, threads: Vec::new() };
        load.threads = (0..threads).map(|thread| load.begin(thread, threads)).collect();
        load
    }

    fn begin(&self, thread: usize, threads: usize) -> (u32, u32, u32) {
        (self.part(thread, threads), self.passes, 0)
    }

    fn part(&self, thread: usize, threads: usize) -> u32 {
        (self.features as usize * thread / threads) as u32
    }
}

impl Load for Liblinear {
    fn next(&mut self, thread: usize) -> Option<Access> {
        let threads = self.threads.len();
        let (first, end) = (self.part(thread, threads), self.part(thread + 1, threads));
        let (at, passes, changes) = &mut self.threads[thread];
        if *changes > 0 {
            *changes -= 1;
            let page = self.dice.below(self.instances);
            let (how, lines) = (Use::Chase, CHANGED_LINES);
            return Some(Access { page, is_write: true, how, lines, think: 0 });
        }
        if *at == end {
            *at = first;
            *passes -= 1;
        }
        if *passes == 0 {
            self.threads[thread] = self.begin(thread, threads);
            return None;
        }
        let page = self.instances + *at;
        *at += 1;
        *changes = CHANGES;
        Some(Access { page, is_write: false, how: Use::Stream, lines: 64, think: COMPUTING })
    }
}
