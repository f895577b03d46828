//! The actions of hosts, step by step, for people to read.

use std::fmt::Write as _;
use std::panic::Location;

use crate::schedule::Action;

/// Where an operation stands in the source, and who made it when.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// The step of the run.
    pub step: u64,
    /// The host.
    pub host: u8,
    /// The thread.
    pub thread: u16,
    /// The line of code.
    pub at: &'static Location<'static>,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { step, host, thread, at } = self;
        write!(f, "host {host}, thread {thread}, step {step}, {}:{}", short(at.file()), at.line())
    }
}

/// The path from `crates/` on.
fn short(file: &str) -> &str {
    file.rfind("crates/").map_or(file, |at| &file[at + 7..])
}

/// A run's events.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    events: Vec<Event>,
}

#[derive(Clone, Debug)]
enum Event {
    Operation(Origin, String),
    Action(u64, Action),
}

impl Timeline {
    pub(crate) fn operation(&mut self, origin: Origin, what: String) {
        self.events.push(Event::Operation(origin, what));
    }

    pub(crate) fn action(&mut self, step: u64, action: Action) {
        self.events.push(Event::Action(step, action));
    }

    /// The last `most` events, a column per host.
    pub fn render(&self, most: usize) -> String {
        let width = 56;
        let host = |event: &Event| match event {
            Event::Operation(origin, _) => usize::from(origin.host),
            Event::Action(..) => 0,
        };
        let hosts = 1 + self.events.iter().map(host).max().unwrap_or(0);
        let mut text = format!("{:>7}", "step");
        for host in 0..hosts {
            let _ = write!(text, "  {:<width$}", format!("host {host}"));
        }
        text = text.trim_end().to_owned() + "\n";
        let skipped = self.events.len().saturating_sub(most);
        if skipped > 0 {
            let _ = writeln!(text, "{:>7}  ({skipped} earlier events)", "...");
        }
        for event in &self.events[skipped..] {
            let line = match event {
                Event::Operation(origin, what) => {
                    let place = format!("{}:{}", short(origin.at.file()), origin.at.line());
                    let indent = 9 + usize::from(origin.host) * (width + 2);
                    let said = format!("t{} {what}  {place}", origin.thread);
                    format!("{:>7}{:pad$}{said}", origin.step, "", pad = indent - 7)
                }
                Event::Action(step, action) => format!("{step:>7}  * {action}"),
            };
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text
    }
}
