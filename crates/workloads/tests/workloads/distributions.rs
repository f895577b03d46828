//! Which records are chosen, and how often.

use tombolo_workloads::{InsertOrder, Op, ScrambledZipfian, Workload, Zipfian, hash};

use crate::laws::{assert_follows, count};
use crate::{operations, workload};

const RECORDS: u64 = 1000;
const DRAWS: usize = 200_000;

/// How often workload C, with one more property, reads each record.
fn reads(assignments: &[&str]) -> Vec<u64> {
    let workload = workload('c', assignments).unwrap();
    count(operations(&workload, 1, DRAWS).into_iter().map(Op::key), RECORDS)
}

/// The probability of each rank, found by drawing with an even grid of the unit interval.
fn zipfian_shares(items: u64, theta: f64) -> Vec<f64> {
    const GRID: u64 = 2_000_000;
    let zipfian = Zipfian::new(items, theta);
    let ranks = (0..GRID).map(|draw| zipfian.rank((draw as f64 + 0.5) / GRID as f64));
    count(ranks, items).into_iter().map(|count| count as f64 / GRID as f64).collect()
}

#[test]
fn zipfian_ranks_follow_the_law() {
    for theta in [0.0, 0.5, 0.8, 0.99] {
        let zeta: f64 = (1..=RECORDS).map(|i| (i as f64).powf(-theta)).sum();
        assert!((Zipfian::new(RECORDS, theta).zeta() / zeta - 1.0).abs() < 1e-12);

        let shares = zipfian_shares(RECORDS, theta);
        let law = |rank: usize| ((rank + 1) as f64).powf(-theta) / zeta;
        assert!((shares[0] / law(0) - 1.0).abs() < 0.001, "rank 0 at {theta}: {}", shares[0]);
        assert!((shares[1] / law(1) - 1.0).abs() < 0.001, "rank 1 at {theta}: {}", shares[1]);
        // The formula approximates the others: by octaves, the nearest to the head are the worst.
        for (start, tolerance) in
            [(2, 0.15), (4, 0.1), (8, 0.05), (16, 0.05), (64, 0.05), (256, 0.05), (499, 0.05)]
        {
            let octave = start..2 * start;
            let found: f64 = shares[octave.clone()].iter().sum();
            let expected: f64 = octave.map(law).sum();
            assert!(
                (found / expected - 1.0).abs() < tolerance,
                "ranks from {start} at {theta}: {found} for {expected}"
            );
        }
    }
}

#[test]
fn the_number_of_items_can_change() {
    let mut changed = Zipfian::new(1, 0.99);
    for items in [1, 2, 3, 128, 129, 5000, 100] {
        changed.set_items(items);
        let new = Zipfian::new(items, 0.99);
        assert_eq!(changed.zeta().to_bits(), new.zeta().to_bits());
        assert_eq!(changed.rank(0.7), new.rank(0.7));
        assert!(changed.rank(1.0 - f64::EPSILON) < items);
    }
}

#[test]
fn exact_zipfian_choices_are_ranks_scattered_by_the_hash() {
    let hashed = workload('c', &["keyprefix="]).unwrap();
    assert_eq!(hashed.insert_order, InsertOrder::Hashed);
    let mut expected = vec![0.0; RECORDS as usize];
    let mut hash = Vec::new();
    for (rank, share) in zipfian_shares(RECORDS, 0.99).into_iter().enumerate() {
        hashed.key(rank as u64, &mut hash);
        let hash: u64 = str::from_utf8(&hash).unwrap().parse().unwrap();
        expected[(hash % RECORDS) as usize] += share;
    }
    let reads = reads(&["requestdistribution=zipfian-exact"]);
    assert_follows(&reads, &expected);

    let mut popular: Vec<usize> = (0..RECORDS as usize).collect();
    popular.sort_by_key(|&number| std::cmp::Reverse(reads[number]));
    popular.truncate(20);
    popular.sort_unstable();
    assert!(popular[19] - popular[0] > 500, "the popular are close together: {popular:?}");
    assert!(popular.windows(2).all(|pair| pair[1] - pair[0] < 300), "or in heaps: {popular:?}");
}

/// The choices of YCSB 0.17.0's own generators: for each draw, the bits of its uniform number and
/// the choice. The program that printed them is `ycsb/Golden.java`.
const YCSB: &str = include_str!("ycsb/golden.txt");

fn choices_of_ycsb(name: &str) -> Vec<(f64, u64)> {
    let lines = YCSB.lines().skip_while(|line| *line != name).skip(1);
    let pair = |line: &str| {
        let (bits, chosen) = line.split_once(' ')?;
        let unit = f64::from_bits(u64::from_str_radix(bits, 16).ok()?);
        Some((unit, chosen.parse().ok()?))
    };
    lines.map_while(pair).collect()
}

#[test]
fn zipfian_choices_are_those_of_ycsb() {
    for items in [1000, 24_000_000] {
        let zipfian = ScrambledZipfian::new(items, 0.99);
        let choices = choices_of_ycsb(&format!("scrambled {items}"));
        assert_eq!(choices.len(), 200);
        for (unit, chosen) in choices {
            assert_eq!(zipfian.item(unit), chosen, "{unit} of {items}");
        }
    }
}

#[test]
fn latest_choices_are_those_of_ycsb() {
    let choices = choices_of_ycsb("latest 1000");
    assert_eq!(choices.len(), 200);
    let ranks = Zipfian::new(999, 0.99);
    for (unit, chosen) in choices {
        assert_eq!(999 - ranks.rank(unit), chosen, "{unit}");
    }
}

#[test]
fn each_record_is_chosen() {
    let reads = reads(&[]);
    assert!(reads.iter().all(|count| *count > 0), "{reads:?}");
    // 1001 is the number of items, since YCSB counts up to the last inclusively.
    let hottest = reads[(hash(0) % 1001) as usize] as f64 / DRAWS as f64;
    assert!((0.036..0.042).contains(&hottest), "{hottest}");
}

#[test]
fn the_published_choice_at_another_skew_is_nearly_uniform() {
    let items = 18_000_000;
    let zipfian = ScrambledZipfian::as_published(items, 0.7);
    let units = (0..DRAWS).map(|draw| (draw as f64 + 0.5) / DRAWS as f64);
    let hottest = units.filter(|unit| zipfian.item(*unit) == hash(0) % items).count();
    let share = hottest as f64 / DRAWS as f64;
    assert!((0.0015..0.0025).contains(&share), "{share}");
}

#[test]
fn zipfian_choices_take_in_what_is_inserted() {
    let assignments = ["insertproportion=0.5", "readproportion=0.5", "operationcount=1000"];
    let workload = workload('c', &assignments).unwrap();
    let inserts = std::sync::Arc::new(tombolo_workloads::Inserts::new(&workload));
    let operations = tombolo_workloads::Operations::new(&workload, 1, 0, inserts.clone()).unwrap();
    let mut inserted_and_read = 0;
    for operation in operations.take(1000) {
        match operation {
            Op::Insert { key } => inserts.acknowledge(key),
            Op::Read { key } => {
                assert!(key < inserts.known());
                inserted_and_read += u32::from(key >= RECORDS);
            }
            other => unreachable!("{other:?}"),
        }
    }
    assert!(inserted_and_read > 50, "{inserted_and_read}");
}

#[test]
fn uniform_choices_are_alike() {
    assert_follows(&reads(&["requestdistribution=uniform"]), &[1.0 / RECORDS as f64; 1000]);
}

#[test]
fn hotspot_choices_are_alike_on_either_side() {
    let found = reads(&[
        "requestdistribution=hotspot",
        "hotspotdatafraction=0.1",
        "hotspotopnfraction=0.7",
    ]);
    let expected: Vec<f64> =
        (0..RECORDS).map(|number| if number < 100 { 0.7 / 100.0 } else { 0.3 / 900.0 }).collect();
    assert_follows(&found, &expected);
    for (data, operations) in [("0", "0.5"), ("1", "0.5")] {
        let data = format!("hotspotdatafraction={data}");
        let operations = format!("hotspotopnfraction={operations}");
        let found = reads(&["requestdistribution=hotspot", &data, &operations]);
        assert_follows(&found, &[1.0 / RECORDS as f64; 1000]);
    }
}

#[test]
fn latest_choices_are_ranks_from_the_newest_back() {
    let mut found = reads(&["requestdistribution=latest"]);
    found.reverse();
    assert_eq!(found.pop(), Some(0), "the oldest record is never chosen");
    assert_follows(&found, &zipfian_shares(RECORDS - 1, 0.99));
}

#[test]
fn exponential_choices_decay_from_the_newest_back() {
    let mut found = reads(&[
        "requestdistribution=exponential",
        "exponential.frac=0.5",
        "exponential.percentile=90",
    ]);
    found.reverse();
    let before = |rank: u64| 1.0 - 0.1_f64.powf(rank as f64 / (0.5 * RECORDS as f64));
    let share = |rank| (before(rank + 1) - before(rank)) / before(RECORDS);
    assert_follows(&found, &(0..RECORDS).map(share).collect::<Vec<_>>());
}

#[test]
fn sequential_choices_go_round() {
    let workload = workload('c', &["requestdistribution=sequential", "recordcount=10"]).unwrap();
    let found: Vec<u64> = operations(&workload, 1, 23).into_iter().map(Op::key).collect();
    let expected: Vec<u64> = (0..23).map(|place| place % 10).collect();
    assert_eq!(found, expected);
}

#[test]
fn choices_stay_within_the_records_of_this_client() {
    for distribution in ["uniform", "zipfian-exact", "hotspot", "sequential"] {
        let distribution = format!("requestdistribution={distribution}");
        let workload =
            workload('c', &[&distribution, "insertstart=100", "insertcount=50"]).unwrap();
        let keys = operations(&workload, 2, 5000).into_iter().map(Op::key);
        let counts = count(keys, RECORDS);
        let chosen: Vec<u64> = (0..RECORDS).filter(|&number| counts[number as usize] > 0).collect();
        assert!(chosen.iter().all(|number| (100..150).contains(number)), "{distribution}");
        assert!(chosen.len() > 25, "{distribution} chose {} records", chosen.len());
    }
}

#[test]
fn scans_have_the_lengths_asked_for() {
    let lengths = |distribution: &str| {
        let properties =
            ["insertproportion=0", "minscanlength=5", "maxscanlength=24", distribution];
        let workload = workload('e', &properties).unwrap();
        let length = |op| match op {
            Op::Scan { length, .. } => length - 5,
            other => unreachable!("{other:?}"),
        };
        count(operations(&workload, 4, DRAWS).into_iter().map(length), 20)
    };
    assert_follows(&lengths("scanlengthdistribution=uniform"), &[0.05; 20]);
    assert_follows(&lengths("scanlengthdistribution=zipfian"), &zipfian_shares(20, 0.99));
}

#[test]
fn values_have_the_lengths_asked_for() {
    let lengths = |assignments: &[&str]| {
        let workload = workload('a', assignments).unwrap();
        lengths_of_versions(&workload)
    };
    assert_eq!(lengths(&[])[1000], 10_000);
    let one = ["fieldcount=1", "minfieldlength=11", "fieldlength=30"];
    let uniform = lengths(&[&one[..], &["fieldlengthdistribution=uniform"]].concat());
    assert_follows(&uniform[11..], &[0.05; 20]);
    let zipfian = lengths(&[&one[..], &["fieldlengthdistribution=zipfian"]].concat());
    assert_follows(&zipfian[11..], &zipfian_shares(20, 0.99));
    let three =
        ["fieldcount=3", "minfieldlength=1", "fieldlength=2", "fieldlengthdistribution=uniform"];
    assert_follows(&lengths(&three)[3..], &[0.125, 0.375, 0.375, 0.125]);
}

/// How often each length occurs among 100 versions of 100 records.
fn lengths_of_versions(workload: &Workload) -> Vec<u64> {
    let lengths = tombolo_workloads::ValueLengths::new(workload);
    let lengths = &lengths;
    let all = (0..100).flat_map(|key| (0..100).map(move |version| lengths.of(key, version)));
    count(all, workload.value_bytes() + 1)
}
