//! `tombolo mount`.

use std::fmt;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use tombolo_mount::Mounted;
use tombolo_pagecache::{Counts, Options};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::MountArgs;
use crate::output;
use crate::stop::Stop;

/// How often to see whether it was unmounted, or fenced.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &MountArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    if args.with_parent {
        stop.with_parent()?;
    }
    log_to_stderr();
    let options = Options {
        write_back_after: Duration::from_millis(args.write_back_ms),
        ..Options::default()
    };
    let pod = tombolo_pod::open(&args.pod)?;
    let threads = usize::from(args.threads);
    let how = &args.options;
    let mounted = Mounted::new(pod, &args.backing, &args.mountpoint, how, threads, options)?;
    report_salvage(&mounted.counts())?;
    output::say(format!(
        "{} is mounted on {}\n",
        args.backing.display(),
        args.mountpoint.display()
    ))?;
    while !stop.within(LOOK) && !mounted.is_over() && !mounted.is_fenced() {}
    if !mounted.is_over() {
        // Dirty pages are safe before anything can go wrong.
        let written = mounted.write_back(&mut |_| ());
        mounted.detach()?;
        wait_for_last_close(&mounted, &stop)?;
        if mounted.is_fenced() {
            mounted.abandon();
            bail!(
                "this host was fenced: the others go on without it, and its process has to end; mount {} again",
                args.backing.display()
            );
        }
        if !mounted.is_over() {
            let written = written.and_then(|()| mounted.write_back(&mut |_| ()));
            mounted.abandon();
            written?;
            bail!(
                "ended with files open; what was written to them is in {}",
                args.backing.display()
            );
        }
    }
    let counts = mounted.counts();
    let bar = stderr().is_terminal().then(|| ProgressBar::new(0));
    mounted.leave(&mut |left| {
        if let Some(bar) = &bar {
            bar.set_message("pages to write back");
            bar.set_length(bar.length().unwrap_or(0).max(left as u64));
            bar.set_position(bar.length().unwrap_or(0) - left as u64);
        }
    })?;
    output::say(format!(
        "unmounted; pages: {} read from files, {} written to them, {} evicted\n",
        counts.admitted, counts.written_back, counts.evicted
    ))?;
    Ok(())
}

/// Waits until nothing is open any more, unless this host was fenced or is told once more to stop.
fn wait_for_last_close(mounted: &Mounted, stop: &Stop) -> Result<()> {
    let started = Instant::now();
    let mut said = false;
    while !mounted.is_over() && !mounted.is_fenced() && !stop.within(LOOK) {
        if !said && started.elapsed() > Duration::from_secs(1) {
            output::say(
                "files are still open, and served until they are closed; stop once more to end at once\n",
            )?;
            said = true;
        }
    }
    Ok(())
}

/// Says what was left of hosts that had all died.
fn report_salvage(counts: &Counts) -> Result<()> {
    if counts.salvaged > 0 {
        output::say(format!(
            "the hosts that were here died; pages of theirs brought to files: {}\n",
            counts.salvaged
        ))?;
    }
    if counts.lost > 0 {
        output::say(format!(
            "pages that were being changed when their hosts died, and are as in the files: {}\n",
            counts.lost
        ))?;
    }
    Ok(())
}

fn log_to_stderr() {
    let printed = tracing_subscriber::fmt::layer().with_writer(stderr).with_target(false);
    tracing_subscriber::registry()
        .with(LevelFilter::WARN)
        .with(WithoutLateAnswers)
        .with(printed.with_ansi(stderr().is_terminal()))
        .init();
}

/// Keeps what `fuser` says of late answers out of the log. The kernel gives a request up when the
/// program that waits for it is interrupted, or when it unmounts the file system.
struct WithoutLateAnswers;

impl<S: Subscriber> Layer<S> for WithoutLateAnswers {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let mut is_late = IsLateAnswer(false);
        event.record(&mut is_late);
        !is_late.0
    }
}

struct IsLateAnswer(bool);

impl Visit for IsLateAnswer {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // `ENOENT` is how the kernel says that it does not know a request any more.
        let late = "Failed to send FUSE reply: No such file or directory";
        self.0 |= field.name() == "message" && format!("{value:?}").starts_with(late);
    }
}
