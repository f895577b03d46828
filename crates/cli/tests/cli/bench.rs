//! `tombolo bench`.

use crate::tombolo::{complaint, printed};

fn report(args: &[&str]) -> serde_json::Value {
    let args = [&["bench", "ycsb", "--format", "json", "--verify"], args].concat();
    serde_json::from_str(&printed(&args)).unwrap()
}

#[test]
fn every_stock_workload_runs() {
    for workload in ["a", "b", "c", "d", "f"] {
        let report = report(&["-P", workload, "-p", "operationcount=20000", "--threads", "2"]);
        assert_eq!(report["scheme"], "megalon");
        assert_eq!(report["workload"], workload);
        assert_eq!(report["world"], "mapped");
        assert_eq!((&report["hosts"], &report["threads_per_host"]), (&2.into(), &2.into()));
        assert_eq!((&report["records"], &report["operations"]), (&1000.into(), &20_000.into()));
        for positive in ["ops_per_s", "scr_bytes_used", "local_bytes_per_object"] {
            assert!(report[positive].as_f64().unwrap() > 0.0, "{positive} of {workload}");
        }
        for rate in ["churn_per_op", "retries_per_op", "cleaned_lines_per_op"] {
            assert!(report[rate].as_f64().unwrap() >= 0.0, "{rate} of {workload}");
        }
        assert!(report["invalidated_lines_per_op"].is_number());
        for latency in ["mean", "p50", "p99"] {
            assert!(report["latency_ns"][latency].as_f64().unwrap() > 0.0);
        }
    }
}

/// 1,000 coherence records, and a thousand times as many objects, all of which are written.
#[test]
fn a_million_objects_share_a_thousand_records() {
    let report = report(&[
        "-P",
        "a",
        "-p",
        "recordcount=1000000",
        "-p",
        "operationcount=300000",
        "-p",
        "fieldlength=10",
        "--hosts",
        "3",
        "--records",
        "1000",
    ]);
    assert_eq!((&report["records"], &report["operations"]), (&1_000_000.into(), &300_000.into()));
    assert!(report["churn_per_op"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_pod_that_is_too_small_for_the_workload_says_so() {
    let said = complaint(&[
        "bench",
        "ycsb",
        "-P",
        "a",
        "-p",
        "recordcount=100000",
        "--size",
        "16MiB",
        "--scr",
        "1MiB",
    ]);
    assert!(said.contains("full"), "{said}");
}

#[test]
fn a_file_larger_than_the_pod_is_read_and_written() {
    let args = "bench pagecache --format json --seconds 1 --read-percent 70 --file-size 24MiB \
        --size 8MiB --scr 512KiB --threads 2";
    let reports: serde_json::Value =
        serde_json::from_str(&printed(&args.split_whitespace().collect::<Vec<_>>())).unwrap();
    let report = &reports["results"][0];
    assert_eq!((&report["scheme"], &report["hosts"]), (&"megalon".into(), &2.into()));
    for positive in ["operations", "ops_per_s", "admitted_per_op", "evicted_per_op"] {
        assert!(report[positive].as_f64().unwrap() > 0.0, "{positive}: {report}");
    }
    assert!(report["written_back_per_op"].as_f64().unwrap() > 0.0, "{report}");
}
