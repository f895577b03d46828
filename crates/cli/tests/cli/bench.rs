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

const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/tigon.toml");

/// Five hosts that nobody has, twice: it comes out the same, whichever scheme.
#[test]
fn a_simulated_pod_comes_out_the_same_again() {
    for scheme in ["megalon", "hcmeta", "alllog"] {
        let run = |seed: &str| {
            report(&[
                "--profile",
                PROFILE,
                "--hosts",
                "5",
                "--threads",
                "2",
                "--seed",
                seed,
                "--scheme",
                scheme,
                "--scr",
                "256KiB",
                "-P",
                "a",
                "-p",
                "recordcount=3000",
                "-p",
                "operationcount=4000",
            ])
        };
        let report = run("7");
        assert_eq!(report["world"], "simulated");
        assert_eq!((&report["hosts"], &report["operations"]), (&5.into(), &4000.into()));
        assert!(report["load_ops_per_s"].is_null());
        let counts = &report["simulated"]["counts"];
        for count in ["accesses", "scr_misses", "back_invalidations", "lnr_misses", "link_bytes"] {
            assert!(counts[count].as_u64().unwrap() > 0, "{count} under {scheme}");
        }
        let links = counts["link_bytes_by_host"].as_array().unwrap();
        let bytes: Vec<u64> = links.iter().map(|bytes| bytes.as_u64().unwrap()).collect();
        let used = bytes.iter().filter(|&&bytes| bytes > 0).count();
        assert_eq!(used, 5, "{bytes:?} under {scheme}");
        assert_eq!(counts["link_bytes"], bytes.iter().sum::<u64>());
        assert_eq!(report, run("7"), "{scheme}");
        assert_ne!(report["ops_per_s"], run("8")["ops_per_s"], "{scheme}");
    }
}

#[test]
fn a_profile_is_checked() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let sound = std::fs::read_to_string(PROFILE).unwrap();
    let path = file.path().to_str().unwrap();
    std::fs::write(path, sound.replace("hosts = 8", "hosts = 800")).unwrap();
    assert!(complaint(&["bench", "ycsb", "--profile", path]).contains("pod.hosts is 800"));
    let too_many = complaint(&["bench", "ycsb", "--profile", PROFILE, "--hosts", "9"]);
    assert!(too_many.contains("tigon has 8 hosts, not 9"), "{too_many}");
    assert!(complaint(&["bench", "ycsb", "--profile", "nowhere.toml"]).contains("nowhere.toml"));
}

/// More hosts than the cores of any machine that tests run on; they join, load, run and leave at
/// once.
#[test]
fn eighteen_hosts_share_a_pod() {
    let report = report(&[
        "-P",
        "a",
        "-p",
        "recordcount=180",
        "-p",
        "operationcount=3600",
        "--hosts",
        "18",
        "--threads",
        "1",
    ]);
    assert_eq!((&report["hosts"], &report["operations"]), (&18.into(), &3600.into()));
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
fn every_scheme_serves_what_was_written() {
    for scheme in ["hcmeta", "hcmeta-local", "hcmeta-unlimited", "alllog"] {
        for workload in ["a", "d", "f"] {
            let report = report(&[
                "-P",
                workload,
                "-p",
                "operationcount=4000",
                "--threads",
                "2",
                "--scr",
                "32KiB",
                "--scheme",
                scheme,
            ]);
            assert_eq!(report["scheme"], scheme);
            assert_eq!(report["operations"], 4000);
            let churns = report["churn_per_op"].as_f64().unwrap() > 0.0;
            assert_eq!(churns, report["churn_us"].is_number(), "{report}");
            assert!(churns || ["hcmeta-unlimited", "alllog"].contains(&scheme), "{report}");
        }
    }
}

#[test]
fn an_owner_may_be_slow() {
    let args = ["-P", "c", "-p", "operationcount=2000", "--threads", "1", "--scr", "32KiB"];
    let slow = report(&[&args[..], &["--scheme", "hcmeta", "--owner-delay-us", "500"]].concat());
    assert!(slow["churn_us"].as_f64().unwrap() >= 500.0, "{slow}");
}

#[test]
fn an_owner_may_serve_one_request_after_the_other() {
    let args = "-P c -p operationcount=2000 --threads 1 --scr 32KiB --scheme hcmeta \
                --owner-service-us 300 --owner-sleep-us 100 --owner-victims least-written";
    let slow = report(&args.split_whitespace().collect::<Vec<_>>());
    assert!(slow["churn_us"].as_f64().unwrap() >= 300.0, "{slow}");
}

#[test]
fn schemes_are_compared() {
    let compared = report(&[
        "-p",
        "operationcount=2000",
        "--scr",
        "32KiB",
        "--compare",
        "hcmeta,alllog",
        "--rounds",
        "2",
    ]);
    let results = compared["results"].as_array().unwrap();
    let schemes: Vec<_> = results.iter().map(|result| result["scheme"].as_str().unwrap()).collect();
    assert_eq!(schemes, ["megalon", "hcmeta", "alllog"]);
    for result in &results[1..] {
        let speed = |result: &serde_json::Value| result["ops_per_s"].as_f64().unwrap();
        let ratio = compared["ratios"][result["scheme"].as_str().unwrap()].as_f64().unwrap();
        assert!((ratio - speed(&results[0]) / speed(result)).abs() < 1e-9, "{compared}");
    }
    let table =
        printed(&["bench", "ycsb", "-p", "operationcount=500", "--compare", "--rounds", "1"]);
    assert!(table.contains("hcmeta-unlimited") && table.contains("x as fast"), "{table}");
}

/// Whether a report has a number above zero in each of these fields.
fn has_all(report: &serde_json::Value, fields: &[&str]) -> bool {
    fields.iter().all(|field| report[field].as_f64() > Some(0.0))
}

/// The first result of a run in which something happened of all of this: a second may not be enough
/// where others want the processors.
fn pages_result_with(fields: &[&str], args: &str) -> serde_json::Value {
    let mut result = serde_json::Value::Null;
    for seconds in [1, 8, 64] {
        let args = format!("bench pagecache --format json --seconds {seconds} {args}");
        let report: serde_json::Value =
            serde_json::from_str(&printed(&args.split_whitespace().collect::<Vec<_>>())).unwrap();
        result = report["results"][0].clone();
        if has_all(&result, fields) {
            break;
        }
    }
    assert!(has_all(&result, fields), "{fields:?}: {result}");
    result
}

#[test]
fn a_file_larger_than_the_pod_is_read_and_written() {
    let happens =
        ["operations", "ops_per_s", "admitted_per_op", "evicted_per_op", "written_back_per_op"];
    let args = "--read-percent 70 --file-size 24MiB --size 8MiB --scr 512KiB --threads 2";
    let result = pages_result_with(&happens, args);
    assert_eq!((&result["scheme"], &result["hosts"]), (&"megalon".into(), &2.into()));
}

fn pages_report(args: &str) -> serde_json::Value {
    let args = format!("bench pagecache --format json --seconds 1 --file-size 8MiB {args}");
    serde_json::from_str(&printed(&args.split_whitespace().collect::<Vec<_>>())).unwrap()
}

#[test]
fn page_caches_on_several_schemes_are_compared() {
    let compared = pages_report(
        "--scr 128KiB --read-percent 80 --warm-up 1 --rounds 1 --compare hcmeta,hcmeta-unlimited,alllog",
    );
    let results = compared["results"].as_array().unwrap();
    let schemes: Vec<_> = results.iter().map(|result| result["scheme"].as_str().unwrap()).collect();
    assert_eq!(schemes, ["megalon", "hcmeta", "hcmeta-unlimited", "alllog"]);
    let speed = |result: &serde_json::Value| result["ops_per_s"].as_f64().unwrap();
    for result in results {
        assert!(speed(result) > 0.0, "{compared}");
        assert!(result["scr_bytes"].as_u64() >= Some(128 << 10), "{compared}");
        let churns = result["churn_per_op"].as_f64().unwrap() > 0.0;
        assert_eq!(churns, result["churn_us"].is_number(), "{compared}");
    }
    for result in &results[1..] {
        let ratio = compared["ratios"][result["scheme"].as_str().unwrap()].as_f64().unwrap();
        assert!((ratio - speed(&results[0]) / speed(result)).abs() < 1e-9, "{compared}");
    }
}

#[test]
fn pages_come_and_go_where_they_say_themselves_that_they_are_dirty() {
    for scheme in ["hcmeta", "alllog"] {
        let args = format!(
            "--file-size 8MiB --size 4MiB --scr 128KiB --read-percent 60 --scheme {scheme}"
        );
        let result = pages_result_with(&["evicted_per_op", "written_back_per_op"], &args);
        assert_eq!(result["scheme"], scheme);
    }
}

#[test]
fn pages_are_simulated() {
    let report = |more: &str| -> serde_json::Value {
        let args = "bench pagecache --format json --profile ../../profiles/megalon.toml --threads 4 \
                    --file-size 8MiB --operations 6000 --scr 96KiB --read-percent 60";
        let args: Vec<_> = args.split_whitespace().chain(more.split_whitespace()).collect();
        serde_json::from_str(&printed(&args)).unwrap()
    };
    let compared = report("--compare hcmeta");
    let results = compared["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        assert_eq!((&result["world"], &result["operations"]), (&"simulated".into(), &6000.into()));
        assert_eq!(result["admitted_per_op"], 0.0, "all pages were there: {result}");
    }
    assert!(results[1]["churn_per_op"].as_f64().unwrap() > 0.0, "{}", results[1]);
    assert_eq!(compared, report("--compare hcmeta"));

    let small = &report("--size 6MiB")["results"][0];
    for positive in ["admitted_per_op", "evicted_per_op"] {
        assert!(small[positive].as_f64().unwrap() > 0.0, "{positive}: {small}");
    }
}

#[test]
fn an_owner_of_pages_may_be_slow() {
    for scheme in ["hcmeta", "hcmeta-local"] {
        let args =
            format!("--scr 96KiB --warm-up 2 --zipf 0 --scheme {scheme} --owner-delay-us 300");
        let report = &pages_report(&args)["results"][0];
        assert!(report["churn_us"].as_f64().unwrap() >= 300.0, "{report}");
    }
}

#[test]
fn operations_are_held_against_their_limits() {
    let args = ["bench", "limit", "--objects", "1000", "--value-bytes", "64", "--format", "json"];
    let args = [&args[..], &["--operations", "200", "--rounds", "1", "--copies"]].concat();
    let report: serde_json::Value = serde_json::from_str(&printed(&args)).unwrap();
    let lines = report["lines"].as_array().unwrap();
    let operations = ["get", "get of a copy", "multi_get of 16", "put", "multi_put of 16"];
    let events = ["append", "apply what another host appends", "append to a log that is full"];
    for operation in operations.into_iter().chain(events).chain(["create", "delete"]) {
        let found: Vec<_> = lines.iter().filter(|line| line["operation"] == operation).collect();
        assert!(!found.is_empty(), "{operation} is not there");
        assert!(found.iter().all(|line| line["of_limit"].as_f64().unwrap() > 0.0));
    }
    let asked_redis = lines.iter().any(|line| line["operation"] == "Redis GET");
    assert_ne!(asked_redis, report["without_redis"].is_string());
    let local = |sharing: &str| report["local_bytes_per_object"][sharing].as_f64().unwrap();
    assert!(local("read_shared") > 0.0);
    assert_eq!(local("read_shared"), local("read_write_shared"), "an entry has room for a record");
}

#[test]
fn a_server_is_measured_without_redis_too() {
    let args = ["bench", "resp", "--clients", "2", "--keys", "100", "--operations", "100"];
    let args = [&args[..], &["--rounds", "1", "--redis", "no-such-redis", "--format", "json"]];
    let report: serde_json::Value = serde_json::from_str(&printed(&args.concat())).unwrap();
    assert!(report["without_redis"].as_str().unwrap().contains("no-such-redis"));
    let lines = report["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| line["ops_per_s"].as_f64().unwrap() > 0.0));
}

#[test]
fn results_are_told_as_parts_of_the_limit() {
    let report = report(&["-P", "b", "-p", "recordcount=2000", "-p", "operationcount=2000"]);
    assert!(report["of_limit"].as_f64().unwrap() > 0.0);
    assert!(report["limit_ops_per_s"].as_f64().unwrap() > 0.0);
}
