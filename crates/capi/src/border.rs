//! The border to C: errors, and the only places where pointers of callers are followed.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tombolo::{Error, PodError, StoreError};
use tombolo_tiering::TieringError;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum TomboloError {
    /// It did what it is for.
    Ok = 0,
    /// An argument is wrong: a null pointer, or a value that is not of its list.
    Argument = 1,
    /// The kernel, or the rights of the process, do not let pages move.
    Unavailable = 2,
    /// The heap has no free range as large, or the pod no room.
    Full = 3,
    /// The bytes are not all in their block.
    Outside = 4,
    /// This process is a child of the one that made the heap.
    Forked = 5,
    /// The heap's threads have ended; its blocks are ordinary memory.
    Stopped = 6,
    /// The system refused something.
    System = 7,
    /// A fault of this library.
    Fault = 8,
    /// The key has no value, or a walk is at its end.
    Absent = 9,
    /// The key has a value already, or another one than was expected.
    Exists = 10,
    /// The value is longer than the buffer, which is as it was.
    Short = 11,
    /// The pod cannot be created, opened or joined, or is damaged.
    Pod = 12,
    /// The other hosts go on without this one: join again.
    Fenced = 13,
    /// The value is gone, with the memory in which it lay or with a host.
    Lost = 14,
    /// A host hangs, or the value stayed in use.
    Busy = 15,
    /// This host has as many views or rooms as it may.
    TooMany = 16,
}

/// An error, and the sentence that says what to do.
pub(crate) struct Failed {
    error: TomboloError,
    message: String,
}

impl Failed {
    pub(crate) fn new(error: TomboloError, message: impl Into<String>) -> Self {
        Self { error, message: message.into() }
    }

    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::new(TomboloError::Argument, message)
    }

    pub(crate) fn error(&self) -> TomboloError {
        self.error
    }

    /// Its code, once its message is the thread's last.
    pub(crate) fn keep(self) -> TomboloError {
        // No message has a zero byte.
        LAST.set(CString::new(self.message).unwrap_or_default());
        self.error
    }
}

impl From<TieringError> for Failed {
    fn from(reason: TieringError) -> Self {
        let error = match reason {
            TieringError::Faults(_) => TomboloError::Unavailable,
            TieringError::Full { .. } => TomboloError::Full,
            TieringError::Outside { .. } => TomboloError::Outside,
            TieringError::Forked => TomboloError::Forked,
            TieringError::Stopped => TomboloError::Stopped,
            TieringError::Os { .. } => TomboloError::System,
            _ => TomboloError::Fault,
        };
        Self { error, message: reason.to_string() }
    }
}

impl From<StoreError> for Failed {
    fn from(reason: StoreError) -> Self {
        let error = match &reason {
            StoreError::NotAValue => TomboloError::Argument,
            StoreError::Objects(reason) => of_objects(reason),
            _ => TomboloError::Fault,
        };
        Self { error, message: reason.to_string() }
    }
}

impl From<PodError> for Failed {
    fn from(reason: PodError) -> Self {
        Self { error: TomboloError::Pod, message: reason.to_string() }
    }
}

fn of_objects(reason: &Error) -> TomboloError {
    match reason {
        Error::NotFound => TomboloError::Absent,
        Error::Exists | Error::Changed => TomboloError::Exists,
        Error::KeyLength { .. } | Error::TooLarge { .. } => TomboloError::Argument,
        Error::OutOfRange { .. } => TomboloError::Outside,
        Error::LnrFull { .. } | Error::IndexFull { .. } => TomboloError::Full,
        Error::Busy { .. } | Error::Unanswered { .. } | Error::Stalled { .. } | Error::Torn => {
            TomboloError::Busy
        }
        Error::Lost { .. } | Error::Poisoned => TomboloError::Lost,
        Error::TooManyViews { .. } | Error::TooManyReservations { .. } => TomboloError::TooMany,
        Error::Fenced { .. } => TomboloError::Fenced,
        Error::Forked { .. } => TomboloError::Forked,
        _ => TomboloError::Pod,
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Returns what the last call of this thread that failed has to say: what happened, and what to do.
/// An empty string if none failed. It is valid until the thread's next call fails.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_error_message() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Runs the body of a function. An error, and a panic, becomes the thread's last message.
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failed>) -> TomboloError {
    let fault = |_| {
        let message = "a fault of the library; please report it".to_owned();
        Err(Failed { error: TomboloError::Fault, message })
    };
    match catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(fault) {
        Ok(()) => TomboloError::Ok,
        Err(failed) => failed.keep(),
    }
}

/// The value that a caller's pointer names.
///
/// # Errors
/// The pointer is null.
pub(crate) fn borrow<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failed> {
    // SAFETY: the header says that pointers are null, or of the type and valid during the call, and
    // that no thread changes what they point at meanwhile.
    let found = unsafe { pointer.as_ref() };
    found.ok_or_else(|| Failed::argument(format!("{name} is a null pointer")))
}

/// The bytes that a caller's pointer and length name; of no bytes, the pointer does not count.
///
/// # Errors
/// The pointer is null.
pub(crate) fn bytes<'a>(pointer: *const u8, length: usize, name: &str) -> Result<&'a [u8], Failed> {
    borrow_all(pointer, length, name)
}

/// The values in a row that a caller's pointer and count name; of none, the pointer does not count.
///
/// # Errors
/// The pointer is null.
pub(crate) fn borrow_all<'a, T>(
    pointer: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Failed> {
    if count == 0 {
        return Ok(&[]);
    }
    borrow(pointer, name)?;
    // SAFETY: the header says that pointers are of so many values, valid during the call, and that
    // no thread changes what they point at meanwhile.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// The room that a caller's pointer and count name; of none, the pointer does not count.
///
/// # Errors
/// The pointer is null.
pub(crate) fn borrow_all_mut<'a, T>(
    pointer: *mut T,
    count: usize,
    name: &str,
) -> Result<&'a mut [T], Failed> {
    if count == 0 {
        return Ok(&mut []);
    }
    borrow(pointer, name)?;
    // SAFETY: the header says that pointers are of so many values, valid during the call, and that
    // nothing else uses what they point at meanwhile.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
}

/// The value that a caller's pointer names, for this call alone.
///
/// # Errors
/// The pointer is null.
pub(crate) fn borrow_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failed> {
    borrow(pointer, name)?;
    // SAFETY: the header says that the pointer is of the type and valid during the call, and that
    // nothing else uses what it points at meanwhile.
    Ok(unsafe { &mut *pointer })
}

/// The text that a caller's pointer names.
///
/// # Errors
/// The pointer is null, or the text is not UTF-8.
pub(crate) fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failed> {
    borrow(pointer, name)?;
    // SAFETY: the header says that texts end with a zero byte, and stay as they are during the
    // call.
    let text = unsafe { std::ffi::CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failed::argument(format!("{name} is not UTF-8")))
}

/// Stores a result where a caller wants it, unless the pointer is null.
pub(crate) fn store_if_wanted<T>(pointer: *mut T, value: T) {
    // A null pointer is how a caller says that it is not wanted.
    let _ = store(pointer, "", value);
}

/// Stores a result where a caller wants it.
///
/// # Errors
/// The pointer is null.
pub(crate) fn store<T>(pointer: *mut T, name: &str, value: T) -> Result<(), Failed> {
    if pointer.is_null() {
        return Err(Failed::argument(format!("{name} is a null pointer")));
    }
    // SAFETY: the header says that there is room for the type, to which nothing else refers.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Stores up to `capacity` results where a caller wants them.
///
/// # Errors
/// The pointer is null, and there are results to store.
pub(crate) fn store_all<T: Copy>(
    pointer: *mut T,
    name: &str,
    capacity: usize,
    values: &[T],
) -> Result<(), Failed> {
    for (at, value) in values.iter().take(capacity).enumerate() {
        store(pointer.wrapping_add(at), name, *value)?;
    }
    Ok(())
}

/// Makes a handle of a value.
pub(crate) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// The value of a handle, which is a handle no more.
///
/// # Errors
/// The handle is null.
pub(crate) fn take_back<T>(handle: *mut T, name: &str) -> Result<T, Failed> {
    borrow(handle, name)?;
    // SAFETY: the header says that a handle comes from `give`, and is freed once.
    Ok(*unsafe { Box::from_raw(handle) })
}

/// Drops the value of a handle; a null pointer is none.
pub(crate) fn take<T: ?Sized>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: the header says that a handle comes from `give`, and is freed once.
        drop(unsafe { Box::from_raw(handle) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_panics_leave_a_message() {
        assert_eq!(call(|| borrow::<u8>(std::ptr::null(), "it").map(drop)), TomboloError::Argument);
        let said = || {
            // SAFETY: a message of this thread.
            let message = unsafe { std::ffi::CStr::from_ptr(tombolo_error_message()) };
            message.to_str().unwrap().to_owned()
        };
        assert_eq!(said(), "it is a null pointer");
        assert_eq!(call(|| Ok(())), TomboloError::Ok);
        assert_eq!(call(|| panic!("a test")), TomboloError::Fault);
        assert!(said().contains("report it"));
    }

    #[test]
    fn no_more_is_stored_than_there_is_room_for() {
        let mut room = [0u64; 3];
        let stored = store_all(room.as_mut_ptr(), "room", 2, &[1, 2, 3]);
        assert!(stored.is_ok() && room == [1, 2, 0]);
        assert!(store_all(std::ptr::null_mut(), "room", 2, &[1]).is_err());
        assert!(store_all(std::ptr::null_mut(), "room", 0, &[1]).is_ok());
        take(give(5));
        take::<u8>(std::ptr::null_mut());
    }
}
