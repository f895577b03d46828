//! Where the parts of a database lie in its area.
//!
//! ```text
//! SCR  failed | arrivals | a line per home | queues | the log's words
//!      tables: count, two words each
//! LNR  requests and replies | the log's buffers
//! ```

use tombolo_database::TableSpec;
use tombolo_database::hosts::limits::{check_tables, whole_lines, within};
use tombolo_database::hosts::{HomePlaces, SpecTable};
use tombolo_database::log::{GroupCommit, LogLayout};
use tombolo_memory::{LINE_BYTES, LnrAddr, Memory, ScrAddr};
use tombolo_pod::{AreaPlaces, Budget, PARAMETERS, Stretch};

use crate::message::ITEM_BYTES;
use crate::queue::QueuePlaces;

/// The version of the area's format.
pub const VERSION: u64 = 1;

/// Hosts of a database at most.
pub const MAX_HOMES: u8 = 16;

/// Tables of a database at most.
pub const MAX_TABLES: u64 = 64;

/// Workers of a host at most.
pub const MAX_WORKERS: u64 = 64;

const MAX_PARTITIONS: u64 = 1 << 16;

/// The numbers and sizes that a database is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Hosts, each of which is home to some partitions.
    pub homes: u8,
    /// Partitions of each table.
    pub partitions: u32,
    /// Tables at most.
    pub tables: u16,
    /// Threads of a host that run transactions.
    pub workers: u16,
    /// Bytes of a log buffer, a multiple of a line: the most that a transaction can log at one
    /// home. Each home has one for each worker of each host.
    pub log_buffer_bytes: u64,
    /// Bytes of a request or a reply, a multiple of a line. Each worker has room for one of both
    /// for each host.
    pub message_bytes: u64,
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
            self.message_bytes,
        ];
        parameters[..numbers.len()].copy_from_slice(&numbers);
        Places::new(&parameters, budget.scr, budget.lnr)?;
        Ok(parameters)
    }

    /// Bytes of SCR and of LNR that such a database takes.
    pub fn bytes(self) -> (u64, u64) {
        let queues = self.queues(0, 0);
        let lines = HomePlaces::lines(self.homes) + specs_lines(self.tables.into());
        let scr = lines * LINE_BYTES + queues.scr_bytes() + self.log().scr_bytes();
        (scr, queues.lnr_bytes() + self.log().lnr_bytes())
    }

    pub(crate) fn log(self) -> LogLayout {
        // Branches of one home are logged apart, whichever worker they are of.
        let workers = u16::from(self.homes) * self.workers;
        LogLayout { hosts: self.homes, workers, buffer_bytes: self.log_buffer_bytes }
    }

    fn queues(self, scr: u64, lnr: u64) -> QueuePlaces {
        QueuePlaces {
            hosts: self.homes,
            workers: self.workers,
            message_bytes: self.message_bytes,
            scr: ScrAddr::new(scr),
            lnr: LnrAddr::new(lnr),
        }
    }
}

fn specs_lines(tables: u64) -> u64 {
    (SpecTable::words(tables) * 8).div_ceil(LINE_BYTES)
}

/// Where everything starts.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub(crate) shape: Shape,
    pub(crate) homes: HomePlaces,
    pub(crate) queues: QueuePlaces,
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
        let [homes, partitions, tables, workers, log_buffer, message, ..] = *parameters;
        within("hosts", homes, u64::from(MAX_HOMES))?;
        within("partitions", partitions, MAX_PARTITIONS)?;
        within("tables", tables, MAX_TABLES)?;
        within("workers", workers, MAX_WORKERS)?;
        whole_lines("log buffers", log_buffer)?;
        whole_lines("messages", message)?;
        let shape = Shape {
            homes: homes as u8,
            partitions: partitions as u32,
            tables: tables as u16,
            workers: workers as u16,
            log_buffer_bytes: log_buffer,
            message_bytes: message,
        };
        let needed = shape.bytes();
        for (region, has, needs) in [("SCR", scr.bytes, needed.0), ("LNR", lnr.bytes, needed.1)] {
            if has < needs {
                return Err(format!("{region} of {has} bytes is less than the {needs} it takes"));
            }
        }
        let homes = HomePlaces { count: shape.homes, failed: ScrAddr::new(scr.start) };
        let after_homes = scr.start + HomePlaces::lines(shape.homes) * LINE_BYTES;
        let queues = shape.queues(after_homes, lnr.start);
        let log = after_homes + queues.scr_bytes();
        Ok(Self {
            shape,
            homes,
            queues,
            log: (ScrAddr::new(log), LnrAddr::new(lnr.start + queues.lnr_bytes())),
            tables: SpecTable { at: ScrAddr::new(log + shape.log().scr_bytes()) },
        })
    }

    /// Writes a database without rows, which begins with `first_epoch`. No other host uses the
    /// area.
    pub(crate) fn format<M: Memory>(&self, memory: &M, tables: &[TableSpec], first_epoch: u64) {
        self.homes.format(memory);
        self.queues.format(memory);
        let (scr, lnr) = self.log;
        GroupCommit::format(memory, self.shape.log(), scr, lnr, first_epoch);
        self.tables.format(memory, tables);
    }

    /// Whether a database of this shape can have these tables.
    pub(crate) fn check_tables(&self, tables: &[TableSpec]) -> Result<(), String> {
        check_tables(tables, self.shape.tables)?;
        for (number, table) in tables.iter().enumerate() {
            let (bytes, most) = (message_bytes(table.row_bytes), self.shape.message_bytes);
            if bytes > most {
                return Err(format!(
                    "rows of table {number} take messages of {bytes} bytes, more than the {most} \
                     it was made for"
                ));
            }
        }
        Ok(())
    }
}

/// Bytes of a message that carries one row, with its own head.
pub(crate) fn message_bytes(row_bytes: u32) -> u64 {
    (2 * ITEM_BYTES) as u64 + u64::from(row_bytes)
}
