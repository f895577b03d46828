//! docs/format.md draws the superblock, the directory and the parts of an area as they are.

use std::path::Path;

use tombolo_memory::{LINE_BYTES, Memory, ScrAddr};
use tombolo_pod::Pod;
use tombolo_sharing::{Geometry, ObjectArea, Options, RecordWidth, TornWrites, plan_layout};
use tombolo_simulator::{Config, Simulation, Trial};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    std::fs::read_to_string(path).unwrap()
}

/// The words that a table describes, with what they hold: its cells in pairs, row by row.
fn described(document: &str, before: &str) -> Vec<(u64, String)> {
    let section = document.split_once(before).expect("the table is there").1;
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    let mut words = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        for [numbers, holds] in cells.as_chunks().0 {
            let numbers = numbers.split(", ").filter_map(|number| number.parse().ok());
            words.extend(numbers.map(|number: u64| (number, (*holds).to_owned())));
        }
    }
    words.sort_unstable_by_key(|&(number, _)| number);
    words
}

/// The numbers of words that are told, each once.
fn numbers(words: &[(u64, String)]) -> Vec<u64> {
    words.iter().map(|&(number, _)| number).collect()
}

#[test]
fn the_document_draws_what_is_there() {
    let options = Options {
        hosts: Some(5),
        mail_slots: Some(8),
        log_shards: Some(2),
        record_width: Some(RecordWidth::Bits16),
        torn_writes: TornWrites::Undo,
        latches: Some(32),
        partition_backup: true,
        ..Options::default()
    };
    let config = Config { scr_bytes: 1 << 20, lnr_bytes: 64 << 20, ..Config::default() };
    let memory = Simulation::new(config, &Trial::new(0)).memory(0);
    let layout = plan_layout(1 << 20, 64 << 20, options).unwrap();
    let pod = Pod::format(memory, &layout).unwrap();
    let area = ObjectArea::first(&pod).unwrap();
    let (geometry, document): (&Geometry, String) = (area.geometry(), document());
    let word = |number: u64| pod.memory().load(ScrAddr::<u64>::new(8 * number));

    assert!(document.contains(&format!("Format version {}. ", word(1))));
    let superblock = described(&document, "\n### Superblock\n");
    assert_eq!(numbers(&superblock), (0..12).collect::<Vec<_>>());
    for (number, holds) in superblock {
        let expected = match holds.as_str() {
            "magic `TOMBOLO\\0`, written last" => u64::from_le_bytes(*b"TOMBOLO\0"),
            "bytes of SCR" => layout.scr_bytes,
            "bytes of LNR" => layout.lnr_bytes,
            "hosts" => layout.hosts,
            "slots of a host's mailbox" => layout.mail_slots,
            "bytes of a transfer window" => layout.window_bytes,
            "areas" => 1,
            "format version" | "UUID" | "key of the hash" => continue,
            other => panic!("this test does not know of {other:?} in the superblock"),
        };
        assert_eq!(word(number), expected, "word {number}: {holds}");
    }
    assert!((12..31).all(|number| word(number) == 0) && word(31) != 0);

    let entry = |number: u64| word(4 * LINE_BYTES / 8 + number);
    let planned = layout.areas[0];
    let directory = described(&document, "\n### Directory\n");
    assert_eq!(numbers(&directory), (0..9).collect::<Vec<_>>());
    for (number, holds) in directory {
        let expected = match (number, holds.as_str()) {
            (0, "kind, up to eight letters: `objects` or `pages`") => {
                u64::from_le_bytes(*b"pages\0\0\0")
            }
            (_, "version of the tenant's format: 3") => {
                assert_eq!(planned.version, 3);
                planned.version
            }
            (2, "SCR: start, bytes") => planned.scr.start,
            (3, "SCR: start, bytes") => planned.scr.bytes,
            (4, "LNR: start, bytes") => planned.lnr.start,
            (5, "LNR: start, bytes") => planned.lnr.bytes,
            (_, "shards of the log") => planned.log_shards,
            (_, "entries of a shard's ring") => planned.ring_entries,
            (_, "entries of a host's segment") => planned.segment_entries,
            other => panic!("this test does not know of {other:?} in the directory"),
        };
        assert_eq!(entry(number), expected, "word {number}: {holds}");
    }
    assert_eq!(entry(25), planned.on_demand);
    assert!((26..31).all(|number| entry(number) == 0) && entry(31) != 0);

    let parameters = described(&document, "Parameters of objects and pages:");
    assert_eq!(numbers(&parameters), (0..11).collect::<Vec<_>>());
    for (number, holds) in parameters {
        let expected = match holds.as_str() {
            "bytes of a chunk" => geometry.chunk_bytes,
            "chunks" => geometry.chunks,
            "records, at most" => geometry.records,
            "bits of a record, 0 for auto" => 16,
            "bits of a record's counter, at most" => geometry.counter_bits,
            "intents of a host" => geometry.writes,
            "torn objects: 0 lost, 1 undone" | "1 if partitions are backed up" => 1,
            "bytes of undo for each intent, or 0" => geometry.undo_bytes,
            "latches" => geometry.latches,
            "bytes of a host's use ring, or 0" => geometry.use_ring_bytes,
            other => panic!("this test does not know of the parameter {other:?}"),
        };
        assert_eq!(entry(9 + number), expected, "parameter {number}: {holds}");
    }

    let (places, own, log) = (area.places(), area.areas(), area.log(0));
    let in_order = [
        places.roster,
        places.members,
        log.low_water_mark,
        log.applied,
        log.ring,
        own.scheme,
        own.chunk_table,
        own.pins,
        own.writes,
        own.quarantine,
        own.latches,
        own.records,
        own.marks,
        ScrAddr::new(own.tags.offset()),
    ];
    assert_eq!(places.roster.offset(), planned.scr.start);
    assert!(in_order.map(|part| part.offset()).is_sorted_by(|before, after| before < after));
}
