//! How many records and lines of traces are read per second and core.
//!
//! `cargo bench -p tombolo-programs --bench traces`. From memory; medians of 5 rounds.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use tombolo_programs::{Record, Trace, TraceWriter};

const RECORDS: u64 = 10_000_000;
const LINES: u64 = 4_000_000;

fn main() {
    let mut writer = TraceWriter::new(Vec::new(), 4).expect("memory can be written");
    for index in 0..RECORDS {
        let (thread, address) = (index as u32 % 4, index * 40 % (1 << 30));
        let write = index % 4 == 0;
        let record = Record { thread, address, bytes: 8, write, instructions: 3 };
        writer.write(&record).expect("a record");
    }
    let (_, bytes) = writer.finish().expect("memory can be written");
    println!("binary: {:.1} M records/s", speed(&bytes, RECORDS));

    let mut text = String::new();
    for index in 0..LINES / 2 {
        writeln!(text, "I  {:08x},4\n L {:010x},8", index % 1000 * 4, 0x1f_0000_0000 + index * 8)
            .expect("memory can be written");
    }
    println!("lackey: {:.1} M lines/s", speed(text.as_bytes(), LINES));
}

/// Millions of things per second in a trace that has so many.
fn speed(bytes: &[u8], things: u64) -> f64 {
    let mut rounds: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            for record in Trace::new(bytes).expect("a trace") {
                black_box(record.expect("a record"));
            }
            things as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[2]
}
