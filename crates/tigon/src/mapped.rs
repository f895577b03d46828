//! Databases in mapped memory.

use tombolo_database::hosts::{SetupError, join_pod, plan_pod};
use tombolo_memory::Mapped;
use tombolo_pod::{Layout, Pod, PodError, PodSpec, Sizes, create};

use crate::layout::{KIND, Shape, VERSION};
use crate::tigon::{Options, Tigon};

/// The layout of a pod that holds a database of this shape alone.
///
/// # Errors
/// [`PodError::TooSmall`].
pub fn plan(scr_bytes: u64, lnr_bytes: u64, shape: Shape) -> Result<Layout, PodError> {
    let (sizes, kind) = ((scr_bytes, lnr_bytes), (KIND, VERSION));
    plan_pod(sizes, shape.homes, kind, &|budget| shape.plan(budget))
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
        let (host, area) = join_pod(spec, KIND)?;
        Self::join(&host, area, options)
    }
}
