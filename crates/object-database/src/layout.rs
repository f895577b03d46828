//! Where the parts of a database lie in its area. Its rows and leaves lie in an area for objects.
//!
//! ```text
//! SCR  failed | arrivals | a line per home | the log's words | tables: count, two words each
//! LNR  the log's buffers
//! ```

use tombolo_database::TableSpec;
use tombolo_database::hosts::limits::{whole_lines, within};
use tombolo_database::hosts::{HomePlaces, SpecTable};
use tombolo_database::log::{GroupCommit, LogLayout};
use tombolo_memory::{LINE_BYTES, LnrAddr, Memory, ScrAddr};
use tombolo_pod::{AreaPlaces, AreaRequest, Budget, Kind, LogOptions, PARAMETERS, Stretch};

/// The kind of a database's area.
pub const KIND: Kind = Kind::new("objectdb");

/// The version of the area's format, and of rows and leaves.
pub const VERSION: u64 = 1;

/// Hosts of a database at most.
pub const MAX_HOMES: u8 = 64;

/// Tables of a database at most.
pub const MAX_TABLES: u64 = 64;

/// Workers of a host at most.
pub const MAX_WORKERS: u64 = 64;

/// Numbers that partitions can have. They place rows in checkpoints, and nothing else.
const MAX_PARTITIONS: u64 = 1 << 32;

/// The sizes that a database is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Hosts.
    pub homes: u8,
    /// Partitions of each table.
    pub partitions: u32,
    /// Tables at most.
    pub tables: u16,
    /// Threads of a host that run transactions.
    pub workers: u16,
    /// Bytes of each worker's log buffer, a multiple of a line: the most that a transaction can
    /// log.
    pub log_buffer_bytes: u64,
}

impl Shape {
    /// The parameters of an area of this shape.
    ///
    /// # Errors
    /// A clause that says what does not fit.
    pub fn plan(self, budget: Budget) -> Result<[u64; PARAMETERS], String> {
        let mut parameters = [0; PARAMETERS];
        let numbers = [
            self.homes.into(),
            self.partitions.into(),
            self.tables.into(),
            self.workers.into(),
            self.log_buffer_bytes,
        ];
        parameters[..numbers.len()].copy_from_slice(&numbers);
        Places::new(&parameters, budget.scr, budget.lnr)?;
        Ok(parameters)
    }

    pub(crate) fn log(self) -> LogLayout {
        LogLayout { hosts: self.homes, workers: self.workers, buffer_bytes: self.log_buffer_bytes }
    }

    /// Bytes of SCR that the area takes, its roster included.
    fn scr_bytes(self) -> u64 {
        let roster = 1 + u64::from(MAX_HOMES);
        let tables = (SpecTable::words(self.tables.into()) * 8).next_multiple_of(LINE_BYTES);
        (HomePlaces::lines(self.homes) + roster) * LINE_BYTES + self.log().scr_bytes() + tables
    }
}

/// The area of a database of this shape, beside one for objects. `plan` is [`Shape::plan`] of it.
pub fn area_request(
    shape: Shape,
    plan: &dyn Fn(Budget) -> Result<[u64; PARAMETERS], String>,
) -> AreaRequest<'_> {
    AreaRequest {
        kind: KIND,
        version: VERSION,
        scr_bytes: Some(shape.scr_bytes()),
        lnr_bytes: Some(shape.log().lnr_bytes() + LINE_BYTES),
        log: LogOptions { shards: Some(0), ..LogOptions::default() },
        plan,
        on_demand: None,
    }
}

/// Where everything starts.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub(crate) shape: Shape,
    pub(crate) homes: HomePlaces,
    /// The parts of the log in SCR and in LNR.
    pub(crate) log: (ScrAddr<u64>, LnrAddr),
    pub(crate) tables: SpecTable,
}

impl Places {
    pub(crate) fn of_area(
        parameters: &[u64; PARAMETERS],
        area: &AreaPlaces,
    ) -> Result<Self, String> {
        Self::new(parameters, area.scr, area.lnr)
    }

    fn new(parameters: &[u64; PARAMETERS], scr: Stretch, lnr: Stretch) -> Result<Self, String> {
        let [homes, partitions, tables, workers, buffer, ..] = *parameters;
        within("hosts", homes, MAX_HOMES.into())?;
        within("partitions", partitions, MAX_PARTITIONS - 1)?;
        within("tables", tables, MAX_TABLES)?;
        within("workers", workers, MAX_WORKERS)?;
        whole_lines("log buffers", buffer)?;
        let shape = Shape {
            homes: homes as u8,
            partitions: partitions as u32,
            tables: tables as u16,
            workers: workers as u16,
            log_buffer_bytes: buffer,
        };
        let homes = HomePlaces { count: shape.homes, failed: ScrAddr::new(scr.start) };
        let log = homes.failed.line(HomePlaces::lines(shape.homes));
        let tables = SpecTable { at: log.line(shape.log().scr_bytes() / LINE_BYTES) };
        let scr_end = tables.at.element(SpecTable::words(shape.tables.into())).offset();
        if scr_end > scr.end() || shape.log().lnr_bytes() > lnr.bytes {
            return Err(format!(
                "there is no room for the logs of {} hosts with {} workers in {} bytes of SCR and \
                 {} of LNR",
                shape.homes, shape.workers, scr.bytes, lnr.bytes
            ));
        }
        Ok(Self { shape, homes, log: (log, LnrAddr::new(lnr.start)), tables })
    }

    /// Writes a database that begins with `first_epoch`. No other host uses the area.
    pub(crate) fn format<M: Memory>(&self, memory: &M, tables: &[TableSpec], first_epoch: u64) {
        self.homes.format(memory);
        let (scr, lnr) = self.log;
        GroupCommit::format(memory, self.shape.log(), scr, lnr, first_epoch);
        self.tables.format(memory, tables);
    }
}
