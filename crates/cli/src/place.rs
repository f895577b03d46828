//! Pods that are there for as long as a command runs.

use std::path::PathBuf;

use tombolo::PodSpec;

use crate::files::left_behind;

/// Where a pod is for as long as a command runs. A file that nobody asked for is removed again.
pub(crate) struct Place {
    pub(crate) spec: PodSpec,
    remove: Option<PathBuf>,
}

impl Place {
    /// Files of earlier runs of the same command that were killed.
    pub(crate) fn left_behind(what: &str) -> Vec<PathBuf> {
        let folders = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
        let prefix = format!("tombolo-{what}-");
        folders.iter().flat_map(|folder| left_behind(folder, &prefix)).collect()
    }

    /// The pod that was asked for, or a new one of about `bytes` bytes.
    pub(crate) fn new(given: Option<&PodSpec>, what: &str, bytes: u64) -> Self {
        if let Some(spec) = given {
            return Self { spec: spec.clone(), remove: None };
        }
        let path = folder_for(bytes).join(format!("tombolo-{what}-{}", std::process::id()));
        Self { spec: PodSpec::path(&path), remove: Some(path) }
    }
}

/// Shared memory, or where there is too little of it (a container, say), a folder on disk: slower
/// when memory is short, but as good.
fn folder_for(bytes: u64) -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    let free = rustix::fs::statvfs(&shared).map_or(0, |found| found.f_bavail * found.f_frsize);
    if free > bytes { shared } else { std::env::temp_dir() }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(path) = &self.remove {
            let _ = std::fs::remove_file(path);
        }
    }
}
