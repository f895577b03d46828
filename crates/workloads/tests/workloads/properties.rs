//! Reading property files and assignments, and refusing what cannot be used.

use proptest::prelude::*;
use tombolo_workloads::{Origin, Properties, Workload, WorkloadError};

use crate::workload;

#[test]
fn files_are_read_as_java_does() {
    let mut properties = Properties::new();
    let text = "\u{feff}# comment\r\n  ! comment = no\r\n\r\na=1\r\n b : two words \nc\t=\\u00e9\\t\\=\n\
                d e\nlong = one, \\\n    two, \\\n    # three\nempty\nback\\\\=slash\\\\\na = last";
    properties.read("file", text).unwrap();
    let expected = [
        ("a", "last"),
        ("b", "two words"),
        ("c", "é\t="),
        ("d", "e"),
        ("long", "one, two, # three"),
        ("empty", ""),
        ("back\\", "slash\\"),
    ];
    for (name, value) in expected {
        assert_eq!(properties.get(name), Some(value), "{name}");
    }
    assert_eq!(properties.get("!"), None);
    properties.set(" a = b=c ").unwrap();
    assert_eq!(properties.get("a"), Some("b=c"));
}

#[test]
fn what_cannot_be_read_is_refused_with_its_place() {
    let error = |text| Properties::new().read("my.properties", text).unwrap_err().to_string();
    assert!(error("a=1\n\nb=\\u12g4\n").starts_with("my.properties:3: \\u12g4"));
    assert!(error("a=\\ud800").starts_with("my.properties:1: \\ud800"));
    assert!(error("= value").starts_with("my.properties:1: a value without a name"));
    let error = |assignment| Properties::new().set(assignment).unwrap_err().to_string();
    assert_eq!(error("recordcount"), "-p: \"recordcount\" is no assignment; write name=value");
    assert_eq!(error("=7"), "-p: a value without a name; write name=value");
}

#[test]
fn unknown_properties_are_refused_with_the_nearest_and_their_place() {
    for (unknown, known) in [
        ("recordcont", "recordcount"),
        ("readpropotion", "readproportion"),
        ("Threads", "threadcount"),
        ("requestDistribution", "requestdistribution"),
        ("hotspotfraction", "hotspotopnfraction"),
        ("exponential.fraction", "exponential.frac"),
    ] {
        let error = workload('a', &[&format!("{unknown}=7")]).unwrap_err();
        let Origin::Assignment = (match &error {
            WorkloadError::Unknown { origin, .. } => origin,
            other => panic!("{other}"),
        }) else {
            panic!("{error}");
        };
        let expected =
            format!("-p: unknown property {unknown:?}; the nearest known one is {known:?}");
        assert_eq!(error.to_string(), expected);
    }
    let mut properties = Properties::new();
    properties.read("my.properties", "recordcount=5\nfieldcuont=1\n").unwrap();
    let error = Workload::from_properties(&properties).unwrap_err().to_string();
    assert!(error.starts_with("my.properties:2: ") && error.contains("\"fieldcount\""), "{error}");
}

#[test]
fn bad_values_are_refused_with_what_would_do() {
    for (assignment, expected) in [
        ("recordcount=many", "a whole number from 0"),
        ("recordcount=-1", "a whole number from 0"),
        ("threadcount=5000000000", "2^32"),
        ("seed=x", "a whole number from 0"),
        ("readproportion=half", "a number such as 0.5"),
        ("zipfianconstant=NaN", "a number such as 0.5"),
        ("readallfields=yes", "true or false"),
        ("requestdistribution=normal", "uniform, zipfian, zipfian-exact, latest"),
        ("fieldlengthdistribution=histogram", "constant, uniform or zipfian"),
        ("scanlengthdistribution=constant", "uniform or zipfian"),
        ("insertorder=random", "hashed or ordered"),
        ("workload=site.ycsb.workloads.TimeSeriesWorkload", "CoreWorkload"),
        ("target=1000", "as fast as possible"),
    ] {
        let error = workload('a', &[assignment]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("-p: {assignment} cannot be used;")), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn workloads_that_cannot_be_run_are_refused() {
    for (assignments, expected) in [
        (&["recordcount=0"][..], "recordcount is 0"),
        (&["recordcount=9007199254740992"], "more than 9007199254740992 records"),
        (&["insertstart=1000"], "leave no record"),
        (&["insertstart=500", "insertcount=501"], "go beyond recordcount=1000"),
        (&["readproportion=-1"], "readproportion=-1"),
        (&["readproportion=0", "updateproportion=0"], "come to 0"),
        (&["zipfianconstant=1"], "zipfianconstant=1 "),
        (&["requestdistribution=hotspot", "hotspotdatafraction=1.5"], "hotspotdatafraction=1.5"),
        (&["requestdistribution=exponential", "exponential.percentile=100"], "percentile=100"),
        (&["requestdistribution=exponential", "exponential.frac=0"], "exponential.frac=0"),
        (&["fieldlength=0"], "fieldlength=0"),
        (&["fieldcount=0"], "fieldcount=0"),
        (&["minfieldlength=0", "fieldlengthdistribution=uniform"], "minfieldlength=0"),
        (&["minfieldlength=101", "fieldlengthdistribution=zipfian"], "minfieldlength=101"),
        (&["minscanlength=0"], "minscanlength=0"),
        (&["maxscanlength=2", "minscanlength=3"], "minscanlength=3"),
        (&["threadcount=0"], "threadcount is 0"),
        (&["keylength=22"], "keylength=22 is too short"),
        (&["zeropadding=70000"], "zeropadding=70000"),
    ] {
        let error = workload('a', assignments).unwrap_err();
        assert!(matches!(error, WorkloadError::Impossible(_)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(Workload::stock('g').unwrap_err(), WorkloadError::NoSuchStock('g'));
}

#[test]
fn what_makes_no_difference_is_accepted() {
    let same = [
        "workload=com.yahoo.ycsb.workloads.CoreWorkload",
        "table=usertable",
        "measurementtype=hdrhistogram",
        "hdrhistogram.percentiles=95,99",
        "minfieldlength=500",
        "dotransactions=TRUE",
        "target=0",
    ];
    let mut expected = Workload::stock('a').unwrap();
    expected.min_field_length_bytes = 500;
    assert_eq!(workload('a', &same).unwrap(), expected);
}

/// One of the ways to write `text` in a property file; `ways` chooses.
fn escaped(text: &str, ways: &[u8]) -> String {
    let mut ways = ways.iter().cycle();
    let mut escaped = String::new();
    for c in text.chars() {
        if ways.next().unwrap().is_multiple_of(8) {
            escaped.push_str("\\\n \t ");
        }
        match c {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\u{c}' => escaped.push_str("\\f"),
            ' ' | '=' | ':' | '#' | '!' | '\\' => escaped.extend(['\\', c]),
            c if c <= '\u{d7ff}' && ways.next().unwrap().is_multiple_of(4) => {
                escaped.push_str(&format!("\\u{:04x}", c as u32));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        pairs in prop::collection::hash_map("[^\u{feff}]{1,8}", any::<String>(), 1..6),
        separator in "[ \t]{0,2}[=: ][ \t]{0,2}",
        ways in prop::collection::vec(any::<u8>(), 8),
    ) {
        let mut text = String::new();
        for (name, value) in &pairs {
            text += &format!("{}{separator}{}\n# =\n", escaped(name, &ways), escaped(value, &ways));
        }
        let mut properties = Properties::new();
        properties.read("file", &text).unwrap();
        for (name, value) in &pairs {
            prop_assert_eq!(properties.get(name), Some(value.trim_end()), "in {:?}", text);
        }
    }

    #[test]
    fn numbers_arrive(records in 1u64..1 << 40, fields in 1u64..100, length in 1u64..1000, read in 0.0..1.0) {
        let workload = workload('a', &[
            &format!("recordcount={records}"),
            &format!("fieldcount={fields}"),
            &format!("fieldlength={length}"),
            &format!("readproportion={read}"),
        ]).unwrap();
        prop_assert_eq!(workload.record_count, records);
        prop_assert_eq!(workload.value_bytes(), fields * length);
        prop_assert_eq!(workload.proportions.read, read);
    }

    #[test]
    fn no_text_panics(text: String) {
        let mut properties = Properties::new();
        if properties.read("file", &text).is_ok() {
            let _ = Workload::from_properties(&properties);
        }
    }
}
