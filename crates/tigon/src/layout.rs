//! Where the parts of a database lie in its area.
//!
//! ```text
//! SCR  failed | epoch | arrivals | a line per home | a line per worker | tables: count, two words each
//!      a root per table and partition | table of SCR's heap | table of LNR's heap | SCR's heap
//! LNR  LNR's heap: shared rows
//! ```

use tombolo_database::{Partitioning, TableSpec};
use tombolo_memory::{LINE_BYTES, Memory, ScrAddr};
use tombolo_pod::{AreaPlaces, Budget, HeapPlaces, Kind, PARAMETERS, Stretch, power_of_two_within};

use crate::key::MAX_KEY_BYTES;
use crate::record::{MAX_HOMES, MAX_LINES};

/// What lives in a database's area.
pub const KIND: Kind = Kind::new("tigon");

/// The version of the area's format.
pub const VERSION: u64 = 1;

/// Tables of a database at most.
pub const MAX_TABLES: u64 = 64;

/// Workers of a host at most.
pub const MAX_WORKERS: u64 = 64;

/// A request names a partition by 16 bits.
const MAX_PARTITIONS: u64 = 1 << 16;
const SPEC_WORDS: u64 = 2;

/// What a database is made for.
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
        let numbers = [
            homes,
            u64::from(self.partitions),
            u64::from(self.tables),
            workers,
            scr_chunk,
            lnr_chunk,
        ];
        parameters[..numbers.len()].copy_from_slice(&numbers);
        Places::new(&parameters, budget.scr, budget.lnr)?;
        Ok(parameters)
    }
}

/// Where everything starts.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub(crate) shape: Shape,
    /// 0, or a host that has died, plus 1.
    pub(crate) failed: ScrAddr<u64>,
    pub(crate) epoch: ScrAddr<u64>,
    /// When the epoch is to end, in nanoseconds of the pod's wall clock.
    pub(crate) arrivals: ScrAddr<u64>,
    homes: ScrAddr<u64>,
    workers: ScrAddr<u64>,
    tables: ScrAddr<u64>,
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
        let [homes, partitions, tables, workers, scr_chunk, lnr_chunk, ..] = *parameters;
        within("hosts", homes, u64::from(MAX_HOMES))?;
        within("partitions", partitions, MAX_PARTITIONS)?;
        within("tables", tables, MAX_TABLES)?;
        within("workers", workers, MAX_WORKERS)?;
        if !(scr_chunk.is_power_of_two() && lnr_chunk.is_power_of_two() && scr_chunk >= LINE_BYTES)
        {
            return Err("the chunks of its heaps are no powers of two".to_owned());
        }
        if lnr.end() / LINE_BYTES > MAX_LINES {
            return Err("a database's shared rows lie in the first 32 GiB of LNR".to_owned());
        }
        let failed = ScrAddr::<u64>::new(scr.start);
        let epoch = failed.line(1);
        let arrivals = epoch.line(1);
        let home_lines = arrivals.line(1);
        let worker_lines = home_lines.line(homes);
        let specs = worker_lines.line(homes * workers);
        let roots = specs.element(1 + tables * SPEC_WORDS);
        let heap_table = roots.element(tables * partitions);
        let lnr_chunks = lnr.bytes / lnr_chunk;
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
            shape: Shape {
                homes: homes as u8,
                partitions: partitions as u32,
                tables: tables as u16,
                workers: workers as u16,
            },
            failed,
            epoch,
            arrivals,
            homes: home_lines,
            workers: worker_lines,
            tables: specs,
            roots,
            scr_heap: HeapPlaces {
                table: scr_table,
                cells: Stretch { start: cells, bytes: scr_chunks * scr_chunk },
                chunk_bytes: scr_chunk,
            },
            lnr_heap: HeapPlaces {
                table: heap_table,
                cells: Stretch { start: lnr.start, bytes: lnr_chunks * lnr_chunk },
                chunk_bytes: lnr_chunk,
            },
        })
    }

    /// The word that says which host has home `home`.
    pub(crate) fn home(&self, home: u8) -> ScrAddr<u64> {
        self.homes.line(u64::from(home))
    }

    /// The word that says in which epoch worker `worker` of `home` has begun its transaction.
    pub(crate) fn worker(&self, home: u8, worker: usize) -> ScrAddr<u64> {
        self.workers.line(u64::from(home) * u64::from(self.shape.workers) + worker as u64)
    }

    /// The words that say in which epochs all workers have begun.
    pub(crate) fn all_workers(&self) -> impl Iterator<Item = ScrAddr<u64>> {
        let count = u64::from(self.shape.homes) * u64::from(self.shape.workers);
        let first = self.workers;
        (0..count).map(move |number| first.line(number))
    }

    /// The root of the shared index of a table's partition.
    pub(crate) fn root(&self, table: u16, partition: u32) -> ScrAddr<u64> {
        let before = u64::from(table) * u64::from(self.shape.partitions);
        self.roots.element(before + u64::from(partition))
    }

    /// Writes a database without rows. No other host uses the area.
    pub(crate) fn format<M: Memory>(&self, memory: &M, tables: &[TableSpec]) {
        let homes = (0..self.shape.homes).map(|home| self.home(home));
        let roots = u64::from(self.shape.tables) * u64::from(self.shape.partitions);
        let roots = (0..roots).map(|number| self.roots.element(number));
        let words = [self.failed, self.arrivals].into_iter().chain(homes).chain(roots);
        words.for_each(|at| memory.store(at, 0));
        memory.store(self.epoch, 1);
        self.all_workers().for_each(|at| memory.store(at, IDLE));
        tombolo_pod::Heap::format(memory, &self.scr_heap);
        tombolo_pod::Heap::format(memory, &self.lnr_heap);
        memory.store(self.tables, tables.len() as u64);
        for (number, table) in (0..).zip(tables) {
            for (word, at) in encode(table).into_iter().zip(0..) {
                memory.store(self.tables.element(1 + number * SPEC_WORDS + at), word);
            }
        }
    }

    /// Whether the database has these tables.
    pub(crate) fn has_tables<M: Memory>(&self, memory: &M, tables: &[TableSpec]) -> bool {
        let word = |number, at| memory.load(self.tables.element(1 + number * SPEC_WORDS + at));
        let same = |(number, table): (u64, &TableSpec)| {
            encode(table) == [word(number, 0), word(number, 1)]
        };
        memory.load(self.tables) == tables.len() as u64 && (0..).zip(tables).all(same)
    }

    /// Whether a database of this shape can have these tables.
    pub(crate) fn check_tables(&self, tables: &[TableSpec]) -> Result<(), String> {
        let most = self.shape.tables;
        if tables.len() > usize::from(most) {
            return Err(format!(
                "{} tables are more than the {most} it was made for",
                tables.len()
            ));
        }
        for (number, table) in tables.iter().enumerate() {
            within(
                &format!("bytes of a key of table {number}"),
                table.key_bytes.into(),
                MAX_KEY_BYTES as u64,
            )?;
            let bytes = crate::row::slot_bytes(table.row_bytes);
            if bytes > self.lnr_heap.chunk_bytes {
                return Err(format!(
                    "rows of table {number} take {bytes} bytes, more than a chunk of {}; give the \
                     database more LNR",
                    self.lnr_heap.chunk_bytes
                ));
            }
        }
        Ok(())
    }
}

/// What the word of a worker says that runs no transaction.
pub(crate) const IDLE: u64 = u64::MAX;

fn within(what: &str, value: u64, most: u64) -> Result<(), String> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{value} {what} are not within 1 to {most}"))
}

fn encode(table: &TableSpec) -> [u64; SPEC_WORDS as usize] {
    let (kind, per_partition) = match table.partitioning {
        Partitioning::Replicated => (0, 0),
        Partitioning::Leading { per_partition } => (1, per_partition),
    };
    let lengths = u64::from(table.key_bytes) << 32 | u64::from(table.row_bytes);
    [kind << 48 | lengths, per_partition.into()]
}
