//! Traces come back as they were written; what is damaged is reported with its place.

use std::io::BufReader;

use proptest::prelude::*;
use tombolo_programs::{
    MAX_ACCESS_BYTES, Parameters, Program, Record, Recorder, Trace, TraceError, TraceWriter,
    run_in_turns,
};

const THREADS: u32 = 5;

fn written(records: &[Record]) -> Vec<u8> {
    let mut writer = TraceWriter::new(Vec::new(), THREADS).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    let (count, bytes) = writer.finish().unwrap();
    assert_eq!(count, records.len() as u64);
    bytes
}

/// A trace's records; the reader's buffer is small, so that lines and records lie across its end.
fn read(bytes: &[u8]) -> Result<Vec<Record>, TraceError> {
    Trace::new(BufReader::with_capacity(7, bytes))?.collect()
}

fn error(bytes: &[u8]) -> String {
    read(bytes).unwrap_err().to_string()
}

fn some_records(count: u64) -> Vec<Record> {
    let record = |index| Record {
        thread: (index % 5) as u32,
        address: index << 40 | 0x1234_u64,
        bytes: 1 + index as u32 % MAX_ACCESS_BYTES,
        write: index % 3 == 0,
        instructions: index as u32,
    };
    (0..count).map(record).collect()
}

#[test]
fn what_is_written_is_read() {
    for count in [0, 1, 2, 5000] {
        let records = some_records(count);
        let bytes = written(&records);
        assert_eq!(bytes.len() as u64, 16 * (count + 2));
        assert_eq!(read(&bytes).unwrap(), records);
        assert_eq!(Trace::new(&bytes[..]).unwrap().threads(), THREADS);
    }
}

#[test]
fn damage_is_reported_with_its_place() {
    let bytes = written(&some_records(10));
    let cut = |end: usize| error(&bytes[..end]);
    assert_eq!(cut(12), "the trace's header: it has 12 bytes instead of 16");
    assert_eq!(
        cut(16 * 4 + 3),
        "record 3 (byte 64) of the trace: 3 bytes of 16; the trace was cut off"
    );
    assert_eq!(
        cut(16 * 11),
        "record 10 (byte 176) of the trace: the trace ends without its end; it was cut off"
    );
    let changed = |at: usize, to: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = to;
        error(&bytes)
    };
    assert_eq!(changed(8, 2), "the trace's header: version 2; only 1 can be read");
    assert_eq!(changed(12, 0), "the trace's header: 0 threads; there may be 1 to 4096");
    assert_eq!(
        changed(16 + 12, 9),
        "record 0 (byte 16) of the trace: thread 9, but the header says that there are 5"
    );
    assert_eq!(
        changed(32 + 15, 0x7f),
        "record 1 (byte 32) of the trace: an access of 32514 bytes; it may have 1 to 16384"
    );
    assert_eq!(
        changed(16 * 11, 9),
        "record 10 (byte 176) of the trace: the end of 9 records, but 10 came"
    );
    assert_eq!(
        changed(16 * 11 + 13, 9),
        "record 10 (byte 176) of the trace: neither an access nor the trace's end"
    );
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(error(&longer), "record 10 (byte 176) of the trace: bytes after the end");
}

#[test]
fn an_absurd_record_is_not_written() {
    let mut writer = TraceWriter::new(Vec::new(), 1).unwrap();
    let good = Record { thread: 0, address: 0, bytes: 8, write: false, instructions: 1 };
    writer.write(&good).unwrap();
    for bad in [
        Record { thread: 1, ..good },
        Record { bytes: 0, ..good },
        Record { bytes: MAX_ACCESS_BYTES + 1, ..good },
        Record { address: u64::MAX - 6, ..good },
    ] {
        let error = writer.write(&bad).unwrap_err();
        assert!(matches!(error, TraceError::Record { number: 1, byte: 32, .. }), "{error}");
    }
    assert!(TraceWriter::new(Vec::new(), 0).is_err());
    assert!(TraceWriter::new(Vec::new(), 4097).is_err());
}

#[test]
fn lackey() {
    let text = "\
==9== Lackey, an example Valgrind tool
--9-- a line of valgrind's
I  04001c90,3
I  04001c93,5
 S 1ffeffe818,8
 L 1ffeffe800,16
I  04001d70,4
 M 0421c7cc,4
==9==
I  04001d74,2
";
    let record = |address, bytes, write, instructions| Record {
        thread: 0,
        address,
        bytes,
        write,
        instructions,
    };
    let records = [
        record(0x1f_feff_e818, 8, true, 2),
        record(0x1f_feff_e800, 16, false, 0),
        record(0x421_c7cc, 4, false, 1),
        record(0x421_c7cc, 4, true, 0),
    ];
    assert_eq!(read(text.as_bytes()).unwrap(), records);
    assert_eq!(read(text.replace('\n', "\r\n").as_bytes()).unwrap(), records);
    assert_eq!(read(text.trim_end().as_bytes()).unwrap(), records);
}

#[test]
fn what_lackey_does_not_write_is_reported_with_its_line() {
    for (line, problem) in [
        ("hello", "neither a binary trace nor a line of lackey"),
        (" L 12", "neither"),
        (" L ,8", "neither"),
        (" L 12,", "neither"),
        (" L 12,8x", "neither"),
        (" L 12345678901234567,8", "neither"),
        (" X 12,8", "neither"),
        ("I  zz,8", "neither"),
        (" S 12,0", "an access of 0 bytes"),
        (" S 12,999999999", "an access of 999999999 bytes"),
        (" S ffffffffffffffff,2", "go beyond the last address"),
        (&"=".repeat(1001), "more than 1000 bytes"),
    ] {
        let message = error(format!("I  04001c90,3\n M 10,4\n{line}\n L 10,4\n").as_bytes());
        assert!(message.starts_with("line 3 of the trace, after 2 records: "), "{message}");
        assert!(message.contains(problem), "{message}");
    }
    for (text, line) in [("", 0), ("==9== Lackey\nI  10,2\n", 2)] {
        let right =
            "after 0 records: the trace ends without an access; give lackey --trace-mem=yes";
        assert_eq!(error(text.as_bytes()), format!("line {line} of the trace, {right}"));
    }
}

#[test]
fn a_program_is_recorded() {
    let parameters = Parameters { scale: Some(8), ..Parameters::default() };
    let program = Program::new("bfs".parse().unwrap(), &parameters, 4).unwrap();
    let recorder = Recorder::new(Vec::new(), 4).unwrap();
    let counts =
        run_in_turns(&program, 1, 10, |thread, turn| recorder.processor(thread as u32, turn));
    program.verify().unwrap();
    let (count, bytes) = recorder.finish().unwrap();
    let records = read(&bytes).unwrap();
    assert_eq!(records.len() as u64, count);
    assert_eq!(records.iter().filter(|record| record.write).count() as u64, counts.writes);
    assert_eq!(records.iter().map(|record| u64::from(record.bytes)).sum::<u64>(), counts.bytes);
    assert!((0..4).all(|thread| records.iter().any(|record| record.thread == thread)));
    for record in &records {
        let inside = program.regions().iter().any(|region| {
            (region.address..region.address + region.bytes).contains(&record.address)
        });
        assert!(inside, "{record:?} is in no array");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let record = |name: &str| {
        let parameters = Parameters { scale: Some(8), ..Parameters::default() };
        let program = Program::new(name.parse().unwrap(), &parameters, 3).unwrap();
        let recorder = Recorder::new(Vec::new(), 3).unwrap();
        run_in_turns(&program, 1, 10, |thread, turn| recorder.processor(thread as u32, turn));
        recorder.finish().unwrap().1
    };
    for name in tombolo_programs::ProgramName::ALL {
        let name = name.to_string();
        assert!(record(&name) == record(&name), "{name}");
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }

    #[test]
    fn any_bytes_after_a_header(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let header = &written(&[])[..16];
        let _ = read(&[header, &bytes].concat());
    }

    #[test]
    fn almost_a_trace(at in 0..320_usize, to: u8, end in 0..=320_usize) {
        let mut bytes = written(&some_records(18));
        bytes[at] = to;
        bytes.truncate(end);
        if let Ok(records) = read(&bytes) {
            prop_assert_eq!(records.len(), 18);
        }
    }

    #[test]
    fn almost_lackey(text in "([ I][ LSM]  ?[0-9a-f]{0,17},?[0-9]{0,10}\n?){0,8}") {
        let _ = read(text.as_bytes());
    }

    #[test]
    fn any_records(
        records in prop::collection::vec(
            (0..THREADS, any::<u64>(), 1..=MAX_ACCESS_BYTES, any::<bool>(), any::<u32>()),
            0..50,
        )
    ) {
        let records: Vec<Record> = records
            .into_iter()
            .map(|(thread, address, bytes, write, instructions)| {
                let address = address.min(u64::MAX - u64::from(bytes));
                Record { thread, address, bytes, write, instructions }
            })
            .collect();
        prop_assert_eq!(read(&written(&records)).unwrap(), records);
    }
}

/// An entry of DynamoRIO's format.
fn entry(kind: u16, size: u16, value: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    bytes[2..4].copy_from_slice(&size.to_le_bytes());
    bytes[4..].copy_from_slice(&value.to_le_bytes());
    bytes
}

/// A file of one thread, whose accesses come at these times, by address.
fn drmemtrace(thread: u64, accesses: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = [entry(25, 0, 5), entry(22, 0, thread), entry(24, 0, 1)].concat();
    for &(time, address) in accesses {
        bytes.extend(entry(28, 2, time));
        // An encoding, an instruction, a bundle of two, a prefetch, and the access.
        bytes.extend([entry(47, 4, 99), entry(10, 4, 0x40_0000), entry(17, 2, 0)].concat());
        bytes.extend([entry(3, 8, address), entry((address & 1) as u16, 8, address)].concat());
    }
    bytes.extend([entry(23, 0, thread), entry(26, 0, 0)].concat());
    bytes
}

#[test]
fn dynamorios_traces_are_read() {
    let bytes = drmemtrace(4711, &[(10, 0x1000), (20, 0x1001)]);
    let record = |address, write| Record { thread: 0, address, bytes: 8, write, instructions: 3 };
    assert_eq!(read(&bytes).unwrap(), [record(0x1000, false), record(0x1001, true)]);
    let cut = error(&bytes[..12 * 8 + 5]);
    assert_eq!(cut, "record 8 (byte 96) of the trace: the trace is cut off in the middle of it");
    let nameless = error(&[entry(25, 0, 5), entry(0, 8, 1)].concat());
    assert!(nameless.contains("no thread was named before it"), "{nameless}");
    let unknown = error(&[entry(25, 0, 5), entry(22, 0, 1), entry(900, 0, 1)].concat());
    assert!(unknown.contains("unknown type 900"), "{unknown}");
}

/// A tracer writes a file for each thread; accesses come in the order of their times.
#[test]
fn a_folder_of_dynamorios_is_merged_by_times() {
    let folder = tempfile::tempdir().unwrap();
    let within = folder.path().join("trace");
    std::fs::create_dir(&within).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(within.join(name), bytes).unwrap();
    write("app.1.100.trace", &drmemtrace(100, &[(10, 0x10), (40, 0x40)]));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, &drmemtrace(200, &[(20, 0x20), (30, 0x30)])).unwrap();
    write("app.1.200.trace.gz", &packed.finish().unwrap());
    write("notes.txt", b"nothing");
    let (trace, threads) = Trace::open(folder.path()).unwrap();
    let found: Vec<(u32, u64)> =
        trace.map(|record| record.unwrap()).map(|record| (record.thread, record.address)).collect();
    assert_eq!((threads, &found[..]), (2, &[(0, 0x10), (1, 0x20), (1, 0x30), (0, 0x40)][..]));

    write("app.1.300.trace.zip", b"PK\x03\x04");
    let refused = Trace::open(folder.path()).err().unwrap().to_string();
    assert!(refused.contains("unzip -p FILE"), "{refused}");
    let empty = tempfile::tempdir().unwrap();
    let refused = Trace::open(empty.path()).err().unwrap().to_string();
    assert!(refused.contains("ends in .trace"), "{refused}");
}

#[test]
fn a_text_has_an_access_a_line() {
    let text = "# made by a tool\n17 R 0x1000 8\n\n9 W 1fff 4 12\n17 r 2000 1\n";
    let record = |thread, address, bytes, write, instructions| Record {
        thread,
        address,
        bytes,
        write,
        instructions,
    };
    let expected = [
        record(0, 0x1000, 8, false, 1),
        record(1, 0x1fff, 4, true, 12),
        record(0, 0x2000, 1, false, 1),
    ];
    assert_eq!(read(text.as_bytes()).unwrap(), expected);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text");
    std::fs::write(&path, text).unwrap();
    assert_eq!(Trace::open(&path).unwrap().1, 2);
    for (line, problem) in [
        ("1 R 10", "is not `THREAD R|W ADDRESS BYTES [INSTRUCTIONS]`"),
        ("1 X 10 8", "\"X\" is neither R nor W"),
        ("1 R 0xg 8", "\"0xg\" is no address"),
        ("1 R 10 0", "an access of 0 bytes"),
        ("1 R ffffffffffffffff 8", "beyond the last address"),
    ] {
        let told = error(format!("# first\n{line}\n").as_bytes());
        assert!(told.starts_with("line 2 of the trace, after 0 records") && told.contains(problem));
    }
}
