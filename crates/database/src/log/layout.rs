//! The layout of the log in the pod.

use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, ScrAddr};

const WORDS_PER_LINE: u64 = LINE_BYTES / size_of::<u64>() as u64;

/// How large the log's parts of SCR and LNR are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLayout {
    /// Hosts of the database: 1 to 64.
    pub hosts: u8,
    /// Workers of each host.
    pub workers: u16,
    /// Bytes of a worker's buffer, a multiple of a line. The most that one transaction can log.
    pub buffer_bytes: u64,
}

impl LogLayout {
    /// Bytes of SCR: a line, and a line per worker, and per host one for each 7 workers.
    pub fn scr_bytes(&self) -> u64 {
        let lines = 1 + u64::from(self.hosts) * (u64::from(self.workers) + self.host_lines());
        lines * LINE_BYTES
    }

    /// Bytes of LNR: the buffers.
    pub fn lnr_bytes(&self) -> u64 {
        u64::from(self.hosts) * u64::from(self.workers) * self.buffer_bytes
    }

    /// Lines of the words that a host's logger writes.
    fn host_lines(&self) -> u64 {
        (1 + u64::from(self.workers)).div_ceil(WORDS_PER_LINE)
    }

    /// Whether it makes sense.
    pub(crate) fn check(&self) {
        assert!((1..=64).contains(&self.hosts), "a log for {} hosts, not 1 to 64", self.hosts);
        assert!(self.workers > 0, "a log for hosts without workers");
        let whole = self.buffer_bytes.is_multiple_of(LINE_BYTES);
        assert!(self.buffer_bytes > 0 && whole, "a buffer of {} bytes", self.buffer_bytes);
    }
}

/// Where the parts are:
///
/// ```text
/// SCR  the epoch | the first epoch
///      a line per worker: began in | commits in | filled to
///      lines per host: durable up to | flushed to, for each worker
/// LNR  a buffer per worker
/// ```
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPlaces {
    pub(crate) layout: LogLayout,
    scr: ScrAddr<u64>,
    lnr: LnrAddr,
}

impl LogPlaces {
    pub(crate) fn new(layout: LogLayout, scr: ScrAddr<u64>, lnr: LnrAddr) -> Self {
        layout.check();
        assert!(scr.offset().is_multiple_of(LINE_BYTES), "the log's SCR starts within a line");
        assert!(lnr.offset().is_multiple_of(LINE_BYTES), "the log's LNR starts within a line");
        Self { layout, scr, lnr }
    }

    /// The epoch.
    pub(crate) fn epoch(&self) -> ScrAddr<u64> {
        self.scr
    }

    /// The epoch that the database began with.
    pub(crate) fn session(&self) -> ScrAddr<u64> {
        self.scr.element(1)
    }

    fn worker(&self, host: u8, worker: u16) -> ScrAddr<u64> {
        self.scr.line(1 + self.number(host, worker))
    }

    fn number(&self, host: u8, worker: u16) -> u64 {
        let LogLayout { hosts, workers, .. } = self.layout;
        assert!(host < hosts && worker < workers, "no worker {worker} of host {host}");
        u64::from(host) * u64::from(workers) + u64::from(worker)
    }

    /// The epoch in which a worker's transaction began.
    pub(crate) fn began(&self, host: u8, worker: u16) -> ScrAddr<u64> {
        self.worker(host, worker)
    }

    /// The least epoch in which a worker may commit.
    pub(crate) fn commits(&self, host: u8, worker: u16) -> ScrAddr<u64> {
        self.worker(host, worker).element(1)
    }

    /// How many bytes a worker has ever put into its buffer.
    pub(crate) fn filled(&self, host: u8, worker: u16) -> ScrAddr<u64> {
        self.worker(host, worker).element(2)
    }

    /// The greatest epoch that is durable as far as a host is concerned.
    pub(crate) fn durable(&self, host: u8) -> ScrAddr<u64> {
        let LogLayout { hosts, workers, .. } = self.layout;
        assert!(host < hosts, "no host {host}");
        let before = 1 + u64::from(hosts) * u64::from(workers);
        self.scr.line(before + u64::from(host) * self.layout.host_lines())
    }

    /// How many of a worker's bytes are in files.
    pub(crate) fn flushed(&self, host: u8, worker: u16) -> ScrAddr<u64> {
        self.durable(host).element(1 + u64::from(worker))
    }

    /// Where `bytes` bytes of a worker's buffer lie that begin at `position`: in two pieces, if
    /// they go round the buffer's end. The second may be of no lines.
    pub(crate) fn pieces(&self, host: u8, worker: u16, position: u64, bytes: u64) -> [Lines; 2] {
        let size = self.layout.buffer_bytes;
        debug_assert!(bytes <= size);
        let start = self.lnr.plus(self.number(host, worker) * size);
        let within = position % size;
        let first = bytes.min(size - within);
        let piece = |at, bytes| Lines::covering(start.plus(at), bytes);
        [piece(within, first), piece(0, bytes - first)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_apart_and_within_the_bytes_asked_for() {
        let layout = LogLayout { hosts: 3, workers: 8, buffer_bytes: 256 };
        let places = LogPlaces::new(layout, ScrAddr::new(64), LnrAddr::new(128));
        let all = (0..3).flat_map(|host| (0..8).map(move |worker| (host, worker)));
        let mut words: Vec<u64> = all
            .flat_map(|(host, worker)| {
                [
                    places.began(host, worker),
                    places.commits(host, worker),
                    places.filled(host, worker),
                    places.flushed(host, worker),
                ]
            })
            .chain((0..3).map(|host| places.durable(host)))
            .chain([places.epoch(), places.session()])
            .map(ScrAddr::offset)
            .collect();
        words.sort_unstable();
        let count = words.len();
        words.dedup();
        assert_eq!(words.len(), count, "no two words in one place");
        assert!(words[0] >= 64 && words[count - 1] + 8 <= 64 + layout.scr_bytes());
        let last = places.pieces(2, 7, 192, 128);
        assert_eq!(last[0].start().plus(64).offset(), 128 + layout.lnr_bytes());
        assert_eq!(last[1], Lines::new(2 + 23 * 4, 1));
    }
}
