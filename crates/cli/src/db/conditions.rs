//! Conditions on a workload's rows: each host checks its own rows, and all findings are combined.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tombolo_database::{Engine, TableId, TxError};
use tombolo_oltp::Workload;
use tombolo_oltp::smallbank::{self, SmallBank};
use tombolo_oltp::tpcc::conditions::{
    Part, Rule, StockId, Taken, Violation, When, check_part, combine,
};
use tombolo_oltp::tpcc::schema::{self, CustomerId};
use tombolo_oltp::tpcc::{Scale, Tpcc, TpccAsPublished};
use tombolo_oltp::ycsb::{self, Ycsb};

use super::ledger::Ledgered;

/// A host's findings in the rows that are at home with it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Found {
    violations: Vec<String>,
    /// Customers with the cents by which they differ, which other hosts' payments may explain.
    excess: Vec<(u32, u8, u32, i64)>,
    /// Stocks with what was taken from them, which other hosts' orders may explain.
    stocks: Vec<(u32, u32, [i64; 3])>,
}

impl Found {
    fn of(part: Part, holds: fn(Rule) -> bool) -> Self {
        Self {
            violations: texts(part.violations, holds),
            excess: (part.excess.iter())
                .map(|(id, cents)| (id.warehouse, id.district, id.number, *cents))
                .collect(),
            stocks: (part.stocks.iter())
                .map(|(id, taken)| {
                    let Taken { quantity, orders, remote_orders } = *taken;
                    (id.warehouse, id.item, [quantity, orders, remote_orders])
                })
                .collect(),
        }
    }

    fn part(&self) -> Part {
        Part {
            violations: Vec::new(),
            excess: (self.excess.iter())
                .map(|&(warehouse, district, number, cents)| {
                    (CustomerId { warehouse, district, number }, cents)
                })
                .collect(),
            stocks: (self.stocks.iter())
                .map(|&(warehouse, item, [quantity, orders, remote_orders])| {
                    (StockId { warehouse, item }, Taken { quantity, orders, remote_orders })
                })
                .collect(),
        }
    }
}

fn texts(violations: Vec<Violation>, holds: fn(Rule) -> bool) -> Vec<String> {
    violations.iter().filter(|found| holds(found.rule)).map(Violation::to_string).collect()
}

/// A workload whose rows can be checked.
pub(crate) trait Checked: Workload {
    /// The names of its tables.
    fn table_names(&self) -> Vec<String>;

    /// Tables whose rows are shared before a run, if that is asked for.
    fn shared_tables(&self) -> &'static [TableId];

    /// The checked conditions, for people; `None` if there are none.
    fn conditions(&self) -> Option<&'static str> {
        None
    }

    /// Checks the rows of some partitions.
    ///
    /// # Errors
    /// Those of the engine.
    fn check<E: Engine>(&self, engine: &E, partitions: Vec<u32>) -> Result<Found, TxError>;

    /// All violations, given what all partitions' rows say.
    fn violations(&self, found: &[Found]) -> Vec<String> {
        found.iter().flat_map(|found| found.violations.iter().cloned()).collect()
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn check_tpcc<E: Engine>(
    engine: &E,
    scale: &Scale,
    partitions: Vec<u32>,
    holds: fn(Rule) -> bool,
) -> Result<Found, TxError> {
    check_part(engine, scale, When::Always, partitions).map(|part| Found::of(part, holds))
}

fn all_of_tpcc(found: &[Found], holds: fn(Rule) -> bool) -> Vec<String> {
    let of_hosts = found.iter().flat_map(|found| found.violations.iter().cloned());
    let of_all = texts(combine(found.iter().map(Found::part)), holds);
    of_hosts.chain(of_all).collect()
}

/// Partitions in a range are all there is to check of one engine.
pub(crate) fn all_partitions(partitions: u32) -> Vec<u32> {
    let all: Range<u32> = 0..partitions;
    all.collect()
}

const TPCC_SHARED: &[TableId] = &[schema::CUSTOMER, schema::STOCK];

impl Checked for Tpcc {
    fn table_names(&self) -> Vec<String> {
        owned(&schema::NAMES)
    }

    fn shared_tables(&self) -> &'static [TableId] {
        TPCC_SHARED
    }

    fn conditions(&self) -> Option<&'static str> {
        Some("TPC-C's conditions 1 to 10 and 12, indexes, stocks and numbers of rows")
    }

    fn check<E: Engine>(&self, engine: &E, partitions: Vec<u32>) -> Result<Found, TxError> {
        check_tpcc(engine, self.scale(), partitions, |_| true)
    }

    fn violations(&self, found: &[Found]) -> Vec<String> {
        all_of_tpcc(found, |_| true)
    }
}

impl Checked for TpccAsPublished {
    fn table_names(&self) -> Vec<String> {
        owned(&schema::NAMES)
    }

    fn shared_tables(&self) -> &'static [TableId] {
        TPCC_SHARED
    }

    fn conditions(&self) -> Option<&'static str> {
        Some("of TPC-C's conditions those that it keeps: 1 to 6, stocks and numbers of rows")
    }

    fn check<E: Engine>(&self, engine: &E, partitions: Vec<u32>) -> Result<Found, TxError> {
        check_tpcc(engine, self.scale(), partitions, Self::holds)
    }

    fn violations(&self, found: &[Found]) -> Vec<String> {
        all_of_tpcc(found, Self::holds)
    }
}

impl Checked for Ledgered {
    fn table_names(&self) -> Vec<String> {
        owned(&schema::NAMES).into_iter().chain(owned(&["ledger", "register"])).collect()
    }

    fn shared_tables(&self) -> &'static [TableId] {
        TPCC_SHARED
    }

    fn conditions(&self) -> Option<&'static str> {
        self.tpcc().conditions()
    }

    fn check<E: Engine>(&self, engine: &E, partitions: Vec<u32>) -> Result<Found, TxError> {
        self.tpcc().check(engine, partitions)
    }

    fn violations(&self, found: &[Found]) -> Vec<String> {
        self.tpcc().violations(found)
    }
}

impl Checked for Ycsb {
    fn table_names(&self) -> Vec<String> {
        owned(&["usertable"])
    }

    fn shared_tables(&self) -> &'static [TableId] {
        &[ycsb::TABLE]
    }

    fn check<E: Engine>(&self, _: &E, _: Vec<u32>) -> Result<Found, TxError> {
        Ok(Found::default())
    }
}

impl Checked for SmallBank {
    fn table_names(&self) -> Vec<String> {
        owned(&["account", "savings", "checking"])
    }

    fn shared_tables(&self) -> &'static [TableId] {
        &[smallbank::ACCOUNT, smallbank::SAVINGS, smallbank::CHECKING]
    }

    fn check<E: Engine>(&self, _: &E, _: Vec<u32>) -> Result<Found, TxError> {
        Ok(Found::default())
    }
}
