//! Points of the figures, and how each is measured.

use std::time::Duration;

use anyhow::Result;
use tombolo_object_database::ObjectDatabase;
use tombolo_oltp::Workload;
use tombolo_oltp::tpcc::{Scale, TpccAsPublished, schema};
use tombolo_oltp::ycsb::{self, Ycsb, YcsbOptions};
use tombolo_shared_nothing::{Ds2pl, Sundial};
use tombolo_tigon::{Coherence, Tigon, Variant, Victims};
use tombolo_timing::TimedMemory;

use super::TigonSettings;
use super::charged::{Charged, Steps};
use super::lab::{Lab, Ran};
use super::subject::{BRANCH_BUFFER_BYTES, LOG_BUFFER_BYTES, Plan, Subject};

/// Workers of a host, as in the paper.
const WORKERS: u16 = 3;

/// Workers of a host whose third thread sends and receives messages, as in the paper.
const WORKERS_BESIDE_IO: u16 = 2;

/// The time of a message over a network: half of a round trip of 58 to 71 us over TCP between
/// virtual machines of one computer, as measured with the published source.
const NETWORK: Duration = Duration::from_micros(30);

/// TPC-C's warehouses of a host: one for each worker.
const WAREHOUSES: u32 = 3;

/// Thousand rows of a host under YCSB, where nothing else is said.
pub(super) const ROWS: u32 = 300;

/// SCR of all hosts where nothing else is said, in MiB.
pub(super) const SCR_MIB: u32 = 200;

/// More SCR than all shared rows take.
pub(super) const UNLIMITED_SCR_MIB: u32 = 4096;

/// LNR for shared rows, in MiB: more than all rows take. And for each thousand rows of a host
/// under YCSB, where they are many.
const LNR_MIB: f64 = 6000.0;
const LNR_MIB_OF_ROWS: f64 = 9.0;

/// The least LNR for shared rows.
const LEAST_LNR_BYTES: u64 = 64 << 20;

/// SCR besides that for shared rows: the log's words, tables of heaps, and chunks that are not
/// full.
const SCR_SPARE_BYTES: u64 = 4 << 20;

/// A database warms up in stretches of this length.
const WARM_UP: Duration = Duration::from_millis(5);

/// And in so many stretches where hosts read each other's rows: so that most rows that are read
/// often were read before by all.
const WARM_UPS_OF_READERS: u32 = 4;

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
    Tigon(Variant),
    /// Ours, over objects: no paper has it.
    Objects,
    Sundial(Messages),
    Ds2pl(Messages),
}

/// How hosts of a shared-nothing database send each other messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Messages {
    /// Over a network, by a thread that could be a worker.
    Network,
    /// Through the pod's memory, likewise.
    Pod,
    /// Through the pod's memory, and that thread is a worker.
    PodAndWorker,
}

const fn coherence(coherence: Coherence) -> System {
    System::Tigon(Variant { coherence, ..Variant::USUAL })
}

const fn victims(victims: Victims) -> System {
    System::Tigon(Variant { victims, ..Variant::USUAL })
}

impl System {
    pub(super) const TIGON: Self = Self::Tigon(Variant::USUAL);
    pub(super) const NO_SWCC: Self = coherence(Coherence::Hardware);
    pub(super) const NON_TEMPORAL: Self = coherence(Coherence::Uncached);
    pub(super) const NO_SHARED_READER: Self = coherence(Coherence::OneReader);
    pub(super) const LRU: Self = victims(Victims::LeastRecentlyUsed);
    pub(super) const FIFO: Self = victims(Victims::First);
    pub(super) const NO_SHORTCUTS: Self =
        Self::Tigon(Variant { shortcuts: false, ..Variant::USUAL });
    pub(super) const NO_DIRTY_BIT: Self =
        Self::Tigon(Variant { dirty_bit: false, ..Variant::USUAL });
    pub(super) const NO_NEXT_KEY_LOCKS: Self =
        Self::Tigon(Variant { next_key_locks: false, ..Variant::USUAL });
    pub(super) const SUNDIAL: Self = Self::Sundial(Messages::PodAndWorker);
    pub(super) const DS2PL: Self = Self::Ds2pl(Messages::PodAndWorker);

    /// Those that the paper's figures compare.
    pub(super) const COMPARED: [Self; 3] = [Self::TIGON, Self::SUNDIAL, Self::DS2PL];

    /// Those that figures draw.
    pub(super) const DRAWN: [Self; 4] = [Self::TIGON, Self::SUNDIAL, Self::DS2PL, Self::Objects];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NO_SWCC => "NoSWcc",
            Self::NON_TEMPORAL => "NonTemporal",
            Self::NO_SHARED_READER => "NoSharedReader",
            Self::LRU => "Tigon, LRU",
            Self::FIFO => "Tigon, FIFO",
            Self::NO_SHORTCUTS => "Tigon without shortcuts",
            Self::NO_DIRTY_BIT => "Tigon without dirty bits",
            Self::NO_NEXT_KEY_LOCKS => "Tigon without next-key locks",
            Self::Tigon(_) => "Tigon",
            Self::Objects => "rows as objects",
            Self::Sundial(Messages::Network) => "Sundial-NET",
            Self::Sundial(Messages::Pod) => "Sundial-CXL",
            Self::Sundial(Messages::PodAndWorker) => "Sundial+",
            Self::Ds2pl(Messages::Network) => "DS2PL-NET",
            Self::Ds2pl(Messages::Pod) => "DS2PL-CXL",
            Self::Ds2pl(Messages::PodAndWorker) => "DS2PL+",
        }
    }

    fn messages(self) -> Option<Messages> {
        match self {
            Self::Tigon(_) | Self::Objects => None,
            Self::Sundial(messages) | Self::Ds2pl(messages) => Some(messages),
        }
    }

    fn workers(self) -> u16 {
        match self.messages() {
            None | Some(Messages::PodAndWorker) => WORKERS,
            Some(Messages::Network | Messages::Pod) => WORKERS_BESIDE_IO,
        }
    }
}

/// The transactions of a run, as published.
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
    /// Thousand rows of a host under YCSB, at full scale.
    pub(super) rows: u32,
    /// The skew of YCSB, in hundredths.
    pub(super) theta: u32,
    /// Whether operations take as long as those of the published source.
    pub(super) has_published_steps: bool,
}

impl Point {
    /// As published for most figures, on eight hosts.
    pub(super) fn new(load: Load) -> Self {
        Self {
            system: System::TIGON,
            load,
            hosts: 8,
            scr_mib: SCR_MIB,
            epoch_ms: EPOCH_MS,
            starts_shared: true,
            is_logged: true,
            snoop_factor: 1,
            epochs: 1,
            rows: ROWS,
            theta: 70,
            has_published_steps: true,
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
                    rows: scaled(self.rows * 1000).max(300),
                    reads_percent: reads,
                    cross_percent: cross,
                    theta: f64::from(self.theta) / 100.0,
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
            System::Tigon(_) => self.run_on::<Tigon<TimedMemory>, W>(settings, workload, tables),
            System::Objects => {
                self.run_on::<ObjectDatabase<TimedMemory>, W>(settings, workload, tables)
            }
            System::Sundial(_) => {
                self.run_on::<Sundial<TimedMemory>, W>(settings, workload, tables)
            }
            System::Ds2pl(_) => self.run_on::<Ds2pl<TimedMemory>, W>(settings, workload, tables),
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
        let mut lab =
            Lab::<Charged<S>, W>::create(profile, &plan, workload, (settings.seed, tables))?;
        let reads_others = matches!(self.load, Load::Ycsb { cross, .. } if cross > 0);
        let least = if reads_others { WARM_UPS_OF_READERS } else { 1 };
        for number in 1..=MOST_WARM_UPS {
            let ran = lab.run(WARM_UP, false)?;
            let (moved_in, moved_out) = (ran.shared.moved_in, ran.shared.moved_out);
            let few = moved_in + moved_out <= ran.commits / FEW_MOVES;
            if number < least {
                continue;
            }
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
        let (workers, messages) = (self.system.workers(), self.system.messages());
        let buffer = match messages {
            None => LOG_BUFFER_BYTES,
            Some(_) => hosts * BRANCH_BUFFER_BYTES,
        };
        // Rows that come back and nodes that split need some besides.
        let scr_bytes = budget + budget / 2 + SCR_SPARE_BYTES;
        let lnr_mib = LNR_MIB.max(LNR_MIB_OF_ROWS * f64::from(self.rows));
        let lnr_bytes = bytes(lnr_mib).max(LEAST_LNR_BYTES) + hosts * u64::from(workers) * buffer;
        Plan {
            hosts: self.hosts,
            workers,
            partitions: workload.partitions(),
            tables: workload.tables(),
            bytes: (scr_bytes, lnr_bytes),
            scr_budget: budget / hosts,
            epoch: Duration::from_millis(self.epoch_ms.into()),
            is_logged: self.is_logged,
            variant: match self.system {
                System::Tigon(variant) => variant,
                System::Objects | System::Sundial(_) | System::Ds2pl(_) => Variant::USUAL,
            },
            message_cost: match messages {
                Some(Messages::Network) => NETWORK,
                _ => Duration::ZERO,
            },
            steps: if self.has_published_steps { Steps::PUBLISHED } else { Steps::OURS },
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
