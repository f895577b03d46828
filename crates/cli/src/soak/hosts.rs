//! The hosts of a soak: processes that work in rounds. One of them at a time leaves and is started
//! anew meanwhile; others may be killed or stopped, and are started anew as well.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tombolo::PodSpec;
use tombolo_memory::Mapped;
use tombolo_sharing::{ObjectArea, TornWrites};

use super::adversary::Adversary;
use super::clock::now;
use super::doubts::{Doubt, Doubts};
use super::host::{Host, Stage};
use super::journal::Reader;
use super::model::Held;
use super::pauses::Pauses;
use super::record::{Attempt, Began, Record};
use super::worker::{Counts, Event, InUse, Task};
use crate::children::{HostProcess, wait_for_all};
use crate::cli::SoakArgs;

/// How long nothing is looked at while all hosts are busy.
const GLANCE: Duration = Duration::from_micros(200);

/// A host leaves before every so many rounds, if none is away.
const ROUNDS_PER_LEAVE: u64 = 8;

/// How often all keys are read at the end of a round, while a host that stands still may yet change
/// one.
const READINGS: usize = 3;

/// The records of a round.
pub(super) struct Worked {
    /// When it began.
    pub(super) start: u64,
    pub(super) records: Vec<Record>,
    pub(super) doubts: Vec<Doubt>,
    /// The value of each key in the end.
    pub(super) values: Vec<Held>,
}

pub(super) struct Hosts<'a> {
    args: &'a SoakArgs,
    spec: &'a PodSpec,
    area: &'a ObjectArea<Mapped>,
    hosts: Vec<Host>,
    adversary: Adversary,
    /// Processes started so far.
    lives: u32,
    next_to_leave: usize,
    /// When the round began.
    start: u64,
    records: Vec<Record>,
    doubts: Doubts,
    /// How often all keys were read.
    readings: u64,
    /// The findings of the hosts that have finished the last reading.
    views: Vec<Vec<Held>>,
    pub(super) happened: Happened,
}

/// The deaths and pauses of hosts so far, and their consequences.
#[derive(Default)]
pub(super) struct Happened {
    pub(super) counts: Counts,
    /// Hosts that have come back.
    pub(super) joins: u64,
    /// Hosts that have found out that they were fenced.
    pub(super) fenced: u64,
    pub(super) deaths: Pauses,
    pub(super) stops: Pauses,
}

impl<'a> Hosts<'a> {
    /// Starts all of them, and waits until they are in the pod.
    pub(super) fn start(
        args: &'a SoakArgs,
        spec: &'a PodSpec,
        area: &'a ObjectArea<Mapped>,
    ) -> Result<Self> {
        let mut all = Self {
            args,
            spec,
            area,
            hosts: Vec::new(),
            adversary: Adversary::new(args),
            lives: 0,
            next_to_leave: 0,
            start: now(),
            records: Vec::new(),
            doubts: Doubts::default(),
            readings: 0,
            views: Vec::new(),
            happened: Happened::default(),
        };
        for number in 0..usize::from(args.hosts) {
            let host = all.start_process(number)?;
            all.hosts.push(host);
        }
        while !all.all_are_in() {
            all.look_for_changes()?;
        }
        all.happened.joins = 0;
        Ok(all)
    }

    fn start_process(&mut self, number: usize) -> Result<Host> {
        let journal = Reader::new()?;
        let mut words = vec![
            "soak-worker".to_owned(),
            format!("--pod={}", self.spec),
            format!("--journal={}", journal.path()),
            format!("--host={number}"),
            format!("--life={}", self.lives),
            format!("--threads={}", self.args.threads),
            format!("--keys={}", self.args.keys),
            format!("--seed={}", self.args.seed),
        ];
        words.extend(self.args.load.map(|letter| format!("--load={letter}")));
        words.extend(self.args.local.words());
        words.extend(self.args.trust_me.then(|| "--trust-me".to_owned()));
        let plants =
            |planted: bool, flag: &str| (planted && self.lives == 0).then(|| flag.to_owned());
        words.extend(plants(self.args.plant_stale_read, "--plant-stale-read"));
        words.extend(plants(self.args.plant_loss, "--plant-loss"));
        let life = self.lives;
        self.lives += 1;
        let process = HostProcess::start(format!("host {number}"), &words, None)?;
        Ok(Host::new(number, life, process, journal))
    }

    fn all_are_in(&self) -> bool {
        self.hosts.iter().all(Host::is_in)
    }

    /// One round: operations for some time, and then every host that is there reads all keys.
    pub(super) fn round(&mut self, time: Duration) -> Result<Worked> {
        self.start = now();
        let end = self.start + time.as_nanos() as u64;
        self.tell_idle(&Task::Work { end })?;
        self.wait()?;
        let read_at = self.read_all()?;
        self.gather_from_stopped()?;
        let records = std::mem::take(&mut self.records);
        let doubts = self.doubts.of_round(&records, read_at);
        let values = self.views.pop().expect("all keys were read");
        Ok(Worked { start: self.start, records, doubts, values })
    }

    /// Has all keys read by every host that is there, until what they hold is settled. When the
    /// last reading began.
    fn read_all(&mut self) -> Result<u64> {
        let mut done = 0;
        loop {
            let read_at = now();
            self.views.clear();
            self.readings += 1;
            self.tell_idle(&Task::ReadAll)?;
            self.wait()?;
            if self.views.is_empty() {
                // The host that was at it was killed or stopped.
                continue;
            }
            done += 1;
            let agree = self.views.windows(2).all(|views| views[0] == views[1]);
            if agree || done == READINGS {
                return Ok(read_at);
            }
        }
    }

    /// The operations that hosts that stand still have done, and may yet do.
    fn gather_from_stopped(&mut self) -> Result<()> {
        for number in 0..self.hosts.len() {
            if self.hosts[number].stage == Stage::Working {
                self.gather(number, false)?;
            }
        }
        Ok(())
    }

    /// Takes over what the journal of a host says.
    fn gather(&mut self, number: usize, killed: bool) -> Result<()> {
        let host = &mut self.hosts[number];
        let records = host.journal.read(killed)?;
        if !host.stopped_in_task {
            self.happened.deaths.add(&records);
            self.happened.stops.add(&records);
        }
        let loses = self.area.geometry().torn_writes == TornWrites::Lost;
        let writes = |began: &Began| began.attempt != Attempt::Read;
        for began in host.journal.under_way().filter(writes) {
            self.doubts.add(Doubt::of(host.life, began, loses));
        }
        if host.stage == Stage::Idle && host.reading.take() == Some(self.readings) {
            let held = |record: &Record| record.did.found().unwrap_or_default();
            self.views.push(records.iter().map(held).collect());
        }
        // An operation that began in an earlier round has been in doubt since.
        let start = self.start;
        self.records.extend(records.into_iter().filter(|record| record.invoked_at >= start));
        Ok(())
    }

    /// Has one host leave now and then.
    pub(super) fn come_and_go(&mut self, round: u64) -> Result<()> {
        if self.hosts.iter().all(Host::is_idle) && round % ROUNDS_PER_LEAVE == 1 {
            let host = self.next_to_leave % self.hosts.len();
            self.next_to_leave += 1;
            self.hosts[host].tell(&Task::Leave)?;
        }
        self.look_for_changes()?;
        while !self.hosts.iter().any(Host::is_idle) {
            self.glance()?;
        }
        Ok(())
    }

    /// Leaves all hosts alone, and waits until nobody is away.
    pub(super) fn reassemble(&mut self) -> Result<()> {
        self.adversary.rest();
        for host in self.hosts.iter_mut().filter(|host| host.stopped.is_some()) {
            host.resume()?;
        }
        while !self.hosts.iter().all(Host::is_idle) {
            self.glance()?;
        }
        Ok(())
    }

    /// The memory in use, once all that died are cleared up after. All hosts are idle.
    pub(super) fn settle(&mut self) -> Result<InUse> {
        let Some(host) = self.hosts.first_mut() else { bail!("a soak without hosts") };
        host.tell(&Task::Settle)?;
        loop {
            match host.event(GLANCE)? {
                None => {}
                Some(Event::Settled(in_use)) => {
                    host.stage = Stage::Idle;
                    return Ok(in_use);
                }
                Some(event) => bail!("host {} is not in step: {event:?}", host.number),
            }
        }
    }

    /// Has all of them leave in order.
    pub(super) fn leave(&mut self) -> Result<()> {
        self.hosts.iter_mut().try_for_each(|host| host.tell(&Task::Leave))?;
        self.wait_for_end()
    }

    fn wait_for_end(&mut self) -> Result<()> {
        wait_for_all(self.hosts.iter_mut().map(|host| &mut host.process))
    }

    fn tell_idle(&mut self, task: &Task) -> Result<()> {
        for host in self.hosts.iter_mut().filter(|host| host.is_idle()) {
            host.tell(task)?;
            host.reading = matches!(task, Task::ReadAll).then_some(self.readings);
        }
        Ok(())
    }

    /// Waits until nobody works who does not stand still. All of them are waited for even if one
    /// has failed: it may be the victim of one that hangs.
    fn wait(&mut self) -> Result<()> {
        let mut failures = Vec::new();
        while self.hosts.iter().any(Host::is_working) {
            if let Err(error) = self.glance() {
                failures.push(format!("{error:#}"));
                self.adversary.rest();
            }
        }
        if failures.is_empty() { Ok(()) } else { bail!(failures.join("; ")) }
    }

    fn glance(&mut self) -> Result<()> {
        self.let_adversary_act()?;
        self.look_for_changes()?;
        thread::sleep(GLANCE);
        Ok(())
    }

    fn look_for_changes(&mut self) -> Result<()> {
        (0..self.hosts.len()).try_for_each(|number| {
            self.look_at(number).inspect_err(|_| self.hosts[number].stage = Stage::Failed)
        })
    }

    fn look_at(&mut self, number: usize) -> Result<()> {
        let host = &mut self.hosts[number];
        match host.stage {
            Stage::Idle | Stage::Failed => Ok(()),
            Stage::Joining | Stage::Working => match host.event(Duration::ZERO)? {
                None => Ok(()),
                Some(Event::Joined { seat }) => {
                    (host.stage, host.seat) = (Stage::Idle, seat);
                    self.happened.joins += 1;
                    Ok(())
                }
                Some(Event::Done(counts)) => self.is_done(number, counts),
                Some(Event::Fenced) => {
                    host.stage = Stage::Leaving;
                    self.was_fenced(number)
                }
                Some(event) => bail!("host {number} is not in step: {event:?}"),
            },
            Stage::Leaving => match host.has_left()? {
                None => Ok(()),
                Some(fenced) => {
                    if fenced {
                        self.was_fenced(number)?;
                    }
                    self.end_life(number)?;
                    self.hosts[number] = self.start_process(number)?;
                    Ok(())
                }
            },
            Stage::Dead { until } => {
                if Instant::now() >= until {
                    self.hosts[number] = self.start_process(number)?;
                }
                Ok(())
            }
        }
    }

    fn is_done(&mut self, number: usize, counts: Counts) -> Result<()> {
        self.happened.counts.add(counts);
        self.hosts[number].stage = Stage::Idle;
        self.gather(number, false)?;
        if self.is_ready(&self.hosts[number]) {
            self.doubts.end_all_of(self.hosts[number].life, now());
        }
        Ok(())
    }

    /// A host has found out that it was fenced. Nobody fences one that only has to wait for a
    /// processor.
    fn was_fenced(&mut self, number: usize) -> Result<()> {
        self.happened.fenced += 1;
        if !self.hosts[number].was_stopped {
            bail!("host {number} was fenced, but it was never stopped");
        }
        Ok(())
    }

    /// The process of a host is over.
    fn end_life(&mut self, number: usize) -> Result<()> {
        self.gather(number, true)?;
        self.doubts.end_all_of(self.hosts[number].life, now());
        Ok(())
    }

    /// Whether the pod takes it for a host that has a replica, and it may still work.
    fn is_ready(&self, host: &Host) -> bool {
        host.is_in() && self.area.membership().is_ready(host.seat)
    }

    /// Hosts of which any may go: another one stays, and can go on.
    fn victims(&self, may: impl Fn(&Host) -> bool) -> Vec<usize> {
        let stays = |of: &Host| {
            self.hosts.iter().any(|host| host.number != of.number && self.is_ready(host))
        };
        let victims = self.hosts.iter().filter(|host| may(host) && stays(host));
        victims.map(|host| host.number).collect()
    }

    fn let_adversary_act(&mut self) -> Result<()> {
        let now = Instant::now();
        for host in &mut self.hosts {
            if host.stopped.is_some_and(|until| now >= until) {
                host.resume()?;
            }
        }
        let may_kill = self.args.kills.is_none_or(|kills| self.happened.deaths.events() < kills);
        if may_kill
            && self.adversary.wants_to_kill()
            && let Some(victim) = self.adversary.choose(&self.victims(Host::is_alive))
        {
            self.kill(victim)?;
        }
        if self.adversary.wants_to_stop()
            && let Some(victim) = self.adversary.choose(&self.victims(Host::is_in))
        {
            self.stop(victim)?;
        }
        Ok(())
    }

    fn kill(&mut self, number: usize) -> Result<()> {
        let at = now();
        if !self.hosts[number].process.kill()? {
            // It ended by itself just before, and will be asked about that.
            return Ok(());
        }
        self.happened.deaths.event(at);
        self.doubt_objects_of(number, at);
        self.end_life(number)?;
        let host = &mut self.hosts[number];
        host.stopped = None;
        host.stage = Stage::Dead { until: self.adversary.killed() };
        Ok(())
    }

    fn stop(&mut self, number: usize) -> Result<()> {
        let at = now();
        self.hosts[number].stop(self.adversary.stopped())?;
        self.happened.stops.event(at);
        self.doubt_objects_of(number, at);
        Ok(())
    }

    /// Objects that a host has in its own memory may be lost.
    fn doubt_objects_of(&mut self, number: usize, at: u64) {
        if self.args.local.partition.is_some() && !self.area.geometry().partition_backup {
            let (life, client) = (self.hosts[number].life, number as u32);
            (0..self.args.keys)
                .for_each(|key| self.doubts.add(Doubt::at_home(life, client, key, at)));
        }
    }
}

impl Drop for Hosts<'_> {
    /// They leave together: one that hangs is not waited for longer than all of them.
    fn drop(&mut self) {
        self.hosts.iter_mut().for_each(|host| host.process.ask_to_leave());
        let _ = self.wait_for_end();
    }
}
