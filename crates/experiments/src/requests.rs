//! The requests of one thread, from phase to phase.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use tombolo_workloads::{Inserts, Op, Operations};

/// Whose an object is, by the number of its record.
pub(crate) type Owner = Rc<dyn Fn(u64) -> u32>;

/// One thread's operations. They go on where the last phase ended.
pub(crate) struct Requests {
    pub(crate) operations: Operations,
    pub(crate) inserts: Arc<Inserts>,
    pub(crate) partition: Option<Partition>,
}

impl Iterator for Requests {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        match &mut self.partition {
            None => self.operations.next(),
            Some(partition) => partition.choose(&mut self.operations),
        }
    }
}

/// Of so many operations of all threads the last one about each object, by thread, the last one
/// first. They are drawn from the last one to the first: in which order makes no difference to what
/// is drawn.
pub(crate) fn last_of_each(
    requests: &[RefCell<Requests>],
    objects: u64,
    operations: u64,
) -> Result<Vec<Vec<Op>>> {
    // A bit each, so that the bits looked at last should be in the processor's caches.
    let mut used = vec![0_u64; objects.div_ceil(64) as usize];
    let mut last = vec![Vec::new(); requests.len()];
    for _ in 0..operations / requests.len() as u64 {
        for (requests, last) in requests.iter().zip(&mut last) {
            let Some(operation) = requests.borrow_mut().next() else { continue };
            let (word, bit) = (operation.key() / 64, 1 << (operation.key() % 64));
            let used = used.get_mut(word as usize).filter(|_| operation.key() < objects);
            let used = used.context("an operation that inserts an object cannot be left out")?;
            if *used & bit == 0 {
                *used |= bit;
                last.push(operation);
            }
        }
    }
    Ok(last)
}

/// Of objects some are for all hosts, and each other one is for its owner alone.
pub(crate) struct Partition {
    /// The share of objects, and of operations, that is for all.
    shared: f64,
    host: u32,
    owner: Owner,
    dice: Xoshiro256PlusPlus,
}

impl Partition {
    pub(crate) fn new(shared: f64, host: u32, owner: Owner, seed: u64) -> Self {
        Self { shared, host, owner, dice: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// The next operation that is about an object of the kind whose turn it is.
    fn choose(&mut self, operations: &mut Operations) -> Option<Op> {
        let wants_shared = unit(self.dice.next_u64()) < self.shared;
        operations.find(|operation| {
            let key = operation.key();
            let shared = unit(scattered(key)) < self.shared;
            shared == wants_shared && (shared || (self.owner)(key) == self.host)
        })
    }
}

/// A number of 0 to below 1.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// SplitMix64's last step: neighbours have nothing in common afterwards.
fn scattered(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}
