//! CG: a sparse system of equations, solved by conjugate gradients. The matrix is symmetric, with
//! seven pairs of entries per row at random places, and a diagonal that outweighs them.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::is_close;
use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

/// Stream of random numbers.
const MATRIX: u64 = 10;
/// Pairs of entries per row, as in class S.
const PAIRS: usize = 7;
/// By how much the diagonal outweighs a row's other entries.
const SURPLUS: f64 = 0.1;
/// The square of a residual, relative to the first, below which there is nothing left to do.
const SMALLEST: f64 = 1e-26;
/// How far the solution may be from the oracle's, relative to its length, and the residual from the
/// true one, relative to the right-hand side.
const TOLERANCE: f64 = 1e-8;

pub(crate) struct Cg {
    rows: usize,
    starts: Array<u64>,
    columns: Array<u32>,
    entries: Array<f64>,
    solution: Array<f64>,
    residual: Array<f64>,
    direction: Array<f64>,
    image: Array<f64>,
    rounds: u32,
    /// Iterations that were done, and the square of the residual then.
    outcome: Cell<Option<(u32, f64)>>,
}

impl Cg {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let rows = 1 << setup.scale;
        let matrix = matrix(rows, setup.parameters.seed);
        let layout = &mut setup.layout;
        let mut start = 0;
        let ends = matrix.iter().map(|row| {
            start += row.len() as u64;
            start
        });
        let starts = layout.array("starts of rows", std::iter::once(0).chain(ends));
        let columns = || matrix.iter().flat_map(|row| row.keys().copied());
        let entries = || matrix.iter().flat_map(|row| row.values().copied());
        Self {
            rows,
            starts,
            columns: layout.array("columns", columns()),
            entries: layout.array("entries", entries()),
            solution: layout.filled("solution", rows, f64::NAN),
            residual: layout.filled("residual", rows, 0.0),
            direction: layout.filled("direction", rows, 0.0),
            image: layout.filled("image of the direction", rows, 0.0),
            rounds: setup.rounds,
            outcome: Cell::new(None),
        }
    }

    /// Multiplies the direction; its product with its image, as far as this thread's rows go.
    fn multiply<P: Processor>(&self, me: &Member<P>) -> f64 {
        let p = &me.processor;
        let mut product = 0.0;
        for row in me.share(self.rows) {
            let mut sum = 0.0;
            let start = self.starts.follow(p, row) as usize;
            for place in start..self.starts.follow(p, row + 1) as usize {
                let column = self.columns.follow(p, place) as usize;
                sum += self.entries.get(p, place) * self.direction.get(p, column);
                p.works(4);
            }
            self.image.set(p, row, sum);
            product += sum * self.direction.get(p, row);
            p.works(4);
        }
        product
    }

    /// Goes along the direction; the square of the residual, as far as this thread's rows go.
    fn go<P: Processor>(&self, me: &Member<P>, far: f64) -> f64 {
        let p = &me.processor;
        let mut square = 0.0;
        for row in me.share(self.rows) {
            let solution = self.solution.get(p, row) + far * self.direction.get(p, row);
            self.solution.set(p, row, solution);
            let residual = self.residual.get(p, row) - far * self.image.get(p, row);
            self.residual.set(p, row, residual);
            square += residual * residual;
            p.works(8);
        }
        square
    }

    fn turn<P: Processor>(&self, me: &Member<P>, much: f64) {
        let p = &me.processor;
        for row in me.share(self.rows) {
            let direction = self.residual.get(p, row) + much * self.direction.get(p, row);
            self.direction.set(p, row, direction);
            p.works(4);
        }
        me.barrier();
    }

    fn times(&self, vector: &[f64]) -> Vec<f64> {
        let row = |row| {
            let places = self.starts.peek(row) as usize..self.starts.peek(row + 1) as usize;
            let term = |place| self.entries.peek(place) * vector[self.columns.peek(place) as usize];
            places.map(term).sum()
        };
        (0..self.rows).map(row).collect()
    }

    /// The solution after so many iterations.
    fn oracle(&self, iterations: u32) -> Vec<f64> {
        let mut solution = vec![0.0; self.rows];
        let mut residual = vec![1.0; self.rows];
        let mut direction = residual.clone();
        for _ in 0..iterations {
            let image = self.times(&direction);
            let square = dot(&residual, &residual);
            let far = square / dot(&direction, &image);
            for row in 0..self.rows {
                solution[row] += far * direction[row];
                residual[row] -= far * image[row];
            }
            let much = dot(&residual, &residual) / square;
            for row in 0..self.rows {
                direction[row] = residual[row] + much * direction[row];
            }
        }
        solution
    }
}

impl Kernel for Cg {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for row in me.share(self.rows) {
            self.solution.set(p, row, 0.0);
            self.residual.set(p, row, 1.0);
            self.direction.set(p, row, 1.0);
        }
        me.barrier();
        let first = self.rows as f64;
        let mut square = first;
        for iteration in 1..=self.rounds {
            let far = square / me.sum(self.multiply(me));
            let before = std::mem::replace(&mut square, me.sum(self.go(me, far)));
            self.outcome.set(Some((iteration, square)));
            if square < SMALLEST * first {
                break;
            }
            self.turn(me, square / before);
        }
    }

    fn verify(&self) -> Result<(), String> {
        let Some((iterations, square)) = self.outcome.get() else {
            return Err("no iteration was done".to_owned());
        };
        let solution: Vec<f64> = self.solution.values().collect();
        let oracle = self.oracle(iterations);
        let off = distance(&solution, &oracle);
        let right = dot(&oracle, &oracle).sqrt();
        if off.is_nan() || off > TOLERANCE * right {
            return Err(format!("the solution is {off:e} from the right one, of length {right:e}"));
        }
        let sides = vec![1.0; self.rows];
        let (residual, length) =
            (distance(&sides, &self.times(&solution)), dot(&sides, &sides).sqrt());
        if !is_close(length + square.sqrt(), length + residual, TOLERANCE) {
            return Err(format!("the residual is {residual:e}, not {:e}", square.sqrt()));
        }
        Ok(())
    }
}

/// A symmetric matrix, row by row, with a diagonal that outweighs the rest.
fn matrix(rows: usize, seed: u64) -> Vec<BTreeMap<u32, f64>> {
    let mut random = Random::new(seed, MATRIX);
    let mut matrix = vec![BTreeMap::new(); rows];
    for row in 0..rows {
        for _ in 0..PAIRS {
            let (column, entry) = (random.below(rows), 2.0 * random.unit() - 1.0);
            if column != row {
                matrix[row].insert(column as u32, entry);
                matrix[column].insert(row as u32, entry);
            }
        }
    }
    for (row, entries) in matrix.iter_mut().enumerate() {
        let others: f64 = entries.values().map(|entry| entry.abs()).sum();
        entries.insert(row as u32, others + SURPLUS);
    }
    matrix
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}
