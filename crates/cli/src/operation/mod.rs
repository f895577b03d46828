//! Monitoring of a host that serves: its log, its figures, its page, and its messages to the
//! service manager. All of it comes from looks at the pod, a few times a second, and from
//! counters; nothing here is on the way of an operation.

mod figures;
mod hosts;
mod http;
mod journal;
mod metrics;
mod notify;
mod snapshot;
mod watch;

pub(crate) use figures::figures;
pub(crate) use http::Pages;
pub(crate) use journal::{Journal, LogFormat};
pub(crate) use notify::ServiceManager;
pub(crate) use watch::{Observed, Watch};
