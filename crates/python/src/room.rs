//! Room that is reserved, filled and published.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tombolo::StoreRoom;

use crate::border::{Buffer, export, place_mut};
use crate::errors::{closed, raise};

/// Room in the pod for the value of a key, which no host sees before it is published: a writable
/// buffer. If the process dies, the other hosts free it.
#[pyclass(frozen, module = "tombolo")]
pub struct Room {
    given: Mutex<Given>,
}

struct Given {
    room: Option<StoreRoom>,
    /// Buffers of it that Python has.
    exports: usize,
}

impl Room {
    pub(crate) fn new(room: StoreRoom) -> Self {
        Self { given: Mutex::new(Given { room: Some(room), exports: 0 }) }
    }

    fn lock(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the room, which nobody fills any more.
    fn take(&self) -> PyResult<Option<StoreRoom>> {
        let mut given = self.lock();
        if given.exports > 0 {
            let message = "arrays or memoryviews can still write the room; delete them first";
            return Err(PyBufferError::new_err(message));
        }
        Ok(given.room.take())
    }
}

#[pymethods]
impl Room {
    /// How many bytes can be filled.
    #[getter]
    fn nbytes(&self) -> PyResult<usize> {
        let given = self.lock();
        given.room.as_ref().map(|room| room.len() as usize).ok_or_else(|| closed("room"))
    }

    fn __len__(&self) -> PyResult<usize> {
        self.nbytes()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.lock().room.is_none()
    }

    /// Copies bytes into the room, from `offset` on.
    #[pyo3(signature = (data, offset=0))]
    fn write(&self, py: Python<'_>, data: &Bound<'_, PyAny>, offset: u64) -> PyResult<()> {
        let data = Buffer::to_read(data)?;
        // (No lock is held while the interpreter is away. Another thread finds no room meanwhile.)
        let mut room = self.lock().room.take().ok_or_else(|| closed("room"))?;
        let bytes = data.bytes();
        let (written, room) = py.detach(move || (room.write(offset, bytes), room));
        self.lock().room = Some(room);
        written.map_err(raise)
    }

    /// Makes the room the value of its key, whatever that had before, and returns its version. With
    /// `new`, only if the key has none: else it returns None, and the room is given back.
    #[pyo3(signature = (*, new=false))]
    fn publish(&self, py: Python<'_>, new: bool) -> PyResult<Option<u64>> {
        let room = self.take()?.ok_or_else(|| closed("room"))?;
        let publish = || if new { room.publish_new() } else { room.publish().map(Some) };
        Ok(py.detach(publish).map_err(raise)?.map(|version| version.0))
    }

    /// Gives the room back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let room = self.take()?;
        py.detach(|| drop(room));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    #[allow(unsafe_code)]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let mut given = this.lock();
        let room = given.room.as_mut().ok_or_else(|| closed("room"))?;
        let message = "the room lies in several pieces; fill it by write(), or create the pod with \
                       larger chunks";
        let bytes = room.bytes_mut().ok_or_else(|| PyBufferError::new_err(message))?;
        export(slf.as_any(), view, place_mut(bytes), false, flags)?;
        given.exports += 1;
        Ok(())
    }

    #[allow(unsafe_code)]
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.lock().exports -= 1;
    }
}
