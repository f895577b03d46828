//! The checkers of transactions against named anomalies, against every serial order, against
//! another checker, and on long histories.

mod agreement;
mod anomalies;
mod every_order;
mod generator;
mod published;
mod scale;
