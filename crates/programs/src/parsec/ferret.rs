//! Like ferret: a database of pictures is asked for those that look like given ones. A picture is
//! 14 numbers. Tables of hashes that keep like pictures near each other say which ones to compare a
//! query with, and the nearest ten are ranked. Threads take queries as they come. The database is
//! only read.

use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

/// Stream of random numbers.
const PICTURES: u64 = 28;
/// Numbers of a picture's that count, and numbers from one picture to the next: a line.
const DIMENSIONS: usize = 14;
const STRIDE: usize = 16;
/// Pictures are made in groups of so many that are alike.
const ALIKE: usize = 64;
/// Queries per round.
const QUERIES: usize = 256;
/// Tables of hashes, and pictures per bucket of each, on average.
const TABLES: usize = 4;
const PER_BUCKET: usize = 16;
const NEAREST: usize = 10;
const NONE: (f32, u32) = (f32::INFINITY, u32::MAX);
/// The cost of finding a query's buckets, and of ranking one of the nearest, in instructions.
const HASHING: u64 = 2000;
const RANKING: u64 = 4000;

type Picture = [f32; DIMENSIONS];
/// A picture's bucket in each table.
type Buckets = [usize; TABLES];

pub(crate) struct Ferret {
    pictures: Array<f32>,
    queries: Array<f32>,
    /// Where each bucket's pictures begin, table after table, and their numbers.
    starts: Array<u32>,
    members: Array<u32>,
    /// The nearest that each thread has found so far.
    nearest: Array<(f32, u32)>,
    results: Array<u32>,
    hashes: Vec<Hash>,
    buckets: usize,
    rounds: u32,
}

impl Ferret {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let count = 1_usize << setup.scale;
        let mut random = Random::new(setup.parameters.seed, PICTURES);
        let mut pictures: Vec<Picture> = Vec::with_capacity(count);
        for number in 0..count {
            let group = number - number % ALIKE;
            let picture = match number % ALIKE {
                0 => [(); DIMENSIONS].map(|()| random.unit() as f32),
                _ => near(pictures[group], &mut random),
            };
            pictures.push(picture);
        }
        let bits = (count / PER_BUCKET).max(2).ilog2() as usize;
        let hashes: Vec<Hash> = (0..TABLES).map(|_| Hash::new(bits, &mut random)).collect();
        let buckets = 1 << bits;
        let mut members = vec![Vec::new(); TABLES * buckets];
        for (number, picture) in pictures.iter().enumerate() {
            for (table, hash) in hashes.iter().enumerate() {
                members[table * buckets + hash.of(picture)].push(number as u32);
            }
        }
        let queries: Vec<Picture> =
            (0..QUERIES).map(|_| near(pictures[random.below(count)], &mut random)).collect();
        let lines = |pictures: &[Picture]| -> Vec<f32> {
            let line = |picture: &Picture| {
                (0..STRIDE).map(|index| picture.get(index).copied().unwrap_or(0.0)).collect()
            };
            pictures.iter().flat_map(|picture| -> Vec<f32> { line(picture) }).collect()
        };
        let mut end = 0;
        let ends = members.iter().map(|bucket| {
            end += bucket.len() as u32;
            end
        });
        let layout = &mut setup.layout;
        Self {
            pictures: layout.array("pictures", lines(&pictures)),
            queries: layout.array("queries", lines(&queries)),
            starts: layout.array("starts of buckets", std::iter::once(0).chain(ends)),
            members: layout.array("pictures of buckets", members.into_iter().flatten()),
            nearest: layout.filled("nearest of threads", setup.threads * STRIDE, NONE),
            results: layout.filled("results", QUERIES * NEAREST, u32::MAX - 1),
            hashes,
            buckets,
            rounds: setup.rounds,
        }
    }

    fn ask<P: Processor>(&self, me: &Member<P>, query: usize) {
        let p = &me.processor;
        let wanted: Picture =
            std::array::from_fn(|index| self.queries.get(p, query * STRIDE + index));
        let mine = me.thread * STRIDE;
        (mine..mine + NEAREST).for_each(|place| self.nearest.set(p, place, NONE));
        p.works(HASHING);
        for (table, hash) in self.hashes.iter().enumerate() {
            let bucket = table * self.buckets + hash.of(&wanted);
            let start = self.starts.follow(p, bucket) as usize;
            for place in start..self.starts.follow(p, bucket + 1) as usize {
                let picture = self.members.follow(p, place);
                let at = picture as usize * STRIDE;
                let other = std::array::from_fn(|index| self.pictures.get(p, at + index));
                p.works(3 * DIMENSIONS as u64);
                self.keep(p, mine, (square(&wanted, &other), picture));
            }
        }
        for rank in 0..NEAREST {
            p.works(RANKING);
            let (_, picture) = self.nearest.get(p, mine + rank);
            self.results.set(p, query * NEAREST + rank, picture);
        }
    }

    /// Puts a picture among the nearest, in their order, if it is one of them and not there yet.
    fn keep<P: Processor>(&self, p: &P, mine: usize, picture: (f32, u32)) {
        let mut place = mine + NEAREST;
        while place > mine && picture < self.nearest.get(p, place - 1) {
            p.works(2);
            place -= 1;
        }
        if place > mine && self.nearest.get(p, place - 1) == picture {
            return;
        }
        let mut moved = picture;
        for place in place..mine + NEAREST {
            let next = self.nearest.get(p, place);
            self.nearest.set(p, place, moved);
            moved = next;
        }
    }

    fn buckets_of(&self, picture: &Picture) -> Buckets {
        std::array::from_fn(|table| self.hashes[table].of(picture))
    }

    /// The nearest of all that share a bucket with a query.
    fn oracle(&self, pictures: &[(Picture, Buckets)], query: &Picture) -> Vec<u32> {
        let buckets = self.buckets_of(query);
        let alike = |other: &Buckets| other.iter().zip(&buckets).any(|(a, b)| a == b);
        let mut found: Vec<(f32, u32)> = (pictures.iter().zip(0..))
            .filter(|((_, buckets), _)| alike(buckets))
            .map(|((picture, _), number)| (square(query, picture), number))
            .collect();
        found.sort_by(|a, b| a.partial_cmp(b).expect("distances are numbers"));
        found.resize(found.len().max(NEAREST), NONE);
        found.into_iter().take(NEAREST).map(|(_, number)| number).collect()
    }
}

impl Kernel for Ferret {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for _ in 0..self.rounds {
            me.each_piece(QUERIES, 1, |queries| queries.for_each(|query| self.ask(me, query)));
            me.barrier();
        }
    }

    fn verify(&self) -> Result<(), String> {
        let peek = |array: &Array<f32>, at: usize| -> Picture {
            std::array::from_fn(|index| array.peek(at * STRIDE + index))
        };
        let count = self.pictures.len() / STRIDE;
        let pictures: Vec<(Picture, Buckets)> = (0..count)
            .map(|at| peek(&self.pictures, at))
            .map(|picture| (picture, self.buckets_of(&picture)))
            .collect();
        for query in 0..QUERIES {
            let right = self.oracle(&pictures, &peek(&self.queries, query));
            for (rank, right) in right.into_iter().enumerate() {
                let found = self.results.peek(query * NEAREST + rank);
                if found != right {
                    let place = rank + 1;
                    return Err(format!("query {query} has {found} at {place}, not {right}"));
                }
            }
        }
        Ok(())
    }
}

/// A picture that looks like another.
fn near(picture: Picture, random: &mut Random) -> Picture {
    picture.map(|number| number + 0.1 * (random.unit() as f32 - 0.5))
}

fn square(a: &Picture, b: &Picture) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// Says of a picture on which sides of some planes it is.
struct Hash {
    planes: Vec<(Picture, f32)>,
}

impl Hash {
    fn new(bits: usize, random: &mut Random) -> Self {
        let mut plane = || {
            let normal: Picture = [(); DIMENSIONS].map(|()| random.unit() as f32 - 0.5);
            // Through the middle of where pictures are.
            (normal, normal.iter().sum::<f32>() / 2.0)
        };
        Self { planes: (0..bits).map(|_| plane()).collect() }
    }

    fn of(&self, picture: &Picture) -> usize {
        self.planes.iter().fold(0, |bits, (normal, far)| {
            let along: f32 = normal.iter().zip(picture).map(|(a, b)| a * b).sum();
            bits << 1 | usize::from(along > *far)
        })
    }
}
