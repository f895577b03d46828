//! Hosts that are processes: this program, started again.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use indicatif::ProgressBar;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::stop::Stop;

/// How long a host may take to leave before it is killed.
const PATIENCE: Duration = Duration::from_secs(20);

/// A host's process. Dropping it makes it leave.
pub(crate) struct HostProcess {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl HostProcess {
    /// Starts this program with `args`; messages call the host `name`. Its complaints go to this
    /// process' own standard error. Arguments can be seen by everybody on the
    /// machine, so a password goes another way.
    pub(crate) fn start(name: String, args: &[String], password: Option<&str>) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        // Settings in this process' environment are not meant for each of its hosts.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("TOMBOLO_") {
                command.env_remove(variable);
            }
        }
        let mut child = command
            .args(args)
            .envs(password.map(|password| ("TOMBOLO_REQUIREPASS", password)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for this process, which tells its hosts in its own time.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().context("standard output is piped")?);
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Self { name, stdin: child.stdin.take(), child, lines })
    }

    /// The next line it prints, waiting no longer than `time`; `None` if there is none yet.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn line(&mut self, time: Duration) -> Result<Option<String>> {
        match self.lines.recv_timeout(time) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()?),
        }
    }

    /// How it ended, which it has, or is about to.
    fn ended(&mut self) -> Result<anyhow::Error> {
        let status = self.child.wait().context("cannot wait for a host")?;
        Ok(anyhow!("{} ended ({status})", self.name))
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells it something.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn tell(&mut self, line: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("standard input is piped")?;
        match writeln!(stdin, "{line}") {
            // It listens as long as it is there.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(self.ended()?),
            told => told.with_context(|| format!("{} does not listen", self.name)),
        }
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its number for signals: none once it has ended, when that may be another's.
    fn pid(&mut self) -> Option<Pid> {
        Pid::from_raw(self.child.id() as i32).filter(|_| self.is_running())
    }

    fn signal(&mut self, signal: Signal) -> Result<()> {
        let Some(pid) = self.pid() else { return Ok(()) };
        kill_process(pid, signal).with_context(|| format!("cannot send {} a signal", self.name))
    }

    /// The same as [`kill`](Self::kill), without waiting until it has ended.
    pub(crate) fn end_at_once(&mut self) -> Result<()> {
        self.signal(Signal::KILL)
    }

    /// Ends it at once, without its doing anything about it; whether that is what it ended by.
    pub(crate) fn kill(&mut self) -> Result<bool> {
        self.signal(Signal::KILL)?;
        let status = self.child.wait().context("cannot wait for a host")?;
        Ok(status.signal() == Some(Signal::KILL.as_raw()))
    }

    /// Stops it. All its threads stand still, unless it has ended.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while let Some(pid) = self.pid() {
            if waitid(WaitId::Pid(pid), options).context("cannot wait for a host")?.is_some() {
                break;
            }
            thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }

    /// Has it go on after it was stopped.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Tells it to leave, by signal and by telling it no more, without waiting.
    pub(crate) fn ask_to_leave(&mut self) {
        self.stdin = None;
        let _ = self.signal(Signal::TERM);
        // One that is stopped hears nothing.
        let _ = self.resume();
    }

    /// Waits until it has ended; whether it did so well.
    pub(crate) fn wait(&mut self) -> bool {
        self.wait_until(Instant::now() + PATIENCE)
    }

    fn wait_until(&mut self, deadline: Instant) -> bool {
        self.stdin = None;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
                _ => {
                    let _ = self.child.kill();
                    return self.child.wait().is_ok_and(|status| status.success());
                }
            }
        }
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        if self.is_running() {
            self.ask_to_leave();
            self.wait();
        }
    }
}

/// Waits until all hosts, which were told to, have left.
///
/// # Errors
/// If one of them did not do so in order.
pub(crate) fn wait_for_all<'a>(hosts: impl IntoIterator<Item = &'a mut HostProcess>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let ended = hosts.into_iter().map(|host| host.wait_until(deadline));
    if ended.fold(true, |all, well| all & well) {
        return Ok(());
    }
    bail!("a host did not leave in order; see above")
}

/// Tells the process that started this one something, in a line of JSON.
pub(crate) fn tell<T: Serialize>(event: &T) -> Result<()> {
    let line = serde_json::to_string(event).context("cannot write JSON")?;
    writeln!(std::io::stdout(), "{line}").context("nobody listens")
}

/// The meaning of a host's event for the phase that all hosts are in.
pub(crate) enum Heard<E> {
    /// It has done so much of it.
    Progress(u64),
    /// It is through.
    Through(E),
    /// It cannot go on.
    Failed(String),
    /// It is not in this phase.
    Strange(E),
}

/// Waits until all hosts are through a phase, and shows how far they are: each host's last event.
///
/// # Errors
/// That a host has ended, or cannot go on, or is in another phase; that a signal came.
pub(crate) fn hear_all<E: DeserializeOwned + Debug>(
    hosts: &mut [HostProcess],
    stop: &Stop,
    name: &str,
    bar: &ProgressBar,
    hear: impl Fn(E) -> Heard<E>,
) -> Result<Vec<E>> {
    let mut through: Vec<Option<E>> = hosts.iter().map(|_| None).collect();
    let mut progress = vec![0; hosts.len()];
    while through.iter().any(Option::is_none) {
        if stop.within(Duration::ZERO) {
            bail!("stopped during the {name} phase");
        }
        for (number, host) in hosts.iter_mut().enumerate() {
            if through[number].is_some() {
                continue;
            }
            let Some(line) = host.line(Duration::from_millis(20))? else { continue };
            let event = serde_json::from_str(&line)
                .with_context(|| format!("host {number} says {line:?}"))?;
            match hear(event) {
                Heard::Progress(done) => progress[number] = done,
                Heard::Through(event) => through[number] = Some(event),
                Heard::Failed(what) => bail!("host {number}: {what}"),
                Heard::Strange(event) => bail!("host {number} is not in step: {event:?}"),
            }
        }
        bar.set_position(progress.iter().sum());
    }
    bar.finish_and_clear();
    Ok(through.into_iter().flatten().collect())
}
