//! Engines that are put to the test.

use std::sync::Arc;
use std::time::Duration;

use tombolo_database::log::GroupSettings;
use tombolo_database::{Engine, Partitioning, TableSpec, Transaction, TxError};
use tombolo_host::Host;
use tombolo_pod::{Area, Budget, Kind, PARAMETERS};
use tombolo_shared_nothing::{Protocol, SharedNothing};
use tombolo_simulator::SimMemory;
use tombolo_tigon::{Tigon, Variant};

use super::client::WORDS;

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

/// An engine that is put to the test.
pub(super) trait Tested: Engine + Sized + 'static {
    const AREA: (Kind, u64);

    /// Whether a commit may find a conflict.
    const VALIDATES: bool;

    fn plan(setup: Setup, budget: Budget) -> Result<[u64; PARAMETERS], String>;

    /// Takes part; an error if a host has died meanwhile.
    fn join(
        host: &Arc<Host<SimMemory>>,
        area: Area<SimMemory>,
        setup: Setup,
    ) -> Result<Self, String>;

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
    const AREA: (Kind, u64) = (tombolo_tigon::KIND, tombolo_tigon::VERSION);
    const VALIDATES: bool = false;

    fn plan(setup: Setup, budget: Budget) -> Result<[u64; PARAMETERS], String> {
        let shape = tombolo_tigon::Shape {
            homes: setup.hosts as u8,
            partitions: setup.hosts as u32,
            tables: 1,
            workers: setup.clients as u16,
            log_buffer_bytes: 4 << 10,
        };
        shape.plan(budget)
    }

    fn join(
        host: &Arc<Host<SimMemory>>,
        area: Area<SimMemory>,
        setup: Setup,
    ) -> Result<Self, String> {
        let options = tombolo_tigon::Options {
            scr_budget: Some(setup.budget),
            commit: group(),
            variant: setup.variant,
            ..tombolo_tigon::Options::new(specs())
        };
        Self::join(host, area, options).map_err(|error| error.to_string())
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
    const AREA: (Kind, u64) = (P::KIND, tombolo_shared_nothing::VERSION);
    const VALIDATES: bool = !P::LOCKS_READS;

    fn plan(setup: Setup, budget: Budget) -> Result<[u64; PARAMETERS], String> {
        let shape = tombolo_shared_nothing::Shape {
            homes: setup.hosts as u8,
            partitions: setup.hosts as u32,
            tables: 1,
            workers: setup.clients as u16,
            log_buffer_bytes: 64,
            // Two rows of a scan, if they are short.
            message_bytes: 512,
        };
        shape.plan(budget)
    }

    fn join(
        host: &Arc<Host<SimMemory>>,
        area: Area<SimMemory>,
        setup: Setup,
    ) -> Result<Self, String> {
        let options = tombolo_shared_nothing::Options {
            commit: group(),
            gap_leases: setup.no_phantoms,
            ..tombolo_shared_nothing::Options::new(specs())
        };
        Self::join(host, area, options).map_err(|error| error.to_string())
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

fn specs() -> Vec<TableSpec> {
    vec![TableSpec {
        key_bytes: 8,
        row_bytes: WORDS as u32 * 8,
        partitioning: Partitioning::Leading { per_partition: 1 },
    }]
}
