//! Regions of processes.

mod hosts;
