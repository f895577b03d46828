//! How much memory this process may still take.

use std::fs;
use std::path::Path;

/// Available memory of the machine, or of the control group if that is less, in bytes; `None` if
/// the system does not say. It reads files and does not block.
pub(crate) fn bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text));
    match (machine, of_group()) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (machine, group) => machine.or(group),
    }
}

fn of_machine(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

fn of_group() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = Path::new("/sys/fs/cgroup").join(group);
    let read =
        |name| -> Option<u64> { fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok() };
    Some(read("memory.max")?.saturating_sub(read("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_says_how_much_there_is() {
        let text = "MemTotal:  24 kB\nMemAvailable:   12345 kB\n";
        assert_eq!(of_machine(text), Some(12_345 << 10));
        assert!(bytes().is_some_and(|bytes| bytes > 0));
    }
}
