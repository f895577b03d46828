//! The hosts that are watched: one that serves clients, and one that mounts a directory.

use std::sync::Arc;

use serde_json::{Map, Value};
use tombolo::Store;
use tombolo_memory::Mapped;
use tombolo_mount::Mounted;
use tombolo_objects::Objects;
use tombolo_server::Server;
use tracing::{error, warn};

use super::figures::{Figure, figures, figures_of_mount};
use super::metrics::{self, Text};
use super::snapshot;
use crate::served::Tally;

/// A host in a pod, as its log, its figures and its page need it. It is not left while one is
/// there.
pub(crate) trait Subject {
    /// Its objects.
    fn objects(&self) -> &Objects<Mapped>;

    /// Its figures, and those of its pod.
    fn figures(&self) -> Vec<Figure>;

    /// Counters of what should not be.
    fn troubles(&self) -> Vec<Trouble>;

    /// Adds what `/metrics` has besides figures and hosts.
    fn add_metrics(&self, text: &mut Text) {
        let _ = text;
    }

    /// The parts of the page besides figures and hosts.
    fn page(&self) -> Map<String, Value> {
        Map::new()
    }
}

/// A counter of something that should not be, as of now.
pub(crate) struct Trouble {
    pub(super) name: &'static str,
    pub(super) count: u64,
    /// Says on the log that a host's counter has grown by so much.
    pub(super) say: Box<dyn Fn(u64, u64)>,
}

impl Trouble {
    fn new(name: &'static str, count: u64, say: impl Fn(u64, u64) + 'static) -> Self {
        Self { name, count, say: Box::new(say) }
    }
}

/// A host that serves clients.
pub(crate) struct Serving {
    pub(crate) store: Arc<Store>,
    pub(crate) server: Arc<Server>,
    pub(crate) tally: Arc<Tally>,
}

impl Subject for Serving {
    fn objects(&self) -> &Objects<Mapped> {
        self.store.objects()
    }

    fn figures(&self) -> Vec<Figure> {
        figures(&self.store, &self.tally)
    }

    fn troubles(&self) -> Vec<Trouble> {
        let (served, tally) = (self.server.stats(), &self.tally);
        let (why_full, why_unavailable) = (tally.reason(), tally.reason());
        let mut troubles = vec![
            Trouble::new("full", Tally::get(&tally.full), move |host, writes| {
                error!(host, writes, reason = %why_full, "the pod is full");
            }),
            Trouble::new("unavailable", Tally::get(&tally.unavailable), move |host, operations| {
                error!(host, operations, reason = %why_unavailable, "operations failed");
            }),
            Trouble::new("clients refused", served.rejected, |host, clients| {
                warn!(host, clients, "clients were refused: --max-clients are connected");
            }),
            Trouble::new("clients not accepted", served.not_accepted, |host, times| {
                warn!(
                    host,
                    times,
                    "a client could not be accepted: raise the limit of open files (ulimit -n)"
                );
            }),
        ];
        troubles.extend(losses(self.objects(), "values"));
        troubles
    }

    fn add_metrics(&self, text: &mut Text) {
        metrics::evictions(text, &self.store);
        metrics::of_server(text, &self.server);
    }

    fn page(&self) -> Map<String, Value> {
        snapshot::of_server(&self.server)
    }
}

/// A host that mounts a directory.
pub(crate) struct Mounting {
    pub(crate) mounted: Arc<Mounted>,
    pub(crate) tally: Arc<Tally>,
}

impl Subject for Mounting {
    fn objects(&self) -> &Objects<Mapped> {
        self.mounted.objects()
    }

    fn figures(&self) -> Vec<Figure> {
        figures_of_mount(&self.mounted, &self.tally)
    }

    fn troubles(&self) -> Vec<Trouble> {
        // The log has said which file, and why.
        let refused = Trouble::new("files take no pages", self.mounted.counts().refused, |_, _| ());
        let mut troubles = vec![refused];
        troubles.extend(losses(self.objects(), "pages"));
        troubles
    }
}

/// Losses of objects, by the name of their contents.
fn losses(objects: &Objects<Mapped>, what: &'static str) -> [Trouble; 2] {
    let stats = objects.stats();
    [
        Trouble::new("values lost", stats.lost, move |host, values| {
            error!(host, values, "{what} were lost with a host");
        }),
        Trouble::new("memory errors", stats.poisoned, move |host, values| {
            error!(host, values, "{what} were lost to memory errors: check the device");
        }),
    ]
}
