//! Programs that run in simulated memory, and traces of what programs do to memory. Nothing here
//! knows a cache, a protocol or a clock; a machine runs the threads, and sees each access.
//!
//! * A [`Program`] is made by [`ProgramName`] and [`Parameters`]. Its threads run on a machine's
//!   [`Processor`]s, and [`Program::verify`] compares what they computed with an oracle.
//! * [`run_in_turns`] is a machine without caches.
//! * [`Trace`] reads traces, [`TraceWriter`] writes them, and [`Recorder`] makes them from
//!   programs.
//!
//! # The programs
//!
//! * GAP, by the benchmark's definitions, with the reference code's algorithms: `bfs`, `bc`, `cc`,
//!   `sssp`, `pr` and `tc`, on Kronecker graphs, uniform ones, and [graphs from
//!   files](EdgeList::from_file).
//! * NAS, to the digits of the published results: `ep`, `ft` and `mg`. Like NAS: `cg` (one system,
//!   with a matrix that is simpler to make), `is` (the same keys in every round), and `bt`, `sp`
//!   and `lu` (simpler equations, solved in the suite's order).
//! * Like programs of PARSEC: `blackscholes`, `bodytrack`, `canneal`, `dedup`, `ferret`,
//!   `fluidanimate`, `raytrace`, `streamcluster`, `swaptions` and `x264`. They are our own, named
//!   after the programs they stand for; they are not PARSEC.
//! * Synthetic: `phases` and `mixed`, whose parts want different coherence.
//!
//! # Invariants
//!
//! * Programs are real: values are computed from values that were read, and results are checked by
//!   another, sequential way to the same end.
//! * Whatever schedule a machine chooses, the result is right. Programs that wait other than at
//!   barriers do so in loops of accesses, and get on if every thread gets on.
//! * A seed, a number of threads and a schedule fix every access, to the address, on every machine.
//! * What is simulated is the kernel: inputs are there when the threads begin.
//!
//! # Left out
//!
//! * Fetching instructions, and the stack: local variables are in registers. Larger things of a
//!   thread lie in arrays of its own.
//! * How many instructions lie between two accesses is an estimate, about what a compiler makes of
//!   the loop.
//! * Vector instructions: elements are read one by one.
//! * Allocation: arrays have their size from the beginning.
//!
//! ```
//! use tombolo_programs::{Parameters, Program, run_in_turns};
//!
//! let parameters = Parameters { scale: Some(8), seed: 42, ..Parameters::default() };
//! let program = Program::new("bfs".parse()?, &parameters, 4)?;
//! let counts = run_in_turns(&program, 1, 10, |_, turn| turn);
//! program.verify()?;
//! assert!(counts.reads > 1000);
//! # Ok::<(), tombolo_programs::ProgramError>(())
//! ```

mod array;
mod element;
mod error;
mod gap;
mod graph;
mod machine;
mod nas;
mod parsec;
mod processor;
mod program;
mod random;
mod synthetic;
mod team;
mod trace;

pub use array::{PAGE_BYTES, Region};
pub use element::Bytes;
pub use error::ProgramError;
pub use graph::{EdgeList, GraphSource, MAX_VERTICES, MAX_WEIGHT};
pub use machine::{Counts, Turn, run_in_turns};
pub use processor::{Access, Processor};
pub use program::{MAX_THREADS, Parameters, Program, ProgramName};
pub use trace::{
    BinaryTrace, DrmemTrace, FileReader, LackeyTrace, MAX_ACCESS_BYTES, Merged, Record, Recorded,
    Recorder, TextTrace, Trace, TraceError, TraceWriter, Whole,
};
