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
        let start = |host: u8| start(orders, host.into());
        let processes = (0..hosts).map(start).collect::<Result<_>>()?;
        let mut hosts = Self { processes, stop };
        hosts.wait("joining", 0, has_joined)?;
        Ok(hosts)
    }

    /// Starts a host in the place of one that has ended, and waits until it logs. The others run.
    pub(crate) fn replace(&mut self, number: usize, orders: &Orders) -> Result<()> {
        let host = &mut self.processes[number];
        *host = start(orders, number)?;
        let late = std::slice::from_mut(host);
        hear("joining later", 0, has_joined, (late, self.stop))?;
        late[0].tell(&serde_json::to_string(&Task::Begin)?)?;
        hear(
            "beginning the log",
            0,
            |event| matches!(event, Event::Done { .. }),
            (late, self.stop),
        )?;
        Ok(())
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
        hear(name, total, ends, (&mut self.processes, self.stop))
    }

    /// Has all hosts leave.
    pub(crate) fn leave(mut self) -> Result<()> {
        let line = serde_json::to_string(&Task::Leave)?;
        self.processes.iter_mut().try_for_each(|host| host.tell(&line))?;
        wait_for_all(&mut self.processes)
    }
}

fn start(orders: &Orders, number: usize) -> Result<HostProcess> {
    let words = ["db-worker".to_owned(), format!("--host={}", serde_json::to_string(orders)?)];
    HostProcess::start(format!("host {number}"), &words, None)
}

fn has_joined(event: &Event) -> bool {
    matches!(event, Event::Joined)
}

/// Waits for the event of each of these hosts that ends a phase.
fn hear(
    name: &str,
    total: u64,
    ends: fn(&Event) -> bool,
    (hosts, stop): (&mut [HostProcess], &Stop),
) -> Result<Vec<Event>> {
    let template = if total == u64::MAX { SPINNER } else { BAR };
    let bar = output::progress(name, total, template);
    hear_all(hosts, stop, name, &bar, |event| match event {
        Event::Progress { done } => Heard::Progress(done),
        Event::Failed { what } => Heard::Failed(what),
        event if ends(&event) => Heard::Through(event),
        event => Heard::Strange(event),
    })
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
