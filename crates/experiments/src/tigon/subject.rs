//! Engines as a lab runs them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tombolo_database::log::{GroupCommit, GroupSettings};
use tombolo_database::{Engine, TableId, TableSpec, TxError};
use tombolo_host::Host;
use tombolo_memory::LINE_BYTES;
use tombolo_object_database::ObjectDatabase;
use tombolo_pod::{Area, Kind, Layout, Pod};
use tombolo_shared_nothing::{Protocol, SharedNothing};
use tombolo_tigon::{KIND, Options, Shape, Tigon, Variant};
use tombolo_timing::TimedMemory;

use super::charged::Steps;

/// Bytes of each worker's log buffer, as in the paper.
pub(super) const LOG_BUFFER_BYTES: u64 = 4 << 20;

/// Bytes of the log buffer that each host of a shared-nothing database has for each worker of all
/// hosts.
pub(super) const BRANCH_BUFFER_BYTES: u64 = 1 << 20;

/// Bytes of a message of a shared-nothing database: of all that a transaction of the workloads
/// changes at one host.
const MESSAGE_BYTES: u64 = 16 << 10;

/// The needs that a database is made for.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) hosts: u8,
    pub(super) workers: u16,
    pub(super) partitions: u32,
    pub(super) tables: Vec<TableSpec>,
    /// Bytes of SCR and of LNR.
    pub(super) bytes: (u64, u64),
    /// Bytes of SCR that a host's shared rows may take.
    pub(super) scr_budget: u64,
    pub(super) epoch: Duration,
    pub(super) is_logged: bool,
    /// Which Tigon it is, if it is Tigon.
    pub(super) variant: Variant,
    /// The time that a message costs its sender, if hosts send messages over a network.
    pub(super) message_cost: Duration,
    /// The further time of each operation.
    pub(super) steps: Steps,
}

impl Plan {
    fn commit(&self) -> GroupSettings {
        GroupSettings { epoch: self.epoch, ..GroupSettings::default() }
    }
}

/// The counters of a database's hosts, and the memory that they hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shared {
    /// Rows that have moved in.
    pub(super) moved_in: u64,
    /// Rows that have moved out.
    pub(super) moved_out: u64,
    /// Messages to other hosts and back.
    pub(super) messages: u64,
    /// Bytes of SCR that shared rows take.
    pub(super) scr_bytes: u64,
}

/// An engine on a pod of its own in virtual time.
pub(super) trait Subject: Engine + Sized + 'static {
    /// The layout of the pod.
    fn layout(plan: &Plan) -> Result<Layout>;

    /// Joins the pod as a host. Blocks until all hosts have come.
    fn join(memory: TimedMemory, plan: &Plan) -> Result<Self>;

    /// Its epochs and its log.
    fn group(&self) -> &Arc<GroupCommit<TimedMemory>>;

    /// Shares the rows of a table, before the first transaction, as far as the engine shares rows.
    fn share(&self, table: TableId) -> Result<(), TxError>;

    /// This host's counters so far.
    fn shared(&self) -> Shared;
}

/// A host, and the area of the pod's database.
fn area(memory: TimedMemory, kind: Kind) -> Result<(Arc<Host<TimedMemory>>, Area<TimedMemory>)> {
    let host = Host::join(Pod::open(memory)?)?;
    let area = host.pod().areas().find(|area| area.layout().kind == kind);
    Ok((host, area.context("the pod has no database")?))
}

impl Subject for Tigon<TimedMemory> {
    fn layout(plan: &Plan) -> Result<Layout> {
        let shape = Shape {
            homes: plan.hosts,
            partitions: plan.partitions,
            tables: plan.tables.len() as u16,
            workers: plan.workers,
            log_buffer_bytes: LOG_BUFFER_BYTES.next_multiple_of(LINE_BYTES),
        };
        let (scr_bytes, lnr_bytes) = plan.bytes;
        Ok(tombolo_tigon::plan(scr_bytes, lnr_bytes, shape)?)
    }

    fn join(memory: TimedMemory, plan: &Plan) -> Result<Self> {
        let (host, area) = area(memory, KIND)?;
        let options = Options {
            scr_budget: Some(plan.scr_budget),
            commit: plan.commit(),
            is_logged: plan.is_logged,
            variant: plan.variant,
            ..Options::new(plan.tables.clone())
        };
        Ok(Self::join(&host, area, options)?)
    }

    fn group(&self) -> &Arc<GroupCommit<TimedMemory>> {
        self.log()
    }

    fn share(&self, table: TableId) -> Result<(), TxError> {
        // As far as there is room.
        match self.share_table(table) {
            Ok(_) | Err(TxError::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn shared(&self) -> Shared {
        let moves = self.moves();
        Shared {
            moved_in: moves.moved_in,
            moved_out: moves.moved_out,
            // A request, and its answer.
            messages: 2 * moves.requests,
            scr_bytes: moves.scr_bytes,
        }
    }
}

impl Subject for ObjectDatabase<TimedMemory> {
    /// Records of written objects get no more SCR than shared rows of other systems.
    fn layout(plan: &Plan) -> Result<Layout> {
        let shape = tombolo_object_database::Shape {
            homes: plan.hosts,
            partitions: plan.partitions,
            tables: plan.tables.len() as u16,
            workers: plan.workers,
            log_buffer_bytes: LOG_BUFFER_BYTES.next_multiple_of(LINE_BYTES),
        };
        let (scr_bytes, lnr_bytes) = plan.bytes;
        Ok(tombolo_object_database::plan(scr_bytes, lnr_bytes, shape)?)
    }

    fn join(memory: TimedMemory, plan: &Plan) -> Result<Self> {
        let host = Host::join(Pod::open(memory)?)?;
        let options = tombolo_object_database::Options {
            commit: plan.commit(),
            is_logged: plan.is_logged,
            ..tombolo_object_database::Options::new(plan.tables.clone())
        };
        Ok(Self::join(&host, options)?)
    }

    fn group(&self) -> &Arc<GroupCommit<TimedMemory>> {
        self.log()
    }

    /// All rows are there for all hosts.
    fn share(&self, _: TableId) -> Result<(), TxError> {
        Ok(())
    }

    fn shared(&self) -> Shared {
        let usage = self.objects().usage();
        // Of all hosts, and each of them counts all.
        let scr_bytes = usage.scr_used_bytes / u64::from(self.home().1);
        Shared { scr_bytes, ..Shared::default() }
    }
}

impl<P: Protocol> Subject for SharedNothing<TimedMemory, P> {
    fn layout(plan: &Plan) -> Result<Layout> {
        let shape = tombolo_shared_nothing::Shape {
            homes: plan.hosts,
            partitions: plan.partitions,
            tables: plan.tables.len() as u16,
            workers: plan.workers,
            log_buffer_bytes: BRANCH_BUFFER_BYTES,
            message_bytes: MESSAGE_BYTES,
        };
        let (scr_bytes, lnr_bytes) = plan.bytes;
        Ok(tombolo_shared_nothing::plan::<P>(scr_bytes, lnr_bytes, shape)?)
    }

    fn join(memory: TimedMemory, plan: &Plan) -> Result<Self> {
        let (host, area) = area(memory, P::KIND)?;
        let options = tombolo_shared_nothing::Options {
            commit: plan.commit(),
            is_logged: plan.is_logged,
            message_cost: plan.message_cost,
            ..tombolo_shared_nothing::Options::new(plan.tables.clone())
        };
        Ok(Self::join(&host, area, options)?)
    }

    fn group(&self) -> &Arc<GroupCommit<TimedMemory>> {
        self.log()
    }

    /// Rows stay at home.
    fn share(&self, _: TableId) -> Result<(), TxError> {
        Ok(())
    }

    fn shared(&self) -> Shared {
        let messages = self.messages();
        Shared { messages: messages.requests + messages.replies, ..Shared::default() }
    }
}
