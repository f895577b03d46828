//! What programs do at their own size with 32 threads, and how long they take on a machine without
//! caches.
//!
//! `cargo bench -p tombolo-programs --bench programs`.

use std::time::Instant;

use tombolo_programs::{Parameters, Program, ProgramName, run_in_turns};

fn main() {
    println!(
        "{:14} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "program", "scale", "KiB", "reads/M", "writes/M", "instr./M", "barriers", "M acc./s"
    );
    for &name in ProgramName::ALL {
        let program = Program::new(name, &Parameters::default(), 32).expect("parameters");
        let start = Instant::now();
        let counts = run_in_turns(&program, 1, 1000, |_, turn| turn);
        let seconds = start.elapsed().as_secs_f64();
        program.verify().expect("a right result");
        let million = |count: u64| count as f64 / 1e6;
        println!(
            "{name:14} {:6} {:9} {:9.2} {:9.2} {:9.2} {:9} {:9.1}",
            name.default_scale(),
            program.bytes() >> 10,
            million(counts.reads),
            million(counts.writes),
            million(counts.instructions),
            counts.barriers,
            million(counts.reads + counts.writes) / seconds,
        );
    }
}
