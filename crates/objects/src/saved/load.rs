//! Out of a file.

use std::io::{Read, Seek};

use tombolo_memory::Memory;
use tombolo_sharing::HEADER_BYTES;

use super::reader::read;
use super::{Amount, Contents, LoadError, SavedError, check_pod};
use crate::{Error, Objects};

/// The treatment of an object that is there already. (One whose value is lost is not: it gets the
/// file's.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// The load stops there.
    #[default]
    Fail,
    /// It stays as it is.
    Keep,
    /// It gets the file's value.
    Replace,
}

/// The outcome of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The objects that were created or replaced.
    pub loaded: Amount,
    /// Objects that were there before, and were kept or replaced.
    pub existing: u64,
}

/// A saved pod, all of whose bytes are known to be what was saved.
#[derive(Debug)]
pub struct SavedFile<F> {
    file: F,
    contents: Contents,
}

impl<F: Read + Seek> SavedFile<F> {
    /// Reads and checks all of `file`.
    ///
    /// # Errors
    /// [`SavedError::Read`]; [`SavedError::Foreign`], [`SavedError::Version`],
    /// [`SavedError::CutOff`] or [`SavedError::Damaged`] if it is not what was saved.
    pub fn check(mut file: F) -> Result<Self, SavedError> {
        let contents = from_its_start(&mut file, |_, _| Ok(()))?;
        Ok(Self { file, contents })
    }

    /// Shows each key and value to `visit`, in no order. The file is checked again: it may have
    /// changed.
    ///
    /// # Errors
    /// Those of [`check`](Self::check) and of `visit`, which ends it.
    pub fn visit(
        &mut self,
        visit: impl FnMut(&[u8], &[u8]) -> Result<(), SavedError>,
    ) -> Result<(), SavedError> {
        from_its_start(&mut self.file, visit).map(drop)
    }

    /// The file's contents.
    pub fn contents(&self) -> Contents {
        self.contents
    }
}

fn from_its_start<F: Read + Seek>(
    file: &mut F,
    visit: impl FnMut(&[u8], &[u8]) -> Result<(), SavedError>,
) -> Result<Contents, SavedError> {
    file.rewind().map_err(|error| SavedError::Read { at: 0, error })?;
    read(file, visit)
}

impl<M: Memory> Objects<M> {
    /// Creates the objects of a file, one after the other, while others may work in the pod.
    /// `go_on` is told each time how far it is, objects that were kept included, and says whether
    /// to go on.
    ///
    /// # Errors
    /// [`LoadError`], for what [`SavedError`] names. Objects loaded by then are in the pod; the
    /// missing ones can be loaded with [`Existing::Keep`].
    pub fn load<F: Read + Seek>(
        &self,
        file: &mut SavedFile<F>,
        existing: Existing,
        mut go_on: impl FnMut(Amount) -> bool,
    ) -> Result<Loaded, LoadError> {
        let all = file.contents.saved;
        let (mut done, mut passed) = (Loaded::default(), Amount::default());
        let ended = self.check_room(all, existing).and_then(|()| {
            file.visit(|key, value| {
                if !go_on(passed) {
                    return Err(SavedError::Stopped);
                }
                let was_there = self.load_one(key, value, existing)?;
                passed.add(key, value);
                done.existing += u64::from(was_there);
                if !was_there || existing == Existing::Replace {
                    done.loaded.add(key, value);
                }
                Ok(())
            })
        });
        let missing = Amount {
            objects: all.objects.saturating_sub(passed.objects),
            bytes: all.bytes.saturating_sub(passed.bytes),
        };
        ended.map(|()| done).map_err(|why| LoadError { why, loaded: done.loaded, missing })
    }

    /// Whether all objects might find room. If some may be there already, that is not known before.
    fn check_room(&self, all: Amount, existing: Existing) -> Result<(), SavedError> {
        check_pod(self.area())?;
        let usage = self.usage();
        let free = usage.lnr_bytes.saturating_sub(usage.lnr_used_bytes);
        let bytes = all.bytes.saturating_add(all.objects.saturating_mul(HEADER_BYTES as u64));
        if existing == Existing::Fail && bytes > free {
            return Err(SavedError::TooSmall { bytes, free });
        }
        Ok(())
    }

    /// Gives a key its value; whether there was an object already.
    fn load_one(&self, key: &[u8], value: &[u8], existing: Existing) -> Result<bool, SavedError> {
        let failed = |error| SavedError::of(key, error);
        loop {
            match (self.create(key, value), existing) {
                (Ok(_), _) => return Ok(false),
                (Err(error), _) if error.is_loss() => _ = self.forget_lost(key).map_err(failed)?,
                (Err(Error::Exists), Existing::Fail) => return Err(SavedError::exists(key)),
                (Err(Error::Exists), Existing::Keep) => return Ok(true),
                (Err(Error::Exists), Existing::Replace) => {
                    self.put(key, value).map_err(failed)?;
                    return Ok(true);
                }
                (Err(error), _) => return Err(failed(error)),
            }
        }
    }
}
