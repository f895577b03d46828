//! `tombolo mount`.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use tombolo_mount::Mounted;
use tombolo_pagecache::{Counts, Options};
use tracing::level_filters::LevelFilter;

use crate::cli::MountArgs;
use crate::operation::{Mounting, Operation, Watch, sole};
use crate::output;
use crate::qualify::unqualified;
use crate::stop::Stop;

/// How often to see whether it was unmounted, or fenced.
const LOOK: Duration = Duration::from_millis(100);

pub(crate) fn run(args: &MountArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    if args.with_parent {
        stop.with_parent()?;
    }
    let operation = Operation::start(&args.log, LevelFilter::WARN, args.metrics.as_deref())?;
    let options = Options {
        write_back_after: Duration::from_millis(args.write_back_ms),
        ..Options::default()
    };
    let pod = tombolo_pod::open(&args.pod.clone().trusted(args.trust_me))?;
    if let Some(said) = unqualified(&args.pod, &pod) {
        eprintln!("tombolo: {said}");
    }
    let threads = usize::from(args.threads);
    let how = &args.options;
    let mounted =
        Arc::new(Mounted::new(pod, &args.backing, &args.mountpoint, how, threads, options)?);
    report_salvage(&mounted.counts())?;
    output::say(format!(
        "{} is mounted on {}\n",
        args.backing.display(),
        args.mountpoint.display()
    ))?;
    watch(&mounted, &operation, &stop)?;
    let mounted = sole(mounted);
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

/// Looks at the pod until this host is to stop.
fn watch(mounted: &Arc<Mounted>, operation: &Operation, stop: &Stop) -> Result<()> {
    if let Some(pages) = &operation.pages {
        let (mounted, tally) = (Arc::downgrade(mounted), operation.tally.clone());
        pages.watch(move || {
            Some(Box::new(Mounting { mounted: mounted.upgrade()?, tally: tally.clone() }))
        });
        output::say(format!("metrics on http://{}/metrics\n", pages.address()))?;
    }
    operation.manager.ready();
    let subject = Mounting { mounted: mounted.clone(), tally: operation.tally.clone() };
    let mut watch = Watch::new(&subject, &operation.tally, &operation.observed);
    while !stop.within(LOOK) && !mounted.is_over() && !mounted.is_fenced() {
        watch.look(&subject, &operation.manager);
    }
    operation.manager.stopping();
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
