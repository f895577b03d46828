//! Tiers for a program that was not written for them.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use tombolo_memory::paging::spawn_apart;

use crate::heap::start;
use crate::shared::Shared;
use crate::worker::Job;
use crate::{Count, Options, Stats, TieringError, fork};

/// How often counters are written for other programs.
const PERIOD: Duration = Duration::from_millis(250);
/// Where, and under which names.
const FOLDER: &str = "/dev/shm";
const PREFIX: &str = "tombolo-tier.";

/// The threads that move the pages of this process' large anonymous mappings.
#[derive(Debug)]
pub struct ProcessTiers {
    shared: Arc<Shared>,
    /// The worker ends when nothing can ask it any more.
    _jobs: Sender<Job>,
}

impl ProcessTiers {
    /// Starts the threads. Mappings that overlap `excluded` are left alone: they have to include
    /// all memory that the caller's own code allocates.
    ///
    /// Counters are written to a file that [`stats_of`] reads.
    ///
    /// # Errors
    /// A sentence for what the kernel or the process' rights lack, and what to do.
    pub fn start(options: Options, excluded: Vec<Range<usize>>) -> Result<Self, TieringError> {
        let shared = Arc::new(Shared::new(options, None));
        let (jobs, receiver) = mpsc::channel();
        start(shared.clone(), receiver, Some(excluded))?;
        fork::watch(Arc::downgrade(&shared), jobs.clone());
        let told = shared.clone();
        spawn_apart("tombolo-stats", move |_| tell(&told))
            .map_err(|reason| TieringError::Os { doing: "start a thread", reason })?;
        Ok(Self { shared, _jobs: jobs })
    }

    /// The counters so far, and where pages are now. It does not block.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }
}

/// Writes counters as long as the process lives, once there is anything to count.
fn tell(shared: &Shared) {
    let file = file_of(std::process::id());
    let new = Path::new(FOLDER).join(format!(".{PREFIX}{}", std::process::id()));
    while shared.stats().served == 0 {
        std::thread::sleep(PERIOD);
    }
    remove_of_dead(Path::new(FOLDER));
    loop {
        // Without the file there is no answer, and the program goes on.
        let _ = fs::write(&new, encode(&shared.stats())).and_then(|()| fs::rename(&new, &file));
        std::thread::sleep(PERIOD);
    }
}

/// Removes files that processes have left behind.
fn remove_of_dead(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse().ok());
        if number.is_some_and(|process| !is_alive(process)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn is_alive(process: u32) -> bool {
    PathBuf::from(format!("/proc/{process}")).exists()
}

fn file_of(process: u32) -> PathBuf {
    Path::new(FOLDER).join(format!("{PREFIX}{process}"))
}

/// A line for each number, with its name.
fn encode(stats: &Stats) -> String {
    stats.rows().iter().map(|(name, value)| format!("{name}\t{value}\n")).collect()
}

/// The statistics that a process with tiers writes of its pages: names with numbers, a quarter of a
/// second old at most. `None` if no living process with this number has tiers.
pub fn stats_of(process: u32) -> Option<Vec<(String, u64)>> {
    let file = file_of(process);
    if !is_alive(process) {
        // The file that a dead process left behind is of no use.
        let _ = fs::remove_file(file);
        return None;
    }
    let text = fs::read_to_string(file).ok()?;
    let row = |line: &str| {
        let (name, value) = line.split_once('\t')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().map(row).collect()
}

impl Stats {
    /// All numbers, with their names.
    pub fn rows(&self) -> Vec<(&'static str, u64)> {
        let counts = Count::ALL.iter().map(|&count| (count.name(), self.get(count)));
        let now = [
            ("near pages", self.near_pages),
            ("near pages at most", self.near_limit),
            ("served pages", self.served),
            ("shadows", self.shadows),
            ("parked pages", self.parked),
            ("promotions are stopped", u64::from(self.is_thrashing)),
            ("tiers are one node", u64::from(self.is_one_node)),
        ];
        now.into_iter().chain(counts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_dead_processes_go_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let living = format!("{PREFIX}{}", std::process::id());
        // No process has this number, for it is more than the kernel's most.
        let dead = format!("{PREFIX}{}", u32::MAX);
        for name in [&living, &dead, "other"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        remove_of_dead(folder.path());
        let there = |name: &str| folder.path().join(name).exists();
        assert_eq!([there(&living), there(&dead), there("other")], [true, false, true]);
    }
}
