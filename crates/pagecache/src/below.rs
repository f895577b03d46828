//! Which directory the files of a pod are in. Each host has to have the same one below: otherwise
//! pages of one host's files would be taken for another's.
//!
//! ```text
//! key     `below`: no file's, so it is never evicted
//! value   inode (8 bytes) | born (8)
//!         path on the host that came first, cut off or filled with zeros (112)
//! ```
//!
//! The first host that joins an empty pod creates it. Those that come later compare, and so do
//! those that find the pod as dead hosts have left it, before they bring pages to any file.

use tombolo_memory::Memory;
use tombolo_sharing::{Error::Exists, Guarded, Scheme};

use crate::cache::{Backing, PageCache};
use crate::pages::Pages;
use crate::{Error, FileId, sites};

pub(crate) const KEY: &[u8] = b"below";

const BYTES: usize = 128;
const IDENTITY_BYTES: usize = 16;

/// A directory whose files are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    /// Which one: the same on every host.
    pub id: FileId,
    /// This host's name of it.
    pub path: String,
}

impl Below {
    fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..8].copy_from_slice(&self.id.inode.to_le_bytes());
        bytes[8..IDENTITY_BYTES].copy_from_slice(&self.id.born.to_le_bytes());
        let path = self.path.as_bytes();
        let length = path.len().min(BYTES - IDENTITY_BYTES);
        bytes[IDENTITY_BYTES..][..length].copy_from_slice(&path[..length]);
        bytes
    }

    /// Whether this is the directory that the pod's value tells.
    ///
    /// # Errors
    /// [`Error::OtherFiles`].
    pub(crate) fn check(&self, value: &[u8]) -> Result<(), Error> {
        let Some((identity, path)) = value.split_at_checked(IDENTITY_BYTES) else { return Ok(()) };
        if identity == &self.encode()[..IDENTITY_BYTES] {
            return Ok(());
        }
        let path = String::from_utf8_lossy(path).trim_end_matches('\0').to_owned();
        Err(Error::OtherFiles { pods: path, own: self.path.clone() })
    }
}

impl<P: Pages, B: Backing> PageCache<P, B> {
    /// Makes sure that this host has the same files below as the others.
    ///
    /// # Errors
    /// [`Error::OtherFiles`], [`Error::Stalled`], [`Error::Objects`].
    pub(crate) fn agree_on_files(&self) -> Result<(), Error> {
        let Some(own) = self.backing.below() else { return Ok(()) };
        self.wait(|| match self.objects().create(KEY, &own.encode()) {
            Err(Exists) => {
                let mut value = [0; BYTES];
                let there = match self.objects().read_bytes(KEY, 0, &mut value) {
                    // It cannot be known any more.
                    Err(error) if error.is_loss() => return Ok(Ok(())),
                    there => there?.is_some(),
                };
                if there && self.memory().keeps(sites::JOIN_BELOW) {
                    own.check(&value)?;
                }
                Ok(if there { Ok(()) } else { Err(self.seat()) })
            }
            created => {
                created?;
                Ok(Ok(()))
            }
        })
    }
}
