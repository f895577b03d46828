//! Monitoring of a host that serves, or mounts a directory: its log, its figures, its page, and its
//! messages to the service manager. All of it comes from looks at the pod, a few times a second,
//! and from counters; nothing here is on the way of an operation.

mod figures;
mod hosts;
mod http;
mod journal;
mod metrics;
mod notify;
mod snapshot;
mod subject;
mod watch;

pub(crate) use figures::figures;
use http::Pages;
use journal::Journal;
pub(crate) use journal::LogFormat;
use notify::ServiceManager;
pub(crate) use subject::{Mounting, Serving};
use watch::Observed;
pub(crate) use watch::Watch;

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use tracing::level_filters::LevelFilter;

use crate::cli::LogArgs;
use crate::served::Tally;

/// The monitoring of this process, across all stays that it has in the pod.
pub(crate) struct Operation {
    pub(crate) tally: Arc<Tally>,
    pub(crate) observed: Arc<Mutex<Observed>>,
    pub(crate) pages: Option<Pages>,
    pub(crate) manager: ServiceManager,
}

impl Operation {
    /// Logs from now on, from a level on that is `level` unless the arguments say another; and has
    /// pages at an address, if one is given.
    pub(crate) fn start(log: &LogArgs, level: LevelFilter, pages: Option<&str>) -> Result<Self> {
        let journal = Journal::start(log.log_level.unwrap_or(level), log.log_format);
        let (tally, observed) = Default::default();
        let pages = pages.map(|address| Pages::serve(address, &observed, &journal)).transpose()?;
        Ok(Self { tally, observed, pages, manager: ServiceManager::of_environment() })
    }
}

/// The value of which only the pages have others, for as long as they take to tell of it.
pub(crate) fn sole<T>(mut shared: Arc<T>) -> T {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(sole) => return sole,
            Err(again) => shared = again,
        }
        thread::sleep(Duration::from_millis(1));
    }
}
