//! Pods and their values, as C has them.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_void};
use std::sync::OnceLock;

use tombolo::{CreateOptions, Entry, LayoutOptions, Store, Version};

use crate::border::{
    Failed, TomboloError, borrow, borrow_all, borrow_all_mut, bytes, call, give, store, store_all,
    store_if_wanted, take, take_back, text,
};

/// This process' place in a pod: a host, and the store of keys and values.
pub struct TomboloPod(pub(crate) Store);

/// A walk through the keys of a pod.
pub struct TomboloKeys {
    walk: tombolo::Keys<'static, tombolo::StoreError>,
    key: Vec<u8>,
}

/// Bytes of the caller that the library reads.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TomboloBytes {
    /// The first byte.
    pub data: *const u8,
    /// How many.
    pub bytes: usize,
}

/// Room of the caller into which the library copies a value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TomboloBuffer {
    /// The first byte.
    pub data: *mut u8,
    /// How many bytes there is room for.
    pub capacity: usize,
    /// Set by the library: the length of the value; more than `capacity` if it was not copied.
    pub bytes: usize,
    /// Set by the library: TOMBOLO_ERROR_OK, TOMBOLO_ERROR_ABSENT or TOMBOLO_ERROR_SHORT.
    pub error: TomboloError,
}

/// How a pod is laid out. tombolo_pod_options_init fills it; 0 leaves a choice to the library.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct TomboloPodOptions {
    /// Bytes of this structure, as the caller knows it.
    pub struct_bytes: usize,
    /// Bytes of coherent memory (SCR).
    pub scr_bytes: u64,
    /// Hosts that can be in the pod at once, up to 64.
    pub hosts: u32,
    /// Whether what is there is overwritten.
    pub force: bool,
    /// Bytes of a chunk, a power of two. Values up to about that lie in one piece.
    pub chunk_bytes: u64,
    /// Rooms that a host can have reserved at once, up to 2,048.
    pub rooms: u64,
}

impl TomboloPod {
    pub(crate) fn store(&self) -> &Store {
        &self.0
    }
}

impl TomboloBytes {
    fn get<'a>(&self) -> Result<&'a [u8], Failed> {
        bytes(self.data, self.bytes, "data")
    }
}

/// All keys, or values, of a row.
fn all<'a>(
    pointer: *const TomboloBytes,
    count: usize,
    name: &str,
) -> Result<Vec<&'a [u8]>, Failed> {
    borrow_all(pointer, count, name)?.iter().map(TomboloBytes::get).collect()
}

pub(crate) fn absent() -> Failed {
    Failed::new(TomboloError::Absent, "the key has no value")
}

pub(crate) fn exists() -> Failed {
    Failed::new(TomboloError::Exists, "the key has a value already, or another than was expected")
}

/// Fills options with what the library chooses.
/// Errors: TOMBOLO_ERROR_ARGUMENT.
// SAFETY: no other symbol has this name; so it is with all functions here.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_pod_options_init(options: *mut TomboloPodOptions) -> TomboloError {
    let struct_bytes = size_of::<TomboloPodOptions>();
    let usual = TomboloPodOptions {
        struct_bytes,
        scr_bytes: 0,
        hosts: 0,
        force: false,
        chunk_bytes: 0,
        rooms: 0,
    };
    call(|| store(options, "options", usual))
}

/// Creates an empty pod with so many bytes for values. `spec` is a path such as "/dev/shm/pod", or
/// two with a plus sign between them. `options` may be null.
/// Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_POD.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_pod_create(
    spec: *const c_char,
    bytes: u64,
    options: *const TomboloPodOptions,
) -> TomboloError {
    call(|| {
        let chosen = match borrow(options, "options") {
            Ok(options) if options.struct_bytes < size_of::<TomboloPodOptions>() => {
                return Err(Failed::argument("struct_bytes: call tombolo_pod_options_init first"));
            }
            Ok(options) => pod_options(options)?,
            Err(_) => CreateOptions::default(),
        };
        let options = CreateOptions { lnr_bytes: Some(bytes), ..chosen };
        tombolo::create(text(spec, "spec")?, options)?;
        Ok(())
    })
}

fn pod_options(options: &TomboloPodOptions) -> Result<CreateOptions, Failed> {
    let hosts = u8::try_from(options.hosts);
    let hosts = hosts.map_err(|_| Failed::argument("hosts: there are at most 64"))?;
    let chosen = CreateOptions {
        scr_bytes: Some(options.scr_bytes).filter(|&bytes| bytes > 0),
        force: options.force,
        layout: LayoutOptions {
            hosts: Some(hosts).filter(|&hosts| hosts > 0),
            chunk_bytes: Some(options.chunk_bytes).filter(|&bytes| bytes > 0),
            ..LayoutOptions::default()
        },
        ..CreateOptions::default()
    };
    Ok(if options.rooms > 0 { chosen.with_rooms(options.rooms) } else { chosen })
}

/// Joins a pod. A thread of the library does the host's background work until it leaves.
/// Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_POD, TOMBOLO_ERROR_BUSY.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_pod_join(spec: *const c_char, pod: *mut *mut TomboloPod) -> TomboloError {
    call(|| {
        store(pod, "pod", std::ptr::null_mut())?;
        let joined = Store::join(text(spec, "spec")?)?;
        store(pod, "pod", give(TomboloPod(joined)))
    })
}

/// Leaves the pod, and frees the handle, also on an error. Views, rooms and walks of it stay valid:
/// the host leaves with the last of them.
/// Errors: TOMBOLO_ERROR_ARGUMENT, and those of the pod.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_pod_leave(pod: *mut TomboloPod) -> TomboloError {
    call(|| Ok(take_back(pod, "pod")?.0.leave()?))
}

/// Address and length of the pod's memory in which values lie, to be registered with a device. They
/// stay as they are while the host is in the pod. Devices may write in rooms alone.
/// Errors: TOMBOLO_ERROR_ARGUMENT.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_pod_mapping(
    pod: *const TomboloPod,
    address: *mut *mut c_void,
    bytes: *mut usize,
) -> TomboloError {
    call(|| {
        let (at, length) = borrow(pod, "pod")?.store().mapping();
        store(address, "address", std::ptr::with_exposed_provenance_mut(at))?;
        store(bytes, "bytes", length)
    })
}

/// Gives a key a value, whatever it had before.
/// Errors: TOMBOLO_ERROR_ARGUMENT, TOMBOLO_ERROR_FULL, TOMBOLO_ERROR_BUSY, TOMBOLO_ERROR_FENCED,
/// TOMBOLO_ERROR_FORKED.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_put(
    pod: *const TomboloPod,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
) -> TomboloError {
    call(|| {
        let pair = (bytes(key, key_bytes, "key")?, bytes(value, value_bytes, "value")?);
        borrow(pod, "pod")?.store().put_many(&[pair]).into_iter().collect::<Result<(), _>>()?;
        Ok(())
    })
}

/// Gives a key a value if it has none. `version` may be null.
/// Errors: TOMBOLO_ERROR_EXISTS, and those of tombolo_put.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_add(
    pod: *const TomboloPod,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
    version: *mut u64,
) -> TomboloError {
    call(|| {
        let (key, value) = (bytes(key, key_bytes, "key")?, bytes(value, value_bytes, "value")?);
        let added = borrow(pod, "pod")?.store().add_value(key, value)?;
        store_if_wanted(version, added.ok_or_else(exists)?.0);
        Ok(())
    })
}

/// Gives a key another value if that which it has is at the version `expected`, as a view tells.
/// `version` gets the new version; it may be null.
/// Errors: TOMBOLO_ERROR_EXISTS if the value is another or none, and those of tombolo_put.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_put_if_version(
    pod: *const TomboloPod,
    key: *const u8,
    key_bytes: usize,
    expected: u64,
    value: *const u8,
    value_bytes: usize,
    version: *mut u64,
) -> TomboloError {
    call(|| {
        let (key, value) = (bytes(key, key_bytes, "key")?, bytes(value, value_bytes, "value")?);
        let entry = Entry::lasting(value);
        let put = borrow(pod, "pod")?.store().put_if_version(key, Version(expected), &entry)?;
        store_if_wanted(version, put.ok_or_else(exists)?.0);
        Ok(())
    })
}

/// Gives `count` keys a value each, in their order. `errors` gets what became of each; it may be
/// null. Returns the first error.
/// Errors: those of tombolo_put.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_put_many(
    pod: *const TomboloPod,
    keys: *const TomboloBytes,
    values: *const TomboloBytes,
    count: usize,
    errors: *mut TomboloError,
) -> TomboloError {
    call(|| {
        let (keys, values) = (all(keys, count, "keys")?, all(values, count, "values")?);
        let pairs: Vec<_> = keys.into_iter().zip(values).collect();
        let mut first = Ok(());
        for (at, put) in borrow(pod, "pod")?.store().put_many(&pairs).into_iter().enumerate() {
            let failed = put.err().map(Failed::from);
            let error = failed.as_ref().map_or(TomboloError::Ok, |failed| failed.error());
            if !errors.is_null() {
                store(errors.wrapping_add(at), "errors", error)?;
            }
            first = first.and(failed.map_or(Ok(()), Err));
        }
        first
    })
}

/// Copies the value of a key into `buffer`, and stores its length in `value_bytes`.
/// Errors: TOMBOLO_ERROR_ABSENT; TOMBOLO_ERROR_SHORT if it is longer than `capacity`, and then
/// nothing is copied; TOMBOLO_ERROR_ARGUMENT, and those of the pod.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_get_into(
    pod: *const TomboloPod,
    key: *const u8,
    key_bytes: usize,
    buffer: *mut u8,
    capacity: usize,
    value_bytes: *mut usize,
) -> TomboloError {
    call(|| {
        store(value_bytes, "value_bytes", 0)?;
        let (key, into) =
            (bytes(key, key_bytes, "key")?, borrow_all_mut(buffer, capacity, "buffer")?);
        let found = borrow(pod, "pod")?.store().get_to(key, into)?.ok_or_else(absent)?;
        store(value_bytes, "value_bytes", found as usize)?;
        if found as usize > capacity { Err(short(found)) } else { Ok(()) }
    })
}

fn short(bytes: u64) -> Failed {
    let message = format!("the value has {bytes} bytes, which is more than the buffer has");
    Failed::new(TomboloError::Short, message)
}

/// Allocates room for the value of a key, and copies it there. The caller frees it by
/// tombolo_value_free.
/// Errors: TOMBOLO_ERROR_ABSENT, TOMBOLO_ERROR_ARGUMENT, and those of the pod.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_get(
    pod: *const TomboloPod,
    key: *const u8,
    key_bytes: usize,
    value: *mut *mut u8,
    value_bytes: *mut usize,
) -> TomboloError {
    call(|| {
        store(value, "value", std::ptr::null_mut())?;
        let found = borrow(pod, "pod")?.store().get(bytes(key, key_bytes, "key")?)?;
        let found = found.ok_or_else(absent)?.value.into_boxed_slice();
        store(value_bytes, "value_bytes", found.len())?;
        store(value, "value", Box::into_raw(found).cast())
    })
}

/// Frees a value of tombolo_get. A null pointer is none.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_value_free(value: *mut u8, value_bytes: usize) {
    take(std::ptr::slice_from_raw_parts_mut(value, value_bytes));
}

/// Copies the values of `count` keys, each into its buffer. Returns TOMBOLO_ERROR_OK also if some
/// have none: the buffers say so.
/// Errors: TOMBOLO_ERROR_ARGUMENT, and those of the pod.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_get_many_into(
    pod: *const TomboloPod,
    keys: *const TomboloBytes,
    buffers: *mut TomboloBuffer,
    count: usize,
) -> TomboloError {
    call(|| {
        let keys = all(keys, count, "keys")?;
        let buffers = borrow_all_mut(buffers, count, "buffers")?;
        let room = |buffer: &TomboloBuffer| {
            borrow_all_mut(buffer.data, buffer.capacity, "data of a buffer")
        };
        let mut rooms = buffers.iter().map(room).collect::<Result<Vec<_>, _>>()?;
        let found = borrow(pod, "pod")?.store().get_many_to(&keys, &mut rooms)?;
        for (buffer, length) in buffers.iter_mut().zip(found) {
            buffer.bytes = length.unwrap_or(0) as usize;
            buffer.error = match length {
                None => TomboloError::Absent,
                Some(_) if buffer.bytes > buffer.capacity => TomboloError::Short,
                Some(_) => TomboloError::Ok,
            };
        }
        Ok(())
    })
}

/// Says of `count` keys whether they have values.
/// Errors: TOMBOLO_ERROR_ARGUMENT, and those of the pod.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_exists(
    pod: *const TomboloPod,
    keys: *const TomboloBytes,
    count: usize,
    exist: *mut bool,
) -> TomboloError {
    call(|| {
        let found = borrow(pod, "pod")?.store().exist(&all(keys, count, "keys")?)?;
        store_all(exist, "exist", count, &found)
    })
}

/// Removes a key.
/// Errors: TOMBOLO_ERROR_ABSENT if it had no value; those of tombolo_put.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_delete(
    pod: *const TomboloPod,
    key: *const u8,
    key_bytes: usize,
) -> TomboloError {
    call(|| {
        let deleted = borrow(pod, "pod")?.store().delete(bytes(key, key_bytes, "key")?)?;
        if deleted { Ok(()) } else { Err(absent()) }
    })
}

/// Begins a walk through all keys that begin with `prefix`, in no order.
/// Errors: TOMBOLO_ERROR_ARGUMENT.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_keys(
    pod: *const TomboloPod,
    prefix: *const u8,
    prefix_bytes: usize,
    keys: *mut *mut TomboloKeys,
) -> TomboloError {
    call(|| {
        store(keys, "keys", std::ptr::null_mut())?;
        let prefix = bytes(prefix, prefix_bytes, "prefix")?;
        let walk = borrow(pod, "pod")?.store().keys_owned(prefix);
        store(keys, "keys", give(TomboloKeys { walk, key: Vec::new() }))
    })
}

/// Stores the next key, which is valid until the next call. One thread may use a walk at a time.
/// Errors: TOMBOLO_ERROR_ABSENT at the end; those of the pod.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_keys_next(
    keys: *mut TomboloKeys,
    key: *mut TomboloBytes,
) -> TomboloError {
    call(|| {
        let keys = crate::border::borrow_mut(keys, "keys")?;
        let next = keys.walk.next().transpose()?;
        let end = || Failed::new(TomboloError::Absent, "there are no more keys");
        keys.key = next.ok_or_else(end)?;
        store(key, "key", TomboloBytes { data: keys.key.as_ptr(), bytes: keys.key.len() })
    })
}

/// Ends a walk. A null pointer is none.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_keys_free(keys: *mut TomboloKeys) {
    call(|| {
        take(keys);
        Ok(())
    });
}

static NAMES: OnceLock<Vec<CString>> = OnceLock::new();

/// Stores up to `capacity` numbers of the host and of the pod, as far as the host knows, and in
/// `names` their names, which stay valid. Returns how many there are; 0 for null pointers.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_pod_stats(
    pod: *const TomboloPod,
    names: *mut *const c_char,
    numbers: *mut u64,
    capacity: usize,
) -> usize {
    let mut count = 0;
    call(|| {
        let rows = borrow(pod, "pod")?.store().numbers();
        // No name has a zero byte.
        let name = |(name, _): &(&str, u64)| CString::new(*name).unwrap_or_default();
        let known = NAMES.get_or_init(|| rows.iter().map(name).collect());
        let pointers: Vec<_> = known.iter().map(|name| name.as_ptr()).collect();
        let found: Vec<u64> = rows.iter().map(|(_, number)| *number).collect();
        store_all(names, "names", capacity, &pointers)?;
        store_all(numbers, "numbers", capacity, &found)?;
        count = found.len();
        Ok(())
    });
    count
}
