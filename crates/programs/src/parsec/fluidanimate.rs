//! Like fluidanimate: a fluid of particles (smoothed-particle hydrodynamics). Particles lie in
//! cells, which have room for 16 and, as in PARSEC's, are continued elsewhere if there are more; a
//! thread has a block of cells, and looks at each pair of near particles once, so that it changes
//! particles of its neighbours' cells, under a lock per cell. Sums are in fixed point, so that the
//! order of their terms does not matter.
//!
//! The length at which particles feel each other is 1, and the size of a cell.

use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

type Vector = [f32; 3];

/// Stream of random numbers.
const PARTICLES: u64 = 25;
/// Particles per cell, if they were everywhere; they begin in one half.
const PER_CELL: usize = 4;
/// Particles that a block has room for.
const ROOM: usize = 16;
/// One, in fixed point.
const ONE: f64 = (1_u64 << 32) as f64;
const STEP: f32 = 0.01;
const GRAVITY: f32 = -1.0;
const REST_DENSITY: f64 = 3.5;
const PRESSURE: f64 = 4.0;
const VISCOSITY: f64 = 0.5;
/// The part of its speed that a particle keeps when it meets a wall.
const BOUNCE: f32 = 0.5;
/// Two particles are never nearer, as far as forces go.
const NEAREST: f64 = 1e-3;

pub(crate) struct Fluidanimate {
    /// Cells along a side.
    side: usize,
    positions: Array<Vector>,
    velocities: Array<Vector>,
    densities: Array<i64>,
    forces: Array<[i64; 3]>,
    /// How many particles are in each cell.
    counts: Array<u32>,
    /// Blocks of particles: the first one of each cell, then those in which cells are continued.
    blocks: Array<u32>,
    /// The block that continues each block.
    next: Array<u32>,
    /// The first block that is not in use.
    free: Array<u32>,
    locks: Array<u32>,
    /// Whether others than its thread change a cell's particles.
    borders: Array<u8>,
    input: Vec<Vector>,
    frames: u32,
}

impl Fluidanimate {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let count = 1_usize << setup.scale;
        let side = (1..).take_while(|side| side * side * side * PER_CELL <= count).last();
        let side = side.unwrap_or(1);
        let input = particles(count, side, setup.parameters.seed);
        let cells = side * side * side;
        let mut owners = vec![0; cells];
        for thread in 0..setup.threads {
            let block = crate::team::share(cells, thread, setup.threads);
            owners[block].iter_mut().for_each(|owner| *owner = thread);
        }
        let is_border = |cell| around(side, cell).any(|other| owners[other] != owners[cell]);
        let layout = &mut setup.layout;
        Self {
            side,
            positions: layout.array("positions", input.iter().copied()),
            velocities: layout.filled("velocities", count, [0.0; 3]),
            densities: layout.filled("densities", count, 0),
            forces: layout.filled("forces", count, [0; 3]),
            counts: layout.filled("counts of cells", cells, 0),
            // The continuation of a cell follows a block that is full.
            blocks: layout.filled("blocks of particles", ROOM * cells + count, 0),
            next: layout.filled("next blocks", cells + count / ROOM, 0),
            free: layout.filled("first free block", 1, 0),
            locks: layout.filled("locks", cells, 0),
            borders: layout.array("borders", (0..cells).map(|cell| is_border(cell).into())),
            input,
            frames: setup.rounds,
        }
    }

    fn cells(&self) -> usize {
        self.counts.len()
    }

    /// Does something to a cell under its lock, if it has to.
    fn locked<P: Processor>(&self, p: &P, cell: usize, always: bool, change: impl FnOnce()) {
        let locks = always || self.borders.get(p, cell) == 1;
        while locks && !self.locks.compare_exchange(p, cell, 0, 1) {
            p.works(2);
        }
        change();
        if locks {
            self.locks.set(p, cell, 0);
        }
    }

    /// Puts particles into cells; passes barriers.
    fn fill<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        me.share(self.cells()).for_each(|cell| self.counts.set(p, cell, 0));
        if me.leads() {
            self.free.set(p, 0, self.cells() as u32);
        }
        me.barrier();
        for particle in me.share(self.positions.len()) {
            self.densities.set(p, particle, 0);
            self.forces.set(p, particle, [0; 3]);
            let cell = cell(self.side, self.positions.follow(p, particle));
            p.works(10);
            self.locked(p, cell, true, || self.put(p, cell, particle));
        }
        me.barrier();
    }

    /// Puts a particle into a cell, which is locked.
    fn put<P: Processor>(&self, p: &P, cell: usize, particle: usize) {
        let count = self.counts.follow(p, cell) as usize;
        self.counts.set(p, cell, count as u32 + 1);
        let full = count / ROOM;
        let follow = |block, _| self.next.follow(p, block) as usize;
        let mut block = (1..full).fold(cell, follow);
        if full > 0 && count.is_multiple_of(ROOM) {
            let free = self.free.update(p, 0, |free| free + 1);
            self.next.set(p, block, free);
            block = free as usize;
        } else if full > 0 {
            block = follow(block, full);
        }
        self.blocks.set(p, block * ROOM + count % ROOM, particle as u32);
    }

    /// Calls `body` with each particle of a cell.
    fn each<P: Processor>(&self, p: &P, cell: usize, mut body: impl FnMut(usize)) {
        let mut block = cell;
        for place in 0..self.counts.follow(p, cell) as usize {
            if place > 0 && place.is_multiple_of(ROOM) {
                block = self.next.follow(p, block) as usize;
            }
            body(self.blocks.follow(p, block * ROOM + place % ROOM) as usize);
        }
    }

    /// Calls `body` with each pair of near particles of which this thread has one, and their cells;
    /// once for each pair.
    fn each_pair<P: Processor>(
        &self,
        me: &Member<P>,
        mut body: impl FnMut([usize; 2], [usize; 2], [f64; 3], f64),
    ) {
        let p = &me.processor;
        for cell in me.share(self.cells()) {
            for other in around(self.side, cell).filter(|&other| other <= cell) {
                self.each(p, cell, |a| {
                    let position = self.positions.get(p, a);
                    self.each(p, other, |b| {
                        if other == cell && b >= a {
                            return;
                        }
                        p.works(8);
                        let apart = apart(position, self.positions.get(p, b));
                        let square = square(apart);
                        if square < 1.0 {
                            body([a, b], [cell, other], apart, square);
                        }
                    });
                });
            }
        }
        me.barrier();
    }

    fn sum_densities<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        self.each_pair(me, |pair, cells, _, square| {
            let term = density_term(square);
            p.works(6);
            for (particle, cell) in pair.into_iter().zip(cells) {
                self.locked(p, cell, false, || {
                    let sum = self.densities.get(p, particle);
                    self.densities.set(p, particle, sum + term);
                });
            }
        });
    }

    fn sum_forces<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        self.each_pair(me, |pair, cells, apart, square| {
            let densities = pair.map(|particle| self.densities.get(p, particle));
            let [a, b] = pair.map(|particle| self.velocities.get(p, particle));
            let force = force(densities, apart, square, self::apart(a, b));
            p.works(40);
            for (index, (particle, cell)) in pair.into_iter().zip(cells).enumerate() {
                let force = if index == 0 { force } else { force.map(|part| -part) };
                self.locked(p, cell, false, || {
                    let sum = self.forces.get(p, particle);
                    self.forces.set(p, particle, add(sum, force));
                });
            }
        });
    }

    fn advance<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for particle in me.share(self.positions.len()) {
            let position = self.positions.get(p, particle);
            let velocity = self.velocities.get(p, particle);
            let force = self.forces.get(p, particle);
            let (position, velocity) = moved(self.side, position, velocity, force);
            p.works(30);
            self.positions.set(p, particle, position);
            self.velocities.set(p, particle, velocity);
        }
        me.barrier();
    }

    /// Where particles are in the end; each looks for its neighbours in lists of cells.
    fn oracle(&self) -> Vec<Vector> {
        let mut positions = self.input.clone();
        let mut velocities = vec![[0.0; 3]; positions.len()];
        for _ in 0..self.frames {
            let mut cells = vec![Vec::new(); self.cells()];
            for (particle, &position) in positions.iter().enumerate() {
                cells[cell(self.side, position)].push(particle);
            }
            let near = |particle: usize| {
                let cells = &cells;
                let position = positions[particle];
                let positions = &positions;
                around(self.side, cell(self.side, position))
                    .flat_map(move |cell| cells[cell].iter().copied())
                    .filter(move |&other| other != particle)
                    .map(move |other| (other, apart(position, positions[other])))
                    .filter(|(_, apart)| square(*apart) < 1.0)
            };
            let densities: Vec<i64> = (0..positions.len())
                .map(|particle| near(particle).map(|(_, apart)| density_term(square(apart))).sum())
                .collect();
            let next: Vec<(Vector, Vector)> = (0..positions.len())
                .map(|particle| {
                    let term = |(other, apart): (usize, [f64; 3])| {
                        let between = self::apart(velocities[particle], velocities[other]);
                        let densities = [densities[particle], densities[other]];
                        force(densities, apart, square(apart), between)
                    };
                    let sum = near(particle).map(term).fold([0; 3], add);
                    moved(self.side, positions[particle], velocities[particle], sum)
                })
                .collect();
            (positions, velocities) = next.into_iter().unzip();
        }
        positions
    }
}

impl Kernel for Fluidanimate {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for _ in 0..self.frames {
            self.fill(me);
            self.sum_densities(me);
            self.sum_forces(me);
            self.advance(me);
        }
    }

    fn verify(&self) -> Result<(), String> {
        for (particle, right) in self.oracle().into_iter().enumerate() {
            let position = self.positions.peek(particle);
            if position != right {
                return Err(format!("particle {particle} is at {position:?}, not at {right:?}"));
            }
        }
        Ok(())
    }
}

/// Particles at rest in the lower half along x, by cell.
fn particles(count: usize, side: usize, seed: u64) -> Vec<Vector> {
    let mut random = Random::new(seed, PARTICLES);
    let mut along = |length: f64| (random.unit() * length) as f32;
    let length = side as f64;
    let mut particles: Vec<Vector> =
        (0..count).map(|_| [along(length / 2.0), along(length), along(length)]).collect();
    particles.sort_by_key(|&particle| cell(side, particle));
    particles
}

/// The cell of a position.
fn cell(side: usize, position: Vector) -> usize {
    let [x, y, z] = position.map(|part| (part as usize).min(side - 1));
    (z * side + y) * side + x
}

/// The cells around one, and itself.
fn around(side: usize, cell: usize) -> impl Iterator<Item = usize> {
    let near = move |index: usize| index.saturating_sub(1)..=(index + 1).min(side - 1);
    let (x, y, z) = (cell % side, cell / side % side, cell / side / side);
    near(z).flat_map(move |z| {
        near(y).flat_map(move |y| near(x).map(move |x| (z * side + y) * side + x))
    })
}

fn apart(a: Vector, b: Vector) -> [f64; 3] {
    [0, 1, 2].map(|part| f64::from(a[part]) - f64::from(b[part]))
}

fn square(vector: [f64; 3]) -> f64 {
    vector.iter().map(|part| part * part).sum()
}

fn add(a: [i64; 3], b: [i64; 3]) -> [i64; 3] {
    [0, 1, 2].map(|part| a[part] + b[part])
}

/// The share of a particle in the density of another.
fn density_term(square: f64) -> i64 {
    let near = 1.0 - square;
    (near * near * near * ONE) as i64
}

/// The force of a particle on the first of two. The other way round it is the same, but for its
/// sign, to the bit.
fn force(densities: [i64; 2], apart: [f64; 3], square: f64, speeds: [f64; 3]) -> [i64; 3] {
    let [a, b] = densities.map(|density| density as f64 / ONE + 1.0);
    let distance = square.sqrt().max(NEAREST);
    let near = 1.0 - distance;
    let pressure = PRESSURE * (a + b - 2.0 * REST_DENSITY) * near * near / distance;
    let drag = VISCOSITY * near;
    [0, 1, 2].map(|part| ((apart[part] * pressure - speeds[part] * drag) / (a * b) * ONE) as i64)
}

/// Where a particle is after a step, and how fast.
fn moved(side: usize, position: Vector, velocity: Vector, force: [i64; 3]) -> (Vector, Vector) {
    let (mut position, mut velocity) = (position, velocity);
    for part in 0..3 {
        let gravity = if part == 1 { GRAVITY } else { 0.0 };
        velocity[part] += ((force[part] as f64 / ONE) as f32 + gravity) * STEP;
        position[part] += velocity[part] * STEP;
        let inside = position[part].clamp(0.0, side as f32);
        if inside != position[part] {
            velocity[part] *= -BOUNCE;
            position[part] = inside;
        }
    }
    (position, velocity)
}
