//! Where the parts of an area for messages lie.
//!
//! ```text
//! SCR  mark | a line for each topic: which hosts listen | a line per host: begun, end
//! LNR  a ring per host
//!
//! message  bytes (32 bits) | topic (32) | checksum of the payload (32) | 0 (32) | payload,
//!          up to a whole number of lines
//! ```

use tombolo_memory::{LINE_BYTES, Lines, LnrAddr, ScrAddr};
use tombolo_pod::{
    AreaPlaces, AreaRequest, Budget, Kind, LogOptions, PARAMETERS, Stretch, power,
    power_of_two_within,
};

/// The kind of an area in which messages live.
pub const KIND: Kind = Kind::new("messages");

/// The version of the area's format.
pub const VERSION: u64 = 1;

/// Topics that messages can have.
pub const MAX_TOPICS: u8 = 4;

const LEAST_RING_BYTES: u64 = 4 * LINE_BYTES;
const MOST_RING_BYTES: u64 = 1 << 30;

/// The parameters with which an area for messages is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of each host's ring, a power of two; all that the area has room for unless given.
    pub ring_bytes: Option<u64>,
}

/// The area for messages of a pod for so many hosts with so much LNR. Its rings take `ring_bytes`
/// together; unless given, up to 1 MiB each, and up to 1/64 of LNR.
pub fn area_request(hosts: u8, lnr_bytes: u64, ring_bytes: Option<u64>) -> AreaRequest<'static> {
    let hosts = u64::from(hosts.max(1));
    let usual = || power_of_two_within(lnr_bytes / 64 / hosts, LEAST_RING_BYTES, 1 << 20) * hosts;
    // A line for the mark and each topic, and one per host; and as much for the roster.
    let own_lines = 1 + u64::from(MAX_TOPICS) + hosts;
    AreaRequest {
        kind: KIND,
        version: VERSION,
        scr_bytes: Some(2 * own_lines * LINE_BYTES),
        lnr_bytes: Some(ring_bytes.unwrap_or_else(usual)),
        log: LogOptions { shards: Some(0), ..LogOptions::default() },
        plan: &|budget| Shape::default().plan(budget),
        on_demand: None,
    }
}

impl Shape {
    /// The parameters of an area of this shape.
    ///
    /// # Errors
    /// A clause that says what does not fit.
    pub fn plan(self, budget: Budget) -> Result<[u64; PARAMETERS], String> {
        let room = budget.lnr.bytes / budget.hosts.max(1);
        let most = power_of_two_within(room, LEAST_RING_BYTES, MOST_RING_BYTES);
        let mut parameters = [0; PARAMETERS];
        parameters[0] = self.ring_bytes.unwrap_or(most);
        Places::new(&parameters, budget.hosts, budget.scr, budget.lnr)?;
        Ok(parameters)
    }
}

/// Where everything starts.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub(crate) hosts: u8,
    pub(crate) ring_bytes: u64,
    scr: ScrAddr<u64>,
    lnr: LnrAddr,
}

impl Places {
    /// The places in `area`.
    ///
    /// # Errors
    /// A clause that says what is wrong with the parameters.
    pub fn of_area(parameters: &[u64; PARAMETERS], area: &AreaPlaces) -> Result<Self, String> {
        Self::new(parameters, area.host_count.into(), area.scr, area.lnr)
    }

    fn new(
        parameters: &[u64; PARAMETERS],
        hosts: u64,
        scr: Stretch,
        lnr: Stretch,
    ) -> Result<Self, String> {
        let ring_bytes = parameters[0];
        power("a ring of messages", ring_bytes, LEAST_RING_BYTES, MOST_RING_BYTES)?;
        let needed = (1 + u64::from(MAX_TOPICS) + hosts) * LINE_BYTES;
        if scr.bytes < needed || lnr.bytes < hosts * ring_bytes {
            return Err(format!(
                "there is no room for messages of {hosts} hosts in {} bytes of SCR and {} of LNR",
                scr.bytes, lnr.bytes
            ));
        }
        let (scr, lnr) = (ScrAddr::new(scr.start), LnrAddr::new(lnr.start));
        Ok(Self { hosts: hosts as u8, ring_bytes, scr, lnr })
    }

    /// Whether the area was formatted.
    pub(crate) fn mark(&self) -> ScrAddr<u64> {
        self.scr
    }

    /// A bit for each host that listens to a topic.
    pub(crate) fn audience(&self, topic: u8) -> ScrAddr<u64> {
        self.scr.line(1 + u64::from(topic))
    }

    /// Up to where bytes of a host's ring may be overwritten.
    pub(crate) fn begun(&self, host: u8) -> ScrAddr<u64> {
        self.scr.line(1 + u64::from(MAX_TOPICS) + u64::from(host))
    }

    /// Up to where messages of a host are whole.
    pub(crate) fn end(&self, host: u8) -> ScrAddr<u64> {
        self.begun(host).element(1)
    }

    /// The lines of a host's ring from a position on: a second part, if the first one reaches the
    /// ring's last line.
    pub(crate) fn lines(&self, host: u8, from: u64, bytes: u64) -> [Option<Lines>; 2] {
        let ring = self.lnr.plus(u64::from(host) * self.ring_bytes);
        let offset = from % self.ring_bytes;
        let first = bytes.min(self.ring_bytes - offset);
        let part = |at: u64, bytes: u64| (bytes > 0).then(|| Lines::covering(ring.plus(at), bytes));
        [part(offset, first), part(0, bytes - first)]
    }
}
