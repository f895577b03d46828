//! The checker against classic anomalies, against two independent oracles, and on long histories.

mod agreement;
mod anomalies;
mod brute_force;
mod generator;
mod published;
mod scale;
mod sequential;
