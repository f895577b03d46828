//! Views: an object's value where it lies, without a copy.

use std::borrow::Cow;

use tombolo_memory::{Lines, Memory};
use tombolo_sharing::{Counter, Header, Part};

use crate::host::lookup::Attempt;
use crate::read::{ReadSnapshot, tells_of_its_value};
use crate::storage::index::{Entry, Found};
use crate::storage::space::pins::Pin;
use crate::{Error, Objects, Version};

/// One version of an object's value, which stays as it is for as long as the view is there,
/// whatever becomes of the object.
///
/// Large values are looked at where they lie in LNR; nobody writes there meanwhile. A host that
/// writes or deletes the object does not wait for that: others see the new value, and this view the
/// old one. The cost is the room of the old value. So views are not to be kept, and a host has so
/// many at once ([`Options::views`](crate::Options::views)). Values of at most
/// [`small_lines`](crate::Options::small_lines) lines, and those in this host's own memory, are
/// copied.
#[must_use = "it holds room in the pod as long as it is there"]
pub struct View<'a, M: Memory> {
    objects: &'a Objects<M>,
    header: Header,
    value: Value<'a, M>,
}

enum Value<'a, M: Memory> {
    Pinned { snapshot: ReadSnapshot, _pin: Pin<'a, M> },
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
        let index = &self.state(hash).index;
        self.repeat(|| {
            index.prefetch(hash);
            self.lookup(hash, |found, tail| self.view_found(found, tail, key))
        })
    }

    fn view_found(
        &self,
        found: &Found<'_>,
        tail: u64,
        key: &[u8],
    ) -> Result<Attempt<View<'_, M>>, Error> {
        if found.entry.partition() == Some(self.enrolment.host()) {
            let mut copied = Vec::new();
            let attempt = self.read_in_partition(found, key, Part::Whole, &mut copied)?;
            let value = Value::Copied(copied);
            return Ok(attempt.map(|header| View { objects: self, header, value }));
        }
        self.fetch_to_view(found.entry);
        // If the look finds that the object has changed, its chunk is not pinned any more: pinned,
        // the object could not return there, nor be changed in place.
        let attempt = self.look(found, tail, key, Part::Whole, |snapshot, header| {
            self.take_to_view(snapshot, header)
        })?;
        let with_value =
            attempt.map(|(header, value)| value.map(|value| View { objects: self, header, value }));
        with_value.transpose()
    }

    /// Has the processor fetch what a view takes, all at once: one after the other it would wait
    /// four times.
    fn fetch_to_view(&self, entry: Entry) {
        self.memory().prefetch(Lines::new(entry.slot, 1));
        if let Some(chunk) = self.state(entry.hash).space.fetch_place(entry.slot) {
            self.pins.prefetch(chunk);
        }
    }

    /// Pins the value, or copies it. Before the look by whose end it is known that the object is
    /// there, and nobody writes it.
    fn take_to_view(
        &self,
        snapshot: &ReadSnapshot,
        header: &Header,
    ) -> Result<Value<'_, M>, Error> {
        let ReadSnapshot { entry, extent, .. } = snapshot;
        if extent.count() > self.small_lines {
            let pin = self.pins.pin(self.state(entry.hash).space.chunks_of(extent))?;
            return Ok(Value::Pinned { snapshot: snapshot.clone(), _pin: pin });
        }
        let mut copied = Vec::new();
        // The whole value is a part of it.
        let _ = self.copy_value(snapshot, header, Part::Whole, &mut copied);
        Ok(Value::Copied(copied))
    }
}

tells_of_its_value!(View);

impl<M: Memory> View<'_, M> {
    fn header(&self) -> Header {
        self.header
    }

    /// The value. It is copied if it lies in several pieces, which a value of more than a chunk
    /// may.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        let mut pieces = self.pieces();
        let first = pieces.next().unwrap_or_default();
        pieces.fold(first, |mut whole, piece| {
            whole.to_mut().extend_from_slice(&piece);
            whole
        })
    }

    /// The value, piece by piece as it lies in LNR. (A simulated host's caches cannot be looked
    /// into; there pieces are copies.)
    pub fn pieces(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        let memory = self.objects.memory();
        let (lying, copied) = match &self.value {
            Value::Pinned { snapshot, .. } => (Some(snapshot), None),
            Value::Copied(bytes) => (None, Some(Cow::Borrowed(&bytes[..]))),
        };
        let offset = self.header.value_offset();
        let pieces =
            lying.into_iter().flat_map(move |snapshot| snapshot.view(memory, offset, self.len()));
        pieces.chain(copied)
    }

    /// Ends the view. `Ok` means that all that was looked at was the value: so it has to be asked
    /// where memory may have errors. Dropping a view ends it, too.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if this host has met a memory error there.
    pub fn end(self) -> Result<(), Error> {
        let Value::Pinned { snapshot, .. } = &self.value else { return Ok(()) };
        if self.objects.has_read_all(snapshot) {
            return Ok(());
        }
        self.objects.lose_poisoned(snapshot.entry.hash, snapshot.entry.slot)?;
        Err(Error::Poisoned)
    }
}
