//! How many instructions an operation takes, counted by valgrind's callgrind, against a baseline.
//!
//! `cargo bench -p tombolo-objects --bench instructions` fails if an operation takes over 2 % more
//! than `benches/instructions.txt` says; with `-- --record` it writes that file anew. Seconds
//! depend on the machine and on what else it does; instructions do not.
//!
//! The counts are of this program, on mapped memory, with one host. Valgrind shows programs a
//! processor that has AVX2, and neither AVX-512 nor CLWB, on each x86-64 processor with AVX2: so
//! all of these take the same paths. A pod's hash key is random; that moves counts by less than 0.1
//! %.

use std::fs;
use std::hint::black_box;
use std::process::{Command, ExitCode};

use tombolo_memory::Mapped;
use tombolo_objects::{Item, Objects, Options};
use tombolo_pod::{PodSpec, open};
use tombolo_sharing::{CreateOptions, create};

/// By how much, in parts of a thousand, an operation may be above its baseline.
const TOLERANCE: u64 = 20;

/// Objects. Each operation is done to all of them, none of them after its neighbour.
const OBJECTS: u64 = 4096;

/// How often each operation is done to each object.
const ROUNDS: u64 = 8;

/// Keys that are read together.
const BATCH: usize = 16;

const BASELINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");

type Host = Objects<Mapped>;

/// An operation whose instructions are counted: how it is prepared and done.
struct Operation {
    name: &'static str,
    /// Whether the objects are written first, so that they have coherence records.
    recorded: bool,
    /// Does it once to each of the objects.
    once: fn(&Host, &[[u8; 16]]),
}

const OPERATIONS: &[Operation] = &[
    Operation { name: "get, read-shared", recorded: false, once: get },
    Operation { name: "get, with a record", recorded: true, once: get },
    Operation { name: "put", recorded: true, once: put },
    Operation { name: "multi_get, read-shared", recorded: false, once: multi_get },
    Operation { name: "multi_get, with records", recorded: true, once: multi_get },
    Operation { name: "create and delete", recorded: false, once: create_and_delete },
];

fn get(host: &Host, keys: &[[u8; 16]]) {
    let mut value = Vec::with_capacity(VALUE.len());
    for key in keys {
        assert!(black_box(host.read(key, &mut value)).unwrap().is_some());
    }
}

const VALUE: [u8; 100] = [7; 100];

fn put(host: &Host, keys: &[[u8; 16]]) {
    for key in keys {
        black_box(host.put(key, &VALUE)).unwrap();
    }
}

fn multi_get(host: &Host, keys: &[[u8; 16]]) {
    let mut items: [Item; BATCH] = Default::default();
    for keys in keys.chunks(BATCH) {
        black_box(host.multi_get(keys, &mut items)).unwrap();
        assert!(items.iter().all(|item| item.version.is_some()));
    }
}

fn create_and_delete(host: &Host, keys: &[[u8; 16]]) {
    for key in keys {
        let new = [key.as_slice(), b"new"].concat();
        black_box(host.create(&new, &VALUE)).unwrap();
        assert!(black_box(host.delete(&new)).unwrap());
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|arg| arg == "--only") {
        let name = args.get(at + 1).expect("--only takes the name of an operation");
        let operation = OPERATIONS.iter().find(|operation| operation.name == name);
        run(operation.expect("the name is that of an operation"));
        return ExitCode::SUCCESS;
    }
    let counts: Vec<u64> = OPERATIONS.iter().map(count).collect();
    if args.iter().any(|arg| arg == "--record") {
        fs::write(BASELINE, baseline(&counts)).expect("the baseline can be written");
    }
    compare(&counts)
}

/// The baseline's text.
fn baseline(counts: &[u64]) -> String {
    let compiler = Command::new("rustc").arg("--version").output().expect("rustc runs").stdout;
    let compiler = String::from_utf8_lossy(&compiler);
    let lines = OPERATIONS.iter().zip(counts);
    let lines = lines.map(|(operation, count)| format!("{}: {count}\n", operation.name));
    format!("# {}, {}\n", compiler.trim(), std::env::consts::ARCH) + &lines.collect::<String>()
}

/// Prints a table of the counts; fails if one is too high.
fn compare(counts: &[u64]) -> ExitCode {
    let baseline = fs::read_to_string(BASELINE).expect("benches/instructions.txt can be read");
    println!("instructions per object       baseline       now    change");
    let mut code = ExitCode::SUCCESS;
    for (operation, &count) in OPERATIONS.iter().zip(counts) {
        let line = baseline.lines().find_map(|line| line.strip_prefix(operation.name));
        let before: u64 = line
            .and_then(|rest| rest.strip_prefix(": ")?.parse().ok())
            .unwrap_or_else(|| panic!("{BASELINE} has no line `{}: N`", operation.name));
        let change = 100.0 * (count as f64 / before as f64 - 1.0);
        let per_object = |count: u64| count as f64 / (ROUNDS * OBJECTS) as f64;
        let (was, is) = (per_object(before), per_object(count));
        print!("{:27} {was:10.1} {is:9.1} {change:+8.2} %", operation.name);
        if count * 1000 > before * (1000 + TOLERANCE) {
            print!("  over {} %", TOLERANCE as f64 / 10.0);
            code = ExitCode::FAILURE;
        }
        println!();
    }
    if code == ExitCode::FAILURE {
        let recorded = baseline.lines().next().unwrap_or_default().trim_start_matches("# ");
        println!("More than {BASELINE} says. That was recorded with {recorded}.");
        println!("If the growth is meant, or the compiler is another: -- --record, and commit it.");
    }
    code
}

/// Counts the instructions of an operation, in a process of its own under callgrind.
fn count(operation: &Operation) -> u64 {
    let program = std::env::current_exe().expect("the system knows the program's path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*counted*")
        .arg(program)
        .args(["--only", operation.name])
        .output()
        .expect("valgrind runs: install it");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} failed under valgrind:\n{text}", operation.name);
    let collected =
        text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    collected.filter(|&count| count > 0).unwrap_or_else(|| panic!("nothing was counted:\n{text}"))
}

/// Does an operation to all objects, several times.
fn run(operation: &Operation) {
    let folder = tempfile::tempdir().expect("there is room for temporary files");
    let spec = PodSpec::path(folder.path().join("pod"));
    let mut options = CreateOptions::sized(64 << 20);
    options.layout.records = Some(2 * OBJECTS);
    create(&spec, options).expect("there is room for a pod");
    let host = Objects::join(open(&spec).unwrap(), Options::default()).unwrap();
    let keys: Vec<[u8; 16]> = (0..OBJECTS).map(key).collect();
    keys.iter().for_each(|key| _ = host.create(key, &VALUE).unwrap());
    if operation.recorded {
        put(&host, &keys);
    }
    (operation.once)(&host, &keys);
    counted(operation, &host, &keys);
    host.leave().unwrap();
}

/// The operation that callgrind counts, by this function's name.
#[inline(never)]
fn counted(operation: &Operation, host: &Host, keys: &[[u8; 16]]) {
    (0..ROUNDS).for_each(|_| (operation.once)(host, keys));
}

/// The numbers up to [`OBJECTS`] each come once, none beside its neighbour.
fn key(index: u64) -> [u8; 16] {
    let number = index.wrapping_mul(0x9e37_79b1) % OBJECTS;
    let mut key = *b"user000000000000";
    key[8..].copy_from_slice(format!("{number:08}").as_bytes());
    key
}
