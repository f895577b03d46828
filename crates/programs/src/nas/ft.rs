//! FT: the heat equation in three dimensions, by Fourier transforms. Each round lets time go on in
//! the transform, and transforms it back; threads have lines in one dimension after the other, so
//! that all of the data moves from thread to thread.

use super::is_close;
use super::sequence::{START, Sequence};
use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::team::Member;

type Complex = [f64; 2];

const ALPHA: f64 = 1e-6;
const CHECKED: usize = 1024;
const TOLERANCE: f64 = 1e-9;

/// The scale of class S, and its checksums. (Its grid, 64 x 64 x 64, is what this scale stands
/// for.)
const CLASS_S: u32 = 18;
const CHECKSUMS_S: [Complex; 6] = [
    [5.546087004964e+02, 4.845363331978e+02],
    [5.546385409189e+02, 4.865304269511e+02],
    [5.546148406171e+02, 4.883910722336e+02],
    [5.545423607415e+02, 4.901273169046e+02],
    [5.544255039624e+02, 4.917475857993e+02],
    [5.542683411902e+02, 4.932597244941e+02],
];
/// As many digits as were published.
const TOLERANCE_S: f64 = 1e-12;

/// Which way a transform goes.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    There,
    Back,
}

pub(crate) struct Ft {
    /// Points along x, y and z.
    sides: [usize; 3],
    /// The input; then each round's result.
    field: Array<Complex>,
    /// The transform.
    spectrum: Array<Complex>,
    /// The factor of each of the transform's numbers in a unit of time.
    decay: Array<f64>,
    /// The roots of unity of the longest side.
    roots: Array<Complex>,
    /// Two lines per thread.
    lines: Array<Complex>,
    checksums: Array<Complex>,
    scale: u32,
}

impl Ft {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let sides = [2, 1, 0].map(|more| 1 << ((setup.scale + more) / 3));
        let points = 1_usize << setup.scale;
        let longest = sides[0];
        let layout = &mut setup.layout;
        Self {
            field: layout.array("field", input(points)),
            spectrum: layout.filled("spectrum", points, [0.0; 2]),
            decay: layout.array("decay", (0..points).map(|point| decay(&sides, point))),
            roots: layout.array("roots of unity", (0..longest).map(|k| root(k, longest))),
            lines: layout.filled("lines of threads", setup.threads * 2 * longest, [0.0; 2]),
            checksums: layout.filled("checksums", setup.rounds as usize, [f64::NAN; 2]),
            sides,
            scale: setup.scale,
        }
    }

    fn points(&self) -> usize {
        self.field.len()
    }

    /// Transforms in all dimensions, in place; passes barriers.
    fn transform<P: Processor>(&self, me: &Member<P>, values: &Array<Complex>, way: Way) {
        let order = if way == Way::There { [0, 1, 2] } else { [2, 1, 0] };
        for dimension in order {
            for line in me.share(self.points() / self.sides[dimension]) {
                self.transform_line(me, values, dimension, line, way);
            }
            me.barrier();
        }
    }

    /// Transforms a line in a copy of the thread's own.
    fn transform_line<P: Processor>(
        &self,
        me: &Member<P>,
        values: &Array<Complex>,
        dimension: usize,
        line: usize,
        way: Way,
    ) {
        let p = &me.processor;
        let length = self.sides[dimension];
        let (first, stride) = place(&self.sides, dimension, line);
        let start = me.thread * 2 * self.sides[0];
        for index in 0..length {
            self.lines.set(p, start + index, values.get(p, first + index * stride));
        }
        let from = self.stages(p, length, start, way);
        for index in 0..length {
            values.set(p, first + index * stride, self.lines.get(p, from + index));
        }
    }

    /// Stockham's algorithm: stages go to and fro between two lines; where the result is.
    fn stages<P: Processor>(&self, p: &P, length: usize, start: usize, way: Way) -> usize {
        let (mut from, mut to) = (start, start + self.sides[0]);
        let (mut left, mut stride) = (length, 1);
        while left > 1 {
            let half = left / 2;
            for group in 0..half {
                let mut root = self.roots.get(p, group * (self.sides[0] / left));
                if way == Way::Back {
                    root[1] = -root[1];
                }
                for index in 0..stride {
                    let a = self.lines.get(p, from + index + stride * group);
                    let b = self.lines.get(p, from + index + stride * (group + half));
                    let target = to + index + stride * 2 * group;
                    self.lines.set(p, target, [a[0] + b[0], a[1] + b[1]]);
                    let difference = [a[0] - b[0], a[1] - b[1]];
                    self.lines.set(p, target + stride, times(difference, root));
                    p.works(12);
                }
            }
            (left, stride) = (half, 2 * stride);
            (from, to) = (to, from);
        }
        from
    }

    /// Lets a unit of time pass in the spectrum, and copies it.
    fn evolve<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for point in me.share(self.points()) {
            let (value, decay) = (self.spectrum.get(p, point), self.decay.get(p, point));
            let value = value.map(|part| part * decay);
            self.spectrum.set(p, point, value);
            self.field.set(p, point, value);
            p.works(4);
        }
        me.barrier();
    }

    fn checksum<P: Processor>(&self, me: &Member<P>) -> Complex {
        let p = &me.processor;
        let mut mine = [0.0; 2];
        for index in me.share(CHECKED) {
            let value = self.field.get(p, checked(&self.sides, index + 1));
            mine = [mine[0] + value[0], mine[1] + value[1]];
            p.works(8);
        }
        mine.map(|part| me.sum(part) / self.points() as f64)
    }

    /// The checksums by recursive transforms.
    fn oracle(&self) -> Vec<Complex> {
        let mut spectrum: Vec<Complex> = input(self.points()).collect();
        transform_all(&self.sides, &mut spectrum, Way::There);
        let round = |_| {
            for (point, value) in spectrum.iter_mut().enumerate() {
                *value = value.map(|part| part * decay(&self.sides, point));
            }
            let mut field = spectrum.clone();
            transform_all(&self.sides, &mut field, Way::Back);
            let values = (1..=CHECKED).map(|index| field[checked(&self.sides, index)]);
            let sum = values.fold([0.0; 2], |sum, value| [sum[0] + value[0], sum[1] + value[1]]);
            sum.map(|part| part / self.points() as f64)
        };
        (0..self.checksums.len()).map(round).collect()
    }
}

impl Kernel for Ft {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        self.transform(me, &self.field, Way::There);
        for point in me.share(self.points()) {
            self.spectrum.set(p, point, self.field.get(p, point));
        }
        for round in 0..self.checksums.len() {
            self.evolve(me);
            self.transform(me, &self.field, Way::Back);
            let checksum = self.checksum(me);
            if me.leads() {
                self.checksums.set(p, round, checksum);
            }
        }
    }

    fn verify(&self) -> Result<(), String> {
        let compare = |right: &[Complex], tolerance| {
            for (round, (found, right)) in self.checksums.values().zip(right).enumerate() {
                let length = right[0].hypot(right[1]);
                let off = (found[0] - right[0]).hypot(found[1] - right[1]);
                if !is_close(length + off, length, tolerance) {
                    return Err(format!(
                        "the checksum of round {} is {found:?} instead of {right:?}",
                        round + 1
                    ));
                }
            }
            Ok(())
        };
        if self.scale == CLASS_S {
            compare(&CHECKSUMS_S, TOLERANCE_S)?;
        }
        compare(&self.oracle(), TOLERANCE)
    }
}

fn input(points: usize) -> impl Iterator<Item = Complex> {
    let mut sequence = Sequence::new(START);
    (0..points).map(move |_| [sequence.next(), sequence.next()])
}

/// The factor of a point of the transform in a unit of time.
fn decay(sides: &[usize; 3], point: usize) -> f64 {
    let mut rest = point;
    let square: f64 = sides
        .iter()
        .map(|&side| {
            let index = rest % side;
            rest /= side;
            let frequency = ((index + side / 2) % side) as f64 - (side / 2) as f64;
            frequency * frequency
        })
        .sum();
    let pi = std::f64::consts::PI;
    libm::exp(-4.0 * ALPHA * pi * pi * square)
}

/// The point that adds to a checksum.
fn checked(sides: &[usize; 3], index: usize) -> usize {
    let [x, y, z] = [index % sides[0], 3 * index % sides[1], 5 * index % sides[2]];
    x + sides[0] * (y + sides[1] * z)
}

/// Where a line in a dimension begins, and how far apart its points are.
fn place(sides: &[usize; 3], dimension: usize, line: usize) -> (usize, usize) {
    let stride: usize = sides[..dimension].iter().product();
    (line / stride * stride * sides[dimension] + line % stride, stride)
}

fn root(k: usize, of: usize) -> Complex {
    let angle = -2.0 * std::f64::consts::PI * k as f64 / of as f64;
    [libm::cos(angle), libm::sin(angle)]
}

fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// The oracle's transform in all dimensions.
fn transform_all(sides: &[usize; 3], values: &mut [Complex], way: Way) {
    for dimension in 0..3 {
        for line in 0..values.len() / sides[dimension] {
            let (first, stride) = place(sides, dimension, line);
            let places = (0..sides[dimension]).map(|index| first + index * stride);
            let copy: Vec<Complex> = places.clone().map(|place| values[place]).collect();
            for (place, value) in places.zip(transform(&copy, way)) {
                values[place] = value;
            }
        }
    }
}

/// The transform of a line from those of its even and of its odd places.
fn transform(line: &[Complex], way: Way) -> Vec<Complex> {
    if line.len() == 1 {
        return line.to_vec();
    }
    let half = |odd: usize| line.iter().skip(odd).step_by(2).copied().collect::<Vec<_>>();
    let (even, odd) = (transform(&half(0), way), transform(&half(1), way));
    let turned: Vec<Complex> = (odd.iter().enumerate())
        .map(|(k, &value)| {
            let [real, imaginary] = root(k, line.len());
            times(value, [real, if way == Way::There { imaginary } else { -imaginary }])
        })
        .collect();
    let low = even.iter().zip(&turned).map(|(a, b)| [a[0] + b[0], a[1] + b[1]]);
    let high = even.iter().zip(&turned).map(|(a, b)| [a[0] - b[0], a[1] - b[1]]);
    low.chain(high).collect()
}
