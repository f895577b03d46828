//! Pods that make room: created, changed while in use, watched, and measured by traces.

use std::fmt::Write as _;

use redis::Commands;
use serde_json::Value;

use crate::tombolo::{Servers, complaint, folder, printed};

fn config(connection: &mut redis::Connection, name: &str) -> String {
    let found: Vec<String> = redis::cmd("CONFIG").arg("GET").arg(name).query(connection).unwrap();
    found[1].clone()
}

fn info(connection: &mut redis::Connection, name: &str) -> String {
    let text: String = redis::cmd("INFO").query(connection).unwrap();
    let start = format!("{name}:");
    let line = text.lines().find(|line| line.starts_with(&start));
    line.unwrap_or_else(|| panic!("{name} in {text}"))[start.len()..].to_owned()
}

#[test]
fn a_full_pod_evicts_and_tells() {
    let sizes = ["--size", "8MiB", "--scr", "1MiB"];
    let servers = Servers::start(2, &[&sizes[..], &["--evict", "allkeys-lru"]].concat(), &[]);
    let (mut one, mut two) = (servers.connect(0), servers.connect(1));
    assert_eq!(config(&mut two, "maxmemory-policy"), "allkeys-lru");
    for key in 0..12_000 {
        let _: () = one.set(key, vec![b'v'; 1000]).unwrap();
    }
    let last: Vec<u8> = two.get(11_999).unwrap();
    assert_eq!(last, vec![b'v'; 1000]);
    let [first, second] =
        [&mut one, &mut two].map(|host| info(host, "evicted_keys").parse::<u64>().unwrap());
    assert!(first + second > 4_000, "{first} and {second} were evicted");

    let told: Value =
        serde_json::from_str(&printed(&["pod", "info", &servers.spec(), "--format", "json"]))
            .unwrap();
    let eviction = &told["areas"][0]["eviction"];
    let counts = eviction["evicted"].as_object().unwrap().values();
    assert_eq!(eviction["policy"], "allkeys-lru");
    assert!(counts.map(|count| count.as_u64().unwrap()).sum::<u64>() >= first + second);
    assert!(printed(&["pod", "info", &servers.spec()]).contains("evicted"));
}

#[test]
fn one_host_changes_policy_and_limit_for_all() {
    let servers = Servers::start(2, &["--size", "16MiB", "--scr", "1MiB"], &[]);
    let (mut one, mut two) = (servers.connect(0), servers.connect(1));
    assert_eq!(config(&mut one, "maxmemory-policy"), "noeviction");
    let set = |connection: &mut redis::Connection, pairs: &[&str]| {
        redis::cmd("CONFIG").arg("SET").arg(pairs).query::<String>(connection)
    };
    set(&mut one, &["maxmemory", "2mb"]).unwrap();
    assert_eq!(config(&mut two, "maxmemory"), "2097152");
    let fill = |connection: &mut redis::Connection| {
        (0..6_000).find_map(|key| connection.set::<_, _, ()>(key, vec![b'v'; 1000]).err())
    };
    let refused = fill(&mut one).expect("the limit holds").to_string();
    assert!(refused.contains("OOM"), "{refused}");
    set(&mut one, &["maxmemory-policy", "allkeys-lfu"]).unwrap();
    assert_eq!(config(&mut two, "maxmemory-policy"), "allkeys-lfu");
    assert!(fill(&mut one).is_none());
    assert!(info(&mut one, "used_memory").parse::<u64>().unwrap() <= (2 << 20) + 4096);
    let refused = set(&mut one, &["maxmemory-policy", "oldest"]).unwrap_err().to_string();
    assert!(refused.contains("allkeys-lru"), "{refused}");
    assert!(set(&mut one, &["maxmemory", "much"]).is_err());
    set(&mut two, &["maxmemory", "0"]).unwrap();
    assert_eq!(config(&mut one, "maxmemory"), "0");
}

#[test]
fn a_trace_is_replayed_beside_an_exact_order() {
    let folder = folder();
    let path = folder.path().join("trace.jsonl");
    let file = path.to_str().unwrap();
    // Prompts that share their beginnings with some of the ones before.
    let mut trace = String::new();
    for number in 0..600_u64 {
        let shared = (number * 7 % 40) * 1000;
        let ids: Vec<u64> =
            (shared..shared + 8).chain(100_000 + number * 8..100_008 + number * 8).collect();
        writeln!(trace, "{{\"timestamp\": {number}, \"hash_ids\": {ids:?}}}").unwrap();
    }
    std::fs::write(&path, &trace).unwrap();
    for hosts in ["1", "2"] {
        let args = ["bench", "trace", file, "--hosts", hosts, "--hold", "1000"];
        let more = ["--value-bytes", "1000", "--size", "64MiB", "--format", "json"];
        let told: Value = serde_json::from_str(&printed(&[&args[..], &more].concat())).unwrap();
        let rate = |of: &str| told[of]["by_requests"].as_f64().unwrap();
        assert_eq!((&told["accesses"], &told["trace_format"]), (&9600.into(), &"llm".into()));
        assert!(rate("exact_lru") > 0.4 && told["refused"] == 0, "{told}");
        assert!(rate("hit_rate") > rate("exact_lru") - 0.03, "{told}");
        assert!(!told["evicted"].as_array().unwrap().is_empty());
    }
    assert!(printed(&["bench", "trace", file, "--hold", "500"]).contains("exact LRU"));
    std::fs::write(&path, trace + "{\"hash_ids\": \"none\"}\n").unwrap();
    let complaint = complaint(&["bench", "trace", file]);
    assert!(complaint.contains("line 601"), "{complaint}");
}
