//! Each trouble of a host is seen as what it is: on another host's log, in its metrics and on its
//! page.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use redis::Commands;
use serde_json::json;

use crate::liveness::Freezer;
use crate::operation::{Browser, Host, patiently, pod};
use crate::tombolo::{connect, printed};

/// A host that looks at others, with a browser on its page if there is one.
struct Looking {
    host: Host,
    browser: Option<Browser>,
}

impl Looking {
    fn start(folder: &Path, pod: &str) -> Self {
        let host = Host::start(folder, pod);
        let mut browser = Browser::start(folder);
        if let Some(browser) = &mut browser {
            browser.open(&format!("http://127.0.0.1:{}/", host.port + 1));
        }
        Self { host, browser }
    }

    /// Waits until the metrics have so many hosts in a state, and the page shows another host in
    /// it.
    fn sees(&mut self, other: &Host, state: &str) {
        patiently(state, || (self.host.hosts(state) >= 1.0).then_some(()));
        let row = format!(
            "[...document.querySelectorAll('#hosts tr')].some(row => row.dataset.state === '{state}' \
             && row.children[3].textContent === '{}')",
            other.child.id()
        );
        self.page(&row);
    }

    fn page(&mut self, shows: &str) {
        if let Some(browser) = &mut self.browser {
            browser.until(shows);
        }
    }
}

/// A library by which a process sees a clock that is an hour ahead; `None`, with the reason
/// printed, where it cannot be built.
fn clock_ahead(folder: &Path) -> Option<PathBuf> {
    let source = "
        #define _GNU_SOURCE
        #include <sys/syscall.h>
        #include <time.h>
        #include <unistd.h>
        int clock_gettime(clockid_t clock, struct timespec *now) {
            int failed = syscall(SYS_clock_gettime, clock, now);
            if (!failed && clock == CLOCK_REALTIME) now->tv_sec += 3600;
            return failed;
        }";
    let (file, library) = (folder.join("ahead.c"), folder.join("ahead.so"));
    fs::write(&file, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&file);
    let built = compiler.status().is_ok_and(|status| status.success());
    if !built {
        eprintln!("skipped: there is no compiler for C");
    }
    built.then_some(library)
}

/// Keys of all hosts expired at once when clocks were an hour apart, and nothing said so.
#[test]
fn a_clock_that_differs_is_seen() {
    let (folder, pod) = pod("16MiB");
    let Some(library) = clock_ahead(folder.path()) else { return };
    let mut looking = Looking::start(folder.path(), &pod);
    let ahead = Host::start_with(folder.path(), &pod, |host| _ = host.env("LD_PRELOAD", library));
    let said = looking.host.event("the clock of a host differs");
    assert_eq!(said["host"], 1);
    let ms = said["ahead_ms"].as_i64().unwrap();
    assert!((3_590_000..3_610_000).contains(&ms), "{said}");
    patiently("difference", || {
        let seconds = looking.host.metric("tombolo_host_clock_difference_seconds");
        (3590.0..3610.0).contains(&seconds).then_some(())
    });
    assert_eq!(looking.host.metric("tombolo_host_clocks_differed_total"), 1.0);
    looking.page(
        "[...document.querySelectorAll('#hosts tr')].some(row => \
         Math.abs(parseFloat(row.children[6].textContent) - 3600) < 10)",
    );
    looking.sees(&ahead, "live");
}

/// A host that a control group has frozen is silent; it is not taken for one that has ended.
#[test]
fn a_host_that_is_frozen_is_seen() {
    let Some(freezer) = Freezer::new() else { return };
    let (folder, pod) = pod("16MiB");
    let mut looking = Looking::start(folder.path(), &pod);
    let frozen = Host::start(folder.path(), &pod);
    looking.host.event_of(&frozen, "a host is in the pod");
    freezer.freeze(frozen.child.id());
    looking.host.event_of(&frozen, "a host gives no sign of life");
    looking.sees(&frozen, "silent");
    freezer.thaw();
    looking.host.event_of(&frozen, "a host gives signs of life again");
    looking.sees(&frozen, "live");
    drop(frozen);
}

/// A host that was fenced while it lived is not taken for one that was killed.
#[test]
fn hosts_that_are_fenced_and_killed_are_seen() {
    let (folder, pod) = pod("16MiB");
    let mut looking = Looking::start(folder.path(), &pod);
    let mut fenced = Host::start(folder.path(), &pod);
    looking.host.event_of(&fenced, "a host is in the pod");
    fenced.signal("-STOP");
    printed(&["pod", "fence", &pod, "1"]);
    let said = looking.host.event_of(&fenced, "a host was fenced");
    assert_eq!((&said["ended"], &said["level"]), (&json!(false), &json!("warn")));
    looking.sees(&fenced, "fenced");
    fenced.signal("-CONT");
    assert_eq!(fenced.child.wait().unwrap().code(), Some(5));
    fenced.event("this host was fenced");
    looking.sees(&fenced, "dead");
    let mut killed = Host::start(folder.path(), &pod);
    looking.host.event_of(&killed, "a host is in the pod");
    killed.signal("-KILL");
    killed.child.wait().unwrap();
    let said = looking.host.event_of(&killed, "a host was fenced");
    assert_eq!(said["ended"], true);
    looking.sees(&killed, "dead");
    assert_eq!(looking.host.metric("tombolo_host_fences_total"), 2.0);
}

/// A pod that is full is a trouble of its own.
#[test]
fn a_pod_that_is_full_is_seen() {
    let (folder, pod) = pod("8MiB");
    let mut looking = Looking::start(folder.path(), &pod);
    let mut client = connect(([127, 0, 0, 1], looking.host.port).into());
    let value = vec![0; 1 << 20];
    let started = Instant::now();
    let mut fill = || (0..64).any(|n| client.set::<_, _, ()>(format!("k{n}"), &value).is_err());
    while !fill() {
        assert!(started.elapsed() < Duration::from_secs(60), "the pod is never full");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(looking.host.event("the pod is full")["level"], "error");
    assert!(looking.host.metric("tombolo_host_full_errors_total") > 0.0);
    looking.page("document.getElementById('trouble').textContent.includes('full')");
}
