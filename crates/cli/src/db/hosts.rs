//! All hosts of a database, as the process that starts them sees them.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::host::{Event, Orders, Task};
use crate::children::{Heard, HostProcess, hear_all, wait_for_all};
use crate::output;
use crate::stop::Stop;

const BAR: &str = "{prefix} {bar:40} {human_pos} of {human_len}, {per_sec}, {eta} left";
const SPINNER: &str = "{prefix} {human_pos} transactions, {elapsed}";

/// The hosts' processes.
pub(crate) struct Hosts<'a> {
    pub(crate) processes: Vec<HostProcess>,
    stop: &'a Stop,
}

impl<'a> Hosts<'a> {
    /// Starts the hosts, and waits until all are in the database.
    pub(crate) fn start(orders: &Orders, hosts: u8, stop: &'a Stop) -> Result<Self> {
        let words = ["db-worker".to_owned(), format!("--host={}", serde_json::to_string(orders)?)];
        let start = |host| HostProcess::start(format!("host {host}"), &words, None);
        let processes = (0..hosts).map(start).collect::<Result<_>>()?;
        let mut hosts = Self { processes, stop };
        hosts.wait("joining", 0, |event| matches!(event, Event::Joined))?;
        Ok(hosts)
    }

    /// Tells all hosts something, and waits for each one's event that ends it.
    pub(crate) fn phase(
        &mut self,
        name: &str,
        total: u64,
        task: Task,
        ends: fn(&Event) -> bool,
    ) -> Result<Vec<Event>> {
        let line = serde_json::to_string(&task)?;
        self.processes.iter_mut().try_for_each(|host| host.tell(&line))?;
        self.wait(name, total, ends)
    }

    /// The same of a task that has nothing to tell but to how many rows it was done.
    pub(crate) fn rows(&mut self, name: &str, task: Task) -> Result<u64> {
        let events = self.phase(name, 0, task, |event| matches!(event, Event::Done { .. }))?;
        let rows = |event: &Event| if let Event::Done { rows } = event { *rows } else { 0 };
        Ok(events.iter().map(rows).sum())
    }

    fn wait(&mut self, name: &str, total: u64, ends: fn(&Event) -> bool) -> Result<Vec<Event>> {
        let template = if total == u64::MAX { SPINNER } else { BAR };
        let bar = output::progress(name, total, template);
        hear_all(&mut self.processes, self.stop, name, &bar, |event| match event {
            Event::Progress { done } => Heard::Progress(done),
            Event::Failed { what } => Heard::Failed(what),
            event if ends(&event) => Heard::Through(event),
            event => Heard::Strange(event),
        })
    }

    /// Has all hosts leave.
    pub(crate) fn leave(mut self) -> Result<()> {
        let line = serde_json::to_string(&Task::Leave)?;
        self.processes.iter_mut().try_for_each(|host| host.tell(&line))?;
        wait_for_all(&mut self.processes)
    }
}

/// A directory for what is temporary: in shared memory, if there is enough of it.
pub(crate) fn temporary(what: &str, bytes: u64) -> Result<tempfile::TempDir> {
    let shared = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(shared).map_or(0, |found| found.f_bavail * found.f_frsize);
    let folder = if free > bytes { shared.to_owned() } else { std::env::temp_dir() };
    fs::create_dir_all(&folder)?;
    let mut builder = tempfile::Builder::new();
    Ok(builder.prefix(&format!("tombolo-{what}-")).tempdir_in(folder)?)
}
