//! Pods.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyBufferError, PyKeyError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use tombolo::{
    CreateOptions, Entry, LayoutOptions, Options, Store, StoreError, Version, parse_size,
};

use crate::border::Buffer;
use crate::errors::{closed, raise, raise_pod};
use crate::room::Room;
use crate::view::View;

/// Values up to this length are read before Python has room for them: to ask for the length first
/// would take longer than to copy them twice.
const COPIED_TWICE: usize = 16 << 10;

/// A number of bytes: a number, or a text such as "4GiB".
#[derive(FromPyObject)]
pub enum Size {
    Bytes(u64),
    Text(String),
}

impl Size {
    fn bytes(self) -> PyResult<u64> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Text(text) => {
                parse_size(&text).map_err(|reason| PyValueError::new_err(reason.to_string()))
            }
        }
    }
}

/// Creates an empty pod.
#[pyfunction]
#[pyo3(signature = (path, size, *, scr=None, hosts=16, chunk=None, rooms=None, force=false))]
#[allow(clippy::too_many_arguments, reason = "Python's callers name them")]
pub fn create(
    py: Python<'_>,
    path: std::path::PathBuf,
    size: Size,
    scr: Option<Size>,
    hosts: u8,
    chunk: Option<Size>,
    rooms: Option<u32>,
    force: bool,
) -> PyResult<()> {
    let options = CreateOptions {
        lnr_bytes: Some(size.bytes()?),
        scr_bytes: scr.map(Size::bytes).transpose()?,
        layout: LayoutOptions {
            hosts: Some(hosts),
            chunk_bytes: chunk.map(Size::bytes).transpose()?,
            ..LayoutOptions::default()
        },
        force,
        ..CreateOptions::default()
    };
    let options = match rooms {
        Some(rooms) => options.with_rooms(rooms.into()),
        None => options,
    };
    py.detach(|| tombolo::create(path, options).map(drop)).map_err(raise_pod)
}

/// This process' place in a pod.
#[pyclass(frozen, weakref, module = "tombolo")]
pub struct Pod {
    store: Mutex<Option<Store>>,
    path: String,
}

/// A key: bytes, or a text, as UTF-8.
pub(crate) fn key(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(text.to_cow()?.into_owned().into_bytes());
    }
    match Buffer::to_read(object) {
        Ok(buffer) => Ok(buffer.bytes().to_vec()),
        Err(_) => Err(PyTypeError::new_err("a key is bytes, or a str")),
    }
}

fn keys(objects: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    if objects.is_instance_of::<PyString>() || objects.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err("several keys are wanted, as a list"));
    }
    objects.try_iter()?.map(|object| key(&object?)).collect()
}

fn same_count(keys: usize, what: &str, others: usize) -> PyResult<()> {
    if keys == others {
        return Ok(());
    }
    Err(PyValueError::new_err(format!("there are {keys} keys, and {others} {what}")))
}

impl Pod {
    /// The store, for one operation.
    pub(crate) fn store(&self) -> PyResult<Store> {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.clone().ok_or_else(|| closed("pod"))
    }

    /// Does something with the store, without the interpreter.
    fn away<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send,
    ) -> PyResult<T> {
        let store = self.store()?;
        py.detach(move || work(&store)).map_err(raise)
    }

    fn read<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut small = [0; COPIED_TWICE];
        let mut length = match self.away(py, |store| store.get_to(key, &mut small))? {
            None => return Ok(None),
            Some(length) if length as usize <= small.len() => {
                return Ok(Some(PyBytes::new(py, &small[..length as usize])));
            }
            Some(length) => length,
        };
        // Until no other host puts a longer value in between.
        loop {
            let mut found = None;
            let value = PyBytes::new_with(py, length as usize, |room| {
                found = self.away(py, |store| store.get_to(key, room))?;
                Ok(())
            })?;
            match found {
                None => return Ok(None),
                Some(now) if now == length => return Ok(Some(value)),
                Some(now) if now < length => {
                    return Ok(Some(PyBytes::new(py, &value.as_bytes()[..now as usize])));
                }
                Some(now) => length = now,
            }
        }
    }
}

#[pymethods]
impl Pod {
    /// Joins a pod, of whose values this process may view so many at once.
    #[new]
    #[pyo3(signature = (path, *, views=1024))]
    fn join(py: Python<'_>, path: std::path::PathBuf, views: u32) -> PyResult<Self> {
        let options = Options { views, ..Options::default() };
        let join = || Store::join_pod(tombolo::open(&path)?, options);
        let store = py.detach(join).map_err(raise)?;
        Ok(Self { store: Mutex::new(Some(store)), path: path.display().to_string() })
    }

    /// Leaves the pod. Raises BufferError while views, rooms or walks of it are open.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        match store.take() {
            None => Ok(()),
            Some(open) if open.keepers() > 1 => {
                let others = open.keepers() - 1;
                *store = Some(open);
                Err(PyBufferError::new_err(format!(
                    "{others} views, rooms, walks or operations of the pod are open; close them first"
                )))
            }
            Some(open) => {
                drop(store);
                py.detach(|| open.leave()).map_err(raise)
            }
        }
    }

    #[getter]
    fn closed(&self) -> bool {
        self.store().is_err()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_why))]
    fn __exit__(&self, py: Python<'_>, _why: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<tombolo.Pod {:?}{}>", self.path, if self.closed() { ", closed" } else { "" })
    }

    /// Gives a key a value, whatever it had before. `ttl` is in seconds.
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<()> {
        let (key, value) = (self::key(key)?, Buffer::to_read(value)?);
        let value = value.bytes();
        let Some(ttl) = ttl else {
            return self.away(py, |store| store.put_many(&[(&key, value)]).remove(0));
        };
        let ttl = Duration::try_from_secs_f64(ttl)
            .map_err(|reason| PyValueError::new_err(format!("ttl: {reason}")))?;
        self.away(py, |store| store.put_for(&key, value, ttl))
    }

    /// Gives a key a value if it has none; whether it had none.
    fn add(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let (key, value) = (self::key(key)?, Buffer::to_read(value)?);
        let value = value.bytes();
        Ok(self.away(py, |store| store.add_value(&key, value))?.is_some())
    }

    /// Gives a key another value if that which it has is at this version; the new version, or None.
    fn put_if_version(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        version: u64,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<Option<u64>> {
        let (key, value) = (self::key(key)?, Buffer::to_read(value)?);
        let entry = Entry::lasting(value.bytes());
        let put = self.away(py, |store| store.put_if_version(&key, Version(version), &entry))?;
        Ok(put.map(|version| version.0))
    }

    /// Removes a key if its value is at this version; whether it was.
    fn delete_if_version(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        version: u64,
    ) -> PyResult<bool> {
        let key = self::key(key)?;
        self.away(py, |store| store.delete_if_version(&key, Version(version)))
    }

    /// The value of a key as bytes, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.read(py, &self::key(key)?)?;
        Ok(value.map(Bound::into_any).or(default))
    }

    /// Copies the value of a key into a buffer; its length, or None if there is none.
    fn get_into(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<Option<u64>> {
        let (key, mut buffer) = (self::key(key)?, Buffer::to_write(buffer)?);
        let room = buffer.len() as u64;
        let into = buffer.bytes_mut();
        match self.away(py, |store| store.get_to(&key, into))? {
            Some(bytes) if bytes > room => Err(PyValueError::new_err(format!(
                "the value has {bytes} bytes, and the buffer {room}: nothing was copied"
            ))),
            found => Ok(found),
        }
    }

    /// Shows the value of a key where it lies in the pod. Raises KeyError if there is none.
    fn view(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<View> {
        let bytes = self::key(key)?;
        let view = self.away(py, |store| store.view_owned(&bytes))?;
        view.map(View::new).ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    /// Gives several keys a value each, in their order. Raises the first error; the other values
    /// are put all the same.
    fn put_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let keys = self::keys(keys)?;
        let values = values.try_iter()?.map(|value| Buffer::to_read(&value?));
        let values = values.collect::<PyResult<Vec<_>>>()?;
        same_count(keys.len(), "values", values.len())?;
        let pairs: Vec<_> = keys.iter().zip(values.iter().map(Buffer::bytes)).collect();
        self.away(py, |store| store.put_many(&pairs).into_iter().collect())
    }

    /// Copies the values of several keys, each into its buffer; whether each has a value of exactly
    /// the length of its buffer.
    fn get_many_into(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        buffers: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<bool>> {
        let keys = self::keys(keys)?;
        let buffers = buffers.try_iter()?.map(|buffer| Buffer::to_write(&buffer?));
        let mut buffers = buffers.collect::<PyResult<Vec<_>>>()?;
        same_count(keys.len(), "buffers", buffers.len())?;
        let lengths: Vec<u64> = buffers.iter().map(|buffer| buffer.len() as u64).collect();
        let mut rooms: Vec<_> = buffers.iter_mut().map(Buffer::bytes_mut).collect();
        let found = self.away(py, |store| store.get_many_to(&keys, &mut rooms))?;
        Ok(found.into_iter().zip(lengths).map(|(found, length)| found == Some(length)).collect())
    }

    /// Whether each of several keys has a value.
    fn exists(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<bool>> {
        let keys = self::keys(keys)?;
        self.away(py, |store| store.exist(&keys))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = self::key(key)?;
        Ok(self.away(py, |store| store.exist(&[key]))? == [true])
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.read(py, &self::key(key)?)?;
        value.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.put(py, key, value, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.delete(py, key)? {
            return Ok(());
        }
        Err(PyKeyError::new_err(key.clone().unbind()))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.away(py, |store| store.key_count())? as usize)
    }

    /// Removes a key; whether it had a value.
    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = self::key(key)?;
        self.away(py, |store| store.delete(&key))
    }

    /// A walk through all keys that begin with `prefix`, in no order.
    #[pyo3(signature = (prefix=None))]
    fn keys(&self, prefix: Option<&Bound<'_, PyAny>>) -> PyResult<Keys> {
        let prefix = prefix.map(key).transpose()?.unwrap_or_default();
        Ok(Keys { walk: Mutex::new(Some(self.store()?.keys_owned(&prefix))) })
    }

    fn __iter__(&self) -> PyResult<Keys> {
        self.keys(None)
    }

    /// Reserves room for a value of so many bytes, to be filled and published.
    fn reserve(&self, py: Python<'_>, key: &Bound<'_, PyAny>, size: u64) -> PyResult<Room> {
        let key = self::key(key)?;
        self.away(py, |store| store.reserve_owned(&key, size)).map(Room::new)
    }

    /// Numbers of this host and of the pod, as far as this host knows.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let numbers = self.away(py, |store| Ok(store.numbers()))?;
        let stats = PyDict::new(py);
        numbers.into_iter().try_for_each(|(name, number)| stats.set_item(name, number))?;
        Ok(stats)
    }

    /// Address and length of the memory in which values lie, to be registered with a device.
    fn mapping(&self) -> PyResult<(usize, usize)> {
        Ok(self.store()?.mapping())
    }
}

/// A walk through the keys of a pod.
#[pyclass(frozen, module = "tombolo")]
pub struct Keys {
    /// `None` once it is over: then it keeps the pod open no more.
    walk: Mutex<Option<tombolo::Keys<'static, StoreError>>>,
}

#[pymethods]
impl Keys {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let taken = self.walk.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut walk) = taken else { return Ok(None) };
        let (next, walk) = py.detach(move || (walk.next(), walk));
        let Some(key) = next.transpose().map_err(raise)? else { return Ok(None) };
        *self.walk.lock().unwrap_or_else(PoisonError::into_inner) = Some(walk);
        Ok(Some(PyBytes::new(py, &key)))
    }

    /// Ends the walk.
    fn close(&self) {
        *self.walk.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
