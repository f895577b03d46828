//! The face for programs in Python: the store of a pod.
//!
//! Invariants:
//! * No pointer of Python's is followed outside `border`.
//! * The interpreter is let go of while values are copied, and no lock is held then.
//! * Bytes that are shown to Python stay where they are until all views of them are released.
//!
//! Left out: objects without a store, and regions.

// The module is the crate's only item for others, and an interpreter loads it by name.
#![allow(unreachable_pub, missing_docs)]

mod border;
mod errors;
mod pod;
mod room;
mod view;

use pyo3::prelude::*;

#[pymodule]
mod _tombolo {
    #[pymodule_export]
    use crate::errors::{Error, Fenced, PodError, PodFull, Poisoned};
    #[pymodule_export]
    use crate::pod::{Keys, Pod, create};
    #[pymodule_export]
    use crate::room::Room;
    #[pymodule_export]
    use crate::view::View;
}
