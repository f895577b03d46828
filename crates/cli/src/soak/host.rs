//! One host of a soak: a process, or what follows it when it has died.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::journal::Reader;
use super::worker::{Event, Task};
use crate::children::HostProcess;

/// How long a host may take for what it was told. An operation gives up after some five seconds
/// itself.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where a host is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Joining,
    /// In the pod, and at nothing.
    Idle,
    Working,
    /// Told to leave, or fenced: its process ends.
    Leaving,
    /// To be started again at this time.
    Dead {
        until: Instant,
    },
    /// The error has been told.
    Failed,
}

pub(super) struct Host {
    pub(super) number: usize,
    /// Which process this is, of all there were.
    pub(super) life: u32,
    pub(super) process: HostProcess,
    pub(super) journal: Reader,
    pub(super) stage: Stage,
    pub(super) seat: u8,
    /// Until when it is stopped.
    pub(super) stopped: Option<Instant>,
    /// Whether this process was ever stopped, and whether it was since it was last told something.
    pub(super) was_stopped: bool,
    pub(super) stopped_in_task: bool,
    /// Which of the readings of all keys it is at.
    pub(super) reading: Option<u64>,
    /// When it was last told something, or went on.
    since: Instant,
}

impl Host {
    pub(super) fn new(number: usize, life: u32, process: HostProcess, journal: Reader) -> Self {
        Self {
            number,
            life,
            process,
            journal,
            stage: Stage::Joining,
            seat: 0,
            stopped: None,
            was_stopped: false,
            stopped_in_task: false,
            reading: None,
            since: Instant::now(),
        }
    }

    /// Whether it is in the pod, and neither leaves nor stands still.
    pub(super) fn is_in(&self) -> bool {
        matches!(self.stage, Stage::Idle | Stage::Working) && self.stopped.is_none()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle && self.stopped.is_none()
    }

    pub(super) fn is_working(&self) -> bool {
        self.stage == Stage::Working && self.stopped.is_none()
    }

    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.stage, Stage::Dead { .. } | Stage::Failed)
    }

    pub(super) fn tell(&mut self, task: &Task) -> Result<()> {
        self.since = Instant::now();
        self.journal.clear()?;
        self.stopped_in_task = false;
        self.reading = None;
        self.stage = if matches!(task, Task::Leave) { Stage::Leaving } else { Stage::Working };
        self.process.tell(&serde_json::to_string(task).context("cannot write JSON")?)
    }

    pub(super) fn stop(&mut self, until: Instant) -> Result<()> {
        self.stopped = Some(until);
        (self.was_stopped, self.stopped_in_task) = (true, true);
        self.process.stop()
    }

    pub(super) fn resume(&mut self) -> Result<()> {
        self.stopped = None;
        self.since = Instant::now();
        self.process.resume()
    }

    /// Its next event, if there is one within `time`.
    pub(super) fn event(&mut self, time: Duration) -> Result<Option<Event>> {
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

    /// Whether its process has ended, as it should; and if so, whether it was fenced.
    pub(super) fn has_left(&mut self) -> Result<Option<bool>> {
        if self.process.is_running() {
            self.check_patience("does not leave")?;
            return Ok(None);
        }
        let well = self.process.wait();
        let mut fenced = false;
        loop {
            match self.event(PATIENCE) {
                Ok(Some(event)) => fenced |= matches!(event, Event::Fenced),
                Ok(None) => thread::yield_now(),
                // It says why, if it could.
                Err(error) if !well => {
                    return Err(
                        error.context(format!("host {} did not leave in order", self.number))
                    );
                }
                Err(_) => return Ok(Some(fenced)),
            }
        }
    }

    fn check_patience(&self, what: &str) -> Result<()> {
        if self.stopped.is_none() && self.since.elapsed() > PATIENCE {
            bail!("host {} {what}: it was given {} s", self.number, PATIENCE.as_secs());
        }
        Ok(())
    }
}
