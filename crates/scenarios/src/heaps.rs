//! Heaps in shared memory: no cell is two hosts'.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use tombolo_memory::ScrAddr;
use tombolo_pod::{Heap, HeapPlaces, Stretch};
use tombolo_simulator::{Config, Simulation, Trial};

/// Two chunks of two cells.
const PLACES: HeapPlaces = HeapPlaces {
    table: ScrAddr::new(0),
    cells: Stretch { start: 64, bytes: 256 },
    chunk_bytes: 128,
};

/// Two hosts take all cells that they can get.
pub(crate) fn two_hosts(trial: &Trial) {
    let config = Config { scr_bytes: 4 << 10, lnr_bytes: 4 << 10, ..Config::default() };
    let mut simulation = Simulation::new(config, trial);
    Heap::format(&simulation.memory(0), &PLACES);
    let taken: Rc<RefCell<BTreeSet<u64>>> = Rc::default();
    for host in 0..2 {
        let taken = Rc::clone(&taken);
        simulation.spawn(host, move |memory| {
            let heap = Heap::new(&memory, PLACES, host as u8, 0.0);
            while let Some(cell) = heap.reserve(64) {
                assert!(taken.borrow_mut().insert(cell), "cell {cell} is two hosts'");
            }
        });
    }
    simulation.run().unwrap();
    assert_eq!(taken.borrow().len(), 4, "all cells are taken");
}
