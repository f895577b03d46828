//! Pods that hold one database and nothing else.

use std::sync::Arc;

use tombolo_host::Host;
use tombolo_memory::Mapped;
use tombolo_pod::{
    Area, AreaRequest, Budget, Kind, Layout, LogOptions, PARAMETERS, Pod, PodError, PodOptions,
    PodSpec, Sizes, inspect, open,
};

use super::{DatabaseShape, PodEngine, SetupError};

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
    let request =
        AreaRequest { kind, version, scr_bytes: None, lnr_bytes: None, log, plan, on_demand: None };
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

/// Creates the pod of a database. A pod that is there is overwritten if it holds a database of one
/// of these kinds, and no host uses it. Without a size, LNR has what the engine takes, and as much
/// again for shared rows as `row_bytes` says.
///
/// # Errors
/// [`SetupError::Unusable`] if there is a pod of something else; those of
/// [`PodEngine::create_pod`].
pub fn recreate_pod<E: PodEngine>(
    spec: &PodSpec,
    (scr_bytes, lnr_bytes, row_bytes): (u64, Option<u64>, u64),
    shape: &DatabaseShape,
    replaceable: &[Kind],
) -> Result<Pod<Mapped>, SetupError> {
    let lnr_bytes = lnr_bytes.unwrap_or_else(|| E::lnr_bytes(shape) + row_bytes);
    let force = match inspect(spec) {
        Ok(pod) => {
            let kinds: Vec<Kind> = pod.areas().map(|area| area.layout().kind).collect();
            if !kinds.iter().any(|kind| replaceable.contains(kind)) {
                let what = format!("{spec} is the pod of something else; give another one");
                return Err(SetupError::Unusable(what));
            }
            true
        }
        Err(_) => false,
    };
    let sizes =
        Sizes { scr_bytes: Some(scr_bytes), lnr_bytes: Some(lnr_bytes), force, sparse: false };
    Ok(E::create_pod(spec, sizes, shape)?)
}
