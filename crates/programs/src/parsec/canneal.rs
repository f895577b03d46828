//! Like canneal: the elements of a netlist are exchanged on a chip, two at random at a time, so
//! that wires become short, by simulated annealing. Nothing but the two elements is locked, so
//! decisions rest on places that may change meanwhile. As in PARSEC's, an element is a record of
//! its own that says which place it is at, and the place says where that is. So a wire's end takes
//! two reads, the second of which waits for the first. Elements and moves stand in the ratio of
//! *simlarge*, which has 400,000 elements and 15,000 moves at each of 128 temperatures, each of
//! which is two thirds of the last (`canneal THREADS 15000 2000 400000.nets 128`); here there are a
//! quarter of the temperatures.

use std::cell::Cell;

use crate::Processor;
use crate::array::Array;
use crate::graph::Graph;
use crate::program::{Kernel, Setup};
use crate::random::Random;
use crate::team::Member;

/// Streams of random numbers: one, and one per thread from here on.
const PLACES: u64 = 21;
const MOVES: u64 = 1 << 32;
/// Wires per element.
const WIRES: u32 = 3;
/// Elements per move of a temperature.
const ELEMENTS_PER_MOVE: usize = 27;
/// By how much it gets colder from one temperature to the next.
const COOLING: f64 = 1.5;
/// The place of an element that is being moved.
const TAKEN: u32 = u32::MAX;
/// Elements and temperatures there must be for chance not to matter: wires have to be shorter in
/// the end.
const MANY: (usize, u32) = (256, 16);

pub(crate) struct Canneal {
    wires: Graph,
    /// The place of each element, which has a line of its own.
    places: Array<u32>,
    /// Where each place is.
    locations: Array<[u32; 2]>,
    width: u32,
    seed: u64,
    temperatures: u32,
    first_cost: u64,
    /// The sum of the expected gains of all moves that were made.
    gains: Cell<i64>,
    threads: usize,
}

impl Canneal {
    pub(crate) fn new(setup: &mut Setup) -> Self {
        let wires = Graph::uniform(setup, WIRES);
        let elements = wires.vertices;
        let seed = setup.parameters.seed;
        let mut places: Vec<u32> = (0..elements as u32).collect();
        Random::new(seed, PLACES).shuffle(&mut places);
        let width = elements.isqrt() as u32;
        let location = |place| [place % width, place / width];
        let locations = (0..elements as u32).map(location);
        let mut canneal = Self {
            width,
            wires,
            places: setup.layout.padded("places", places),
            locations: setup.layout.array("locations", locations),
            seed,
            temperatures: setup.rounds,
            first_cost: 0,
            gains: Cell::new(0),
            threads: setup.threads,
        };
        canneal.first_cost = canneal.cost();
        canneal
    }

    /// The length of all wires.
    fn cost(&self) -> u64 {
        let ends = |element| self.wires.out.peek(element).map(move |other| (element, other));
        (0..self.wires.vertices)
            .flat_map(ends)
            .map(|(a, b)| length(self.peek_location(a), self.peek_location(b as usize)) as u64)
            .sum::<u64>()
            / 2
    }

    fn peek_location(&self, element: usize) -> [u32; 2] {
        self.locations.peek(self.places.peek(element) as usize)
    }

    /// Where an element is.
    fn location<P: Processor>(&self, p: &P, element: usize) -> [u32; 2] {
        let place = self.place(p, element);
        p.depends();
        self.locations.get(p, place as usize)
    }

    /// The place of an element; waits while it is being moved.
    fn place<P: Processor>(&self, p: &P, element: usize) -> u32 {
        loop {
            let place = self.places.get(p, element);
            if place != TAKEN {
                return place;
            }
            p.works(2);
        }
    }

    /// Takes an element, so that nobody else moves it; where it was.
    fn take<P: Processor>(&self, p: &P, element: usize) -> u32 {
        loop {
            let place = self.place(p, element);
            if self.places.compare_exchange(p, element, place, TAKEN) {
                return place;
            }
        }
    }

    /// The difference of the cost if an element and `other` change places.
    fn difference<P: Processor>(&self, p: &P, element: usize, other: usize) -> i64 {
        let (from, to) = (self.location(p, element), self.location(p, other));
        let mut difference = 0;
        for wire in self.wires.out.row(p, element) {
            let end = self.wires.out.neighbour(p, wire) as usize;
            // A wire between the two stays as long as it is.
            if end != other {
                let end = self.location(p, end);
                difference += length(to, end) - length(from, end);
                p.works(16);
            }
        }
        difference
    }

    fn exchange<P: Processor>(&self, p: &P, a: usize, b: usize) {
        // In order, so that no two threads wait for each other.
        let (low, high) = (a.min(b), a.max(b));
        let (of_low, of_high) = (self.take(p, low), self.take(p, high));
        self.places.set(p, low, of_high);
        self.places.set(p, high, of_low);
    }
}

impl Kernel for Canneal {
    fn run<P: Processor>(&self, me: &Member<P>) {
        let p = &me.processor;
        let elements = self.wires.vertices;
        let mut random = Random::new(self.seed, MOVES + me.thread as u64);
        let mut temperature = f64::from(self.width) / 2.0;
        for _ in 0..self.temperatures {
            for _ in me.share(elements.div_ceil(ELEMENTS_PER_MOVE)) {
                let (a, b) = (random.below(elements), random.below(elements));
                p.works(20);
                if a == b {
                    continue;
                }
                let difference = self.difference(p, a, b) + self.difference(p, b, a);
                let luck = random.unit();
                if difference < 0 || luck < libm::exp(-(difference as f64) / temperature) {
                    self.exchange(p, a, b);
                    self.gains.set(self.gains.get() - difference);
                }
            }
            temperature /= COOLING;
            me.barrier();
        }
    }

    fn verify(&self) -> Result<(), String> {
        let mut seen = vec![false; self.wires.vertices];
        for (element, place) in self.places.values().enumerate() {
            let seen = seen.get_mut(place as usize).ok_or("an element is at no place")?;
            if std::mem::replace(seen, true) {
                return Err(format!("element {element} is where another is, at {place}"));
            }
        }
        let (first, last) = (self.first_cost, self.cost());
        let many = seen.len() >= MANY.0 && self.temperatures >= MANY.1;
        if many && last >= first {
            return Err(format!("wires had a length of {first}, and now of {last}"));
        }
        let gained = first as i64 - last as i64;
        if self.threads == 1 && gained != self.gains.get() {
            return Err(format!("moves gained {}, but wires {gained}", self.gains.get()));
        }
        Ok(())
    }
}

fn length(a: [u32; 2], b: [u32; 2]) -> i64 {
    i64::from(a[0].abs_diff(b[0])) + i64::from(a[1].abs_diff(b[1]))
}
