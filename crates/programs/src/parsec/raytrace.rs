//! Like raytrace: a picture of many spheres. Rays are parallel, and go through a grid of cells from
//! front to back, until a sphere is hit; each thread has a strip of the picture. So the scene is
//! streamed through, and most of it is read by one thread only.

use crate::Processor;
use crate::array::Array;
use crate::element::element;
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

/// Stream of random numbers.
const SPHERES: u64 = 27;
/// Pixels per cell, along each side.
const PIXELS_PER_CELL: usize = 4;
/// Cells from front to back.
const DEPTH: usize = 8;
/// The largest radius, in cells: a sphere lies in its cell and those next to it.
const LARGEST: f64 = 0.5;
/// Pixels that are compared with what looking at all spheres gives.
const CHECKED: usize = 2048;
const BACKGROUND: f32 = 0.0;

/// A sphere, in cells.
#[derive(Clone, Copy)]
struct Sphere {
    middle: [f32; 3],
    radius: f32,
}

element!(Sphere { middle: [f32; 3], radius: f32 });

impl Sphere {
    /// How deep a ray meets it.
    fn depth(&self, [x, y]: [f32; 2]) -> Option<f32> {
        let [a, b, c] = self.middle;
        let square = self.radius * self.radius - (x - a) * (x - a) - (y - b) * (y - b);
        (square >= 0.0).then(|| c - square.sqrt())
    }

    /// How bright it is where a ray meets it; the light comes with the rays.
    fn shade(&self, depth: f32) -> f32 {
        0.1 + 0.9 * (self.middle[2] - depth) / self.radius
    }
}

pub(crate) struct Raytrace {
    /// Pixels and cells from left to right.
    width: usize,
    cells_across: usize,
    /// Where the spheres of each cell begin; of cells in one column, front to back, one after the
    /// other.
    starts: Array<u32>,
    /// Numbers of spheres, by cell.
    members: Array<u32>,
    spheres: Array<Sphere>,
    picture: Array<f32>,
    rounds: u32,
}

impl Raytrace {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let pixels = 1_usize << setup.scale;
        let width = 1 << setup.scale.div_ceil(2);
        let [cells_across, cells_down] =
            [width, pixels / width].map(|side: usize| side.div_ceil(PIXELS_PER_CELL));
        let sides = [cells_across, cells_down, DEPTH];
        let spheres = spheres(sides, setup.parameters.seed);
        let mut cells = vec![Vec::new(); sides.iter().product()];
        for (number, sphere) in spheres.iter().enumerate() {
            for cell in touched(sides, sphere) {
                cells[cell].push(number as u32);
            }
        }
        let layout = &mut setup.layout;
        let mut end = 0;
        let ends = cells.iter().map(|cell| {
            end += cell.len() as u32;
            end
        });
        Self {
            width,
            cells_across,
            starts: layout.array("starts of cells", std::iter::once(0).chain(ends)),
            members: layout.array("spheres of cells", cells.iter().flatten().copied()),
            spheres: layout.array("spheres", spheres),
            picture: layout.filled("picture", pixels, f32::NAN),
            rounds: setup.rounds,
        }
    }

    /// The ray of a pixel.
    fn ray(&self, pixel: usize) -> [f32; 2] {
        [pixel % self.width, pixel / self.width]
            .map(|index| (index as f32 + 0.5) / PIXELS_PER_CELL as f32)
    }

    fn trace<P: Processor>(&self, p: &P, pixel: usize) -> f32 {
        let ray = self.ray(pixel);
        let [x, y] = ray.map(|part| part as usize);
        let column = (y * self.cells_across + x) * DEPTH;
        let mut nearest = None;
        for cell in column..column + DEPTH {
            let start = self.starts.follow(p, cell) as usize;
            for place in start..self.starts.follow(p, cell + 1) as usize {
                let sphere = self.spheres.get(p, self.members.follow(p, place) as usize);
                p.works(12);
                nearest = nearer(nearest, sphere, ray);
            }
            // A sphere that is hit behind this cell may yet be covered by one in the next cell.
            let behind = (cell - column + 1) as f32;
            if nearest.is_some_and(|(depth, _)| depth < behind) {
                break;
            }
        }
        p.works(10);
        nearest.map_or(BACKGROUND, |(depth, sphere)| sphere.shade(depth))
    }
}

impl Kernel for Raytrace {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        for _ in 0..self.rounds {
            for pixel in me.share(self.picture.len()) {
                self.picture.set(p, pixel, self.trace(p, pixel));
            }
            me.barrier();
        }
    }

    /// Looks at all spheres for some pixels, spread evenly; the others have to be there.
    fn verify(&self) -> Result<(), String> {
        let spheres: Vec<Sphere> = self.spheres.values().collect();
        let step = self.picture.len().div_ceil(CHECKED);
        for (pixel, shade) in self.picture.values().enumerate() {
            if shade.is_nan() {
                return Err(format!("pixel {pixel} is not there"));
            }
            if pixel % step > 0 {
                continue;
            }
            let ray = self.ray(pixel);
            let nearest =
                spheres.iter().fold(None, |nearest, &sphere| nearer(nearest, sphere, ray));
            let right = nearest.map_or(BACKGROUND, |(depth, sphere)| sphere.shade(depth));
            if shade != right {
                return Err(format!("pixel {pixel} is {shade} instead of {right}"));
            }
        }
        Ok(())
    }
}

/// The first hit of a ray: this sphere, or the nearest before.
fn nearer(nearest: Option<(f32, Sphere)>, sphere: Sphere, ray: [f32; 2]) -> Option<(f32, Sphere)> {
    match (nearest, sphere.depth(ray)) {
        (Some((before, _)), Some(depth)) if before <= depth => nearest,
        (_, Some(depth)) => Some((depth, sphere)),
        (_, None) => nearest,
    }
}

/// As many spheres as cells, at random places, in the order of rows of the picture.
fn spheres(sides: [usize; 3], seed: u64) -> Vec<Sphere> {
    let mut random = Random::new(seed, SPHERES);
    let count = sides.iter().product();
    let mut sphere = || Sphere {
        middle: sides.map(|side| (random.unit() * side as f64) as f32),
        radius: (LARGEST * (0.2 + 0.8 * random.unit())) as f32,
    };
    let mut spheres: Vec<Sphere> = (0..count).map(|_| sphere()).collect();
    spheres.sort_by(|a, b| a.middle[1].total_cmp(&b.middle[1]));
    spheres
}

/// The cells that a sphere may reach into.
fn touched(sides: [usize; 3], sphere: &Sphere) -> impl Iterator<Item = usize> + use<> {
    let [xs, ys, zs] = [0, 1, 2].map(|part| {
        let (middle, last) = (sphere.middle[part], sides[part] - 1);
        let low = (middle - sphere.radius).max(0.0) as usize;
        low..=((middle + sphere.radius) as usize).min(last)
    });
    ys.flat_map(move |y| {
        let zs = zs.clone();
        xs.clone().flat_map(move |x| zs.clone().map(move |z| (y * sides[0] + x) * sides[2] + z))
    })
}
