//! The programs at their own size with 32 threads: how much, how long it takes on a machine
//! without caches, and what they would share if the threads were on four hosts. A line is shared if
//! threads of more than one host access it; `lines` and `acc.` are the parts of all lines and of
//! all accesses that are to such lines.
//!
//! `cargo bench -p tombolo-programs --bench programs`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use tombolo_programs::{Access, Parameters, Processor, Program, ProgramName, Turn, run_in_turns};

const THREADS: usize = 32;
const HOSTS: usize = 4;
const LINE_BYTES: u64 = 64;
const LONGEST_TURN: usize = 1000;

/// Which hosts access a line, and how often.
#[derive(Clone, Copy, Default)]
struct Line {
    hosts: u32,
    accesses: u64,
}

type Lines = Rc<RefCell<HashMap<u64, Line>>>;

/// A processor that remembers lines.
#[derive(Clone)]
struct Watched {
    turn: Turn,
    host: usize,
    lines: Lines,
}

impl Processor for Watched {
    fn access(&self, address: u64, bytes: u32, access: Access) {
        self.turn.access(address, bytes, access);
        let mut lines = self.lines.borrow_mut();
        let line = lines.entry(address / LINE_BYTES).or_default();
        line.hosts |= 1 << self.host;
        line.accesses += 1;
    }

    fn works(&self, instructions: u64) {
        self.turn.works(instructions);
    }

    fn barrier(&self) {
        self.turn.barrier();
    }
}

fn main() {
    println!(
        "{:14} {:>5} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6}",
        "program",
        "scale",
        "KiB",
        "reads/M",
        "writes/M",
        "instr./M",
        "barriers",
        "acc./us",
        "lines",
        "acc."
    );
    for &name in ProgramName::ALL {
        let program = Program::new(name, &Parameters::default(), THREADS).expect("parameters");
        let start = Instant::now();
        let counts = run_in_turns(&program, 1, LONGEST_TURN, |_, turn| turn);
        let micros = start.elapsed().as_secs_f64() * 1e6;
        program.verify().expect("a right result");
        let (lines, accesses) = shared(name);
        let million = |count: u64| count as f64 / 1e6;
        println!(
            "{name:14} {:5} {:6} {:8.2} {:8.2} {:8.2} {:8} {:8.1} {:5.1}% {:5.1}%",
            name.default_scale(),
            program.bytes() >> 10,
            million(counts.reads),
            million(counts.writes),
            million(counts.instructions),
            counts.barriers,
            (counts.reads + counts.writes) as f64 / micros,
            100.0 * lines,
            100.0 * accesses,
        );
    }
}

/// The parts of lines and of accesses that are shared.
fn shared(name: ProgramName) -> (f64, f64) {
    let lines = Lines::default();
    let program = Program::new(name, &Parameters::default(), THREADS).expect("parameters");
    run_in_turns(&program, 1, LONGEST_TURN, |thread, turn| {
        let host = thread * HOSTS / THREADS;
        Watched { turn, host, lines: Rc::clone(&lines) }
    });
    let lines = lines.borrow();
    let count = |all: bool| {
        let counted = lines.values().filter(|line| all || line.hosts.count_ones() > 1);
        counted.fold((0, 0), |(lines, sum), line| (lines + 1, sum + line.accesses))
    };
    let (all, shared) = (count(true), count(false));
    (f64::from(shared.0) / f64::from(all.0), shared.1 as f64 / all.1 as f64)
}
