//! Databases in mapped memory.

use std::sync::Arc;

use tombolo_host::Host;
use tombolo_memory::Mapped;
use tombolo_pod::{
    AreaRequest, Layout, LogOptions, Pod, PodError, PodOptions, PodSpec, Sizes, create, open,
};

use crate::layout::{KIND, Shape, VERSION};
use crate::member::SetupError;
use crate::tigon::{Options, Tigon};

/// The layout of a pod that holds a database of this shape alone.
///
/// # Errors
/// [`PodError::TooSmall`].
pub fn plan(scr_bytes: u64, lnr_bytes: u64, shape: Shape) -> Result<Layout, PodError> {
    let request = AreaRequest {
        kind: KIND,
        version: VERSION,
        scr_bytes: None,
        lnr_bytes: None,
        log: LogOptions { shards: Some(0), ..LogOptions::default() },
        plan: &|budget| shape.plan(budget),
    };
    let options = PodOptions { hosts: Some(shape.homes), mail_slots: None };
    Layout::plan(scr_bytes, lnr_bytes, options, &[request])
}

impl Tigon<Mapped> {
    /// Creates a pod that holds a database of this shape alone.
    ///
    /// # Errors
    /// As of [`tombolo_pod::create`].
    pub fn create(spec: &PodSpec, sizes: Sizes, shape: Shape) -> Result<Pod<Mapped>, PodError> {
        create(spec, sizes, &|scr, lnr| plan(scr, lnr, shape))
    }

    /// Joins the pod, and takes part in its database, as this process's host. Blocks until all
    /// hosts of the database have come, for up to 30 seconds.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn open(spec: &PodSpec, options: Options) -> Result<Self, SetupError> {
        let host: Arc<Host<Mapped>> = Host::join(open(spec)?)?;
        let Some(area) = host.pod().areas().find(|area| area.layout().kind == KIND) else {
            let there = host.pod().areas().map(|area| area.layout().kind.to_string()).collect();
            return Err(PodError::NoArea { kind: KIND, there }.into());
        };
        Self::join(&host, area, options)
    }
}
