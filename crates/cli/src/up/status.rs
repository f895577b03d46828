//! How hosts are doing: what their own servers say of them, once a second.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use tombolo::format_size;

use crate::output::table;

const PATIENCE: Duration = Duration::from_secs(5);

const COLUMNS: [&str; 8] =
    ["host", "port", "ops/s", "commands/s", "objects", "records", "churn/s", "log lag"];

/// The figures of all hosts, and when they were asked for last.
pub(super) struct Status {
    hosts: Vec<(u16, Figures)>,
    password: Option<String>,
    asked: Instant,
}

impl Status {
    /// The figures of the hosts at `ports` now.
    pub(super) fn new(ports: &[u16], password: Option<String>) -> Result<Self> {
        let ask = |&port: &u16| Ok((port, Figures::of(port, password.as_deref())?));
        let hosts = ports.iter().map(ask).collect::<Result<_>>()?;
        Ok(Self { hosts, password, asked: Instant::now() })
    }

    /// All operations the hosts have done, as far as is known.
    pub(super) fn operations(&self) -> u64 {
        self.hosts.iter().map(|(_, figures)| figures.operations()).sum()
    }

    /// Asks all hosts again; a sum of what they say, and a table.
    pub(super) fn next(&mut self) -> Result<String> {
        let seconds = self.asked.elapsed().as_secs_f64();
        self.asked = Instant::now();
        let before = self.operations();
        let mut rows = table(&COLUMNS);
        for (number, (port, figures)) in self.hosts.iter_mut().enumerate() {
            let old = std::mem::replace(figures, Figures::of(*port, self.password.as_deref())?);
            rows.add_row(figures.row(number, *port, &old, seconds));
        }
        let per_s = (self.operations() - before) as f64 / seconds;
        let memory = self.hosts.last().map_or_else(String::new, |(_, figures)| figures.memory());
        Ok(format!("{per_s:.0} ops/s in all, {memory}\n{rows}"))
    }
}

/// What a host says of itself.
struct Figures(HashMap<String, u64>);

impl Figures {
    /// Asks the server at `port`.
    fn of(port: u16, password: Option<&str>) -> Result<Self> {
        let ask = || -> Result<Self> {
            let stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Self::ask(stream, password)
        };
        ask().with_context(|| format!("the host at port {port} does not answer"))
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
        let length: u64 = line.trim().trim_start_matches('$').parse().context("no INFO")?;
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

/// A place on the terminal that is written again and again, or lines one after the other if there is
/// no terminal.
pub(super) struct Display(Option<ProgressBar>);

impl Display {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg}").expect("the template is sound");
            ProgressBar::new_spinner().with_style(style)
        });
        Self(bar)
    }

    pub(super) fn show(&self, text: &str) {
        match &self.0 {
            Some(bar) => bar.set_message(text.to_owned()),
            None => println!("{text}"),
        }
    }

    pub(super) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.abandon();
        }
    }
}
