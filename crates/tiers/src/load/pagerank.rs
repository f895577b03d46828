use tombolo_timing::Ps;

use super::Dice;
use crate::{Access, Load, Use};

/// Uses of scores for each page of edges, and the lines of each that are waited for: a page has
/// 1,024 edges, whose scores are fetched 16 at a time.
const SCORES: u32 = 4;
const SCORE_LINES: u32 = 16;
/// The time to compute a page of edges, memory aside.
const COMPUTING: Ps = 500_000;

/// PageRank on a uniformly random graph, as in the GAP suite.
///
/// Threads read the edges from the first to the last, each its part. For each edge they read the
/// score of its other end, which may be anywhere. Scores come first in memory: the suite frees its
/// list of edges before it allocates them, so they lie in the fast tier.
#[derive(Debug)]
pub struct PageRank {
    dice: Dice,
    scores: u32,
    edges: u32,
    iterations: u32,
    /// By thread: its next page of edges, the iterations that are left, the scores that it reads
    /// before the next page.
    threads: Vec<(u32, u32, u32)>,
}

impl PageRank {
    /// So many pages of scores, and then of edges.
    pub fn new(scores: u32, edges: u32, iterations: u32, threads: usize, seed: u64) -> Self {
        let mut load =
            Self { dice: Dice::new(seed), scores, edges, iterations, threads: Vec::new() };
        load.threads = (0..threads).map(|thread| load.begin(thread, threads)).collect();
        load
    }

    fn begin(&self, thread: usize, threads: usize) -> (u32, u32, u32) {
        (self.part(thread, threads), self.iterations, 0)
    }

    /// Where a thread's part of the edges begins.
    fn part(&self, thread: usize, threads: usize) -> u32 {
        (self.edges as usize * thread / threads) as u32
    }
}

impl Load for PageRank {
    fn next(&mut self, thread: usize) -> Option<Access> {
        let threads = self.threads.len();
        let (first, end) = (self.part(thread, threads), self.part(thread + 1, threads));
        let (at, iterations, scores) = &mut self.threads[thread];
        if *scores > 0 {
            *scores -= 1;
            let page = self.dice.below(self.scores);
            let (how, lines) = (Use::Chase, SCORE_LINES);
            return Some(Access { page, is_write: false, how, lines, think: 0 });
        }
        if *at == end {
            *at = first;
            *iterations -= 1;
        }
        if *iterations == 0 {
            self.threads[thread] = self.begin(thread, threads);
            return None;
        }
        let page = self.scores + *at;
        *at += 1;
        *scores = SCORES;
        Some(Access { page, is_write: false, how: Use::Stream, lines: 64, think: COMPUTING })
    }
}
