//! SP and BT: diffusion in a cube, in implicit steps along one axis after the other. Along each
//! line of points a system of equations is solved whose matrix has three diagonals: of numbers in
//! SP, as after the suite's diagonalization, and of small blocks in BT.
//!
//! Simpler than the suite's: there are three diagonals in SP, too, one equation (SP) or three (BT),
//! and no convection.

use super::is_close;
use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

/// Stream of random numbers.
const FIELD: u64 = 24;
/// How strongly each component follows the others.
const COUPLING: f64 = 0.1;
const TOLERANCE: f64 = 1e-9;

/// With one component.
pub(crate) type Sp = Adi<1>;
/// With three components, which depend on each other.
pub(crate) type Bt = Adi<3>;

type Block<const N: usize> = [[f64; N]; N];
type Vector<const N: usize> = [f64; N];

pub(crate) struct Adi<const N: usize> {
    side: usize,
    /// By point, then by component.
    field: Array<f64>,
    /// How fast each point gives to its neighbours.
    speeds: Array<f64>,
    /// By thread, the line that it eliminates, as far as it is: by position a block, and a vector.
    work: Vec<Array<f64>>,
    first: Vec<f64>,
    rounds: u32,
}

impl<const N: usize> Adi<N> {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let side = 1usize << (setup.scale / 3);
        let points = side * side * side;
        let mut random = Random::new(setup.parameters.seed, FIELD);
        let first: Vec<f64> = (0..points * N).map(|_| random.unit()).collect();
        let speeds: Vec<f64> = (0..points).map(|_| 0.1 + 0.4 * random.unit()).collect();
        let layout = &mut setup.layout;
        Self {
            side,
            field: layout.array("field", first.iter().copied()),
            speeds: layout.array("speeds", speeds),
            work: (0..setup.threads)
                .map(|_| layout.filled("eliminated lines", side * N * (N + 1), 0.0))
                .collect(),
            first,
            rounds: setup.rounds,
        }
    }

    /// A point of a line along an axis.
    fn at(&self, axis: usize, line: usize, place: usize) -> usize {
        let (low, high) = (line % self.side, line / self.side);
        let strides = [1, self.side, self.side * self.side];
        let [along, one, other] = [0, 1, 2].map(|next| strides[(axis + next) % 3]);
        place * along + low * one + high * other
    }

    /// Solves the equations of a line.
    fn solve<P: Processor>(&self, me: &Member<P>, axis: usize, line: usize) {
        let (p, work) = (&me.processor, &self.work[me.thread]);
        let (mut upper, mut right) = ([[0.0; N]; N], [0.0; N]);
        for place in 0..self.side {
            let point = self.at(axis, line, place);
            let speed = self.speeds.get(p, point);
            let old = std::array::from_fn(|n| self.field.get(p, point * N + n));
            (upper, right) = eliminate(speed, old, &upper, &right);
            let start = place * N * (N + 1);
            let values = upper.iter().flatten().chain(&right);
            values.enumerate().for_each(|(n, &value)| work.set(p, start + n, value));
            p.works((4 * N * N * N + 6) as u64);
        }
        let mut next = [0.0; N];
        for place in (0..self.side).rev() {
            let start = place * N * (N + 1);
            let upper: Block<N> = std::array::from_fn(|row| {
                std::array::from_fn(|column| work.get(p, start + row * N + column))
            });
            let right: Vector<N> = std::array::from_fn(|n| work.get(p, start + N * N + n));
            let ahead = apply(&upper, &next);
            next = std::array::from_fn(|n| right[n] - ahead[n]);
            let point = self.at(axis, line, place);
            (0..N).for_each(|n| self.field.set(p, point * N + n, next[n]));
            p.works((2 * N * N + 2) as u64);
        }
    }

    /// The field in the end, by elimination from the other ends of lines.
    fn oracle(&self) -> Vec<f64> {
        let mut field = self.first.clone();
        for axis in (0..self.rounds).flat_map(|_| 0..3) {
            for line in 0..self.side * self.side {
                let (mut lower, mut right) = ([[0.0; N]; N], [0.0; N]);
                let mut eliminated = Vec::new();
                for place in (0..self.side).rev() {
                    let point = self.at(axis, line, place);
                    let old = std::array::from_fn(|n| field[point * N + n]);
                    (lower, right) = eliminate(self.speeds.peek(point), old, &lower, &right);
                    eliminated.push((point, lower, right));
                }
                let mut next = [0.0; N];
                for (point, lower, right) in eliminated.into_iter().rev() {
                    let behind = apply(&lower, &next);
                    next = std::array::from_fn(|n| right[n] - behind[n]);
                    field[point * N..][..N].copy_from_slice(&next);
                }
            }
        }
        field
    }
}

impl<const N: usize> Kernel for Adi<N> {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for axis in (0..self.rounds).flat_map(|_| 0..3) {
            for line in me.share(self.side * self.side) {
                self.solve(me, axis, line);
            }
            me.barrier();
        }
    }

    fn verify(&self) -> Result<(), String> {
        let found = self.field.values().zip(self.oracle()).enumerate();
        let wrong = found.filter(|&(_, (value, right))| !is_close(value, right, TOLERANCE));
        match wrong.map(|(at, (value, right))| (at, value, right)).next() {
            Some((at, value, right)) => {
                Err(format!("component {} of point {} is {value}, not {right}", at % N, at / N))
            }
            None => Ok(()),
        }
    }
}

/// How a point's components follow from those of a neighbour.
fn coupling<const N: usize>(row: usize, column: usize) -> f64 {
    if row == column { 1.0 } else { COUPLING }
}

/// A point's equation after that of the point before it was taken from it: the block that
/// multiplies the next point, and the right-hand side.
fn eliminate<const N: usize>(
    speed: f64,
    old: Vector<N>,
    before: &Block<N>,
    right: &Vector<N>,
) -> (Block<N>, Vector<N>) {
    let neighbour: Block<N> = std::array::from_fn(|row| {
        std::array::from_fn(|column| -speed * coupling::<N>(row, column))
    });
    let mut middle: Block<N> = std::array::from_fn(|row| {
        std::array::from_fn(|column| {
            let taken: f64 = (0..N).map(|k| neighbour[row][k] * before[k][column]).sum();
            f64::from(u8::from(row == column)) - 2.0 * neighbour[row][column] - taken
        })
    });
    let taken = apply(&neighbour, right);
    let mut next: Vector<N> = std::array::from_fn(|n| old[n] - taken[n]);
    let mut block = neighbour;
    divide(&mut middle, &mut block, &mut next);
    (block, next)
}

/// Divides a block and a vector by a block, whose diagonal outweighs the rest.
fn divide<const N: usize>(by: &mut Block<N>, block: &mut Block<N>, vector: &mut Vector<N>) {
    for pivot in 0..N {
        let scale = 1.0 / by[pivot][pivot];
        by[pivot].iter_mut().chain(&mut block[pivot]).for_each(|value| *value *= scale);
        vector[pivot] *= scale;
        for row in (0..N).filter(|&row| row != pivot) {
            let factor = by[row][pivot];
            for column in 0..N {
                by[row][column] -= factor * by[pivot][column];
                block[row][column] -= factor * block[pivot][column];
            }
            vector[row] -= factor * vector[pivot];
        }
    }
}

fn apply<const N: usize>(block: &Block<N>, vector: &Vector<N>) -> Vector<N> {
    std::array::from_fn(|row| (0..N).map(|column| block[row][column] * vector[column]).sum())
}
