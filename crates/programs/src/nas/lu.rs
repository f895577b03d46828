//! LU: a system of equations on a cube, by symmetric successive over-relaxation. Points whose
//! coordinates have one sum depend on none of each other, and threads share them: planes go through
//! the cube, and back.
//!
//! Simpler than the suite's: there is one equation for each point.

use super::is_close;
use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

/// Stream of random numbers.
const SYSTEM: u64 = 25;
/// Over-relaxation, as in the suite.
const OMEGA: f64 = 1.2;
const TOLERANCE: f64 = 1e-12;

pub(crate) struct Lu {
    side: usize,
    solution: Array<f64>,
    forces: Array<f64>,
    /// How strongly points follow their neighbours.
    weights: Array<f64>,
    rounds: u32,
}

impl Lu {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let side = 1usize << (setup.scale / 3);
        let points = side * side * side;
        let mut random = Random::new(setup.parameters.seed, SYSTEM);
        let forces: Vec<f64> = (0..points).map(|_| random.unit()).collect();
        let weights: Vec<f64> = (0..points).map(|_| 0.1 + 0.4 * random.unit()).collect();
        Self {
            side,
            solution: setup.layout.filled("solution", points, 0.0),
            forces: setup.layout.array("forces", forces),
            weights: setup.layout.array("weights", weights),
            rounds: setup.rounds,
        }
    }

    fn point(&self, [x, y, z]: [usize; 3]) -> usize {
        (z * self.side + y) * self.side + x
    }

    /// The neighbours of a point; outside of the cube all is zero.
    fn neighbours(&self, at: [usize; 3]) -> impl Iterator<Item = usize> + '_ {
        (0..6).filter_map(move |which| {
            let mut next = at;
            let moved = &mut next[which / 2];
            *moved = if which % 2 == 0 { moved.checked_sub(1)? } else { *moved + 1 };
            (*moved < self.side).then(|| self.point(next))
        })
    }

    fn relax<P: Processor>(&self, p: &P, at: [usize; 3]) {
        let point = self.point(at);
        let sum = self.neighbours(at).map(|next| self.solution.get(p, next)).sum();
        let (force, weight) = (self.forces.get(p, point), self.weights.get(p, point));
        let old = self.solution.get(p, point);
        self.solution.set(p, point, relaxed(old, sum, force, weight));
        p.works(14);
    }

    /// The solution in the end, by one point after the other, row by row.
    fn oracle(&self) -> Vec<f64> {
        let points = self.solution.len();
        let mut solution = vec![0.0; points];
        let mut relax = |point: usize| {
            let at = [point % self.side, point / self.side % self.side, point / self.side.pow(2)];
            let sum = self.neighbours(at).map(|next| solution[next]).sum();
            let (force, weight) = (self.forces.peek(point), self.weights.peek(point));
            solution[point] = relaxed(solution[point], sum, force, weight);
        };
        for _ in 0..self.rounds {
            (0..points).for_each(&mut relax);
            (0..points).rev().for_each(&mut relax);
        }
        solution
    }
}

/// The new value of a point whose neighbours have this sum.
fn relaxed(old: f64, sum: f64, force: f64, weight: f64) -> f64 {
    (1.0 - OMEGA) * old + OMEGA * (force + weight * sum) / (1.0 + 6.0 * weight)
}

impl Kernel for Lu {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let planes = 3 * (self.side - 1) + 1;
        for _ in 0..self.rounds {
            for plane in (0..planes).chain((0..planes).rev()) {
                for row in me.share(self.side * self.side) {
                    let (y, z) = (row % self.side, row / self.side);
                    if let Some(x) = plane.checked_sub(y + z).filter(|&x| x < self.side) {
                        self.relax(&me.processor, [x, y, z]);
                    }
                }
                me.barrier();
            }
        }
    }

    fn verify(&self) -> Result<(), String> {
        let mut found = self.solution.values().zip(self.oracle()).enumerate();
        match found.find(|&(_, (value, right))| !is_close(value, right, TOLERANCE)) {
            Some((point, (value, right))) => Err(format!("point {point} is {value}, not {right}")),
            None => Ok(()),
        }
    }
}
