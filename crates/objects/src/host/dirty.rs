//! The treatment of dirty objects ([`dirty`](crate::storage::dirty)) whose records are wanted, or
//! that are torn.

use tombolo_memory::Memory;

use crate::storage::records::RecordId;
use crate::{Error, Objects};

/// The treatment of dirty objects by a host's user.
pub(crate) trait DirtyObjects<M: Memory>: Send + Sync {
    /// Has the object with `key` written back, if it has `record` and is dirty. Waits for nobody.
    fn write_back(&self, objects: &Objects<M>, key: &[u8], record: RecordId) -> Result<(), Error>;

    /// Whether nothing is lost with an object that is not dirty, as far as its key tells.
    fn can_be_reread(&self, key: &[u8]) -> bool;
}
