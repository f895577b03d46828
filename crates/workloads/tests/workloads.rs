//! Workloads are what their properties say; choices follow the laws they are named after.

use std::collections::HashSet;
use std::sync::Arc;

use proptest::prelude::*;
use tombolo_workloads::{
    Inserts, Op, Operations, Properties, RequestDistribution, Workload, WorkloadError, Zipfian,
    fill_value, is_value, version_of,
};

fn workload(letter: char, assignments: &[&str]) -> Result<Workload, WorkloadError> {
    let mut properties = Properties::new();
    properties.read("stock", Workload::stock_text(letter)?)?;
    assignments.iter().try_for_each(|assignment| properties.set(assignment))?;
    Workload::from_properties(&properties)
}

fn operations(workload: &Workload, seed: u64, count: usize) -> Vec<Op> {
    let inserts = Arc::new(Inserts::new(workload));
    Operations::new(workload, seed, 0, inserts).unwrap().take(count).collect()
}

fn key(op: &Op) -> u64 {
    match *op {
        Op::Read { key } | Op::Update { key } | Op::Insert { key } => key,
        Op::ReadModifyWrite { key } => key,
        Op::Scan { start, .. } => start,
    }
}

#[test]
fn stock_workloads_have_the_published_mixes() {
    let share = |letter, wanted: fn(&Op) -> bool| {
        let operations = operations(&Workload::stock(letter).unwrap(), 7, 20_000);
        operations.iter().filter(|op| wanted(op)).count() as f64 / 20_000.0
    };
    let near = |share: f64, expected: f64| (share - expected).abs() < 0.015;
    let read = |op: &Op| matches!(op, Op::Read { .. });
    for (letter, expected) in [('a', 0.5), ('b', 0.95), ('c', 1.0), ('d', 0.95), ('f', 0.5)] {
        assert!(near(share(letter, read), expected), "reads of {letter}");
    }
    assert!(near(share('a', |op| matches!(op, Op::Update { .. })), 0.5));
    assert!(near(share('d', |op| matches!(op, Op::Insert { .. })), 0.05));
    assert!(near(share('e', |op| matches!(op, Op::Scan { .. })), 0.95));
    assert!(near(share('f', |op| matches!(op, Op::ReadModifyWrite { .. })), 0.5));
}

#[test]
fn zipfian_ranks_follow_the_law() {
    const ITEMS: u64 = 1000;
    const DRAWS: u64 = 400_000;
    let zipfian = Zipfian::new(ITEMS, 0.99);
    let mut counts = [0; ITEMS as usize];
    // An even grid of the unit interval stands for random numbers.
    for draw in 0..DRAWS {
        counts[zipfian.rank((draw as f64 + 0.5) / DRAWS as f64) as usize] += 1;
    }
    let expected = |rank: u64| DRAWS as f64 * ((rank + 1) as f64).powf(-0.99) / zipfian.zeta();
    for (rank, tolerance) in [(0, 0.001), (1, 0.001), (10, 0.2), (100, 0.1), (900, 0.1)] {
        let (found, expected) = (f64::from(counts[rank as usize]), expected(rank));
        assert!((found / expected - 1.0).abs() < tolerance, "{rank}: {found} for {expected}");
    }
    let exact: f64 = (1..=ITEMS).map(|i| (i as f64).powf(-0.99)).sum();
    assert!((zipfian.zeta() / exact - 1.0).abs() < 1e-12);
}

#[test]
fn popular_records_are_scattered() {
    let workload = workload('c', &["recordcount=10000"]).unwrap();
    let mut counts = vec![0u32; 10_000];
    operations(&workload, 3, 100_000).iter().for_each(|op| counts[key(op) as usize] += 1);
    let mut by_count: Vec<usize> = (0..10_000).collect();
    by_count.sort_by_key(|&number| std::cmp::Reverse(counts[number]));
    let share = f64::from(counts[by_count[0]]) / 100_000.0;
    assert!((0.09..0.12).contains(&share), "the most popular has {share}");
    let mut popular = by_count[..20].to_vec();
    popular.sort_unstable();
    assert!(popular[19] - popular[0] > 5000, "{popular:?}");
}

#[test]
fn uniform_and_hotspot_choose_as_they_say() {
    let uniform = workload('c', &["requestdistribution=uniform", "recordcount=100"]).unwrap();
    let mut counts = [0f64; 100];
    operations(&uniform, 1, 100_000).iter().for_each(|op| counts[key(op) as usize] += 1.0);
    let chi_square: f64 = counts.iter().map(|count| (count - 1000.0).powi(2) / 1000.0).sum();
    // 99 degrees of freedom: over 150 once in a thousand seeds, and this is one fixed seed.
    assert!(chi_square < 150.0, "{chi_square}");

    let hotspot = workload('c', &["requestdistribution=hotspot", "hotspotdatafraction=0.1"]);
    let hotspot = hotspot.unwrap();
    assert!(matches!(hotspot.request_distribution, RequestDistribution::Hotspot { .. }));
    let hot = operations(&hotspot, 1, 10_000).iter().filter(|op| key(op) < 100).count();
    assert!((7_800..8_200).contains(&hot), "{hot}");
}

#[test]
fn latest_prefers_what_was_acknowledged_last() {
    let workload = Workload::stock('d').unwrap();
    let inserts = Arc::new(Inserts::new(&workload));
    let mut operations = Operations::new(&workload, 5, 0, inserts.clone()).unwrap();
    let mut new = 0;
    for _ in 0..5000 {
        match operations.next().unwrap() {
            Op::Insert { key } => inserts.acknowledge(key),
            op => {
                assert!(key(&op) < inserts.known());
                new += u32::from(inserts.known() - key(&op) <= 10);
            }
        }
    }
    assert!(new > 1500, "{new} of 5000 were among the ten newest");
}

#[test]
fn hosts_insert_records_of_their_own() {
    let workload = workload('d', &["insertproportion=1", "readproportion=0"]).unwrap();
    let mut all = HashSet::new();
    for host in 0..3 {
        let inserts = Arc::new(Inserts::of_host(&workload, host, 3));
        let operations = Operations::new(&workload, 1, 0, inserts.clone()).unwrap();
        for op in operations.take(100) {
            assert!(all.insert(key(&op)), "{op:?} comes twice");
            inserts.acknowledge(key(&op));
        }
        assert_eq!(inserts.known(), 1100);
    }
    assert_eq!(all.len(), 300);
    assert_eq!(all.iter().max(), Some(&1299));
}

#[test]
fn a_seed_fixes_everything() {
    let workload = Workload::stock('a').unwrap();
    assert_eq!(operations(&workload, 9, 1000), operations(&workload, 9, 1000));
    assert_ne!(operations(&workload, 9, 1000), operations(&workload, 10, 1000));
}

#[test]
fn bad_properties_are_refused_with_their_place() {
    let error = |assignment| workload('a', &[assignment]).unwrap_err().to_string();
    assert!(error("recordcont=7").contains("recordcount"));
    assert!(error("recordcount=many").contains("recordcount=many"));
    assert!(error("recordcount=0").contains("recordcount is 0"));
    assert!(error("readproportion=-1").contains("readproportion"));
    assert!(error("requestdistribution=normal").contains("uniform"));
    assert!(error("recordcount").contains("-p"));
    let mut properties = Properties::new();
    properties.read("my.properties", "recordcount=5\nfieldcuont=1\n").unwrap();
    let error = Workload::from_properties(&properties).unwrap_err().to_string();
    assert!(error.contains("my.properties, line 2") && error.contains("fieldcount"), "{error}");
    assert!(Workload::stock('g').is_err());
}

#[test]
fn keys_are_named_as_ycsb_names_them() {
    let name = |assignments: &[&str], number| {
        let mut name = Vec::new();
        workload('a', assignments).unwrap().key(number, &mut name);
        String::from_utf8(name).unwrap()
    };
    assert_eq!(name(&["insertorder=ordered"], 42), "user42");
    assert_eq!(name(&["insertorder=ordered", "zeropadding=6"], 42), "user000042");
    // FNV-1a of eight zero bytes.
    assert_eq!(name(&[], 0), "user6284781860667377211");
    let names: HashSet<_> = (0..1000).map(|number| name(&[], number)).collect();
    assert_eq!(names.len(), 1000);
}

proptest! {
    #[test]
    fn values_tell_key_and_version(key: u64, version: u64, length in 16usize..2000) {
        let mut value = vec![0; length];
        fill_value(key, version, &mut value);
        prop_assert!(is_value(key, version, &value));
        prop_assert_eq!(version_of(key, &value), Some(version));
        prop_assert_eq!(version_of(key.wrapping_add(1), &value), None);
    }

    #[test]
    fn no_changed_byte_goes_unnoticed(
        key: u64, version: u64, length in 16usize..300, place: prop::sample::Index, flip in 1u8..,
    ) {
        let mut value = vec![0; length];
        fill_value(key, version, &mut value);
        value[place.index(length)] ^= flip;
        prop_assert_eq!(version_of(key, &value), None);
    }

    #[test]
    fn torn_values_are_noticed(key: u64, one: u64, other: u64, length in 64usize..300, cut in 8usize..56) {
        prop_assume!(one != other);
        let (mut torn, mut rest) = (vec![0; length], vec![0; length]);
        fill_value(key, one, &mut torn);
        fill_value(key, other, &mut rest);
        torn[cut..].copy_from_slice(&rest[cut..]);
        prop_assert_eq!(version_of(key, &torn), None);
    }

    #[test]
    fn properties_read_back(name in "[a-z.]{1,12}", value in "[!-~]{0,20}") {
        prop_assume!(!value.contains('\\') && !value.starts_with(['=', ':']));
        let mut properties = Properties::new();
        properties.read("file", &format!("# c\n  {name} = {value}\n")).unwrap();
        let assigned = { let mut p = Properties::new(); p.set(&format!("{name}={value}")).unwrap(); p };
        let message = |p: &Properties| {
            let error = Workload::from_properties(p).unwrap_err().to_string();
            error.split_once(": ").map(|(_, rest)| rest.to_owned())
        };
        prop_assert_eq!(message(&properties), message(&assigned));
    }

    #[test]
    fn no_text_panics(text: String) {
        let mut properties = Properties::new();
        if properties.read("file", &text).is_ok() {
            let _ = Workload::from_properties(&properties);
        }
    }
}
