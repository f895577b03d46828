//! The border to Python's buffers: the only place where their pointers are followed.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::slice;

use pyo3::ffi;
use pyo3::prelude::*;

/// The bytes of a Python object, which stay where they are for as long as this is there.
pub(crate) struct Buffer<'py> {
    view: Box<ffi::Py_buffer>,
    /// It is released by a thread that has the interpreter.
    _py: Python<'py>,
}

impl<'py> Buffer<'py> {
    /// The bytes of `object`, to be read.
    ///
    /// # Errors
    /// `TypeError` if it has no buffer, `BufferError` if its bytes are not in one piece.
    pub(crate) fn to_read(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::get(object, ffi::PyBUF_SIMPLE)
    }

    /// The bytes of `object`, to be written.
    ///
    /// # Errors
    /// As of [`to_read`](Self::to_read); `BufferError` if they may not be written.
    pub(crate) fn to_write(object: &Bound<'py, PyAny>) -> PyResult<Self> {
        Self::get(object, ffi::PyBUF_WRITABLE)
    }

    fn get(object: &Bound<'py, PyAny>, flags: c_int) -> PyResult<Self> {
        let (mut view, py) = (Box::new(ffi::Py_buffer::new()), object.py());
        // SAFETY: an object, and room for its view, which does not move until it is released.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(Self { view, _py: py })
    }

    pub(crate) fn len(&self) -> usize {
        self.view.len as usize
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        if self.len() == 0 {
            return &[];
        }
        // SAFETY: the object keeps so many bytes there until the view is released. A program that
        // has other threads write them meanwhile gets some mixture, as with all of Python.
        unsafe { slice::from_raw_parts(self.view.buf.cast(), self.len()) }
    }

    /// The bytes, of a buffer to be written.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        if self.len() == 0 {
            return &mut [];
        }
        // SAFETY: as above, and they may be written.
        unsafe { slice::from_raw_parts_mut(self.view.buf.cast(), self.len()) }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: it was got, and this thread has the interpreter.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.view) };
    }
}

/// Shows bytes of the pod by Python's buffer protocol: as those of `owner`, which keeps them until
/// the view is released.
///
/// # Errors
/// `BufferError` if they are to be written and may not be.
pub(crate) fn export(
    owner: &Bound<'_, PyAny>,
    view: *mut ffi::Py_buffer,
    (start, bytes): (usize, usize),
    read_only: bool,
    flags: c_int,
) -> PyResult<()> {
    let start = std::ptr::with_exposed_provenance_mut(start);
    let (length, read_only) = (bytes as ffi::Py_ssize_t, c_int::from(read_only));
    // SAFETY: Python's own view, and bytes that stay.
    let filled =
        unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), start, length, read_only, flags) };
    if filled == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}

/// Where bytes are.
pub(crate) fn place(bytes: &[u8]) -> (usize, usize) {
    (bytes.as_ptr().expose_provenance(), bytes.len())
}

/// Where bytes are that may be written.
pub(crate) fn place_mut(bytes: &mut [u8]) -> (usize, usize) {
    (bytes.as_mut_ptr().expose_provenance(), bytes.len())
}
