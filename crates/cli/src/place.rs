//! Pods that are there for as long as a command runs.

use std::path::PathBuf;

use tombolo::PodSpec;

/// Where a pod is for as long as a command runs. A file that nobody asked for is removed again.
pub(crate) struct Place {
    pub(crate) spec: PodSpec,
    remove: Option<PathBuf>,
}

impl Place {
    pub(crate) fn new(given: Option<&PodSpec>, what: &str) -> Self {
        if let Some(spec) = given {
            return Self { spec: spec.clone(), remove: None };
        }
        let shared = PathBuf::from("/dev/shm");
        let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
        let path = folder.join(format!("tombolo-{what}-{}", std::process::id()));
        Self { spec: PodSpec::path(&path), remove: Some(path) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(path) = &self.remove {
            let _ = std::fs::remove_file(path);
        }
    }
}
