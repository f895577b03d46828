//! Points of the figures, and how each is measured.

use std::time::Duration;

use anyhow::Result;
use tombolo_oltp::Workload;
use tombolo_oltp::tpcc::{Scale, TpccAsPublished, schema};
use tombolo_oltp::ycsb::{self, Ycsb, YcsbOptions};
use tombolo_tigon::Tigon;
use tombolo_timing::TimedMemory;

use super::TigonSettings;
use super::lab::{Lab, Ran};
use super::subject::{LOG_BUFFER_BYTES, Plan, Subject};

/// Workers of a host, as in the paper.
const WORKERS: u16 = 3;

/// TPC-C's warehouses of a host: one for each worker.
const WAREHOUSES: u32 = 3;

/// Rows of a host under YCSB.
const ROWS: f64 = 300_000.0;

/// SCR of all hosts where nothing else is said, in MiB.
pub(super) const SCR_MIB: u32 = 200;

/// LNR for shared rows, in MiB: more than all rows take.
const LNR_MIB: f64 = 6000.0;

/// The least LNR for shared rows.
const LEAST_LNR_BYTES: u64 = 64 << 20;

/// SCR besides that for shared rows: the log's words, tables of heaps, and chunks that are not
/// full.
const SCR_SPARE_BYTES: u64 = 4 << 20;

/// A database warms up in stretches of this length.
const WARM_UP: Duration = Duration::from_millis(5);

/// It does so until as many rows move out as in, but for this share, or one row of so many
/// transactions moves.
const STEADY: f64 = 0.1;
const FEW_MOVES: u64 = 1000;

/// And for so many stretches at most.
const MOST_WARM_UPS: u32 = 60;

/// How long a point is measured at least.
const MEASURED: Duration = Duration::from_millis(10);

/// Epochs of the figures where nothing else is said, in milliseconds.
pub(super) const EPOCH_MS: u32 = 10;

/// A system that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum System {
    Tigon,
}

impl System {
    pub(super) const ALL: [Self; 1] = [Self::Tigon];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tigon => "Tigon",
        }
    }
}

/// What transactions do, as published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Load {
    /// TPC-C: of 100 New-Orders and of 100 Payments, those that have to do with another warehouse.
    Tpcc { orders: u32, payments: u32 },
    /// YCSB: of 100 operations, those that read; of 100 transactions, those in two partitions.
    Ycsb { reads: u32, cross: u32 },
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    pub(super) system: System,
    pub(super) load: Load,
    pub(super) hosts: u8,
    /// SCR that shared rows of all hosts may take, at full scale.
    pub(super) scr_mib: u32,
    pub(super) epoch_ms: u32,
    /// Whether CUSTOMER and STOCK, or all rows of YCSB, are shared before the run.
    pub(super) starts_shared: bool,
    pub(super) is_logged: bool,
    /// How many times as long an access to SCR takes for which another host has to be asked.
    pub(super) snoop_factor: u32,
    /// For how many epochs it is measured, if they take longer than is usual.
    pub(super) epochs: u32,
}

impl Point {
    /// As published for most figures, on eight hosts.
    pub(super) fn new(load: Load) -> Self {
        Self {
            system: System::Tigon,
            load,
            hosts: 8,
            scr_mib: SCR_MIB,
            epoch_ms: EPOCH_MS,
            starts_shared: true,
            is_logged: true,
            snoop_factor: 1,
            epochs: 1,
        }
    }

    pub(super) fn measure(&self, settings: &TigonSettings) -> Result<Ran> {
        let scaled = |full: u32| (f64::from(full) * settings.scale).round() as u32;
        match self.load {
            Load::Tpcc { orders, payments } => {
                let full = Scale::full(WAREHOUSES * u32::from(self.hosts));
                let scale = Scale {
                    customers: scaled(full.customers).max(30),
                    new_orders: scaled(full.new_orders).max(9),
                    items: scaled(full.items).max(200),
                    ..full
                };
                let workload = TpccAsPublished::new(scale, orders, payments, settings.seed);
                self.run(settings, workload, &[schema::CUSTOMER, schema::STOCK])
            }
            Load::Ycsb { reads, cross } => {
                let options = YcsbOptions {
                    rows: ((ROWS * settings.scale) as u32).max(300),
                    reads_percent: reads,
                    cross_percent: cross,
                    ..YcsbOptions::new(self.hosts.into())
                };
                self.run(settings, Ycsb::as_published(options, settings.seed), &[ycsb::TABLE])
            }
        }
    }

    fn run<W: Workload + 'static>(
        &self,
        settings: &TigonSettings,
        workload: W,
        tables: &[tombolo_database::TableId],
    ) -> Result<Ran>
    where
        W::Worker: 'static,
        W::Input: 'static,
    {
        match self.system {
            System::Tigon => self.run_on::<Tigon<TimedMemory>, W>(settings, workload, tables),
        }
    }

    fn run_on<S: Subject, W: Workload + 'static>(
        &self,
        settings: &TigonSettings,
        workload: W,
        tables: &[tombolo_database::TableId],
    ) -> Result<Ran>
    where
        W::Worker: 'static,
        W::Input: 'static,
    {
        let mut profile = settings.profile.clone().with_caches_of(settings.scale);
        let more = profile.coherence.latency_ns * f64::from(self.snoop_factor - 1);
        profile.coherence.snoop_ns += more;
        let tables = if self.starts_shared { tables } else { &[] };
        let plan = self.plan(settings, &workload);
        let mut lab = Lab::<S, W>::create(profile, &plan, workload, (settings.seed, tables))?;
        for _ in 0..MOST_WARM_UPS {
            let ran = lab.run(WARM_UP, false)?;
            let (moved_in, moved_out) = (ran.shared.moved_in, ran.shared.moved_out);
            let few = moved_in + moved_out <= ran.commits / FEW_MOVES;
            if few || moved_in.abs_diff(moved_out) as f64 <= STEADY * moved_in as f64 {
                break;
            }
        }
        // Without a log nothing asks for the next epoch.
        lab.run(self.measured(), self.is_logged)
    }

    fn measured(&self) -> Duration {
        MEASURED.max(Duration::from_millis((self.epoch_ms * self.epochs).into()))
    }

    fn plan(&self, settings: &TigonSettings, workload: &impl Workload) -> Plan {
        let bytes = |mib: f64| (mib * settings.scale * f64::from(1 << 20)) as u64;
        let (hosts, budget) = (u64::from(self.hosts), bytes(self.scr_mib.into()));
        let buffers = hosts * u64::from(WORKERS) * LOG_BUFFER_BYTES;
        // Rows that come back and nodes that split need some besides.
        let scr_bytes = budget + budget / 2 + SCR_SPARE_BYTES;
        Plan {
            hosts: self.hosts,
            workers: WORKERS,
            partitions: workload.partitions(),
            tables: workload.tables(),
            bytes: (scr_bytes, bytes(LNR_MIB).max(LEAST_LNR_BYTES) + buffers),
            scr_budget: budget / hosts,
            epoch: Duration::from_millis(self.epoch_ms.into()),
            is_logged: self.is_logged,
        }
    }
}

impl Ran {
    /// Thousands of committed transactions a second.
    pub(super) fn thousands(&self) -> f64 {
        self.commits as f64 / self.seconds / 1e3
    }

    /// So many a second.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    /// So many a transaction.
    pub(super) fn each(&self, count: u64) -> f64 {
        count as f64 / (self.commits as f64).max(1.0)
    }
}
