//! Like bodytrack: a body is followed through pictures by a particle filter. For each frame all
//! threads find edges, each in a strip of its own; then, layer by layer of the annealing, they
//! compare where particles think the outline is with the map of edges, which all of them read at
//! places the particle says; and one thread draws the next layer's particles. Weights are whole
//! numbers, so that results do not depend on how many threads there are.

use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

/// Streams of random numbers: one, and one per layer from here on.
const FRAMES: u64 = 29;
const LAYERS_FROM: u64 = 1 << 34;
const LAYERS: u32 = 5;
/// Pixels per particle.
const PIXELS: usize = 256;
/// Points of an outline that are looked at.
const POINTS: usize = 512;
/// The body's size, as part of the picture's width.
const SIZE: f32 = 0.2;

/// Where a particle thinks the body's middle is, and how large the body.
type State = [f32; 3];

pub(crate) struct Bodytrack {
    width: usize,
    height: usize,
    /// The frames, one after the other.
    frames: Array<u8>,
    edges: Array<u8>,
    particles: Array<State>,
    weights: Array<u32>,
    /// Where the body was found in each frame.
    found: Array<State>,
    seed: u64,
    rounds: u32,
}

impl Bodytrack {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let pixels = 1_usize << setup.scale;
        let width = 1 << setup.scale.div_ceil(2);
        let height = pixels / width;
        let mut random = Random::new(setup.parameters.seed, FRAMES);
        let mut frames = Vec::with_capacity(pixels * setup.rounds as usize);
        for frame in 0..setup.rounds {
            let [x, y, size] = body(frame);
            frames.extend((0..pixels).map(|pixel| {
                let (across, down) = ((pixel % width) as f32, (pixel / width) as f32);
                let (dx, dy) = (across / width as f32 - x, down / height as f32 - y);
                let inside = dx * dx + dy * dy < size * size;
                random.below(64) as u8 + if inside { 160 } else { 0 }
            }));
        }
        let count = pixels.div_ceil(PIXELS).max(2);
        let mut random = Random::new(setup.parameters.seed, LAYERS_FROM);
        let particles: Vec<State> =
            (0..count).map(|_| moved([0.5, 0.5, SIZE], 0.5, &mut random)).collect();
        let layout = &mut setup.layout;
        Self {
            width,
            height,
            frames: layout.array("frames", frames),
            edges: layout.filled("edges", pixels, 0),
            particles: layout.array("particles", particles),
            weights: layout.filled("weights", count, 0),
            found: layout.filled("bodies", setup.rounds as usize, [f32::NAN; 3]),
            seed: setup.parameters.seed,
            rounds: setup.rounds,
        }
    }

    /// Finds edges in this thread's rows; `look` reads the frame.
    fn edge(&self, pixel: usize, look: impl Fn(usize) -> u8) -> u8 {
        let (x, y) = (pixel % self.width, pixel / self.width);
        let right = if x + 1 < self.width { look(pixel + 1) } else { look(pixel) };
        let below = if y + 1 < self.height { look(pixel + self.width) } else { look(pixel) };
        right.abs_diff(look(pixel)).max(below.abs_diff(look(pixel)))
    }

    /// How much of a particle's outline is on edges; `look` reads the map.
    fn weight(&self, [x, y, size]: State, mut look: impl FnMut(usize) -> u8) -> u32 {
        let mut sum = 0;
        for point in 0..POINTS {
            let angle = point as f32 * (std::f32::consts::TAU / POINTS as f32);
            let (across, down) = (x + size * libm::cosf(angle), y + size * libm::sinf(angle));
            let inside = |part: f32, end: usize| ((part * end as f32) as usize).min(end - 1);
            let pixel = inside(down, self.height) * self.width + inside(across, self.width);
            sum += u32::from(look(pixel));
        }
        sum
    }

    /// The next layer's particles, from the last one's and their weights.
    fn draw(&self, frame: u32, layer: u32, last: &[State], weights: &[u32]) -> Vec<State> {
        let number = u64::from(frame * LAYERS + layer) + 1;
        let mut random = Random::new(self.seed, LAYERS_FROM + number);
        // The best ones count the more, the later the layer.
        let least = weights.iter().min().copied().unwrap_or(0);
        let weight = |&weight: &u32| u64::from(weight - least + 1).pow(1 + layer.min(2));
        let ends: Vec<u64> = (weights.iter().map(weight))
            .scan(0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let all = ends.last().copied().unwrap_or(1);
        let spread = 0.2 / f32::from(1_u16 << layer.min(8));
        (0..last.len())
            .map(|_| {
                let at = random.below(all as usize) as u64;
                moved(last[ends.partition_point(|&end| end <= at)], spread, &mut random)
            })
            .collect()
    }

    fn layer<P: Processor>(&self, me: &Member<P>, frame: u32, layer: u32) {
        let p = &me.processor;
        let count = self.particles.len();
        for particle in me.share(count) {
            let state = self.particles.follow(p, particle);
            let weight = self.weight(state, |pixel| {
                p.works(12);
                self.edges.get(p, pixel)
            });
            self.weights.set(p, particle, weight);
        }
        me.barrier();
        if me.leads() {
            let last: Vec<State> =
                (0..count).map(|particle| self.particles.get(p, particle)).collect();
            let weights: Vec<u32> =
                (0..count).map(|particle| self.weights.get(p, particle)).collect();
            if layer + 1 == LAYERS {
                self.found.set(p, frame as usize, best(&last, &weights));
            }
            for (particle, state) in self.draw(frame, layer, &last, &weights).iter().enumerate() {
                p.works(40);
                self.particles.set(p, particle, *state);
            }
        }
        me.barrier();
    }

    /// The same without threads, and from the frames alone.
    fn oracle(&self) -> Vec<State> {
        let pixels = self.edges.len();
        let count = self.particles.len();
        let mut random = Random::new(self.seed, LAYERS_FROM);
        let mut particles: Vec<State> =
            (0..count).map(|_| moved([0.5, 0.5, SIZE], 0.5, &mut random)).collect();
        let mut found = Vec::new();
        for frame in 0..self.rounds {
            let start = frame as usize * pixels;
            let edges: Vec<u8> = (0..pixels)
                .map(|pixel| self.edge(pixel, |pixel| self.frames.peek(start + pixel)))
                .collect();
            for layer in 0..LAYERS {
                let weight = |&state: &State| self.weight(state, |pixel| edges[pixel]);
                let weights: Vec<u32> = particles.iter().map(weight).collect();
                if layer + 1 == LAYERS {
                    found.push(best(&particles, &weights));
                }
                particles = self.draw(frame, layer, &particles, &weights);
            }
        }
        found
    }
}

impl Kernel for Bodytrack {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for frame in 0..self.rounds {
            let start = frame as usize * self.edges.len();
            for pixel in me.share(self.edges.len()) {
                p.works(12);
                let edge = self.edge(pixel, |pixel| self.frames.get(p, start + pixel));
                self.edges.set(p, pixel, edge);
            }
            me.barrier();
            (0..LAYERS).for_each(|layer| self.layer(me, frame, layer));
        }
    }

    fn verify(&self) -> Result<(), String> {
        for (frame, right) in self.oracle().into_iter().enumerate() {
            let found = self.found.peek(frame);
            if found != right {
                return Err(format!("in frame {frame} the body is at {found:?}, not {right:?}"));
            }
        }
        Ok(())
    }
}

/// The particle that fits best, of several the first.
fn best(particles: &[State], weights: &[u32]) -> State {
    let most = weights.iter().max().copied().unwrap_or(0);
    let place = weights.iter().position(|&weight| weight == most);
    particles[place.unwrap_or(0)]
}

/// Where the body is in a frame.
fn body(frame: u32) -> State {
    let along = frame as f32 * 0.02;
    [0.4 + along.min(0.2), 0.6 - along.min(0.2), SIZE]
}

/// A state near another one, of a body that is in the picture.
fn moved([x, y, size]: State, spread: f32, random: &mut Random) -> State {
    let mut shift = || spread * (random.unit() as f32 - 0.5);
    let (x, y, size) = (x + shift(), y + shift(), size + shift() * SIZE);
    let size = size.clamp(SIZE / 2.0, 2.0 * SIZE);
    [x.clamp(size, 1.0 - size), y.clamp(size, 1.0 - size), size]
}
