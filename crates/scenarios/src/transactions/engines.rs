//! Engines that are put to the test.

use std::sync::Arc;
use std::time::Duration;

use tombolo_database::log::GroupSettings;
use tombolo_database::{Engine, Partitioning, TableSpec, Transaction, TxError};
use tombolo_host::Host;
use tombolo_object_database::{ObjectDatabase, area_request};
use tombolo_pod::{Area, AreaRequest, Budget, Kind, Layout, LogOptions, PARAMETERS, PodOptions};
use tombolo_shared_nothing::{Protocol, SharedNothing};
use tombolo_sharing::{AreaOptions, plan_areas_beside};
use tombolo_simulator::{Config, SimMemory};
use tombolo_tigon::{Tigon, Variant};

use super::client::WORDS;
use crate::world;

/// How a database is made and used.
#[derive(Clone, Copy)]
pub(super) struct Setup {
    pub(super) hosts: usize,
    pub(super) clients: usize,
    pub(super) transactions: usize,
    /// Keys of a partition.
    pub(super) keys: u64,
    /// Bytes of SCR that a host's shared rows may take, where rows are shared.
    pub(super) budget: u64,
    /// Whether phantoms are prevented. If not, transactions neither insert nor delete rows.
    pub(super) no_phantoms: bool,
    /// Which Tigon it is, where it is Tigon.
    pub(super) variant: Variant,
}

/// How an engine orders what it commits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// As commits begin.
    Begun,
    /// By logical times, which commits return.
    Logical,
    /// In real time, at some instant of the commit.
    Instant,
}

/// An engine that is put to the test.
pub(super) trait Tested: Engine + Sized + 'static {
    /// Whether a commit may find a conflict.
    const VALIDATES: bool;

    /// How committed transactions are ordered.
    const ORDER: Order;

    /// The layout of its pod.
    fn layout(setup: Setup, config: &Config) -> Layout;

    /// Takes part; an error if a host has died meanwhile.
    fn join(host: &Arc<Host<SimMemory>>, setup: Setup) -> Result<Self, String>;

    /// Waits for all hosts to have loaded their rows.
    fn loaded(&self) -> Result<(), String>;

    fn memory(&self) -> &SimMemory;

    /// Commits: at which logical time, if there is such a time.
    fn commit(tx: Self::Transaction<'_>) -> Result<u64, TxError>;
}

fn group() -> GroupSettings {
    GroupSettings { epoch: Duration::from_micros(1), ..GroupSettings::default() }
}

impl Tested for Tigon<SimMemory> {
    const VALIDATES: bool = false;
    const ORDER: Order = Order::Begun;

    fn layout(setup: Setup, config: &Config) -> Layout {
        let shape = tombolo_tigon::Shape {
            homes: setup.hosts as u8,
            partitions: setup.hosts as u32,
            tables: 1,
            workers: setup.clients as u16,
            log_buffer_bytes: 4 << 10,
        };
        let area = (tombolo_tigon::KIND, tombolo_tigon::VERSION);
        layout(setup, config, area, &|budget| shape.plan(budget))
    }

    fn join(host: &Arc<Host<SimMemory>>, setup: Setup) -> Result<Self, String> {
        let options = tombolo_tigon::Options {
            scr_budget: Some(setup.budget),
            commit: group(),
            variant: setup.variant,
            ..tombolo_tigon::Options::new(specs())
        };
        Self::join(host, only_area(host), options).map_err(|error| error.to_string())
    }

    fn loaded(&self) -> Result<(), String> {
        self.meet(2).map_err(|error| error.to_string())
    }

    fn memory(&self) -> &SimMemory {
        self.memory()
    }

    fn commit(tx: Self::Transaction<'_>) -> Result<u64, TxError> {
        tx.commit().map(|_| 0)
    }
}

impl<P: Protocol> Tested for SharedNothing<SimMemory, P> {
    const VALIDATES: bool = !P::LOCKS_READS;
    const ORDER: Order = if P::LOCKS_READS { Order::Begun } else { Order::Logical };

    fn layout(setup: Setup, config: &Config) -> Layout {
        let shape = tombolo_shared_nothing::Shape {
            homes: setup.hosts as u8,
            partitions: setup.hosts as u32,
            tables: 1,
            workers: setup.clients as u16,
            log_buffer_bytes: 64,
            // Two rows of a scan, if they are short.
            message_bytes: 512,
        };
        let area = (P::KIND, tombolo_shared_nothing::VERSION);
        layout(setup, config, area, &|budget| shape.plan(budget))
    }

    fn join(host: &Arc<Host<SimMemory>>, setup: Setup) -> Result<Self, String> {
        let options = tombolo_shared_nothing::Options {
            commit: group(),
            gap_leases: setup.no_phantoms,
            ..tombolo_shared_nothing::Options::new(specs())
        };
        Self::join(host, only_area(host), options).map_err(|error| error.to_string())
    }

    fn loaded(&self) -> Result<(), String> {
        self.meet(2).map_err(|error| error.to_string())
    }

    fn memory(&self) -> &SimMemory {
        self.memory()
    }

    fn commit(tx: Self::Transaction<'_>) -> Result<u64, TxError> {
        tx.commit_at().map(|(_, at)| at)
    }
}

/// Three keys fill a leaf.
const LEAF_BYTES: usize = 48;

impl Tested for ObjectDatabase<SimMemory> {
    const VALIDATES: bool = true;
    const ORDER: Order = Order::Instant;

    fn layout(setup: Setup, config: &Config) -> Layout {
        let shape = tombolo_object_database::Shape {
            homes: setup.hosts as u8,
            partitions: setup.hosts as u32,
            tables: 1,
            workers: setup.clients as u16,
            log_buffer_bytes: 512,
        };
        let objects = tombolo_sharing::Options {
            hosts: Some(setup.hosts as u8),
            log_shards: Some(1),
            ring_entries: Some(16),
            segment_entries: Some(16),
            chunk_bytes: Some(1 << 10),
            records: Some(64),
            mail_slots: Some(2),
            writes: Some(8),
            ..tombolo_sharing::Options::default()
        };
        let objects = AreaOptions { layout: objects, ..AreaOptions::default() };
        let plan = |budget| shape.plan(budget);
        let own = area_request(shape, &plan);
        plan_areas_beside(config.scr_bytes, config.lnr_bytes, &[objects], &[own]).unwrap()
    }

    fn join(host: &Arc<Host<SimMemory>>, setup: Setup) -> Result<Self, String> {
        assert!(setup.no_phantoms, "there is no such variant");
        Self::join(host, options_of_objects()).map_err(|error| error.to_string())
    }

    fn loaded(&self) -> Result<(), String> {
        self.meet(2).map_err(|error| error.to_string())
    }

    fn memory(&self) -> &SimMemory {
        self.memory()
    }

    fn commit(tx: Self::Transaction<'_>) -> Result<u64, TxError> {
        tx.commit().map(|_| 0)
    }
}

pub(super) fn options_of_objects() -> tombolo_object_database::Options {
    tombolo_object_database::Options {
        commit: group(),
        objects: world::options(),
        leaf_bytes: LEAF_BYTES,
        ..tombolo_object_database::Options::new(specs())
    }
}

/// The layout of a pod with one area.
fn layout(
    setup: Setup,
    config: &Config,
    (kind, version): (Kind, u64),
    plan: &dyn Fn(Budget) -> Result<[u64; PARAMETERS], String>,
) -> Layout {
    let request = AreaRequest {
        kind,
        version,
        scr_bytes: None,
        lnr_bytes: None,
        log: LogOptions { shards: Some(0), ..LogOptions::default() },
        plan,
        on_demand: None,
    };
    let options = PodOptions { hosts: Some(setup.hosts as u8), mail_slots: Some(2) };
    Layout::plan(config.scr_bytes, config.lnr_bytes, options, &[request]).unwrap()
}

fn only_area(host: &Host<SimMemory>) -> Area<SimMemory> {
    host.pod().areas().next().expect("a pod with one area")
}

fn specs() -> Vec<TableSpec> {
    vec![TableSpec {
        key_bytes: 8,
        row_bytes: WORDS as u32 * 8,
        partitioning: Partitioning::Leading { per_partition: 1 },
    }]
}
