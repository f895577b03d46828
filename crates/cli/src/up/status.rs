//! How hosts are doing: what their own servers say of them, once a second.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use comfy_table::Table;
use indicatif::{ProgressBar, ProgressStyle};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;
use tombolo::format_size;

use crate::output::{self, table};

/// How long a host may take to say how it is doing: the others are not asked meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

const COLUMNS: [&str; 8] =
    ["host", "port", "ops/s", "commands/s", "objects", "records", "churn/s", "log lag"];

/// The figures of all hosts, and when they were asked for last.
pub(super) struct Status {
    hosts: Vec<Shown>,
    password: Option<String>,
    asked: Instant,
}

struct Shown {
    port: u16,
    /// Its last figures.
    figures: Figures,
    /// Operations of processes that the host was before.
    before: u64,
    /// Since when it gives no answer, whatever that may be.
    silent: Option<Instant>,
}

impl Shown {
    /// Asks the host again, and adds what it says to a table, or what is wrong with it.
    fn next(&mut self, number: usize, password: Option<&str>, seconds: f64, rows: &mut Table) {
        match Figures::of(self.port, password) {
            Ok(figures) => {
                self.silent = None;
                let old = std::mem::replace(&mut self.figures, figures);
                if self.figures.operations() < old.operations() {
                    self.before += old.operations();
                }
                rows.add_row(self.figures.row(number, self.port, &old, seconds));
            }
            Err(error) => {
                // A host that refuses to say how it is doing does answer.
                self.silent = match error.downcast_ref::<std::io::Error>() {
                    Some(_) => self.silent.or_else(|| Some(Instant::now())),
                    None => None,
                };
                rows.add_row(trouble(number, self.port, &format!("{error:#}")));
            }
        }
    }

    fn operations(&self) -> u64 {
        self.before + self.figures.operations()
    }
}

fn trouble(number: usize, port: u16, what: &str) -> [String; 3] {
    [number.to_string(), port.to_string(), what.to_owned()]
}

impl Status {
    /// Nothing is known yet of the hosts at `ports` but what they say now.
    pub(super) fn new(ports: &[u16], password: Option<String>) -> Self {
        let ask = |&port: &u16| {
            let figures = Figures::of(port, password.as_deref()).unwrap_or_default();
            Shown { port, figures, before: 0, silent: None }
        };
        let hosts = ports.iter().map(ask).collect();
        Self { hosts, password, asked: Instant::now() }
    }

    /// All operations the hosts have done, as far as is known.
    pub(super) fn operations(&self) -> u64 {
        self.hosts.iter().map(Shown::operations).sum()
    }

    /// For how long a host that serves has given no answer.
    pub(super) fn silence(&self, number: usize) -> Duration {
        self.hosts[number].silent.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Asks all hosts again that serve; a sum of what they say, and a table.
    pub(super) fn next(&mut self, serves: impl Fn(usize) -> bool) -> String {
        let seconds = self.asked.elapsed().as_secs_f64();
        self.asked = Instant::now();
        let before = self.operations();
        let mut rows = table(&COLUMNS);
        for (number, shown) in self.hosts.iter_mut().enumerate() {
            if serves(number) {
                shown.next(number, self.password.as_deref(), seconds, &mut rows);
            } else {
                shown.silent = None;
                rows.add_row(trouble(number, shown.port, "is not there"));
            }
        }
        let per_s = self.operations().saturating_sub(before) as f64 / seconds;
        let memory = self.hosts.last().map_or_else(String::new, |shown| shown.figures.memory());
        format!("{per_s:.0} ops/s in all, {memory}\n{rows}")
    }
}

/// The figures that a host publishes.
#[derive(Default)]
struct Figures(HashMap<String, u64>);

impl Figures {
    /// Asks the server at `port`.
    fn of(port: u16, password: Option<&str>) -> Result<Self> {
        let ask = || -> Result<Self> {
            let stream = TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Self::ask(stream, password)
        };
        ask().context("does not answer")
    }

    fn ask(mut stream: TcpStream, password: Option<&str>) -> Result<Self> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        if let Some(password) = password {
            let length = password.len();
            write!(stream, "*2\r\n$4\r\nAUTH\r\n${length}\r\n{password}\r\n")?;
            reader.read_line(&mut line)?;
        }
        write!(stream, "INFO Tombolo Stats\r\n")?;
        line.clear();
        reader.read_line(&mut line)?;
        let length = line.trim().strip_prefix('$').and_then(|length| length.parse().ok());
        let Some(length) = length else { bail!("it says {:?}", line.trim()) };
        let mut text = String::new();
        reader.take(length).read_to_string(&mut text)?;
        let pair = |line: &str| {
            let (name, value) = line.trim().split_once(':')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(Self(text.lines().filter_map(pair).collect()))
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    fn operations(&self) -> u64 {
        ["reads", "writes", "creates", "deletes"].iter().map(|name| self.get(name)).sum()
    }

    fn row(&self, number: usize, port: u16, old: &Self, seconds: f64) -> [String; COLUMNS.len()] {
        let per_s = |value: fn(&Self) -> u64| {
            format!("{:.0}", value(self).saturating_sub(value(old)) as f64 / seconds)
        };
        [
            number.to_string(),
            port.to_string(),
            per_s(Self::operations),
            per_s(|figures| figures.get("total_commands_processed")),
            self.get("objects").to_string(),
            format!("{} of {}", self.get("records_used"), self.get("records")),
            per_s(|figures| figures.get("churn")),
            self.get("log_lag").to_string(),
        ]
    }

    fn memory(&self) -> String {
        let (used, all) = (self.get("lnr_used_bytes"), self.get("lnr_bytes"));
        format!("{} of {} used", format_size(used), format_size(all))
    }
}

/// A place on the terminal that is written again and again, or lines one after the other if there
/// is no terminal.
pub(super) struct Display(Option<ProgressBar>);

impl Display {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg}").expect("the template is sound");
            ProgressBar::new_spinner().with_style(style)
        });
        Self(bar)
    }

    pub(super) fn show(&self, text: &str) -> Result<()> {
        match &self.0 {
            // The terminal is another program's as long as this one is in the background.
            Some(bar) if is_in_foreground() => bar.set_message(text.to_owned()),
            Some(_) => {}
            None => output::say(format!("{text}\n"))?,
        }
        Ok(())
    }

    /// Says what has happened, for good.
    pub(super) fn say(&self, event: &str) {
        match &self.0 {
            Some(bar) if is_in_foreground() => bar.suspend(|| eprintln!("tombolo: {event}")),
            _ => eprintln!("tombolo: {event}"),
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = self.0.as_ref().filter(|_| is_in_foreground()) {
            bar.abandon();
        }
    }
}

/// Whether the terminal is this program's to draw on.
fn is_in_foreground() -> bool {
    tcgetpgrp(std::io::stderr()).is_ok_and(|group| group == getpgrp())
}
