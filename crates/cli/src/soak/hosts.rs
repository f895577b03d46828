//! The hosts of a soak: processes that work in rounds, and of which one at a time leaves and is started
//! anew meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tombolo::PodSpec;

use super::clock::now;
use super::worker::{Done, Event, Task};
use crate::children::{HostProcess, wait_for_all};
use crate::cli::SoakArgs;

/// How long a host may take for what it was told. An operation gives up after some five seconds itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long one host is waited for before others are looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// A host leaves before every so many rounds, if none is away.
const ROUNDS_PER_LEAVE: u64 = 8;

/// Where a host's process is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Joining,
    In,
    Leaving,
}

struct Host {
    number: usize,
    process: HostProcess,
    stage: Stage,
    /// When it was last told something.
    since: Instant,
}

pub(super) struct Hosts<'a> {
    args: &'a SoakArgs,
    spec: &'a PodSpec,
    hosts: Vec<Host>,
    /// Processes started so far.
    lives: u32,
    next_to_leave: usize,
    /// Hosts that have come back.
    pub(super) joins: u64,
}

impl<'a> Hosts<'a> {
    /// Starts all of them, and waits until they are in the pod.
    pub(super) fn start(args: &'a SoakArgs, spec: &'a PodSpec) -> Result<Self> {
        let hosts = Vec::new();
        let mut all = Self { args, spec, hosts, lives: 0, next_to_leave: 0, joins: 0 };
        for number in 0..usize::from(args.hosts) {
            let process = all.start_process(number)?;
            all.hosts.push(Host { number, process, stage: Stage::Joining, since: Instant::now() });
        }
        while !all.all_are_in() {
            all.hosts.iter_mut().try_for_each(|host| host.look_for_join().map(|_| ()))?;
        }
        Ok(all)
    }

    fn start_process(&mut self, number: usize) -> Result<HostProcess> {
        let mut words = vec![
            "soak-worker".to_owned(),
            format!("--pod={}", self.spec),
            format!("--host={number}"),
            format!("--life={}", self.lives),
            format!("--threads={}", self.args.threads),
            format!("--keys={}", self.args.keys),
            format!("--seed={}", self.args.seed),
        ];
        words.extend(self.args.local.words());
        let lies = self.args.plant_stale_read && self.lives == 0;
        words.extend(lies.then(|| "--plant-stale-read".to_owned()));
        self.lives += 1;
        HostProcess::start(format!("host {number}"), &words, None)
    }

    fn all_are_in(&self) -> bool {
        self.hosts.iter().all(|host| host.stage == Stage::In)
    }

    /// Has one host leave now and then, and starts it anew once it has left.
    pub(super) fn come_and_go(&mut self, round: u64) -> Result<()> {
        if self.all_are_in() && round % ROUNDS_PER_LEAVE == 1 {
            let host = self.next_to_leave % self.hosts.len();
            self.next_to_leave += 1;
            self.hosts[host].leave()?;
        }
        self.look_for_changes()?;
        while !self.hosts.iter().any(|host| host.stage == Stage::In) {
            self.look_for_changes()?;
        }
        Ok(())
    }

    /// Waits until nobody is away.
    pub(super) fn gather(&mut self) -> Result<()> {
        while !self.all_are_in() {
            self.look_for_changes()?;
        }
        Ok(())
    }

    fn look_for_changes(&mut self) -> Result<()> {
        for number in 0..self.hosts.len() {
            match self.hosts[number].stage {
                Stage::In => {}
                Stage::Joining => self.joins += u64::from(self.hosts[number].look_for_join()?),
                Stage::Leaving => {
                    if self.hosts[number].has_left()? {
                        let process = self.start_process(number)?;
                        self.hosts[number].begin_anew(process);
                    }
                }
            }
        }
        Ok(())
    }

    /// Has all hosts that are in the pod do operations for some time.
    pub(super) fn work(&mut self, start: u64, time: Duration) -> Result<Done> {
        self.all_do(&Task::Work { start, end: now() + time.as_nanos() as u64 })
    }

    /// Has all hosts that are in the pod read all keys.
    pub(super) fn read_all(&mut self, start: u64) -> Result<Done> {
        self.all_do(&Task::ReadAll { start })
    }

    /// Waits for all of them even if one has failed: it may be the victim of one that hangs.
    fn all_do(&mut self, task: &Task) -> Result<Done> {
        let mut waiting: Vec<&mut Host> =
            self.hosts.iter_mut().filter(|host| host.stage == Stage::In).collect();
        waiting.iter_mut().try_for_each(|host| host.tell(task))?;
        let (mut all, mut failures) = (Done::default(), Vec::new());
        while !waiting.is_empty() {
            let mut still = Vec::new();
            for host in waiting {
                match host.done(GLANCE) {
                    Ok(Some(done)) => all.add(done),
                    Ok(None) => still.push(host),
                    Err(error) => failures.push(format!("{error:#}")),
                }
            }
            waiting = still;
        }
        if failures.is_empty() { Ok(all) } else { bail!(failures.join("; ")) }
    }

    /// Has all of them leave in order.
    pub(super) fn leave(mut self) -> Result<()> {
        self.hosts.iter_mut().try_for_each(Host::leave)?;
        self.wait()
    }

    fn wait(&mut self) -> Result<()> {
        wait_for_all(self.hosts.iter_mut().map(|host| &mut host.process))
    }
}

impl Drop for Hosts<'_> {
    /// They leave together: one that hangs is not waited for longer than all of them.
    fn drop(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.process.ask_to_leave());
        let _ = self.wait();
    }
}

impl Host {
    fn tell(&mut self, task: &Task) -> Result<()> {
        self.since = Instant::now();
        self.process.tell(&serde_json::to_string(task).context("cannot write JSON")?)
    }

    fn leave(&mut self) -> Result<()> {
        self.stage = Stage::Leaving;
        self.tell(&Task::Leave)
    }

    fn begin_anew(&mut self, process: HostProcess) {
        self.process = process;
        self.stage = Stage::Joining;
        self.since = Instant::now();
    }

    /// What it says, if it says something within `time`.
    fn event(&mut self, time: Duration) -> Result<Option<Event>> {
        let Some(line) = self.process.line(time)? else {
            self.check_patience("does not answer")?;
            return Ok(None);
        };
        let event = serde_json::from_str(&line)
            .with_context(|| format!("host {} says {line:?}", self.number))?;
        if let Event::Failed { what } = event {
            bail!("host {}: {what}", self.number);
        }
        Ok(Some(event))
    }

    /// What came of its task, if it says so within `time`.
    fn done(&mut self, time: Duration) -> Result<Option<Done>> {
        match self.event(time)? {
            None => Ok(None),
            Some(Event::Done(done)) => Ok(Some(done)),
            Some(event) => bail!("host {} is not in step: {event:?}", self.number),
        }
    }

    /// Whether it has just come to be in the pod.
    fn look_for_join(&mut self) -> Result<bool> {
        if self.stage != Stage::Joining {
            return Ok(false);
        }
        match self.event(Duration::from_millis(1))? {
            None => Ok(false),
            Some(Event::Joined) => {
                self.stage = Stage::In;
                Ok(true)
            }
            Some(event) => bail!("host {} is not in step: {event:?}", self.number),
        }
    }

    /// Whether its process has ended.
    fn has_left(&mut self) -> Result<bool> {
        if self.process.is_running() {
            thread::sleep(Duration::from_millis(1));
            self.check_patience("does not leave")?;
            return Ok(false);
        }
        if self.process.wait() {
            return Ok(true);
        }
        // It says why, if it could.
        while self.event(PATIENCE)?.is_some() {}
        bail!("host {} did not leave in order", self.number)
    }

    fn check_patience(&self, what: &str) -> Result<()> {
        if self.since.elapsed() > PATIENCE {
            bail!("host {} {what}: it was given {} s", self.number, PATIENCE.as_secs());
        }
        Ok(())
    }
}

impl Done {
    fn add(&mut self, other: Self) {
        self.records.extend(other.records);
        self.churn += other.churn;
        self.moves += other.moves;
    }
}
