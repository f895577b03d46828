//! Views of values.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tombolo::StoreView;

use crate::border::{export, place};
use crate::errors::{closed, raise};

/// A value where it lies in the pod, with Python's buffer protocol. It stays as it is, whatever is
/// put or deleted meanwhile.
#[pyclass(frozen, module = "tombolo")]
pub struct View {
    shown: Mutex<Shown>,
}

struct Shown {
    view: Option<StoreView>,
    /// Buffers of it that Python has.
    exports: usize,
}

impl View {
    pub(crate) fn new(view: StoreView) -> Self {
        Self { shown: Mutex::new(Shown { view: Some(view), exports: 0 }) }
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, tell: impl FnOnce(&StoreView) -> T) -> PyResult<T> {
        self.lock().view.as_ref().map(tell).ok_or_else(|| closed("view"))
    }
}

#[pymethods]
impl View {
    /// The version of the value, as put_if_version wants it.
    #[getter]
    fn version(&self) -> PyResult<u64> {
        self.with(|view| view.version().0)
    }

    /// Whether the value lies in one piece in the pod. If not, this shows a copy.
    #[getter]
    fn contiguous(&self) -> PyResult<bool> {
        self.with(StoreView::is_contiguous)
    }

    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        self.with(|view| view.len())
    }

    #[getter]
    fn closed(&self) -> bool {
        self.lock().view.is_none()
    }

    fn __len__(&self) -> PyResult<usize> {
        self.nbytes()
    }

    /// Ends the view. Raises BufferError while arrays show its bytes, and Poisoned if this host has
    /// met a memory error there.
    fn close(&self) -> PyResult<()> {
        let mut shown = self.lock();
        if shown.exports > 0 {
            let message = "arrays or memoryviews still show the view; delete them first";
            return Err(PyBufferError::new_err(message));
        }
        shown.view.take().map_or(Ok(()), StoreView::end).map_err(raise)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, _why: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }

    #[allow(unsafe_code)]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let mut shown = this.lock();
        let bytes = shown.view.as_ref().map(|view| place(view)).ok_or_else(|| closed("view"))?;
        export(slf.as_any(), view, bytes, true, flags)?;
        shown.exports += 1;
        Ok(())
    }

    #[allow(unsafe_code)]
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.lock().exports -= 1;
    }
}
