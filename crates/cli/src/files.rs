//! `tombolo pod list` and `tombolo pod remove`: pods that are files, and whether anybody uses them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use tombolo::{PodSpec, format_size};
use tombolo_memory::{Backing, MemorySpec};

use crate::cli::{ListArgs, RemoveArgs};
use crate::output::{print, say, table};

#[derive(Serialize)]
struct Found {
    path: PathBuf,
    uuid: String,
    bytes: u64,
    /// Whether a process of this machine has it open.
    in_use: bool,
}

pub(crate) fn list(args: &ListArgs) -> Result<()> {
    let mut found = Vec::new();
    for folder in &args.folders {
        let entries =
            fs::read_dir(folder).with_context(|| format!("cannot look at {}", folder.display()))?;
        found.extend(entries.flatten().filter_map(|entry| pod_at(&entry.path())));
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    print(&found, args.format, |found| {
        let mut rows = table(&["pod", "size", "in use"]);
        for Found { path, bytes, in_use, .. } in found {
            let in_use = if *in_use { "yes" } else { "no" };
            rows.add_row([path.display().to_string(), format_size(*bytes), in_use.to_owned()]);
        }
        format!("{rows}\n")
    })
}

/// The pod in a file; `None` if there is none that can be opened.
fn pod_at(path: &Path) -> Option<Found> {
    let bytes = path.symlink_metadata().ok().filter(fs::Metadata::is_file)?.len();
    let in_use = is_in_use(path)?;
    let pod = tombolo_pod::inspect(&PodSpec::path(path)).ok()?;
    Some(Found { path: path.to_owned(), uuid: pod.identity().uuid.to_string(), bytes, in_use })
}

/// Whether a process of this machine has a file's memory open; `None` if that cannot be told.
fn is_in_use(path: &Path) -> Option<bool> {
    let backing = Backing::open_to_look(&MemorySpec::path(path)).ok()?;
    backing.try_lock_exclusive().ok().map(|alone| !alone)
}

/// Files that commands have made for a pod of their own, and that nobody uses: their commands were
/// killed.
pub(crate) fn left_behind(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    ours.map(|entry| entry.path()).filter(|path| is_in_use(path) == Some(false)).collect()
}

pub(crate) fn remove(args: &RemoveArgs) -> Result<()> {
    // A file that is no pod is not removed.
    drop(tombolo_pod::inspect(&args.spec)?);
    let memories: Vec<&MemorySpec> = [&args.spec.scr].into_iter().chain(&args.spec.lnr).collect();
    let backings = memories.into_iter().map(Backing::open).collect::<Result<Vec<_>, _>>()?;
    for backing in &backings {
        let name = backing.name();
        ensure!(
            backing.file_path().is_some(),
            "{name} is a device, of which nothing can be removed"
        );
        ensure!(
            backing.try_lock_exclusive()?,
            "{name} is in use: hosts of this machine have it open; stop them first"
        );
    }
    for path in backings.iter().filter_map(Backing::file_path) {
        fs::remove_file(path).with_context(|| format!("cannot remove {}", path.display()))?;
        say(format!("removed {}\n", path.display()))?;
    }
    Ok(())
}
