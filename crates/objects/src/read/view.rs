//! Views: an object's value where it lies, without a copy.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Deref;

use tombolo_memory::{Lines, Memory};
use tombolo_sharing::{Counter, Header, Part};

use crate::host::lookup::Attempt;
use crate::read::{ReadSnapshot, tells_of_its_value};
use crate::storage::index::{Entry, Found};
use crate::storage::space::pins::Pinned;
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
///
/// It holds its host's objects by a `H`: a reference, or a counted handle that can be kept and sent
/// elsewhere.
#[must_use = "it holds room in the pod as long as it is there"]
pub struct ViewBy<H: Deref<Target = Objects<M>>, M: Memory> {
    objects: H,
    header: Header,
    value: Value,
    memory: PhantomData<fn() -> M>,
}

/// A view that borrows its host's objects.
pub type View<'a, M> = ViewBy<&'a Objects<M>, M>;

enum Value {
    Pinned { snapshot: ReadSnapshot, pinned: Pinned },
    Copied(Vec<u8>),
}

impl<M: Memory> Objects<M> {
    /// Views the value of `key` as it is now; `None` if there is no such object.
    ///
    /// # Errors
    /// [`Error::TooManyViews`], and those of [`read`](Self::read).
    pub fn view(&self, key: &[u8]) -> Result<Option<View<'_, M>>, Error> {
        Self::view_by(self, key)
    }

    /// As [`view`](Self::view), where the view keeps `objects`.
    ///
    /// # Errors
    /// Those of [`view`](Self::view).
    pub fn view_by<H: Deref<Target = Self>>(
        objects: H,
        key: &[u8],
    ) -> Result<Option<ViewBy<H, M>>, Error> {
        let viewed = objects.view_value(key)?;
        Ok(viewed.map(|(header, value)| ViewBy { objects, header, value, memory: PhantomData }))
    }

    fn view_value(&self, key: &[u8]) -> Result<Option<(Header, Value)>, Error> {
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
    ) -> Result<Attempt<(Header, Value)>, Error> {
        if found.entry.partition() == Some(self.enrolment.host()) {
            let mut copied = Vec::new();
            let attempt = self.read_in_partition(found, key, Part::Whole, &mut copied)?;
            return Ok(attempt.map(|header| (header, Value::Copied(copied))));
        }
        self.fetch_to_view(found.entry);
        // If the look finds that the object has changed, its chunk is not pinned any more: pinned,
        // the object could not return there, nor be changed in place.
        let attempt = self.look(found, tail, key, Part::Whole, |snapshot, header| {
            self.take_to_view(snapshot, header).map(|value| Unseen { objects: self, value })
        })?;
        let seen = attempt.map(|(header, unseen)| unseen.map(|unseen| (header, unseen.seen())));
        seen.transpose()
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
    fn take_to_view(&self, snapshot: &ReadSnapshot, header: &Header) -> Result<Value, Error> {
        let ReadSnapshot { entry, extent, .. } = snapshot;
        if extent.count() > self.small_lines {
            let pinned = self.pins.pin(self.state(entry.hash).space.chunks_of(extent))?;
            return Ok(Value::Pinned { snapshot: snapshot.clone(), pinned });
        }
        let mut copied = Vec::new();
        // The whole value is a part of it.
        let _ = self.copy_value(snapshot, header, Part::Whole, &mut copied);
        Ok(Value::Copied(copied))
    }
}

impl Value {
    fn let_go<M: Memory>(&self, objects: &Objects<M>) {
        if let Self::Pinned { pinned, .. } = self {
            objects.pins.unpin(pinned);
        }
    }
}

/// A value of which it is not known yet whether it is the object's.
struct Unseen<'a, M: Memory> {
    objects: &'a Objects<M>,
    value: Value,
}

impl<M: Memory> Unseen<'_, M> {
    /// It is.
    fn seen(mut self) -> Value {
        std::mem::replace(&mut self.value, Value::Copied(Vec::new()))
    }
}

impl<M: Memory> Drop for Unseen<'_, M> {
    fn drop(&mut self) {
        self.value.let_go(self.objects);
    }
}

tells_of_its_value!([H: Deref<Target = Objects<M>>, M: Memory], ViewBy<H, M>);

impl<H: Deref<Target = Objects<M>>, M: Memory> ViewBy<H, M> {
    fn header(&self) -> Header {
        self.header
    }

    /// Whether the value lies in one piece. If the object, with its key and header, is no larger
    /// than a chunk, it does. A larger one does if there were chunks in a row for it.
    pub fn is_contiguous(&self) -> bool {
        match &self.value {
            Value::Pinned { snapshot, .. } => snapshot.extent.is_whole(),
            Value::Copied(_) => true,
        }
    }

    /// The value. It is copied if it does not lie [in one piece](Self::is_contiguous).
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        let mut pieces = self.pieces();
        let first = pieces.next().unwrap_or_default();
        pieces.fold(first, |mut whole, piece| {
            whole.to_mut().extend_from_slice(&piece);
            whole
        })
    }

    /// Copies the bytes of the value from `offset` on to `into`, as many as there are in both.
    pub fn copy_to(&self, offset: u64, mut into: &mut [u8]) {
        let mut before = offset as usize;
        for piece in self.pieces() {
            let part = piece.get(before..).unwrap_or_default();
            before -= before.min(piece.len());
            let count = part.len().min(into.len());
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&part[..count]);
            into = later;
        }
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

impl<H: Deref<Target = Objects<M>>, M: Memory> Drop for ViewBy<H, M> {
    fn drop(&mut self) {
        self.value.let_go(&self.objects);
    }
}
