//! The border to C: errors, and the only places where pointers of callers are followed.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
    /// The heap has no free range as large.
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
}

/// An error, and the sentence that says what to do.
pub(crate) struct Failed {
    error: TomboloError,
    message: String,
}

impl Failed {
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self { error: TomboloError::Argument, message: message.into() }
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
        Err(Failed { error, message }) => {
            // No message has a zero byte.
            LAST.set(CString::new(message).unwrap_or_default());
            error
        }
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

/// Drops the value of a handle; a null pointer is none.
pub(crate) fn take<T>(handle: *mut T) {
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
