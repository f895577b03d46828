//! Pods that hold regions and nothing else.

use tombolo_memory::Mapped;
use tombolo_pod::{
    AreaRequest, Layout, LogOptions, Pod, PodError, PodOptions, PodSpec, Sizes, create,
};

use crate::{KIND, Shape, VERSION};

/// The layout of a pod for so many hosts that holds regions alone.
///
/// # Errors
/// [`PodError::TooSmall`].
pub fn plan_pod(scr: u64, lnr: u64, hosts: u8, shape: Shape) -> Result<Layout, PodError> {
    let request = AreaRequest {
        kind: KIND,
        version: VERSION,
        scr_bytes: None,
        lnr_bytes: None,
        log: LogOptions { shards: Some(0), ..LogOptions::default() },
        plan: &|budget| shape.plan(budget),
        on_demand: None,
    };
    let options = PodOptions { hosts: Some(hosts), mail_slots: None };
    Layout::plan(scr, lnr, options, &[request])
}

/// Creates a pod for so many hosts that holds regions alone.
///
/// # Errors
/// As of [`tombolo_pod::create`].
pub fn create_pod(
    spec: &PodSpec,
    sizes: Sizes,
    hosts: u8,
    shape: Shape,
) -> Result<Pod<Mapped>, PodError> {
    create(spec, sizes, &|scr, lnr| plan_pod(scr, lnr, hosts, shape))
}
