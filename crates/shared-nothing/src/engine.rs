//! One host of a database: what it asks others for, and how it answers.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tombolo_database::hosts::Homes;
use tombolo_database::log::{GroupCommit, GroupSettings};
use tombolo_database::{Conflict, Engine, Home, TableId, TableSpec, TxError, Version};
use tombolo_memory::lock_api::MutexGuard;
use tombolo_memory::{HostMutex, Memory, Work};

use crate::branch::{Branch, Ground};
use crate::layout::{Places, message_bytes};
use crate::message::{
    DONE, Encode, FAILED, Place, Reader, Request, STRANGE, TOO_LARGE, conflict_of, put_found,
    put_scan_end, status_of,
};
use crate::protocol::{LogicalLeases, Protocol, TwoPhaseLocking};
use crate::queue::{Damaged, Queue, Slot, Taken};
use crate::sites;
use crate::tables::Tables;
use crate::transaction::Tx;

/// How long another host may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How many rounds a thread waits between two looks whether the host it waits for is there.
const ROUNDS_BETWEEN_LOOKS: u32 = 64;

/// How many ghosts one tick looks at.
const SWEPT: usize = 64;

/// DS2PL+: two-phase locking without waiting, and two-phase commit.
pub type Ds2pl<M> = SharedNothing<M, TwoPhaseLocking>;

/// Sundial+: logical leases, and two-phase commit.
pub type Sundial<M> = SharedNothing<M, LogicalLeases>;

/// How a host takes part in a database.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tables, the same on all hosts.
    pub tables: Vec<TableSpec>,
    /// How transactions commit.
    pub commit: GroupSettings,
    /// Whether transactions are logged. Then each host needs a
    /// [logger](tombolo_database::log::Logger) for its [log](SharedNothing::log): transactions wait
    /// when their buffers are full.
    pub is_logged: bool,
    /// The epoch that the database begins with: 1, or what recovery says.
    pub first_epoch: u64,
    /// Whether [`Sundial`] leases gaps as well as rows. Without it, as published, other
    /// transactions may insert rows into what a transaction has found empty. The same on all hosts.
    pub gap_leases: bool,
    /// The time that each request and each reply costs its sender besides: for databases over a
    /// network.
    pub message_cost: Duration,
}

impl Options {
    /// The usual ones, with these tables: no log, no leases of gaps, no network.
    pub fn new(tables: Vec<TableSpec>) -> Self {
        Self {
            tables,
            commit: GroupSettings::default(),
            is_logged: false,
            first_epoch: 1,
            gap_leases: false,
            message_cost: Duration::ZERO,
        }
    }
}

/// Messages that a host has sent since it joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Requests to other hosts.
    pub requests: u64,
    /// Replies to other hosts.
    pub replies: u64,
}

/// A database, as one host runs transactions on it.
pub struct SharedNothing<M: Memory, P: Protocol> {
    pub(crate) homes: Homes<M>,
    pub(crate) tables: Tables<M>,
    group: Arc<GroupCommit<M>>,
    queue: Queue<M>,
    /// For each worker of each host, the branch of its transaction here.
    branches: Vec<HostMutex<M, Branch<M, P>>>,
    /// For each worker of this host, what it has asked others for.
    callers: Vec<HostMutex<M, Caller>>,
    workers: u16,
    pub(crate) message_bytes: usize,
    is_logged: bool,
    pub(crate) gap_leases: bool,
    message_cost: Duration,
    /// Which partition is swept next, in its turn.
    turn: AtomicUsize,
    requests: AtomicU64,
    replies: AtomicU64,
}

/// A worker's correspondence.
pub(crate) struct Caller {
    worker: u16,
    /// The number of its transaction.
    pub(crate) transaction: u32,
    /// For each home, the number of the reply that has not come.
    pending: Vec<Option<u32>>,
    request: Vec<u8>,
    /// The last reply.
    pub(crate) reply: Vec<u8>,
}

impl<M: Memory, P: Protocol> SharedNothing<M, P> {
    pub(crate) fn new(
        homes: Homes<M>,
        places: Places,
        group: Arc<GroupCommit<M>>,
        options: Options,
    ) -> Self {
        let (shape, own) = (places.shape, homes.own());
        let branch = |number| HostMutex::<M, _>::new(Branch::new(group.worker(number)));
        let caller = |worker| {
            HostMutex::<M, _>::new(Caller {
                worker,
                transaction: 0,
                pending: vec![None; usize::from(shape.homes)],
                request: Vec::new(),
                reply: Vec::new(),
            })
        };
        Self {
            queue: Queue::new(homes.memory(), places.queues, own),
            tables: Tables::new(options.tables, shape.partitions, shape.homes, own),
            branches: (0..shape.log().workers).map(branch).collect(),
            callers: (0..shape.workers).map(caller).collect(),
            workers: shape.workers,
            message_bytes: shape.message_bytes as usize,
            is_logged: options.is_logged,
            gap_leases: options.gap_leases && !P::LOCKS_READS,
            message_cost: options.message_cost,
            turn: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            replies: AtomicU64::new(0),
            homes,
            group,
        }
    }

    /// The memory that the database lies in.
    pub fn memory(&self) -> &M {
        self.homes.memory()
    }

    /// Epochs and the log, for this host's [logger](tombolo_database::log::Logger).
    pub fn log(&self) -> &Arc<GroupCommit<M>> {
        &self.group
    }

    /// Messages that this host has sent since it joined.
    pub fn messages(&self) -> MessageCounts {
        MessageCounts {
            requests: self.requests.load(Ordering::Relaxed),
            replies: self.replies.load(Ordering::Relaxed),
        }
    }

    /// Lines of messages that this host has invalidated, and cleaned.
    pub fn flushed_lines(&self) -> (u64, u64) {
        self.queue.flushed_lines()
    }

    pub(crate) fn ground(&self) -> Ground<'_, M> {
        Ground {
            memory: self.memory(),
            group: &self.group,
            is_logged: self.is_logged,
            gap_leases: self.gap_leases,
            tables: &self.tables,
        }
    }

    pub(crate) fn caller(&self, worker: usize) -> MutexGuard<'_, M::RawMutex, Caller> {
        self.callers[worker].lock()
    }

    /// The branch here of a worker's transaction.
    pub(crate) fn branch(
        &self,
        home: u8,
        worker: u16,
    ) -> MutexGuard<'_, M::RawMutex, Branch<M, P>> {
        let number = usize::from(home) * usize::from(self.workers) + usize::from(worker);
        self.branches[number].lock()
    }

    fn charge(&self) {
        if !self.message_cost.is_zero() {
            self.memory().sleep(self.message_cost);
        }
    }

    fn slot(&self, caller: &Caller, home: u8) -> Slot {
        Slot { from: self.homes.own(), worker: caller.worker, to: home }
    }

    /// Sends a request. Before that it waits for the reply to the last one to the same home.
    pub(crate) fn post(
        &self,
        caller: &mut Caller,
        home: u8,
        request: &Request<'_>,
    ) -> Result<(), TxError> {
        if self.memory().keeps(sites::REQUEST_NEXT) {
            self.receive(caller, home)?;
        }
        request.encode(caller.transaction, &mut caller.request);
        self.charge();
        self.requests.fetch_add(1, Ordering::Relaxed);
        let reply = self.queue.send(self.slot(caller, home), &caller.request);
        caller.pending[usize::from(home)] = Some(reply);
        Ok(())
    }

    /// Waits until no reply of a home is missing; the last one is the caller's `reply` then.
    /// Meanwhile this host answers others.
    pub(crate) fn receive(&self, caller: &mut Caller, home: u8) -> Result<(), TxError> {
        let Some(reply) = caller.pending[usize::from(home)] else { return Ok(()) };
        let slot = self.slot(caller, home);
        let (started, mut round) = (self.memory().uptime(), 0);
        while !self.queue.receive(slot, reply, &mut caller.reply).map_err(damaged)? {
            self.serve()?;
            self.homes.wait(&mut round)?;
            if round.is_multiple_of(ROUNDS_BETWEEN_LOOKS) {
                self.check_patience(home, started)?;
            }
        }
        caller.pending[usize::from(home)] = None;
        Ok(())
    }

    fn check_patience(&self, home: u8, started: Duration) -> Result<(), TxError> {
        let host = self.homes.host_of(home).unwrap_or(home);
        if !self.homes.is_there(home) {
            // It may be dead.
            self.homes.look()?;
            return Err(TxError::HostLeft { host });
        }
        let waited = self.memory().uptime().saturating_sub(started);
        if waited > ANSWER_TIMEOUT {
            return Err(TxError::NoAnswer { host, waited_ms: waited.as_millis() as u64 });
        }
        Ok(())
    }

    /// Waits for a reply, and says what it reports.
    pub(crate) fn outcome(&self, caller: &mut Caller, home: u8) -> Result<(), TxError> {
        self.receive(caller, home)?;
        let status = caller.reply.first().copied().unwrap_or(STRANGE);
        match status {
            DONE => Ok(()),
            TOO_LARGE => {
                let most = self.group.layout().buffer_bytes;
                Err(TxError::TooLarge { bytes: most + 1, most })
            }
            FAILED => {
                self.homes.look()?;
                Err(TxError::HostLeft { host: self.homes.host_of(home).unwrap_or(home) })
            }
            _ => Err(conflict_of(status).map_or_else(|| strange(home), TxError::Conflict)),
        }
    }

    /// Answers the requests that there are.
    pub(crate) fn serve(&self) -> Result<(), TxError> {
        for _ in 0..self.branches.len() {
            let branch = |slot: Slot| self.branch(slot.from, slot.worker);
            let taken = self.queue.take(|taken| (taken, branch(taken.slot)));
            let Some((taken, mut branch)) = taken.map_err(damaged)? else { return Ok(()) };
            self.answer(taken, &mut branch);
        }
        Ok(())
    }

    fn answer(&self, taken: Taken, branch: &mut Branch<M, P>) {
        self.memory().works(Work::Message);
        let [mut request, mut reply, row] = std::mem::take(&mut branch.buffers);
        branch.buffers[2] = row;
        self.queue.read(taken, &mut request);
        reply.clear();
        reply.push(DONE);
        let granted = match Request::decode(&request) {
            Some((transaction, request)) => {
                branch.begin(transaction);
                self.grant(branch, request, &mut reply)
            }
            None => Err(STRANGE),
        };
        if let Err(status) = granted {
            reply.clear();
            reply.push(status);
        }
        self.charge();
        self.replies.fetch_add(1, Ordering::Relaxed);
        self.queue.reply(taken, &reply);
        let row = std::mem::take(&mut branch.buffers[2]);
        branch.buffers = [request, reply, row];
    }

    /// Does what is asked for; what was found is appended to `reply`.
    fn grant(
        &self,
        branch: &mut Branch<M, P>,
        request: Request<'_>,
        reply: &mut Vec<u8>,
    ) -> Result<(), u8> {
        let on = self.ground();
        if let Request::Read(place, ..) | Request::Insert(place, _) | Request::Scan(place, _) =
            request
        {
            self.tables.own(place).ok_or(STRANGE)?;
        }
        let mut row = std::mem::take(&mut branch.buffers[2]);
        row.clear();
        let mut granted = Ok(());
        match request {
            Request::Read(place, key, mode) => {
                let found = branch.read(&on, place, &key, mode, &mut row).map_err(status_of);
                granted = found.map(|found| put_found(reply, &found, &row));
            }
            Request::Insert(place, key) => {
                let found = branch.insert(&on, place, &key, &mut row).map_err(status_of);
                granted = found.map(|found| put_found(reply, &found, &row));
            }
            Request::Scan(place, stretch) => {
                let most = self.room_for(place);
                let start = reply.len();
                reply.extend(put_scan_end(Default::default()));
                let used = Cell::new(reply.len());
                let end = branch.scan(
                    &on,
                    place,
                    &stretch,
                    &mut |key, found, row| {
                        reply.key(key);
                        put_found(reply, &found, row);
                        used.set(reply.len());
                    },
                    &|| used.get() <= most,
                );
                granted = end.map_err(status_of).map(|end| {
                    let end = put_scan_end(end);
                    reply[start..start + end.len()].copy_from_slice(&end);
                });
            }
            Request::Stage(changes) => granted = stage(branch, changes),
            Request::Prepare(at, changes) => {
                // Requests of others are not kept waiting for a disk.
                let full = &mut || Err(Conflict::Lock.into());
                granted = stage(branch, changes).and_then(|()| {
                    branch.prepare(&on, at, true, full).map_err(|error| match error {
                        TxError::Conflict(conflict) => status_of(conflict),
                        TxError::TooLarge { .. } => TOO_LARGE,
                        _ => FAILED,
                    })
                });
            }
            Request::Write(epoch, at) => branch.commit(&on, epoch, at),
            Request::Release => branch.release(),
        }
        branch.buffers[2] = row;
        granted
    }

    /// Bytes of a reply up to which another row fits.
    fn room_for(&self, place: Place) -> usize {
        let spec = &self.tables.specs[usize::from(place.table.0)];
        self.message_bytes - message_bytes(spec.row_bytes) as usize
    }
}

/// Notes changes that a request carries.
fn stage<M: Memory, P: Protocol>(branch: &mut Branch<M, P>, changes: &[u8]) -> Result<(), u8> {
    let mut reader = Reader::new(changes);
    while !reader.is_at_end() {
        let change = reader.change().ok_or(STRANGE)?;
        if !branch.stage(change) {
            return Err(STRANGE);
        }
    }
    Ok(())
}

fn damaged(_: Damaged) -> TxError {
    TxError::Failed("a queue of requests names none; the pod's memory is damaged".to_owned())
}

pub(crate) fn strange(home: u8) -> TxError {
    TxError::Failed(format!(
        "host {home} of the database and this one do not understand each other"
    ))
}

impl<M: Memory, P: Protocol> Engine for SharedNothing<M, P> {
    type Transaction<'a> = Tx<'a, M, P>;

    fn tables(&self) -> &[TableSpec] {
        &self.tables.specs
    }

    fn partitions(&self) -> u32 {
        self.tables.partitions()
    }

    fn home(&self) -> (Home, u8) {
        (Home(self.homes.own()), self.homes.count())
    }

    fn home_of(&self, partition: u32) -> Home {
        Home(self.tables.home_of(partition))
    }

    fn begin(&self, worker: usize) -> Tx<'_, M, P> {
        Tx::new(self, worker)
    }

    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        self.tables.load(table, key, Version::default(), row)
    }

    fn tick(&self) -> Result<(), TxError> {
        self.homes.beat()?;
        self.serve()?;
        self.group.tick();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let epoch = self.group.epoch();
        let partition = self.tables.own_in_turn(turn);
        if partition.is_some_and(|partition| partition.sweep(epoch, SWEPT)) {
            self.group.request(epoch);
        }
        Ok(())
    }

    fn end_epoch(&self, epoch: u64) {
        self.group.advance_past(epoch);
    }

    fn durable_epoch(&self) -> u64 {
        self.group.durable_epoch()
    }
}
