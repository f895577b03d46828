//! Room that is reserved, filled and published, as C has it.
#![allow(unsafe_code)]

use tombolo::StoreRoom;

use crate::border::{
    TomboloError, borrow, borrow_mut, bytes, call, give, store, store_if_wanted, take, take_back,
};
use crate::pod::{TomboloPod, exists};

/// Room in the pod for the value of a key, which no host sees before it is published. One thread
/// may use it at a time. If the process dies, the other hosts free it.
pub struct TomboloRoom(StoreRoom);

/// Reserves room for a value of so many bytes. Bytes that are not filled are those that lay there
/// before. Errors: TOMBOLO_ERROR_TOO_MANY, and those of tombolo_put.
// SAFETY: no other symbol has this name; so it is with all functions here.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_reserve(
    pod: *const TomboloPod,
    key: *const u8,
    key_bytes: usize,
    value_bytes: usize,
    room: *mut *mut TomboloRoom,
) -> TomboloError {
    call(|| {
        store(room, "room", std::ptr::null_mut())?;
        let key = bytes(key, key_bytes, "key")?;
        let reserved = borrow(pod, "pod")?.store().reserve_owned(key, value_bytes as u64)?;
        store(room, "room", give(TomboloRoom(reserved)))
    })
}

/// Returns the first byte of the room, to be filled by the program or a device; all stores there
/// have to be over before the room is published or abandoned. NULL if the room lies in several
/// pieces, or for a null pointer: then tombolo_room_write fills it.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_room_data(room: *mut TomboloRoom) -> *mut u8 {
    let bytes = borrow_mut(room, "room").ok().and_then(|room| room.0.bytes_mut());
    bytes.map_or(std::ptr::null_mut(), <[u8]>::as_mut_ptr)
}

/// Returns how many bytes can be filled; 0 for a null pointer.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_room_bytes(room: *const TomboloRoom) -> usize {
    borrow(room, "room").map_or(0, |room| room.0.len() as usize)
}

/// Copies bytes into the room, from `offset` on.
/// Errors: TOMBOLO_ERROR_OUTSIDE, TOMBOLO_ERROR_ARGUMENT.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_room_write(
    room: *mut TomboloRoom,
    offset: usize,
    data: *const u8,
    data_bytes: usize,
) -> TomboloError {
    call(|| {
        let data = bytes(data, data_bytes, "data")?;
        Ok(borrow_mut(room, "room")?.0.write(offset as u64, data)?)
    })
}

/// Makes the room the value of its key, whatever that had before, and frees the handle, also on an
/// error. `version` gets the value's version; it may be null.
/// Errors: those of tombolo_put. The room is given back then, and the old value stays.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_room_publish(room: *mut TomboloRoom, version: *mut u64) -> TomboloError {
    call(|| {
        store_if_wanted(version, take_back(room, "room")?.0.publish()?.0);
        Ok(())
    })
}

/// The same, if the key has no value.
/// Errors: TOMBOLO_ERROR_EXISTS, and those of tombolo_put. The room is given back then.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_room_publish_new(
    room: *mut TomboloRoom,
    version: *mut u64,
) -> TomboloError {
    call(|| {
        let published = take_back(room, "room")?.0.publish_new()?;
        store_if_wanted(version, published.ok_or_else(exists)?.0);
        Ok(())
    })
}

/// Gives the room back, and frees the handle. A null pointer is none.
// SAFETY: as above.
#[unsafe(no_mangle)]
pub extern "C" fn tombolo_room_abandon(room: *mut TomboloRoom) {
    call(|| {
        take(room);
        Ok(())
    });
}
