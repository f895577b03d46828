//! Why pages would not move on this machine, or nothing would become faster.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tombolo_memory::paging::{Access, Offer};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As it has to be.
    Fine,
    /// Pages move, but worse than they could.
    Note,
    /// Pages do not move, or nothing becomes faster.
    Obstacle,
}

/// The result of a check of one thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The thing.
    pub topic: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The result in words, and what to do about it.
    pub text: String,
}

/// Looks at the kernel, the process' rights, and the machine's memory. It does not block.
pub fn check() -> Vec<Finding> {
    let mut findings = vec![of_kernel()];
    findings.extend(of_memory(Path::new("/sys"), Path::new("/proc")));
    findings
}

fn finding(topic: &'static str, severity: Severity, text: impl Into<String>) -> Finding {
    Finding { topic, severity, text: text.into() }
}

fn of_kernel() -> Finding {
    match Offer::probe() {
        Ok(Offer { access, .. }) => {
            let way = match access {
                Access::Device => "/dev/userfaultfd",
                Access::SystemCall => "the system call userfaultfd",
            };
            let text = format!("pages of this process can move, by {way}");
            finding("kernel", Severity::Fine, text)
        }
        Err(reason) => finding("kernel", Severity::Obstacle, reason.to_string()),
    }
}

/// Findings about nodes and tiers, from the kernel's files.
fn of_memory(sys: &Path, proc: &Path) -> Vec<Finding> {
    let list = fs::read_to_string(sys.join("devices/system/node/has_memory"));
    let nodes = list.map_or_else(|_| BTreeSet::from([0]), |list| numbers(&list));
    if nodes.len() < 2 {
        let text = "all memory is of one NUMA node: pages move, and nothing becomes faster; make CXL \
                    memory a node of its own (daxctl reconfigure-device --mode=system-ram)";
        return vec![finding("nodes", Severity::Obstacle, text)];
    }
    let text = format!("memory is of {} NUMA nodes; name two of {nodes:?}", nodes.len());
    let mut findings = vec![finding("nodes", Severity::Fine, text)];
    if tiers(&sys.join("devices/virtual/memory_tiering")) < 2 {
        let text = "the kernel takes all nodes for one tier, so that its own tiering moves nothing; \
                    name the near and the far node yourself";
        findings.push(finding("tiers", Severity::Note, text));
    }
    let balancing = fs::read_to_string(proc.join("sys/kernel/numa_balancing"));
    if balancing.is_ok_and(|value| value.trim() != "0") {
        let text = "the kernel moves pages as well; set kernel.numa_balancing to 0 meanwhile";
        findings.push(finding("balancing", Severity::Note, text));
    }
    findings
}

/// Tiers of the kernel that have a node.
fn tiers(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let nodes = entries.filter_map(|entry| fs::read_to_string(entry.path().join("nodelist")).ok());
    nodes.filter(|nodes| !nodes.trim().is_empty()).count()
}

/// A list of the kernel's, such as `0,2-4`.
fn numbers(list: &str) -> BTreeSet<u32> {
    let ranges = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(nodes: &str, tiers: &[&str], balancing: &str) -> Vec<(&'static str, Severity)> {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("devices/system/node/has_memory", nodes);
        for (number, list) in tiers.iter().enumerate() {
            let path = format!("devices/virtual/memory_tiering/memory_tier{number}/nodelist");
            write(&path, list);
        }
        write("sys/kernel/numa_balancing", balancing);
        let found = of_memory(folder.path(), folder.path());
        found.into_iter().map(|finding| (finding.topic, finding.severity)).collect()
    }

    #[test]
    fn one_node_is_an_obstacle() {
        assert_eq!(machine("0\n", &["0"], "0"), [("nodes", Severity::Obstacle)]);
    }

    #[test]
    fn two_nodes_in_one_tier_and_balancing_are_noted() {
        assert_eq!(machine("0-1\n", &["0\n", "1\n"], "0\n"), [("nodes", Severity::Fine)]);
        let found = machine("0,2\n", &["0,2\n"], "2\n");
        let notes = [("tiers", Severity::Note), ("balancing", Severity::Note)];
        assert_eq!(found[1..], notes);
    }

    #[test]
    fn lists_of_nodes_are_read() {
        assert_eq!(numbers("0,2-4\n").into_iter().collect::<Vec<_>>(), [0, 2, 3, 4]);
        assert!(numbers("\n").is_empty());
    }

    #[test]
    fn this_machine_is_looked_at() {
        let found = check();
        assert!(found.iter().all(|finding| !finding.text.is_empty()));
        assert_eq!(found[0].topic, "kernel");
    }
}
