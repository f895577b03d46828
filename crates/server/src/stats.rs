//! The counters of a server.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! stats {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of a server since it started.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Counters {
            /// Begins to count anew, but for the clients that there are.
            pub(crate) fn reset(&self) {
                let clients = self.clients.load(Ordering::Relaxed);
                $(self.$name.store(0, Ordering::Relaxed);)*
                self.clients.fetch_add(clients, Ordering::Relaxed);
            }

            pub(crate) fn snapshot(&self) -> Stats {
                Stats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

stats! {
    /// Connections that are open.
    clients,
    /// Connections there were.
    connections,
    /// Connections refused because there were too many.
    rejected,
    /// Times that no connection could be accepted: mostly for want of file descriptors.
    not_accepted,
    /// Commands executed.
    commands,
    /// Replies that were errors.
    errors,
    /// Bytes received.
    bytes_in,
    /// Bytes sent.
    bytes_out,
    /// Values that were asked for and were there.
    hits,
    /// Values that were asked for and were not there.
    misses,
}

pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
