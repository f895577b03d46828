//! Pods that hold one database and nothing else.

use std::sync::Arc;

use tombolo_host::Host;
use tombolo_memory::Mapped;
use tombolo_pod::{
    Area, AreaRequest, Budget, Kind, Layout, LogOptions, PARAMETERS, PodError, PodOptions, PodSpec,
    open,
};

/// The layout of a pod for so many hosts that holds a database of this kind and version alone.
/// `plan` makes the parameters of its area.
///
/// # Errors
/// [`PodError::TooSmall`].
pub fn plan_pod(
    (scr_bytes, lnr_bytes): (u64, u64),
    hosts: u8,
    (kind, version): (Kind, u64),
    plan: &dyn Fn(Budget) -> Result<[u64; PARAMETERS], String>,
) -> Result<Layout, PodError> {
    let log = LogOptions { shards: Some(0), ..LogOptions::default() };
    let request = AreaRequest { kind, version, scr_bytes: None, lnr_bytes: None, log, plan };
    let options = PodOptions { hosts: Some(hosts), mail_slots: None };
    Layout::plan(scr_bytes, lnr_bytes, options, &[request])
}

/// Joins a pod as this process's host, and finds the area of its database. Blocks for up to 30
/// seconds while a seat will soon be free.
///
/// # Errors
/// Those of [`open`] and [`Host::join`]; [`PodError::NoArea`].
pub fn join_pod(spec: &PodSpec, kind: Kind) -> Result<(Arc<Host<Mapped>>, Area<Mapped>), PodError> {
    let host = Host::join(open(spec)?)?;
    let area = host.pod().areas().find(|area| area.layout().kind == kind);
    match area {
        Some(area) => Ok((host, area)),
        None => {
            let there = host.pod().areas().map(|area| area.layout().kind.to_string()).collect();
            host.leave();
            Err(PodError::NoArea { kind, there })
        }
    }
}
