//! One host of a database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tombolo_database::hosts::Homes;
use tombolo_database::log::{GroupCommit, GroupSettings, Worker};
use tombolo_database::{
    Conflict, Engine, Home, Locks, Mode, OrderedKey, Partitioning, Replica, TableId, TableSpec,
    TxError, Version, key_width,
};
use tombolo_memory::{HostMutex, Memory, Work};
use tombolo_pod::{Mailbox, Reply};

use crate::cat::Cat;
use crate::index::Index;
use crate::partition::{Entry, Inserted, Moved, Partition, Rows};
use crate::request::{Answer, Request, Wish};
use crate::row::{Row, slot_bytes};
use crate::sites;
use crate::transaction::Tx;
use crate::variant::Variant;

/// How long another host may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How many ghosts, and how many shared rows, one tick looks at.
const SWEPT: usize = 64;

/// How a host takes part in a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tables, the same on all hosts.
    pub tables: Vec<TableSpec>,
    /// Bytes of SCR that this host's shared rows may take before some move out; unless given, its
    /// share of all there is.
    pub scr_budget: Option<u64>,
    /// How transactions commit.
    pub commit: GroupSettings,
    /// Whether transactions are logged. Then each host needs a
    /// [logger](tombolo_database::log::Logger) for its [log](Tigon::log): transactions wait when
    /// their buffers are full.
    pub is_logged: bool,
    /// The epoch that the database begins with: 1, or what recovery says.
    pub first_epoch: u64,
    /// The variant of the engine, the same on all hosts.
    pub variant: Variant,
}

impl Options {
    /// The usual ones, with these tables, and without a log.
    pub fn new(tables: Vec<TableSpec>) -> Self {
        let commit = GroupSettings::default();
        Self {
            tables,
            scr_budget: None,
            commit,
            is_logged: false,
            first_epoch: 1,
            variant: Variant::USUAL,
        }
    }
}

/// A database, as one host runs transactions on it.
pub struct Tigon<M: Memory> {
    pub(crate) mailbox: Mailbox<M>,
    pub(crate) cat: Cat<M>,
    /// The log of each worker.
    pub(crate) workers: Vec<HostMutex<M, Worker<M>>>,
    pub(crate) is_logged: bool,
    pub(crate) tables: Vec<Table<M>>,
    specs: Vec<TableSpec>,
    pub(crate) scr_budget: u64,
    /// Which partition is looked at next, in its turn.
    turn: AtomicUsize,
    pub(crate) counters: Counters,
}

/// The counters of a host.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) moved_in: AtomicU64,
    moved_out: AtomicU64,
    requests: AtomicU64,
    replies: AtomicU64,
}

/// The moves of a host's rows so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Rows of this host that it has shared.
    pub moved_in: u64,
    /// Rows of this host that it has taken back.
    pub moved_out: u64,
    /// Requests to other hosts.
    pub requests: u64,
    /// Replies to other hosts.
    pub replies: u64,
    /// Bytes of SCR that its shared rows take now.
    pub scr_bytes: u64,
    /// Bytes of SCR among these that records take. The others are of the index.
    pub scr_record_bytes: u64,
    /// Lines of shared rows that it has invalidated.
    pub invalidated_lines: u64,
    /// Lines of shared rows that it has cleaned.
    pub cleaned_lines: u64,
}

/// A table, as one host has it.
pub(crate) enum Table<M: Memory> {
    /// A copy of the whole table.
    Replicated(Replica<M>),
    /// The partitions, of which some are at home here.
    Partitioned(Vec<Part<M>>),
}

/// A partition of a table.
pub(crate) enum Part<M: Memory> {
    /// At home here.
    Own(Box<Partition<M>>),
    /// At home on another host.
    Others(Index),
}

impl<M: Memory> Table<M> {
    pub(crate) fn new(cat: &Cat<M>, number: u16, spec: &TableSpec) -> Self {
        let width = key_width(spec.key_bytes);
        if spec.partitioning == Partitioning::Replicated {
            return Self::Replicated(Replica::new(width));
        }
        let partition = |partition: u32| {
            let index = Index::new(cat.places().root(number, partition), width);
            if home_of(partition, cat.places().shape.homes) == cat.home {
                Part::Own(Box::new(Partition::new(index, width, slot_bytes(spec.row_bytes))))
            } else {
                Part::Others(index)
            }
        };
        Self::Partitioned((0..cat.places().shape.partitions).map(partition).collect())
    }
}

impl<M: Memory> Table<M> {
    fn parts(&self) -> &[Part<M>] {
        match self {
            Self::Partitioned(parts) => parts,
            Self::Replicated(_) => &[],
        }
    }
}

/// The host at which a partition is at home.
fn home_of(partition: u32, homes: u8) -> u8 {
    (partition % u32::from(homes)) as u8
}

impl<M: Memory> Tigon<M> {
    pub(crate) fn new(cat: Cat<M>, options: Options) -> Self {
        let tables = (0..).zip(&options.tables).map(|(n, spec)| Table::new(&cat, n, spec));
        let share = cat.places().scr_heap.cells.bytes / u64::from(cat.places().shape.homes);
        Self {
            mailbox: {
                let host = cat.homes.host();
                Mailbox::new(cat.homes.area(), host.seat(), host.mail())
            },
            workers: (0..cat.places().shape.workers)
                .map(|worker| HostMutex::<M, _>::new(cat.group.worker(worker)))
                .collect(),
            is_logged: options.is_logged,
            tables: tables.collect(),
            specs: options.tables,
            scr_budget: options.scr_budget.unwrap_or(share),
            turn: AtomicUsize::new(0),
            counters: Counters::default(),
            cat,
        }
    }

    /// The memory that the database lies in.
    pub fn memory(&self) -> &M {
        self.cat.memory()
    }

    /// Epochs and the log, for this host's [logger](tombolo_database::log::Logger).
    pub fn log(&self) -> &Arc<GroupCommit<M>> {
        &self.cat.group
    }

    /// The hosts of the database.
    pub fn homes(&self) -> &Homes<M> {
        &self.cat.homes
    }

    /// This host's moves so far.
    pub fn moves(&self) -> Moves {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (invalidated_lines, cleaned_lines) = self.cat.flushed_lines();
        Moves {
            moved_in: load(&self.counters.moved_in),
            moved_out: load(&self.counters.moved_out),
            requests: load(&self.counters.requests),
            replies: load(&self.counters.replies),
            scr_bytes: self.cat.scr_in_use(),
            scr_record_bytes: self.cat.scr_of_records(),
            invalidated_lines,
            cleaned_lines,
        }
    }

    /// Bytes of SCR that the shared rows of each table take which are at home here. Takes time in
    /// proportion to their number.
    pub fn scr_by_table(&self) -> Vec<u64> {
        let of_table = |table| {
            let parts = Self::own_partitions_of(table);
            parts.map(|(_, partition)| partition.scr_bytes(&self.cat)).sum()
        };
        self.tables.iter().map(of_table).collect()
    }

    /// A table and its words a key.
    pub(crate) fn table(&self, table: TableId) -> Result<(&Table<M>, &TableSpec), TxError> {
        let number = usize::from(table.0);
        let spec = self.specs.get(number).ok_or(TxError::NoTable { table })?;
        Ok((&self.tables[number], spec))
    }

    /// Words of a table's keys.
    pub(crate) fn key_width(&self, table: TableId) -> usize {
        key_width(self.specs[usize::from(table.0)].key_bytes)
    }

    /// Asks the home of a partition to share rows, and waits until it has; whether a ghost was made
    /// that is locked for a reader. Meanwhile this host answers others.
    pub(crate) fn ask(&self, request: Request) -> Result<bool, TxError> {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let home = home_of(request.partition, self.cat.places().shape.homes);
        let Some(host) = self.cat.homes.host_of(home) else {
            return Err(TxError::HostLeft { host: home });
        };
        let (payload, started, mut round) = (request.encode(), self.memory().uptime(), 0);
        let mut wait = || {
            let waited = self.memory().uptime().saturating_sub(started);
            if waited > ANSWER_TIMEOUT {
                return Err(TxError::NoAnswer { host, waited_ms: waited.as_millis() as u64 });
            }
            self.serve()?;
            self.cat.homes.wait(&mut round)
        };
        let mut ticket = loop {
            match self.mailbox.try_post(host, &payload) {
                Some(ticket) => break ticket,
                None => wait()?,
            }
        };
        let answer = loop {
            match ticket.reply() {
                Reply::Waiting => wait()?,
                Reply::Answered(code) => break Answer::decode(code),
                Reply::Gone => {
                    self.cat.homes.look()?;
                    return Err(TxError::HostLeft { host });
                }
            }
        };
        match answer {
            Answer::Done => Ok(false),
            Answer::Locked => Ok(true),
            Answer::Conflict => Err(Conflict::Gap.into()),
            // Rows move out, and what they leave is freed when the transactions of now have ended.
            Answer::NoRoom => Err(Conflict::Moved.into()),
            Answer::Strange => Err(TxError::Failed(format!(
                "host {host} does not know the partition it is home to"
            ))),
            Answer::Failed => {
                self.cat.homes.look()?;
                Err(TxError::HostLeft { host })
            }
        }
    }

    /// Answers the requests of other hosts that there are. Does not block.
    ///
    /// # Errors
    /// That a host has died.
    pub fn serve(&self) -> Result<(), TxError> {
        while let Some(mail) = self.mailbox.next() {
            // Not after the answer: the rows of this request would go before the host that asked
            // for them has come to them, again and again where the budget is smaller than they are.
            self.make_room()?;
            self.memory().works(Work::Message);
            let answer = match Request::decode(&mail.payload) {
                Some(request) => self.grant(&request),
                None => Ok(Answer::Strange),
            };
            let code = answer.as_ref().map_or(Answer::Failed, |&answer| answer);
            self.mailbox.answer(&mail, code as u64);
            self.counters.replies.fetch_add(1, Ordering::Relaxed);
            answer?;
        }
        Ok(())
    }

    fn grant(&self, request: &Request) -> Result<Answer, TxError> {
        let part = match self.tables.get(usize::from(request.table.0)) {
            Some(Table::Partitioned(parts)) => parts.get(request.partition as usize),
            _ => None,
        };
        let Some(Part::Own(partition)) = part else { return Ok(Answer::Strange) };
        let mut rows = partition.rows.lock();
        let mut answer = Answer::Done;
        if let Wish::Ghost(held) = request.wish {
            let held = held.filter(|&(_, at)| rows.is_next(&request.key, at)).map(|(mode, _)| mode);
            let inherits = held.is_some() && self.memory().keeps(sites::GAP_INHERIT);
            let locks = Locks::of(inherits.then_some(Mode::Shared));
            match partition.insert(&self.cat, &mut rows, &request.key, held, locks)? {
                Inserted::GapLocked => return Ok(Answer::Conflict),
                Inserted::Made(_) if inherits => answer = Answer::Locked,
                Inserted::Made(_) | Inserted::Exists => {}
            }
        }
        for (key, row) in wanted(&rows, request) {
            match partition.move_in(&self.cat, &mut rows, &key, &row)? {
                Moved::NoRoom => return Ok(Answer::NoRoom),
                Moved::Done => _ = self.counters.moved_in.fetch_add(1, Ordering::Relaxed),
                Moved::Already | Moved::Stays => {}
            }
        }
        Ok(answer)
    }

    /// Moves rows out as long as this host's take more of SCR than they may. Between two calls they
    /// take more by the rows of one request.
    fn make_room(&self) -> Result<(), TxError> {
        let parts: usize = self.own_partitions().count();
        let mut in_vain = 0;
        while self.cat.scr_in_use() > self.scr_budget && in_vain < parts {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % parts;
            let partition = self.own_partitions().nth(turn);
            let moved =
                partition.map_or(Ok(false), |partition| partition.move_one_out(&self.cat))?;
            self.counters.moved_out.fetch_add(u64::from(moved), Ordering::Relaxed);
            in_vain = if moved { 0 } else { in_vain + 1 };
        }
        Ok(())
    }

    /// The table's partitions that are at home here, and their numbers; none of a replicated table.
    pub(crate) fn own_partitions_of(
        table: &Table<M>,
    ) -> impl Iterator<Item = (u32, &Partition<M>)> {
        (0..).zip(table.parts()).filter_map(|(number, part)| match part {
            Part::Own(partition) => Some((number, &**partition)),
            Part::Others(_) => None,
        })
    }

    fn own_partitions<'a>(&'a self) -> impl Iterator<Item = &'a Partition<M>> {
        let own = |part: &'a Part<M>| match part {
            Part::Own(partition) => Some(&**partition),
            Part::Others(_) => None,
        };
        self.tables.iter().flat_map(Table::parts).filter_map(own)
    }
}

/// The rows that are to be shared.
fn wanted<M: Memory>(rows: &Rows<M>, request: &Request) -> Vec<Entry<M>> {
    let entry = |(key, row): (OrderedKey, &Arc<Row<M>>)| (key, Arc::clone(row));
    let key = &request.key;
    let at = rows.tree.after(key, true).map(entry);
    let is_there = at.as_ref().is_some_and(|(found, _)| found == key);
    let before = |key: &OrderedKey| rows.tree.before(key, false).map(entry);
    match request.wish {
        Wish::One | Wish::Ghost(_) if is_there => at.into_iter().collect(),
        Wish::One | Wish::Ghost(_) => before(key).into_iter().chain(at).collect(),
        Wish::After(count) => {
            let mut found: Vec<_> = at.into_iter().collect();
            extend(&mut found, count + 1, |key| rows.tree.after(key, false).map(entry));
            before(key).into_iter().chain(found).collect()
        }
        Wish::Before(count) => {
            let mut found: Vec<_> = at.into_iter().collect();
            extend(&mut found, count + 1, before);
            found.reverse();
            found
        }
    }
}

/// Adds up to `count` rows, each the `neighbour` of the one before.
fn extend<M: Memory>(
    found: &mut Vec<Entry<M>>,
    count: u32,
    neighbour: impl Fn(&OrderedKey) -> Option<Entry<M>>,
) {
    for _ in 0..count {
        let Some(next) = found.last().and_then(|(last, _)| neighbour(last)) else { return };
        found.push(next);
    }
}

impl<M: Memory> Engine for Tigon<M> {
    type Transaction<'a> = Tx<'a, M>;

    fn tables(&self) -> &[TableSpec] {
        &self.specs
    }

    fn partitions(&self) -> u32 {
        self.cat.places().shape.partitions
    }

    fn home(&self) -> (Home, u8) {
        (Home(self.cat.home), self.cat.places().shape.homes)
    }

    fn home_of(&self, partition: u32) -> Home {
        Home(home_of(partition, self.cat.places().shape.homes))
    }

    fn begin(&self, worker: usize) -> Tx<'_, M> {
        Tx::new(self, worker)
    }

    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.load_version(table, key, Version::default(), row)
    }

    fn tick(&self) -> Result<(), TxError> {
        self.cat.homes.beat()?;
        self.serve()?;
        self.cat.group.tick();
        self.cat.reclaim();
        let parts = self.own_partitions().count();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let partition = self.own_partitions().nth(turn % parts.max(1));
        partition.map_or(Ok(()), |partition| partition.sweep(&self.cat, SWEPT))
    }

    fn end_epoch(&self, epoch: u64) {
        self.cat.group.advance_past(epoch);
    }

    fn durable_epoch(&self) -> u64 {
        self.cat.group.durable_epoch()
    }
}
