//! Where the parts of a database lie in its area.
//!
//! ```text
//! SCR  failed | arrivals | a line per home | the log's words | tables: count, two words each
//!      per table and partition: a root, and a list of shared rows by use
//!      table of LNR's heap | table of SCR's heap | SCR's heap
//! LNR  the log's buffers | LNR's heap: shared rows
//! ```

use tombolo_database::TableSpec;
use tombolo_database::hosts::limits::{check_tables, whole_lines, within};
use tombolo_database::hosts::{HomePlaces, SpecTable};
use tombolo_database::log::{GroupCommit, LogLayout};
use tombolo_memory::{LINE_BYTES, LnrAddr, Memory, ScrAddr};
use tombolo_pod::{AreaPlaces, Budget, HeapPlaces, Kind, PARAMETERS, Stretch, power_of_two_within};

use crate::record::{MAX_HOMES, MAX_LINES};
use crate::usage::LIST_WORDS;
use crate::variant::{Coherence, Variant};

/// The kind of a database's area.
pub const KIND: Kind = Kind::new("tigon");

/// The version of the area's format.
pub const VERSION: u64 = 2;

/// Tables of a database at most.
pub const MAX_TABLES: u64 = 64;

/// Workers of a host at most.
pub const MAX_WORKERS: u64 = 64;

/// Words of SCR for each table and partition.
const ROOT_WORDS: u64 = 1 + LIST_WORDS;

/// A request names a partition by 16 bits.
const MAX_PARTITIONS: u64 = 1 << 16;

/// The sizes that a database is made for.
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
        let homes = u64::from(self.homes).max(1);
        let scr_chunk = power_of_two_within(budget.scr.bytes / homes / 32, 1 << 10, 16 << 10);
        let lnr_chunk = power_of_two_within(budget.lnr.bytes / homes / 32, 1 << 10, 1 << 20);
        let (homes, workers) = (u64::from(self.homes), u64::from(self.workers));
        let buffer = self.log_buffer_bytes;
        let (partitions, tables) = (u64::from(self.partitions), u64::from(self.tables));
        let numbers = [homes, partitions, tables, workers, scr_chunk, lnr_chunk, buffer];
        parameters[..numbers.len()].copy_from_slice(&numbers);
        Places::new(&parameters, budget.scr, budget.lnr)?;
        Ok(parameters)
    }
}

impl Shape {
    pub(crate) fn log(self) -> LogLayout {
        LogLayout { hosts: self.homes, workers: self.workers, buffer_bytes: self.log_buffer_bytes }
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
    roots: ScrAddr<u64>,
    pub(crate) scr_heap: HeapPlaces,
    pub(crate) lnr_heap: HeapPlaces,
}

impl Places {
    pub(crate) fn of_area(
        parameters: &[u64; PARAMETERS],
        area: &AreaPlaces,
    ) -> Result<Self, String> {
        Self::new(parameters, area.scr, area.lnr)
    }

    fn new(parameters: &[u64; PARAMETERS], scr: Stretch, lnr: Stretch) -> Result<Self, String> {
        let [homes, partitions, tables, workers, scr_chunk, lnr_chunk, buffer, ..] = *parameters;
        within("hosts", homes, u64::from(MAX_HOMES))?;
        within("partitions", partitions, MAX_PARTITIONS)?;
        within("tables", tables, MAX_TABLES)?;
        within("workers", workers, MAX_WORKERS)?;
        if !(scr_chunk.is_power_of_two() && lnr_chunk.is_power_of_two() && scr_chunk >= LINE_BYTES)
        {
            return Err("the chunks of its heaps are no powers of two".to_owned());
        }
        whole_lines("log buffers", buffer)?;
        if lnr.end() / LINE_BYTES > MAX_LINES {
            return Err("a database's shared rows lie in the first 32 GiB of LNR".to_owned());
        }
        let shape = Shape {
            homes: homes as u8,
            partitions: partitions as u32,
            tables: tables as u16,
            workers: workers as u16,
            log_buffer_bytes: buffer,
        };
        let home_places = HomePlaces { count: shape.homes, failed: ScrAddr::new(scr.start) };
        let after_homes = home_places.failed.line(HomePlaces::lines(shape.homes));
        let log = (after_homes, LnrAddr::new(lnr.start));
        let specs = log.0.line(shape.log().scr_bytes() / LINE_BYTES);
        let rows_start = lnr.start + shape.log().lnr_bytes();
        let rows_bytes = lnr.end().saturating_sub(rows_start);
        let roots = specs.element(SpecTable::words(tables));
        let heap_table = roots.element(tables * partitions * ROOT_WORDS);
        let lnr_chunks = rows_bytes / lnr_chunk;
        let scr_table = heap_table.element(lnr_chunks);
        let too_small = || format!("SCR of {} bytes has no room for shared rows", scr.bytes);
        let rest = scr.end().checked_sub(scr_table.offset()).ok_or_else(too_small)?;
        let scr_chunks = rest.saturating_sub(LINE_BYTES) / (scr_chunk + 8);
        let cells = scr_table.element(scr_chunks).offset().next_multiple_of(LINE_BYTES);
        if scr_chunks < homes {
            return Err(too_small());
        }
        if lnr_chunks < homes {
            return Err(format!("LNR of {} bytes has no room for shared rows", lnr.bytes));
        }
        Ok(Self {
            shape,
            homes: home_places,
            log,
            tables: SpecTable { at: specs },
            roots,
            scr_heap: HeapPlaces {
                table: scr_table,
                cells: Stretch { start: cells, bytes: scr_chunks * scr_chunk },
                chunk_bytes: scr_chunk,
            },
            lnr_heap: HeapPlaces {
                table: heap_table,
                cells: Stretch { start: rows_start, bytes: lnr_chunks * lnr_chunk },
                chunk_bytes: lnr_chunk,
            },
        })
    }

    /// The root of the shared index of a table's partition, and behind it the list of its shared
    /// rows by use.
    pub(crate) fn root(&self, table: u16, partition: u32) -> ScrAddr<u64> {
        let before = u64::from(table) * u64::from(self.shape.partitions);
        self.roots.element((before + u64::from(partition)) * ROOT_WORDS)
    }

    /// Writes a database without rows, which begins with `first_epoch`. No other host uses the
    /// area.
    pub(crate) fn format<M: Memory>(&self, memory: &M, tables: &[TableSpec], first_epoch: u64) {
        self.homes.format(memory);
        let roots = u64::from(self.shape.tables) * u64::from(self.shape.partitions) * ROOT_WORDS;
        (0..roots).for_each(|number| memory.store(self.roots.element(number), 0));
        let (scr, lnr) = self.log;
        GroupCommit::format(memory, self.shape.log(), scr, lnr, first_epoch);
        tombolo_pod::Heap::format(memory, &self.scr_heap);
        tombolo_pod::Heap::format(memory, &self.lnr_heap);
        self.tables.format(memory, tables);
    }

    /// Whether a database of this shape can have these tables.
    pub(crate) fn check_tables(
        &self,
        tables: &[TableSpec],
        variant: Variant,
    ) -> Result<(), String> {
        let (chunk, memory) = match variant.coherence {
            Coherence::Hardware => (self.scr_heap.chunk_bytes, "SCR"),
            _ => (self.lnr_heap.chunk_bytes, "LNR"),
        };
        check_tables(tables, self.shape.tables)?;
        for (number, table) in tables.iter().enumerate() {
            let bytes = crate::row::slot_bytes(table.row_bytes);
            if bytes > chunk {
                return Err(format!(
                    "rows of table {number} take {bytes} bytes, more than a chunk of {chunk}; give the \
                     database more {memory}"
                ));
            }
        }
        Ok(())
    }
}
