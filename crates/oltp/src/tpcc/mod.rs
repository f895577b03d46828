//! TPC-C, revision 5.11, in two variants that are never called by each other's name.
//!
//! * [`Tpcc`] follows the specification's rules: nine tables, two indexes that are tables of the
//!   engine, five transactions, money in integer cents.
//! * [`TpccAsPublished`] is what the published source of Tigon runs. It says what it leaves out.
//! * [`conditions`] checks clause 3.3.2 on any engine.
//!
//! Choices where the specification leaves one, or where [`Tpcc`] differs from a reportable TPC-C:
//!
//! * Delivery does all ten districts in one database transaction, as clause 2.7 allows, and at once
//!   instead of deferred. It is measured like the others, without the queue and result file.
//! * Kinds of transactions are drawn at random, by weights that are the minimal shares.
//! * A worker serves its warehouses in place of terminals. There is no keying time and no think
//!   time. Stock-Level draws its district for each transaction.
//! * Stock-Level is serializable, too.
//! * HISTORY has a key: district, customer, and the number of the customer's payment.
//! * Dates are logical: 1 at loading, then a count of the worker's transactions.
//! * W_ID counts from 0 in keys and rows, since it is the partition's number.

pub mod conditions;
mod delivery;
mod full;
mod inputs;
mod load;
mod lookup;
mod new_order;
mod order_status;
mod payment;
mod population;
mod published;
pub mod rows;
pub mod schema;
mod stock_level;

pub use full::{RemoteRates, Tpcc, TpccWorker};
pub use inputs::{CustomerRef, Delivery, Input, Line, NewOrder, OrderStatus, Payment, StockLevel};
pub use new_order::Placed;
pub use order_status::Status;
pub use payment::Paid;
pub use population::Scale;
pub use published::{PublishedWorker, TpccAsPublished};
