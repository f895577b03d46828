//! Views of values, as C has them.
#![allow(unsafe_code)]

use tombolo::StoreView;

use crate::border::{TomboloError, borrow, bytes, call, give, store, take_back};
use crate::pod::{TomboloPod, absent};

/// A value where it lies in the pod. It stays as it is, whatever is put or deleted meanwhile.
pub struct TomboloView(StoreView);

/// Shows the value of a key where it lies, without a copy if it is large and in one piece. The
/// value's room is kept until the view is released.
/// Errors: TOMBOLO_ERROR_ABSENT, TOMBOLO_ERROR_TOO_MANY, TOMBOLO_ERROR_ARGUMENT, and those of the
/// pod.
// SAFETY: no other symbol has this name; so it is with all functions here.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_view(
    pod: *const TomboloPod,
    key: *const u8,
    key_bytes: usize,
    view: *mut *mut TomboloView,
) -> TomboloError {
    call(|| {
        store(view, "view", std::ptr::null_mut())?;
        let seen = borrow(pod, "pod")?.store().view_owned(bytes(key, key_bytes, "key")?)?;
        store(view, "view", give(TomboloView(seen.ok_or_else(absent)?)))
    })
}

/// Returns the first byte of the value; NULL for a null pointer. It is valid until the view is
/// released.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_view_data(view: *const TomboloView) -> *const u8 {
    borrow(view, "view").map_or(std::ptr::null(), |view| view.0.as_ref().as_ptr())
}

/// Returns how many bytes the value has; 0 for a null pointer.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_view_bytes(view: *const TomboloView) -> usize {
    borrow(view, "view").map_or(0, |view| view.0.len())
}

/// Returns the version of the value, for tombolo_put_if_version; 0 for a null pointer.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_view_version(view: *const TomboloView) -> u64 {
    borrow(view, "view").map_or(0, |view| view.0.version().0)
}

/// Returns whether the value lies in one piece in the pod. If not, the view shows a copy.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_view_is_contiguous(view: *const TomboloView) -> bool {
    borrow(view, "view").is_ok_and(|view| view.0.is_contiguous())
}

/// Ends a view, and frees the handle, also on an error. The bytes that were looked at were the
/// value, unless this is an error.
/// Errors: TOMBOLO_ERROR_LOST if this host has met a memory error there, TOMBOLO_ERROR_ARGUMENT.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_view_release(view: *mut TomboloView) -> TomboloError {
    call(|| Ok(take_back(view, "view")?.0.end()?))
}
