//! Being told to stop: Ctrl-C, SIGTERM, a closed terminal, or the end of the process that started
//! this one.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};

/// Tells when to stop.
pub(crate) struct Stop(Receiver<()>);

impl Stop {
    /// Catches the signals from now on.
    pub(crate) fn on_signals() -> anyhow::Result<Self> {
        let (sender, receiver) = channel();
        ctrlc::set_handler(move || {
            let _ = sender.send(());
        })
        .context("cannot catch signals")?;
        Ok(Self(receiver))
    }

    /// Has this process told, too, when the one that started it ends.
    pub(crate) fn with_parent(&self) -> anyhow::Result<()> {
        set_parent_process_death_signal(Some(Signal::TERM)).context("cannot watch the parent")
    }

    /// Waits; whether it is time to stop.
    pub(crate) fn within(&self, time: Duration) -> bool {
        !matches!(self.0.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    /// Waits for as long as it takes.
    pub(crate) fn wait(&self) {
        let _ = self.0.recv();
    }
}
