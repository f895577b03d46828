//! docs/format.md draws the superblock and the areas as they are.

use std::path::Path;

use tombolo_memory::{LINE_BYTES, Memory, ScrAddr};
use tombolo_pod::{CreateOptions, Geometry, Options, PodSpec, RecordWidth, TornWrites, create};

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    std::fs::read_to_string(path).unwrap()
}

/// The rows of the table under `heading`, cell by cell.
fn table(document: &str, heading: &str) -> Vec<Vec<String>> {
    let section = document.split_once(&format!("\n{heading}\n")).expect("the section is there").1;
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}

/// The value that a word of the superblock has, by what the document says it holds.
fn meaning(holds: &str, geometry: &Geometry) -> Option<u64> {
    Some(match holds {
        "magic `TOMBOLO\\0`, written last" => u64::from_le_bytes(*b"TOMBOLO\0"),
        "bytes of SCR" => geometry.scr_bytes,
        "bytes of LNR" => geometry.lnr_bytes,
        "entries of a shard's ring" => geometry.ring_entries,
        "entries of a host's segment" => geometry.segment_entries,
        "bytes of a transfer window" => geometry.window_bytes,
        "bytes of a chunk" => geometry.chunk_bytes,
        "chunks" => geometry.chunks,
        "records, at most" => geometry.records,
        "bits of a record's counter, at most" => geometry.counter_bits,
        "bits of a record, 0 for auto" => 16,
        "slots of a host's mailbox" => geometry.mail_slots,
        "shards of the log" => geometry.log_shards,
        "latches" => geometry.latches,
        "hosts" => geometry.hosts,
        "intents of a host" => geometry.writes,
        "bytes of undo for each intent, or 0" => geometry.undo_bytes,
        "torn objects: 0 lost, 1 undone" => 1,
        "1 if partitions are backed up" => 1,
        "format version" | "UUID" | "key of the hash" => return None,
        other => {
            panic!("the document says that a word holds {other:?}, which this test does not know")
        }
    })
}

#[test]
fn the_superblock_and_the_areas_lie_where_the_document_says() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Options {
        hosts: Some(5),
        mail_slots: Some(8),
        log_shards: Some(2),
        record_width: Some(RecordWidth::Bits16),
        torn_writes: TornWrites::Undo,
        latches: Some(32),
        partition_backup: true,
        ..Options::default()
    };
    let options =
        CreateOptions { scr_bytes: Some(1 << 20), lnr_bytes: Some(64 << 20), layout, force: false };
    let pod = create(&PodSpec::path(folder.path().join("pod")), options).unwrap();
    let (geometry, areas, document) = (pod.geometry(), pod.areas(), document());
    let word = |number: u64| pod.memory().load(ScrAddr::<u64>::new(8 * number));

    assert!(document.contains(&format!("Format version {}. ", word(1))));
    let mut seen = Vec::new();
    for row in table(&document, "### Superblock") {
        for [numbers, holds] in row.as_chunks().0 {
            let numbers: Vec<u64> = numbers.split(", ").map(|n| n.parse().unwrap()).collect();
            if let Some(value) = meaning(holds, geometry) {
                assert_eq!(word(numbers[0]), value, "word {}: {holds}", numbers[0]);
            }
            seen.extend(numbers);
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..24).collect::<Vec<_>>(), "each word is told once");
    assert!((24..31).all(|number| word(number) == 0) && word(31) != 0);

    let lines = [areas.membership, areas.clock, areas.hosts, areas.names];
    let lines = lines.map(|area| area.offset() / LINE_BYTES);
    assert_eq!(lines, [4, 5, 6, 6 + geometry.hosts]);
    let log = geometry.log_areas(0);
    let in_order = [
        areas.names,
        log.milestone,
        log.applied,
        log.ring,
        areas.chunk_table,
        areas.pins,
        areas.mail_words,
        areas.writes,
        areas.quarantine,
        areas.latches,
        areas.records,
        areas.marks,
    ];
    assert!(in_order.map(|area| area.offset()).is_sorted_by(|a, b| a < b));
}
