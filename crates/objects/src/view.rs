//! Views: an object's value where it lies, without a copy.

use std::borrow::Cow;

use tombolo_memory::Memory;
use tombolo_sharing::{Counter, Header, Part};

use crate::event::KeyHash;
use crate::index::Found;
use crate::pins::Pin;
use crate::read::{Looked, Started};
use crate::{Error, Objects, Version};

/// One version of an object's value, which stays as it is for as long as the view is there, whatever becomes of the object.
///
/// Large values are looked at where they lie in LNR; nobody writes there meanwhile. Who writes or deletes the object
/// does not wait for that: others see the new value, and this view the old one. What it costs is the room of the old value, so views are
/// not to be kept, and a host has so many at once ([`Options::views`](crate::Options::views)). Values of at most
/// [`small_lines`](crate::Options::small_lines) lines, and those in this host's own memory, are copied.
#[must_use = "it holds room in the pod as long as it is there"]
pub struct View<'a, M: Memory> {
    objects: &'a Objects<M>,
    header: Header,
    value: Value<'a, M>,
}

enum Value<'a, M: Memory> {
    Pinned { started: Started, _pin: Pin<'a, M> },
    Copied(Vec<u8>),
}

impl<M: Memory> Objects<M> {
    /// Views the value of `key` as it is now; `None` if there is no such object.
    ///
    /// # Errors
    /// [`Error::TooManyViews`], and those of [`read`](Self::read).
    pub fn view(&self, key: &[u8]) -> Result<Option<View<'_, M>>, Error> {
        self.count(Counter::Reads);
        let hash = self.begin(key)?;
        self.persist(|| self.try_view(hash, key))
    }

    /// The outer `None` if something changed meanwhile.
    fn try_view(&self, hash: KeyHash, key: &[u8]) -> Result<Option<Option<View<'_, M>>>, Error> {
        let tail = self.sync(hash)?;
        for found in self.state(hash).index.find(self.memory(), hash) {
            match self.view_found(&found, tail, key)? {
                Looked::Good(view) => return Ok(Some(Some(view))),
                Looked::OtherKey => {}
                Looked::Changed => return Ok(None),
            }
        }
        Ok(Some(None))
    }

    fn view_found(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
    ) -> Result<Looked<View<'_, M>>, Error> {
        let mut value = Vec::new();
        match found.entry.home() {
            Some(host) if host == self.seat.host() => {
                let looked = self.read_at_home(found, key, Part::Whole, &mut value)?;
                let view = |header| View { objects: self, header, value: Value::Copied(value) };
                return Ok(looked.map(view));
            }
            Some(host) => {
                // Not with its chunk pinned, to which it is to return.
                self.bring_back_from(host, found.entry)?;
                return Ok(Looked::Changed);
            }
            None => {}
        }
        let space = &self.state(found.entry.hash).space;
        let Some(extent) = space.extent_at(found.entry.slot) else { return Ok(Looked::Changed) };
        // It is on its way while chunks are pinned.
        self.fetch(extent.first(), Part::Nothing);
        let large = extent.count() > self.small_lines;
        // Before the look by whose end it is known that the object is there, and nobody writes it.
        let pin = large.then(|| self.pins.pin(space.chunks_of(&extent))).transpose()?;
        let looked = self.look(found, tail, key, Part::Whole, |started, header| {
            if pin.is_none() {
                // The whole value is a part of it.
                let _ = self.copy_value(started, header, Part::Whole, &mut value);
            }
            started.clone()
        })?;
        Ok(looked.map(|(header, started)| {
            let value = match pin {
                Some(_pin) => Value::Pinned { started, _pin },
                None => Value::Copied(value),
            };
            View { objects: self, header, value }
        }))
    }
}

impl<M: Memory> View<'_, M> {
    /// The value's length in bytes.
    pub fn len(&self) -> u64 {
        u64::from(self.header.value_bytes)
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version that is viewed.
    pub fn version(&self) -> Version {
        self.header.version
    }

    /// The value. It is copied if it lies in several pieces, which a value of more than a chunk may.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        let mut pieces = self.pieces();
        let first = pieces.next().unwrap_or_default();
        pieces.fold(first, |mut whole, piece| {
            whole.to_mut().extend_from_slice(&piece);
            whole
        })
    }

    /// The value, piece by piece as it lies in LNR. (A simulated host's caches cannot be looked into; there pieces are copies.)
    pub fn pieces(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let memory = self.objects.memory();
        let (lying, copied) = match &self.value {
            Value::Pinned { started, .. } => (Some(started), None),
            Value::Copied(bytes) => (None, Some(Cow::Borrowed(&bytes[..]))),
        };
        let offset = self.header.value_offset();
        let pieces =
            lying.into_iter().flat_map(move |started| started.view(memory, offset, self.len()));
        pieces.chain(copied)
    }

    /// Ends the view. `Ok` means that all that was looked at was the value: so it has to be asked where memory may have errors. Dropping a
    /// view ends it, too.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if this host has met a memory error there.
    pub fn end(self) -> Result<(), Error> {
        let Value::Pinned { started, .. } = &self.value else { return Ok(()) };
        if self.objects.has_read_all(started) {
            return Ok(());
        }
        self.objects.lose_poisoned(started.entry.hash, started.entry.slot)?;
        Err(Error::Poisoned)
    }
}
