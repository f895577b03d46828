//! Regions of processes.

mod children;
mod deaths;
mod hosts;
mod litmus;
