//! Steps that a model may have to do without: orderings, and the sites of the back end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;

use tombolo_memory::Site;

/// A line of the source with an ordering on it.
pub(crate) type Place = &'static std::panic::Location<'static>;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Ordering(Place),
    Site(Site),
}

// loom runs all threads of a model on the thread that started it.
thread_local! {
    static TAKEN_OUT: Cell<Option<Step>> = const { Cell::new(None) };
    static MET: RefCell<BTreeSet<Place>> = const { RefCell::new(BTreeSet::new()) };
}

/// Runs `what` without `step`.
pub(crate) fn without<R>(step: Step, what: impl FnOnce() -> R) -> R {
    TAKEN_OUT.set(Some(step));
    let result = what();
    TAKEN_OUT.set(None);
    result
}

/// The orderings that were met since the last call.
pub(crate) fn take_met() -> BTreeSet<Place> {
    MET.take()
}

pub(crate) fn keeps_ordering(place: Place) -> bool {
    MET.with_borrow_mut(|met| met.insert(place));
    TAKEN_OUT.get() != Some(Step::Ordering(place))
}

pub(crate) fn keeps_site(site: Site) -> bool {
    TAKEN_OUT.get() != Some(Step::Site(site))
}

impl Step {
    /// A site's name, or the line of the source: by that an ordering is known wherever it moves.
    pub(crate) fn name(self) -> String {
        let place = match self {
            Self::Site(site) => return site.name().to_owned(),
            Self::Ordering(place) => place,
        };
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(place.file());
        let source = std::fs::read_to_string(&path).unwrap_or_default();
        let line = source.lines().nth(place.line() as usize - 1).unwrap_or_default();
        format!("{}: {}", path.file_name().unwrap_or_default().display(), line.trim())
    }
}
