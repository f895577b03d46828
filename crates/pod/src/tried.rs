//! Memory that a tool tries: the lines of a pod, or of memory without one, that are kept for that.

use std::sync::Arc;

use tombolo_memory::{Backing, LINE_BYTES, Mapped, MemoryError, Region, Window};

use crate::mapped::{attach, lock_shared};
use crate::qualification::{Qualification, TRIED_LINES, TRIED_WORDS};
use crate::{PodError, PodSpec};

/// Bytes at the start of LNR, or of memory without a pod, up to the record's end.
const HEAD_BYTES: u64 = TRIED_LINES.end * LINE_BYTES;

/// Where a memory is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriedPlace {
    /// In a pod, beside its hosts.
    Pod,
    /// In memory that holds no pod.
    Memory,
}

/// The words and lines of a memory that are kept for trying it, as one host's SCR and LNR. The
/// record's lines are the last ones of LNR. Whatever else is there stays as it is. If this host is
/// to `create` it, a file that is not there, or is empty, gets the room for them; one host does so.
///
/// # Errors
/// [`PodError::CannotTry`] where a pod leaves no room, [`PodError::Memory`],
/// [`PodError::BeingCreated`].
pub fn tried_memory(spec: &PodSpec, create: bool) -> Result<(Mapped, TriedPlace), PodError> {
    let open = |memory| match create {
        true => Backing::open_or_create(memory).map(|(backing, _)| backing),
        false => Backing::open(memory),
    };
    let mut backings = spec.memories().map(open).collect::<Result<Vec<_>, _>>()?;
    backings.iter().try_for_each(|backing| lock_shared(spec, backing))?;
    for backing in &mut backings {
        if create && backing.file_path().is_some() && backing.bytes()? == 0 {
            backing.reserve(HEAD_BYTES)?;
        }
        backing.check_holds(HEAD_BYTES, "name memory of 4 KiB or more")?;
    }
    let (place, words_at, lines_at) = match attach(&backings) {
        Ok(pod) if backings.len() == 1 => {
            let start = pod.layout().scr_bytes;
            (TriedPlace::Pod, start, start)
        }
        Ok(_) => {
            let reason = "a pod in two memories has no free words in the first one; try the memories before the pod is created";
            return Err(PodError::CannotTry { spec: spec.to_string(), reason });
        }
        Err(_) => (TriedPlace::Memory, 0, 0),
    };
    let region = |backing: &Backing, start: u64| -> Result<Arc<Region>, MemoryError> {
        Ok(Arc::new(backing.map(start + HEAD_BYTES)?))
    };
    let words = region(&backings[0], words_at)?;
    let lines = match &backings[..] {
        [_, of_lnr, ..] => region(of_lnr, lines_at)?,
        _ => words.clone(),
    };
    let scr = window(words, words_at, TRIED_WORDS);
    let lnr = window(lines, lines_at, TRIED_LINES);
    Ok((Mapped::new(scr, lnr).with_locks_of(&backings[0], &spec.to_string()), place))
}

fn window(region: Arc<Region>, start: u64, lines: std::ops::Range<u64>) -> Window {
    Window::new(region, start + lines.start * LINE_BYTES, (lines.end - lines.start) * LINE_BYTES)
}

/// The record in memory that holds no pod, if there is one.
pub(crate) fn record(backing: &Backing) -> Result<Option<Qualification>, PodError> {
    if backing.bytes()? < HEAD_BYTES {
        return Ok(None);
    }
    let region = Arc::new(backing.map(HEAD_BYTES)?);
    let nothing = Window::new(region.clone(), 0, 0);
    let memory = Mapped::new(nothing, Window::new(region, 0, HEAD_BYTES));
    Ok(Qualification::of(&memory))
}
