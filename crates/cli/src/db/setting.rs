//! The content of a database, and the workload that runs on it.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tombolo::database::DatabasePlan;
use tombolo_database::hosts::DatabaseShape;
use tombolo_oltp::smallbank::{SmallBank, SmallBankOptions};
use tombolo_oltp::tpcc::{RemoteRates, Scale, Tpcc, TpccAsPublished};
use tombolo_oltp::ycsb::{Ycsb, YcsbOptions};

use super::ledger::Ledgered;
use super::sql::SqlTables;
use super::tables::Tables;
use crate::cli::{Remote, SmallBankScale, TpccScale, YcsbTxnScale};

/// LNR besides shared rows and what the engine takes.
const SPARE_LNR: u64 = 64 << 20;

/// A workload with all that fixes its rows and its transactions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "workload", rename_all = "kebab-case")]
pub(crate) enum Chosen {
    Tpcc {
        warehouses: u32,
        small: bool,
        remote: Option<(u32, u32)>,
        seed: u64,
    },
    TpccAsPublished {
        warehouses: u32,
        small: bool,
        remote: (u32, u32),
        seed: u64,
    },
    Ycsb {
        partitions: u32,
        rows: u32,
        reads: u32,
        cross: u32,
        theta: f64,
        as_published: bool,
        seed: u64,
    },
    SmallBank {
        partitions: u32,
        accounts: u32,
        cross: u32,
        seed: u64,
    },
    /// Tables of a program's own.
    Tables {
        plan: Tables,
    },
    /// Tables that SQL makes while hosts run.
    Sql {
        partitions: u32,
    },
    /// TPC-C at a hundredth of its rows, with a ledger.
    Ledger {
        warehouses: u32,
        hosts: u8,
        life: u32,
        seed: u64,
    },
}

/// A workload that can be run.
pub(crate) enum Built {
    Tpcc(Tpcc),
    TpccAsPublished(TpccAsPublished),
    Ycsb(Ycsb),
    SmallBank(SmallBank),
    Tables(Tables),
    Sql(SqlTables),
    Ledger(Ledgered),
}

/// Evaluates an expression with whatever workload it is.
macro_rules! with_workload {
    ($built:expr, $workload:ident => $body:expr) => {
        match $built {
            $crate::db::setting::Built::Tpcc($workload) => $body,
            $crate::db::setting::Built::TpccAsPublished($workload) => $body,
            $crate::db::setting::Built::Ycsb($workload) => $body,
            $crate::db::setting::Built::SmallBank($workload) => $body,
            $crate::db::setting::Built::Tables($workload) => $body,
            $crate::db::setting::Built::Sql($workload) => $body,
            $crate::db::setting::Built::Ledger($workload) => $body,
        }
    };
}
pub(crate) use with_workload;

fn scale(warehouses: u32, small: bool) -> Scale {
    if small { Scale::small(warehouses) } else { Scale::full(warehouses) }
}

impl Chosen {
    pub(crate) fn tpcc(args: &TpccScale, workers: u32, seed: u64) -> Self {
        let TpccScale { small, .. } = *args;
        let warehouses = args.warehouses.unwrap_or(workers);
        let remote = args.remote.map(|Remote(orders, payments)| (orders, payments));
        if args.as_published {
            let remote = remote.unwrap_or((10, 15));
            return Self::TpccAsPublished { warehouses, small, remote, seed };
        }
        Self::Tpcc { warehouses, small, remote, seed }
    }

    pub(crate) fn ycsb(args: &YcsbTxnScale, hosts: u8, seed: u64) -> Self {
        let YcsbTxnScale { rows, reads, cross, theta, as_published } = *args;
        Self::Ycsb { partitions: hosts.into(), rows, reads, cross, theta, as_published, seed }
    }

    pub(crate) fn smallbank(args: &SmallBankScale, hosts: u8, seed: u64) -> Self {
        let SmallBankScale { accounts, cross } = *args;
        Self::SmallBank { partitions: hosts.into(), accounts, cross, seed }
    }

    pub(crate) fn build(&self) -> Built {
        match *self {
            Self::Tpcc { warehouses, small, remote, seed } => {
                let rates = remote.map_or(RemoteRates::SPECIFICATION, |(orders, payments)| {
                    RemoteRates::of_transactions(orders, payments)
                });
                Built::Tpcc(Tpcc::new(scale(warehouses, small), rates, seed))
            }
            Self::TpccAsPublished { warehouses, small, remote: (orders, payments), seed } => {
                let scale = scale(warehouses, small);
                Built::TpccAsPublished(TpccAsPublished::new(scale, orders, payments, seed))
            }
            Self::Ycsb { partitions, rows, reads, cross, theta, as_published, seed } => {
                let options = YcsbOptions {
                    partitions,
                    rows,
                    reads_percent: reads,
                    cross_percent: cross,
                    theta,
                };
                Built::Ycsb(match as_published {
                    true => Ycsb::as_published(options, seed),
                    false => Ycsb::new(options, seed),
                })
            }
            Self::SmallBank { partitions, accounts, cross, seed } => {
                let hot = SmallBankOptions::new(partitions).hot_accounts.min(accounts);
                Built::SmallBank(SmallBank::new(
                    SmallBankOptions {
                        accounts,
                        hot_accounts: hot,
                        cross_percent: cross,
                        ..SmallBankOptions::new(partitions)
                    },
                    seed,
                ))
            }
            Self::Tables { ref plan } => Built::Tables(plan.clone()),
            Self::Sql { partitions } => Built::Sql(SqlTables { partitions }),
            Self::Ledger { warehouses, life, seed, .. } => {
                Built::Ledger(Ledgered::new(warehouses, life, seed))
            }
        }
    }

    /// The same rows, whatever is done with them: what two workloads on one database have to share.
    pub(crate) fn rows(&self) -> Self {
        let mut rows = self.clone();
        match &mut rows {
            Self::Tpcc { remote, .. } => *remote = None,
            Self::TpccAsPublished { remote, .. } => *remote = (0, 0),
            Self::Ycsb { reads, cross, theta, as_published, .. } => {
                (*reads, *cross, *theta, *as_published) = (0, 0, 0.0, false);
            }
            Self::SmallBank { cross, .. } => *cross = 0,
            Self::Tables { .. } | Self::Sql { .. } => {}
            Self::Ledger { life, .. } => *life = 0,
        }
        rows
    }

    /// Its name in reports. A variant has a name of its own.
    pub(crate) fn title(&self) -> &'static str {
        match self {
            Self::Tpcc { .. } => "TPC-C",
            Self::TpccAsPublished { .. } => "TPC-C as published",
            Self::Ycsb { as_published: false, .. } => "YCSB with transactions",
            Self::Ycsb { as_published: true, .. } => "YCSB with transactions as published",
            Self::SmallBank { .. } => "SmallBank",
            Self::Tables { .. } => "tables of its own",
            Self::Sql { .. } => "tables of SQL",
            Self::Ledger { .. } => "TPC-C with a ledger",
        }
    }

    /// How many rows there are, for people.
    pub(crate) fn size(&self) -> String {
        let scale = |warehouses: u32, small: bool| {
            let rows = if small { ", each with a hundredth of its rows" } else { "" };
            format!("{warehouses} warehouses{rows}")
        };
        match *self {
            Self::Tpcc { warehouses, small, .. } => scale(warehouses, small),
            Self::TpccAsPublished { warehouses, small, .. } => scale(warehouses, small),
            Self::Ycsb { partitions, rows, .. } => {
                format!("{partitions} partitions of {rows} rows")
            }
            Self::SmallBank { partitions, accounts, .. } => {
                format!("{partitions} partitions of {accounts} customers")
            }
            Self::Tables { ref plan } => {
                let DatabasePlan { partitions, catalog, .. } = &plan.0;
                format!("{} tables in {partitions} partitions", catalog.tables().len())
            }
            Self::Sql { partitions } => format!("{partitions} partitions"),
            Self::Ledger { warehouses, .. } => scale(warehouses, true),
        }
    }

    /// The same, and what transactions do.
    pub(crate) fn describe(&self) -> String {
        let what = match *self {
            Self::Tpcc { remote: None, .. } => "remote as specified".to_owned(),
            Self::Tpcc { remote: Some((orders, payments)), .. }
            | Self::TpccAsPublished { remote: (orders, payments), .. } => {
                format!("remote {orders}/{payments}")
            }
            Self::Ycsb { reads, cross, theta, .. } => {
                format!("{reads} % reads, {cross} % cross, skew {theta}")
            }
            Self::SmallBank { cross, .. } => format!("{cross} % cross"),
            Self::Tables { .. } | Self::Sql { .. } => "without transactions".to_owned(),
            Self::Ledger { .. } => "with a ledger".to_owned(),
        };
        format!("{}, {what}", self.size())
    }

    /// Bytes of a worker's log buffer: the most that a transaction can log. Statements of SQL load
    /// whole tables.
    fn log_buffer_bytes(&self) -> u64 {
        match self {
            Self::Sql { .. } => 8 * DatabaseShape::LOG_BUFFER_BYTES,
            _ => DatabaseShape::LOG_BUFFER_BYTES,
        }
    }

    /// LNR that the rows take which other hosts may use.
    fn shared_bytes(&self) -> u64 {
        match *self {
            Self::Tpcc { warehouses, small, .. }
            | Self::TpccAsPublished { warehouses, small, .. } => {
                u64::from(warehouses) * if small { 4 << 20 } else { 128 << 20 }
            }
            Self::Tables { .. } | Self::Sql { .. } => 256 << 20,
            Self::Ledger { warehouses, .. } => u64::from(warehouses) * (16 << 20),
            Self::Ycsb { partitions, rows, .. } => u64::from(partitions) * u64::from(rows) * 1200,
            Self::SmallBank { partitions, accounts, .. } => {
                u64::from(partitions) * u64::from(accounts) * 400
            }
        }
    }
}

/// A database: its rows, and the hosts that it is made for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Setting {
    pub(crate) rows: Chosen,
    pub(crate) hosts: u8,
    pub(crate) workers: u16,
}

impl Setting {
    /// The description of the database that checkpoints record.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        Ok(match &self.rows {
            Chosen::Tables { plan } => plan.0.encode()?,
            _ => serde_json::to_vec(self)?,
        })
    }

    /// Reads the bytes of [`encode`](Self::encode), or those of a program that has created a
    /// database.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        if !DatabasePlan::is_plan(bytes) {
            return Ok(serde_json::from_slice(bytes)?);
        }
        let plan = DatabasePlan::decode(bytes)?;
        let (hosts, workers) = (plan.hosts, plan.workers);
        Ok(Self { rows: Chosen::Tables { plan: Tables(plan) }, hosts, workers })
    }

    /// The hosts, partitions, tables and workers for which the database is made.
    pub(crate) fn shape(&self) -> DatabaseShape {
        with_workload!(&self.rows.build(), workload => {
            use tombolo_oltp::Workload as _;
            DatabaseShape {
                hosts: self.hosts,
                partitions: workload.partitions(),
                tables: workload.tables(),
                workers: self.workers,
                log_buffer_bytes: self.rows.log_buffer_bytes(),
            }
        })
    }

    /// LNR that rows take which hosts share.
    pub(crate) fn row_bytes(&self) -> u64 {
        self.rows.shared_bytes() + SPARE_LNR
    }
}
