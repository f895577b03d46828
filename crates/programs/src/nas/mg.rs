//! MG: Poisson's equation on a periodic cube, by multigrid V-cycles. A stencil has one weight for
//! its middle, one for its 6 faces, its 12 edges and its 8 corners each.

use std::cell::Cell;

use super::is_close;
use super::sequence::{START, Sequence};
use crate::Processor;
use crate::array::{Array, Layout};
use crate::program::{Kernel, Setup};
use crate::team::Member;

const OPERATOR: [f64; 4] = [-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0];
const SMOOTHER: [f64; 4] = [-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.0];
const COARSENING: [f64; 4] = [0.5, 0.25, 0.125, 0.0625];
/// Charges of each sign, at most.
const CHARGES: usize = 10;
const TOLERANCE: f64 = 1e-8;
/// The part of a residual that remains for rounding, relative to the first.
const ROUNDING: f64 = 1e-13;
/// The part of the residual that each cycle leaves, at most.
const PROGRESS: f64 = 0.7;

/// Scale, rounds and residual of class S.
const CLASS_S: (u32, u32, f64) = (15, 4, 0.530_770_700_573_4e-4);

/// A cube of numbers.
struct Grid {
    /// Points along a side, as a power of two.
    bits: u32,
    points: Array<f64>,
}

impl Grid {
    fn new(layout: &mut Layout, name: &'static str, bits: u32) -> Self {
        Self { bits, points: layout.filled(name, 1 << (3 * bits), 0.0) }
    }

    fn side(&self) -> usize {
        1 << self.bits
    }

    /// Rows of points along x, each with its y and z.
    fn rows(&self) -> usize {
        1 << (2 * self.bits)
    }

    /// Where the row begins that is so far from this one.
    fn row(&self, row: usize, y: usize, z: usize) -> usize {
        let last = self.side() - 1;
        let (y, z) = ((row + y) & last, ((row >> self.bits) + z) & last);
        ((z << self.bits) | y) << self.bits
    }
}

pub(crate) struct Mg {
    /// From coarse to fine.
    solutions: Vec<Grid>,
    residuals: Vec<Grid>,
    charges: Grid,
    /// Two rows per thread.
    sums: Array<f64>,
    rounds: u32,
    scale: u32,
    norm: Cell<Option<f64>>,
}

impl Mg {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let finest = setup.scale / 3;
        let layout = &mut setup.layout;
        let charges = charges(1 << (3 * finest));
        let points = layout.array("charges", charges);
        let grids = |layout: &mut Layout, name| {
            (1..=finest).map(|bits| Grid::new(layout, name, bits)).collect()
        };
        Self {
            solutions: grids(layout, "solution"),
            residuals: grids(layout, "residual"),
            charges: Grid { bits: finest, points },
            sums: layout.filled("rows of threads", (2 * setup.threads) << finest, 0.0),
            rounds: setup.rounds,
            scale: setup.scale,
            norm: Cell::new(None),
        }
    }

    fn clear<P: Processor>(&self, me: &Member<P>, grid: &Grid) {
        for point in me.share(grid.points.len()) {
            grid.points.set(&me.processor, point, 0.0);
        }
        me.barrier();
    }

    /// Calls `body` with each point of a row and what the stencil makes of the grid there. Sums of
    /// a row's neighbours are kept, since each is used three times.
    fn stencil<P: Processor>(
        &self,
        me: &Member<P>,
        grid: &Grid,
        weights: &[f64; 4],
        row: usize,
        mut body: impl FnMut(usize, f64),
    ) {
        let (p, side) = (&me.processor, grid.side());
        let (minus, last) = (side - 1, side - 1);
        let faces = (2 * me.thread) << self.charges.bits;
        let edges = faces + self.charges.side();
        let sum = |rows: [usize; 4], x: usize| -> f64 {
            rows.iter().map(|row| grid.points.get(p, row + x)).sum()
        };
        let near = [(0, minus), (0, 1), (minus, 0), (1, 0)].map(|(y, z)| grid.row(row, y, z));
        let far =
            [(minus, minus), (minus, 1), (1, minus), (1, 1)].map(|(y, z)| grid.row(row, y, z));
        for x in 0..side {
            self.sums.set(p, faces + x, sum(near, x));
            self.sums.set(p, edges + x, sum(far, x));
            p.works(8);
        }
        let middle = grid.row(row, 0, 0);
        for x in 0..side {
            let (left, right) = ((x + minus) & last, (x + 1) & last);
            let ends = grid.points.get(p, middle + left) + grid.points.get(p, middle + right);
            let near = [left, x, right].map(|x| self.sums.get(p, faces + x));
            let far = [left, x, right].map(|x| self.sums.get(p, edges + x));
            let value = weights[0] * grid.points.get(p, middle + x)
                + weights[1] * (ends + near[1])
                + weights[2] * (far[1] + near[0] + near[2])
                + weights[3] * (far[0] + far[2]);
            p.works(14);
            body(middle + x, value);
        }
    }

    /// The difference between `from` and the solution's charges.
    fn residual<P: Processor>(&self, me: &Member<P>, level: usize, from: &Grid) {
        let (p, residual) = (&me.processor, &self.residuals[level]);
        for row in me.share(residual.rows()) {
            self.stencil(me, &self.solutions[level], &OPERATOR, row, |point, value| {
                let left = from.points.get(p, point) - value;
                residual.points.set(p, point, left);
            });
        }
        me.barrier();
    }

    fn smooth<P: Processor>(&self, me: &Member<P>, level: usize) {
        let (p, solution) = (&me.processor, &self.solutions[level]);
        for row in me.share(solution.rows()) {
            self.stencil(me, &self.residuals[level], &SMOOTHER, row, |point, value| {
                let old = solution.points.get(p, point);
                solution.points.set(p, point, old + value);
            });
        }
        me.barrier();
    }

    /// Makes the next coarser residual. A coarse point lies on the odd fine ones.
    fn coarsen<P: Processor>(&self, me: &Member<P>, level: usize) {
        let (p, fine, coarse) = (&me.processor, &self.residuals[level], &self.residuals[level - 1]);
        for row in me.share(coarse.rows()) {
            let (y, z) = (row % coarse.side(), row / coarse.side());
            let fine_row = ((2 * z + 1) << fine.bits) + 2 * y + 1;
            let start = coarse.row(row, 0, 0);
            self.stencil(me, fine, &COARSENING, fine_row, |point, value| {
                let x = point % fine.side();
                if x % 2 == 1 {
                    coarse.points.set(p, start + x / 2, value);
                }
            });
        }
        me.barrier();
    }

    /// Adds the next coarser solution: even points lie between two coarse ones.
    fn refine<P: Processor>(&self, me: &Member<P>, level: usize) {
        let (p, fine, coarse) = (&me.processor, &self.solutions[level], &self.solutions[level - 1]);
        let bits = coarse.bits;
        for row in me.share(fine.rows()) {
            let ys = between(row % fine.side(), bits);
            let zs = between(row / fine.side(), bits);
            let start = fine.row(row, 0, 0);
            for x in 0..fine.side() {
                let xs = between(x, bits);
                let (mut sum, mut count) = (0.0, 0.0);
                for z in zs.clone() {
                    for y in ys.clone() {
                        for x in xs.clone() {
                            sum += coarse.points.get(p, (((z << bits) | y) << bits) | x);
                            count += 1.0;
                        }
                    }
                }
                p.works(2 + 2 * count as u64);
                let old = fine.points.get(p, start + x);
                fine.points.set(p, start + x, old + sum / count);
            }
        }
        me.barrier();
    }

    fn cycle<P: Processor>(&self, me: &Member<P>) {
        let finest = self.solutions.len() - 1;
        for level in (1..=finest).rev() {
            self.coarsen(me, level);
        }
        for level in 0..=finest {
            if level < finest {
                self.clear(me, &self.solutions[level]);
            }
            if level > 0 {
                self.refine(me, level);
                let from = if level == finest { &self.charges } else { &self.residuals[level] };
                self.residual(me, level, from);
            }
            self.smooth(me, level);
        }
    }

    fn norm<P: Processor>(&self, me: &Member<P>) -> f64 {
        let residual = &self.residuals[self.residuals.len() - 1].points;
        let square = |point| {
            let value = residual.get(&me.processor, point);
            me.processor.works(2);
            value * value
        };
        let mine = me.share(residual.len()).map(square).sum();
        (me.sum(mine) / residual.len() as f64).sqrt()
    }

    /// The difference between the charges and the solution's, point by point.
    fn oracle(&self) -> f64 {
        let grid = &self.solutions[self.solutions.len() - 1];
        let (side, bits) = (grid.side(), grid.bits);
        let at = |x: usize, y: usize, z: usize| {
            let [x, y, z] = [x, y, z].map(|index| index % side);
            grid.points.peek((((z << bits) | y) << bits) | x)
        };
        let mut squares = 0.0;
        for (point, charge) in self.charges.points.values().enumerate() {
            let (x, y, z) = (point % side, point / side % side, point / side / side);
            let mut left = charge;
            for neighbour in 0..27 {
                let [a, b, c] = [neighbour % 3, neighbour / 3 % 3, neighbour / 9];
                let far = [a, b, c].iter().filter(|&&index| index != 1).count();
                left -= OPERATOR[far] * at(x + side + a - 1, y + side + b - 1, z + side + c - 1);
            }
            squares += left * left;
        }
        (squares / self.charges.points.len() as f64).sqrt()
    }
}

impl Kernel for Mg {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let finest = self.solutions.len() - 1;
        self.clear(me, &self.solutions[finest]);
        self.residual(me, finest, &self.charges);
        for _ in 0..self.rounds {
            self.cycle(me);
            self.residual(me, finest, &self.charges);
        }
        let norm = self.norm(me);
        self.norm.set(Some(norm));
    }

    fn verify(&self) -> Result<(), String> {
        let norm = self.norm.get().ok_or("no residual was computed")?;
        let squares = self.charges.points.values().map(|charge| charge * charge);
        let first = (squares.sum::<f64>() / self.charges.points.len() as f64).sqrt();
        let right = self.oracle();
        if !is_close(norm + ROUNDING * first, right + ROUNDING * first, TOLERANCE)
            && (norm - right).abs() > ROUNDING * first
        {
            return Err(format!("the residual is {norm:e} instead of {right:e}"));
        }
        let most = first * PROGRESS.powi(self.rounds as i32).max(ROUNDING);
        if norm.is_nan() || norm > most {
            return Err(format!("the residual is {norm:e}, and was {first:e} at first"));
        }
        let (scale, rounds, published) = CLASS_S;
        if (self.scale, self.rounds) == (scale, rounds) && !is_close(norm, published, TOLERANCE) {
            return Err(format!("the residual is {norm:e}, and not class S's {published:e}"));
        }
        Ok(())
    }
}

/// The coarse points that a fine one lies on, or between.
fn between(fine: usize, coarse_bits: u32) -> impl Iterator<Item = usize> + Clone {
    let last = (1 << coarse_bits) - 1;
    let (first, count) = if fine % 2 == 1 { (fine / 2, 1) } else { (fine / 2 + last, 2) };
    (first..first + count).map(move |coarse| coarse & last)
}

/// The suite's charges: +1 where random numbers are largest, -1 where they are smallest.
fn charges(points: usize) -> Vec<f64> {
    let mut sequence = Sequence::new(START);
    let numbers: Vec<f64> = (0..points).map(|_| sequence.next()).collect();
    let mut order: Vec<usize> = (0..points).collect();
    let count = CHARGES.min(points / 2);
    let by_number = |a: &usize, b: &usize| numbers[*a].total_cmp(&numbers[*b]);
    order.sort_unstable_by(by_number);
    let mut charges = vec![0.0; points];
    order[..count].iter().for_each(|&point| charges[point] = -1.0);
    order[points - count..].iter().for_each(|&point| charges[point] = 1.0);
    charges
}
