//! Like x264: a film is coded frame by frame. A block of a frame is looked for near the same place
//! in the frame before, as that was coded. The difference is coded coarsely, and the block is put
//! together again. Each thread has a frame; it may begin a row of blocks when the thread of the
//! frame before is two rows further, so that threads are a pipeline. Pixels are read eight at a
//! time.

use crate::Processor;
use crate::array::Array;
use crate::program::{Kernel, Setup};
use crate::random::{Random, mix};
use crate::team::Member;

/// Stream of random numbers.
const FILM: u64 = 30;
/// Pixels of a block, along each side: those that are read at a time.
const BLOCK: usize = 8;
/// How far a block is looked for, in pixels.
const FAR: i32 = 8;
/// Differences are coded in steps of this.
const STEP: i32 = 8;
/// Frames per round.
const FRAMES: usize = 32;

type Row = [u8; BLOCK];
type Block = [Row; BLOCK];
/// Where a block was found, from where it is: right and down.
type Motion = [i8; 2];

pub(crate) struct X264 {
    /// Blocks from left to right, and from top to bottom.
    across: usize,
    down: usize,
    frames: usize,
    film: Array<Row>,
    /// The film as it was coded.
    coded: Array<Row>,
    motions: Array<Motion>,
    /// Rows of blocks of each frame that are coded.
    done: Array<u32>,
}

impl X264 {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let (pixels, frames) = (1_usize << setup.scale, FRAMES * setup.rounds as usize);
        let width = 1 << setup.scale.div_ceil(2);
        let (across, down) = (width / BLOCK, pixels / width / BLOCK);
        let mut random = Random::new(setup.parameters.seed, FILM);
        let noise = random.word();
        // A picture that moves, and some noise.
        let pixel = |frame: usize, x: usize, y: usize| {
            let at = ((x + 2 * frame) / 4) as u64 | (((y + frame) / 4) as u64) << 32;
            let grain = mix(noise ^ mix(((frame * pixels) + y * width + x) as u64));
            (mix(at ^ noise) as u8 / 2).wrapping_add((grain % 8) as u8)
        };
        let rows = frames * pixels / BLOCK;
        let row = |number: usize| -> Row {
            let (frame, first) = (number * BLOCK / pixels, number * BLOCK % pixels);
            std::array::from_fn(|x| pixel(frame, first % width + x, first / width))
        };
        let layout = &mut setup.layout;
        Self {
            across,
            down,
            frames,
            film: layout.array("film", (0..rows).map(row)),
            coded: layout.filled("coded film", rows, [0; BLOCK]),
            motions: layout.filled("motions", frames * across * down, [i8::MAX; 2]),
            done: layout.padded("rows that are coded", std::iter::repeat_n(0, frames)),
        }
    }

    /// The place of the row of eight pixels that begins at a block's left side.
    fn row(&self, frame: usize, block: usize, y: usize) -> usize {
        (frame * self.down * BLOCK + y) * self.across + block
    }

    /// Codes a block that `film` and `coded` read; returns its new content, and where it was found.
    fn code(
        &self,
        frame: usize,
        [across, down]: [usize; 2],
        film: impl Fn(usize) -> Row,
        coded: impl Fn(usize) -> Row,
        works: impl Fn(u64),
    ) -> (Block, Motion) {
        let block: Block = std::array::from_fn(|y| film(self.row(frame, across, down * BLOCK + y)));
        if frame == 0 {
            return (block, [0, 0]);
        }
        let (width, height) = ((self.across * BLOCK) as i32, (self.down * BLOCK) as i32);
        let look = |[right, below]: [i32; 2]| -> Option<Block> {
            let x = (across * BLOCK) as i32 + right;
            let y = (down * BLOCK) as i32 + below;
            let last = BLOCK as i32;
            let inside = x >= 0 && y >= 0 && x + last <= width && y + last <= height;
            (inside && right.abs() <= FAR && below.abs() <= FAR).then(|| {
                std::array::from_fn(|line| {
                    let (start, off) = (x as usize / BLOCK, x as usize % BLOCK);
                    let at = self.row(frame - 1, start, y as usize + line);
                    let left = coded(at);
                    let right = if off > 0 { coded(at + 1) } else { left };
                    works(4);
                    std::array::from_fn(|x| {
                        if x + off < BLOCK { left[x + off] } else { right[x + off - BLOCK] }
                    })
                })
            })
        };
        // Downhill, from where it is, as long as it gets better.
        let mut at = [0, 0];
        let mut best = look(at).expect("a block is where it is");
        loop {
            let steps = [[1, 0], [-1, 0], [0, 1], [0, -1]].map(|[x, y]| [at[0] + x, at[1] + y]);
            let found = steps.into_iter().filter_map(|to| Some((look(to)?, to)));
            let nearest = found.min_by_key(|(found, _)| differ(&block, found));
            match nearest {
                Some((found, to)) if differ(&block, &found) < differ(&block, &best) => {
                    (best, at) = (found, to);
                }
                _ => break,
            }
        }
        works(600);
        let mended = std::array::from_fn(|y| {
            std::array::from_fn(|x| {
                let (is, was) = (i32::from(block[y][x]), i32::from(best[y][x]));
                (was + (is - was) / STEP * STEP).clamp(0, 255) as u8
            })
        });
        (mended, at.map(|part| part as i8))
    }

    fn encode<P: Processor>(&self, p: &P, frame: usize) {
        for down in 0..self.down {
            let needs = (down + 2).min(self.down) as u32;
            while frame > 0 && self.done.follow(p, frame - 1) < needs {
                p.works(100);
            }
            for across in 0..self.across {
                let film = |place| self.film.get(p, place);
                let coded = |place| self.coded.get(p, place);
                let works = |instructions| p.works(instructions);
                let (block, motion) = self.code(frame, [across, down], film, coded, works);
                for (y, row) in block.into_iter().enumerate() {
                    self.coded.set(p, self.row(frame, across, down * BLOCK + y), row);
                }
                let place = (frame * self.down + down) * self.across + across;
                self.motions.set(p, place, motion);
            }
            self.done.set(p, frame, down as u32 + 1);
        }
    }
}

impl Kernel for X264 {
    fn run<P: Processor>(&self, me: &Member<P>) {
        for frame in (me.thread..self.frames).step_by(me.threads()) {
            self.encode(&me.processor, frame);
        }
    }

    /// Codes the film again, frame after frame.
    fn verify(&self) -> Result<(), String> {
        let mut coded = vec![[0; BLOCK]; self.coded.len()];
        for frame in 0..self.frames {
            for place in 0..self.across * self.down {
                let at = [place % self.across, place / self.across];
                let film = |place| self.film.peek(place);
                let (block, motion) = self.code(frame, at, film, |place| coded[place], |_| ());
                for (y, row) in block.into_iter().enumerate() {
                    coded[self.row(frame, at[0], at[1] * BLOCK + y)] = row;
                }
                let found = self.motions.peek(frame * self.across * self.down + place);
                if found != motion {
                    return Err(format!(
                        "block {place} of frame {frame} was found at {found:?}, not {motion:?}"
                    ));
                }
            }
        }
        match self.coded.values().zip(&coded).position(|(row, right)| row != *right) {
            Some(row) => Err(format!("row {row} of the film was coded otherwise")),
            None => Ok(()),
        }
    }
}

/// How much two blocks differ.
fn differ(a: &Block, b: &Block) -> u32 {
    let pixels = a.as_flattened().iter().zip(b.as_flattened());
    pixels.map(|(a, b)| u32::from(a.abs_diff(*b))).sum()
}
