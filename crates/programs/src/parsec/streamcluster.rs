//! Like streamcluster: points are assigned to centers, which cost something each, by local search.
//! For each of many candidates all threads find out what it would gain to open it, and to close
//! those centers that it makes superfluous. Coordinates are whole numbers, and sums of squares
//! exact, so that threads come to the same decisions however many they are.

use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

/// Streams of random numbers.
const POINTS: u64 = 22;
const CANDIDATES: u64 = 23;
const DIMENSIONS: usize = 32;
/// Clusters that the points are made in, and how wide these are.
const CLUSTERS: usize = 12;
const WIDTH: usize = 64;
const LARGEST: usize = 256;
const CANDIDATES_PER_ROUND: usize = 24;
/// Centers there can be.
const CENTERS: usize = 64;
const NONE: u32 = u32::MAX;
/// The cost of a center: this part of the cost of all points at first.
const CENTER_PART: f64 = 128.0;

pub(crate) struct Streamcluster {
    coordinates: Array<f32>,
    /// The center of each point: its number, not its point's.
    assigned: Array<u32>,
    costs: Array<f32>,
    /// Whether a point would go over to the candidate.
    switches: Array<u8>,
    /// The point that each center is at.
    centers: Array<u32>,
    /// The gain of each thread's points if they stayed at their center instead of leaving it
    /// for the candidate: zero or less.
    savings: Array<f64>,
    closes: Array<u8>,
    /// The number that the candidate would get.
    number: Array<u32>,
    candidates: Vec<usize>,
    center_cost: f64,
}

impl Streamcluster {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let points = 1_usize << setup.scale;
        let seed = setup.parameters.seed;
        let coordinates = coordinates(points, seed);
        let first: Vec<f32> = (0..points).map(|point| square(&coordinates, point, 0)).collect();
        let total: f64 = first.iter().copied().map(f64::from).sum();
        let mut random = Random::new(seed, CANDIDATES);
        let count = setup.rounds as usize * CANDIDATES_PER_ROUND;
        let layout = &mut setup.layout;
        let centers = (0..CENTERS).map(|center| if center == 0 { 0 } else { NONE });
        Self {
            coordinates: layout.array("coordinates", coordinates),
            assigned: layout.filled("centers of points", points, 0),
            costs: layout.array("costs", first),
            switches: layout.filled("switches", points, 0),
            centers: layout.array("centers", centers),
            savings: layout.filled("savings of threads", setup.threads * CENTERS, 0.0),
            closes: layout.filled("centers to close", CENTERS, 0),
            number: layout.filled("number of the candidate", 1, NONE),
            candidates: (0..count).map(|_| random.below(points)).collect(),
            center_cost: (total / CENTER_PART).ceil(),
        }
    }

    fn square<P: Processor>(&self, p: &P, a: usize, b: usize) -> f32 {
        let mut sum = 0.0;
        for dimension in 0..DIMENSIONS {
            let a = self.coordinates.get(p, a * DIMENSIONS + dimension);
            let b = self.coordinates.get(p, b * DIMENSIONS + dimension);
            sum += (a - b) * (a - b);
            p.works(3);
        }
        sum
    }

    /// The number for a candidate, if it is no center and there is one left.
    fn find_number<P: Processor>(&self, p: &P, candidate: usize) -> u32 {
        let mut free = NONE;
        for center in (0..CENTERS).rev() {
            match self.centers.get(p, center) {
                NONE => free = center as u32,
                point if point as usize == candidate => return NONE,
                _ => {}
            }
        }
        free
    }

    /// The cost of opening the candidate for this thread's points; less than zero if they gain.
    fn look<P: Processor>(&self, me: &Member<P>, candidate: usize) -> f64 {
        let p = &me.processor;
        let mut cost = 0.0;
        for point in me.share(self.costs.len()) {
            let (now, then) = (self.costs.get(p, point), self.square(p, point, candidate));
            let difference = f64::from(then) - f64::from(now);
            self.switches.set(p, point, (difference < 0.0).into());
            p.works(4);
            if difference < 0.0 {
                cost += difference;
            } else {
                let center = me.thread * CENTERS + self.assigned.follow(p, point) as usize;
                let saved = self.savings.get(p, center);
                self.savings.set(p, center, saved - difference);
            }
        }
        cost
    }

    /// The cost of closing the centers that this thread has to judge: zero or less.
    fn think<P: Processor>(&self, me: &Member<P>) -> f64 {
        let p = &me.processor;
        let mut cost = 0.0;
        for center in me.share(CENTERS) {
            let is_open = self.centers.get(p, center) != NONE;
            let saved = |thread| self.savings.get(p, thread * CENTERS + center);
            let gain = if is_open {
                self.center_cost + (0..me.threads()).map(saved).sum::<f64>()
            } else {
                0.0
            };
            self.closes.set(p, center, (gain > 0.0).into());
            cost -= gain.max(0.0);
        }
        cost
    }

    fn open<P: Processor>(&self, me: &Member<P>, candidate: usize, number: u32) {
        let p = &me.processor;
        for point in me.share(self.costs.len()) {
            let center = self.assigned.follow(p, point) as usize;
            if self.switches.get(p, point) == 1 || self.closes.get(p, center) == 1 {
                self.assigned.set(p, point, number);
                self.costs.set(p, point, self.square(p, point, candidate));
            }
        }
        me.barrier();
        if me.leads() {
            for center in 0..CENTERS {
                if self.closes.get(p, center) == 1 {
                    self.centers.set(p, center, NONE);
                }
            }
            self.centers.set(p, number as usize, candidate as u32);
        }
    }

    /// The center of each point by the same search, from nothing but the coordinates.
    fn oracle(&self) -> Vec<usize> {
        let coordinates: Vec<f32> = self.coordinates.values().collect();
        let square = |a, b| f64::from(square(&coordinates, a, b));
        let mut centers = vec![0; self.costs.len()];
        let mut open = std::collections::BTreeSet::from([0]);
        for &candidate in &self.candidates {
            if open.contains(&candidate) || open.len() == CENTERS {
                continue;
            }
            let costs = |point: usize| (square(point, centers[point]), square(point, candidate));
            let closed: Vec<usize> = (open.iter().copied())
                .filter(|&center| {
                    let stay = (0..centers.len()).filter(|&point| centers[point] == center);
                    let more = stay.map(costs).map(|(now, then)| (then - now).max(0.0));
                    more.sum::<f64>() < self.center_cost
                })
                .collect();
            let goes = |point: usize| {
                let (now, then) = costs(point);
                then < now || closed.contains(&centers[point])
            };
            let next: Vec<usize> = (0..centers.len())
                .map(|point| if goes(point) { candidate } else { centers[point] })
                .collect();
            let total = |centers: &[usize], open: usize| {
                centers
                    .iter()
                    .enumerate()
                    .map(|(point, &center)| square(point, center))
                    .sum::<f64>()
                    + self.center_cost * open as f64
            };
            if total(&next, open.len() + 1 - closed.len()) < total(&centers, open.len()) {
                centers = next;
                closed.iter().for_each(|center| {
                    open.remove(center);
                });
                open.insert(candidate);
            }
        }
        centers
    }
}

impl Kernel for Streamcluster {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for &candidate in &self.candidates {
            if me.leads() {
                self.number.set(p, 0, self.find_number(p, candidate));
            }
            for center in 0..CENTERS {
                self.savings.set(p, me.thread * CENTERS + center, 0.0);
            }
            me.barrier();
            let number = self.number.get(p, 0);
            if number != NONE {
                let mine = self.look(me, candidate);
                me.barrier();
                let cost = self.center_cost + me.sum(mine + self.think(me));
                if cost < 0.0 {
                    self.open(me, candidate, number);
                }
            }
            me.barrier();
        }
    }

    fn verify(&self) -> Result<(), String> {
        for (point, right) in self.oracle().into_iter().enumerate() {
            let center = self.centers.peek(self.assigned.peek(point) as usize);
            if center as usize != right {
                return Err(format!("point {point} belongs to point {center}, not {right}"));
            }
        }
        Ok(())
    }
}

/// Points in clusters.
fn coordinates(points: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed, POINTS);
    let mut numbers =
        |count: usize, end| -> Vec<usize> { (0..count).map(|_| random.below(end)).collect() };
    let middles = numbers(CLUSTERS * DIMENSIONS, LARGEST - WIDTH);
    let mut coordinates = Vec::with_capacity(points * DIMENSIONS);
    for _ in 0..points {
        let middle = numbers(1, CLUSTERS)[0] * DIMENSIONS;
        let offsets = numbers(DIMENSIONS, WIDTH);
        let point = (0..DIMENSIONS).map(|index| (middles[middle + index] + offsets[index]) as f32);
        coordinates.extend(point);
    }
    coordinates
}

/// The square of the distance of two points.
fn square(coordinates: &[f32], a: usize, b: usize) -> f32 {
    let [a, b] = [a, b].map(|point| &coordinates[point * DIMENSIONS..][..DIMENSIONS]);
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}
