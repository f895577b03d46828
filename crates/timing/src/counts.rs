//! Counters of a run that no hardware counter reports.

use serde::Serialize;

/// The events in a pod, over all hosts or of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Lines looked up in some cache.
    pub accesses: u64,
    /// Accesses to SCR that no cache of the host could serve.
    pub scr_misses: u64,
    /// Copies of coherent lines in other hosts' caches that had to be dropped or handed back first.
    pub back_invalidations: u64,
    /// Accesses to LNR that no cache of the host could serve.
    pub lnr_misses: u64,
    /// Lines of LNR that were written back because they were cleaned.
    pub lnr_cleans: u64,
    /// Accesses to the host's own memory that no cache could serve.
    pub local_misses: u64,
    /// Bytes over the hosts' links, all together.
    pub link_bytes: u64,
    /// Bytes over each host's link, by the number of the host.
    pub link_bytes_by_host: Vec<u64>,
    /// Bytes in and out of the device.
    pub device_bytes: u64,
    /// Bytes in and out of the hosts' own memory.
    pub local_bytes: u64,
    /// Nanoseconds that lines waited for bandwidth.
    pub queueing_ns: u64,
}

impl Counts {
    /// The events since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let links = self.link_bytes_by_host.iter().zip(&before.link_bytes_by_host);
        Self {
            accesses: self.accesses - before.accesses,
            scr_misses: self.scr_misses - before.scr_misses,
            back_invalidations: self.back_invalidations - before.back_invalidations,
            lnr_misses: self.lnr_misses - before.lnr_misses,
            lnr_cleans: self.lnr_cleans - before.lnr_cleans,
            local_misses: self.local_misses - before.local_misses,
            link_bytes: self.link_bytes - before.link_bytes,
            link_bytes_by_host: links.map(|(now, before)| now - before).collect(),
            device_bytes: self.device_bytes - before.device_bytes,
            local_bytes: self.local_bytes - before.local_bytes,
            queueing_ns: self.queueing_ns - before.queueing_ns,
        }
    }
}
