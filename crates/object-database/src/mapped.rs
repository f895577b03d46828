//! Databases in mapped memory.

use tombolo_database::hosts::SetupError;
use tombolo_host::Host;
use tombolo_memory::Mapped;
use tombolo_pod::{Layout, Pod, PodError, PodSpec, Sizes, create, open};
use tombolo_sharing::{AreaOptions, plan_areas_beside};

use crate::database::{ObjectDatabase, Options};
use crate::layout::{Shape, area_request};

/// The layout of a pod that holds a database of this shape alone.
///
/// # Errors
/// [`PodError::TooSmall`].
pub fn plan(scr_bytes: u64, lnr_bytes: u64, shape: Shape) -> Result<Layout, PodError> {
    let mut objects = AreaOptions::default();
    objects.layout.hosts = Some(shape.homes);
    let own = |budget| shape.plan(budget);
    plan_areas_beside(scr_bytes, lnr_bytes, &[objects], &[area_request(shape, &own)])
}

impl ObjectDatabase<Mapped> {
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
        let host = Host::join(open(spec)?)?;
        Self::join(&host, options).inspect_err(|_| host.leave())
    }
}
