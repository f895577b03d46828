//! `tombolo coherence`.

use std::fs;

use serde_json::Value;

use crate::tombolo::{complaint, folder, output, printed};

fn json(args: &[&str]) -> Value {
    let command = [&["coherence"], args, &["--format", "json"]].concat();
    serde_json::from_str(&printed(&command)).unwrap()
}

#[test]
fn protocols_are_compared_on_a_program_whose_result_is_checked() {
    let compared = json(&["run", "--workload", "bfs", "--scale", "9", "--compare"]);
    let results = compared["results"].as_array().unwrap();
    let protocols: Vec<_> = results.iter().map(|run| run["protocol"].as_str().unwrap()).collect();
    let published = ["sha-literal", "sha-literal-spec", "bi-literal", "uncached"];
    assert_eq!(protocols, [&["inv", "sha", "sha-spec", "bi"][..], &published].concat());
    for run in results {
        assert_eq!(run["verified"], true);
        for figure in ["ipc", "amat_ns", "shared_line_ratio"] {
            assert!(run[figure].as_f64().unwrap() > 0.0, "{figure} of {run}");
        }
        let messages = run["messages"].as_object().unwrap();
        assert!(messages["MemRd"].as_u64().unwrap() > 0 && messages.contains_key("ralloc"));
        assert!(run["equations"]["amat_ns"].as_f64().unwrap() > 0.0);
        assert!(run["traffic"]["mem"]["bytes"].as_u64().unwrap() > 0, "{run}");
        assert_eq!(run["mispeculations"], 0);
    }
    assert!(results[0]["messages"].get("GO-S").is_none());
    assert!(results[3]["messages"].get("BISnpData").is_some());
    assert!(results[6]["messages"].get("BISnpData").is_none());
    assert_eq!(compared["speedups"]["inv"], 1.0);
    assert_eq!(compared, json(&["run", "--workload", "bfs", "--scale", "9", "--compare"]));
}

#[test]
fn the_system_is_made_as_options_say() {
    let run = ["run", "--workload", "cc", "--scale", "8", "--threads", "4"];
    let with = |options: &[&str]| json(&[&run[..], options].concat());
    let seconds = |run: &Value| run["seconds"].as_f64().unwrap();
    let caches = ["--cache", "4KiB:8:1", "--cache", "64KiB:8:4", "--cache", "1MiB:16:40"];
    let four = with(&[&caches[..], &["--cache", "8MiB:16:60"]].concat());
    assert_eq!(four["served"].as_array().unwrap().len(), 4);
    let three = with(&[]);
    for slower in [["--directory-ns", "80"], ["--dma-ns", "500"], ["--node-gb-per-s", "0.5"]] {
        assert!(seconds(&with(&slower)) > seconds(&three), "{slower:?}");
    }
    assert!(seconds(&with(&["--page-levels", "0"])) < seconds(&three));
    let refused = |cache: &str| {
        complaint(
            &[&["coherence"], &run[..], &["--cache", cache, "--cache", "1MiB:16:40"]].concat(),
        )
    };
    assert!(refused("32KiB:8").contains("size, ways and nanoseconds"));
    assert!(refused("64:8:1").contains("fewer lines of 64 bytes than ways"));
}

#[test]
fn a_trace_of_a_program_is_run_like_the_program() {
    let folder = folder();
    let trace = folder.path().join("bfs.trace");
    let trace = trace.to_str().unwrap();
    let input = ["--workload", "bfs", "--scale", "8", "--threads", "4"];
    printed(&[&["coherence", "record", "--out", trace][..], &input].concat());
    let run = json(&[&["run"][..], &input].concat());
    let replayed = json(&["run", "--trace", trace]);
    for figure in ["accesses", "instructions", "lines"] {
        let (run, replayed) = (run[figure].as_u64().unwrap(), replayed[figure].as_u64().unwrap());
        assert!(run.abs_diff(replayed) * 50 <= run, "{figure}: {run} and {replayed}");
    }

    // A record that is damaged is named, and so is one that is cut off.
    let whole = fs::read(trace).unwrap();
    fs::write(trace, &whole[..whole.len() - 3]).unwrap();
    let cut_off = complaint(&["coherence", "run", "--trace", trace]);
    assert!(cut_off.contains("cut off") && cut_off.contains("record "), "{cut_off}");
    let told = complaint(&["coherence", "run", "--trace", trace, "--threads", "2"]);
    assert!(told.contains("cannot be used with"), "{told}");
}

#[test]
fn what_valgrind_prints_is_a_trace() {
    let folder = folder();
    let trace = folder.path().join("lackey");
    let trace = trace.to_str().unwrap();
    let text = "==7== Lackey\nI  04000000,3\n L 1ffe,8\n S 2000,4\nI  04000003,2\n M 2040,8\n";
    fs::write(trace, text).unwrap();
    let run = json(&["run", "--trace", trace, "--hosts", "1"]);
    assert_eq!((&run["instructions"], &run["accesses"]), (&2.into(), &5.into()));
    fs::write(trace, format!("{text} X 12,4\n")).unwrap();
    let wrong = complaint(&["coherence", "run", "--trace", trace]);
    assert!(wrong.contains("line 7"), "{wrong}");
}

#[test]
fn who_may_not_write_is_stopped() {
    let args = ["run", "--workload", "pr", "--scale", "8", "--deny-writes", "1"];
    for (protocol, rolled_back) in [("sha", false), ("sha-spec", true)] {
        let run = json(&[&args[..], &["--protocol", protocol]].concat());
        assert_eq!((&run["isolated_threads"], &run["verified"]), (&32.into(), &false.into()));
        assert_eq!(run["mispeculations"].as_u64().unwrap() > 0, rolled_back);
    }
}

#[test]
fn all_orders_of_messages_are_right_and_mistakes_are_found() {
    let explored = json(&["explore", "--hosts", "2"]);
    let results = explored["results"].as_array().unwrap();
    // Five protocols of lines on two kinds of node, and regions on two kinds of memory.
    assert_eq!(results.len(), 12);
    assert!(results.iter().all(|row| row["whole"] == true && row["violation"].is_null()));
    let planted = json(&["explore", "--protocol", "sha", "--faults"]);
    for row in planted["results"].as_array().unwrap() {
        assert!(!row["way"].as_array().unwrap().is_empty(), "{row}");
    }
    let too_many = output(&["coherence", "explore", "--states", "100"]);
    assert_eq!(too_many.status.code(), Some(4));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (args, says) in [
        (&["--workload", "bfz"][..], "the nearest name is \"bfs\""),
        (&["--workload", "bfs", "--hosts", "1025"], "there may be 1 to 1024"),
        (&["--workload", "bfs", "--threads", "0"], "a host may have 1 to 64"),
        (&["--workload", "bfs", "--graph", "/nowhere"], "cannot read the graph /nowhere"),
        (&["--workload", "bfs", "--scale", "40"], "scale is 40"),
        (&["--trace", "/nowhere"], "cannot read the trace /nowhere"),
        (&["--workload", "bfs", "--network-ns=-1"], "network latency -1"),
        (&["--workload", "bfs", "--deny-reads", "2"], "0 to 1"),
    ] {
        let said = complaint(&[&["coherence", "run"][..], args].concat());
        assert!(said.contains(says), "{args:?}: {said}");
    }
}
