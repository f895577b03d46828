//! The contents of a slot whose object nobody else can change: its bytes put back, or where its
//! value is instead.

use tombolo_memory::Memory;
use tombolo_sharing::{HEADER_BYTES, Header, PREFIX_BYTES};

use crate::ids::LostTo;
use crate::sites;
use crate::storage::space::extent::Extent;

/// Puts an object's old bytes back where a host that is gone has changed them; whether they are
/// there for all.
pub(crate) fn restore_bytes<M: Memory>(memory: &M, extent: &Extent, object: &[u8]) -> bool {
    memory.consume(sites::WRITE_INVALIDATE, |_| ((), extent.lines()));
    extent.take_blank(memory);
    extent.write(memory, 0, object);
    let lines = extent.covering(0, object.len() as u64);
    memory.publish(sites::RESCUE_CLEAN, lines, |memory| {
        extent.give(memory, object.len() as u64);
    });
    memory.check(sites::POISON_RESCUE, !extent.is_poisoned(memory, u64::MAX))
}

/// The key of the object in a slot, which nobody changes any more, as long as it can be told.
pub(crate) fn key_at<M: Memory>(memory: &M, extent: &Extent) -> Option<Vec<u8>> {
    let mut prefix = [0; PREFIX_BYTES];
    let bytes = (PREFIX_BYTES as u64).min(extent.bytes());
    let prefix = &mut prefix[..bytes as usize];
    memory.consume(sites::READ_INVALIDATE, |_| ((), extent.covering(0, bytes)));
    extent.read(memory, 0, prefix);
    let key_bytes = Header::decode_key_bytes(prefix, extent.bytes())?;
    prefix.get(HEADER_BYTES..HEADER_BYTES + key_bytes).map(<[u8]>::to_vec)
}

/// Says in an object's slot that its value is in a host's own memory, or lost, as long as the key
/// can be told; in how many bytes.
pub(crate) fn mark_away<M: Memory>(memory: &M, extent: &Extent, to: LostTo) -> Option<u64> {
    let key = key_at(memory, extent)?;
    let marked = (HEADER_BYTES + key.len()) as u64;
    let mut prefix = Header::encode_away(key.len() as u16, to.code()).to_vec();
    prefix.extend(key);
    extent.take_blank(memory);
    extent.write(memory, 0, &prefix);
    memory.publish(sites::AWAY_CLEAN, extent.covering(0, marked), |memory| {
        extent.give(memory, marked);
    });
    Some(marked)
}
