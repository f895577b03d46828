//! Objects as one of several ways of sharing.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_pod::{Area, Seat};
use tombolo_sharing::{Guard, Guarded, ObjectArea, Reserving, Room, Viewed, retry_with_backoff};

use crate::{
    Change, Error, Eviction, Item, Objects, Options, ReservationBy, Resident, Scheme, Stats, Usage,
    Version, ViewBy, WriteGuard,
};

/// Passes each operation on to the handle's own.
macro_rules! passed_on {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[inline]
            fn $name(&self, $($argument: $type),*) -> $result {
                Self::$name(self, $($argument),*)
            }
        )*
    };
}

impl<M: Memory> Scheme for Objects<M> {
    type Memory = M;
    type Options = Options;

    fn attach(host: &Arc<Host<M>>, area: Area<M>, options: Options) -> Result<Self, Error> {
        Self::attach(host, area, options.into())
    }

    #[inline(always)]
    fn read_split<const HEAD: usize>(
        &self,
        key: &[u8],
        head: &mut [u8; HEAD],
        rest: &mut Vec<u8>,
    ) -> Result<Option<Version>, Error> {
        Self::read_split(self, key, head, rest)
    }

    #[inline]
    fn prefetch(&self, key: &[u8]) {
        self.prefetch(key);
    }

    fn put_split<const HEAD: usize>(
        &self,
        key: &[u8],
        head: &[u8; HEAD],
        rest: &[u8],
    ) -> Result<Version, Error> {
        Self::put_split(self, key, head, rest)
    }

    fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K], items: &mut [Item]) -> Result<(), Error> {
        Self::multi_get(self, keys, items)
    }

    fn multi_get_within<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        most_bytes: u64,
        items: &mut [Item],
    ) -> Result<(), Error> {
        Self::multi_get_within(self, keys, most_bytes, items)
    }

    fn multi_put<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pairs: &[(K, V)],
    ) -> Vec<Result<Version, Error>> {
        Self::multi_put(self, pairs)
    }

    fn host_number(&self) -> Option<u8> {
        Some(self.enrolment.host())
    }

    passed_on! {
        leave() -> Result<(), Error>;
        tick() -> Result<(), Error>;
        area() -> &ObjectArea<M>;
        stats() -> Stats;
        usage() -> Usage;
        object_count() -> Result<u64, Error>;
        read(key: &[u8], value: &mut Vec<u8>) -> Result<Option<Version>, Error>;
        read_range(key: &[u8], offset: u64, into: &mut [u8]) -> Result<Version, Error>;
        stat(key: &[u8]) -> Result<Option<(u64, Version)>, Error>;
        create(key: &[u8], value: &[u8]) -> Result<Version, Error>;
        write(key: &[u8], value: &[u8]) -> Result<Version, Error>;
        write_range(key: &[u8], offset: u64, bytes: &[u8]) -> Result<Version, Error>;
        put(key: &[u8], value: &[u8]) -> Result<Version, Error>;
        compare_and_swap(key: &[u8], expected: Version, value: &[u8]) -> Result<Version, Error>;
        update(key: &[u8], change: impl FnMut(Option<&[u8]>) -> Change) -> Result<(), Error>;
        delete(key: &[u8]) -> Result<bool, Error>;
        forget_lost(key: &[u8]) -> Result<bool, Error>;
        delete_version(key: &[u8], expected: Version) -> Result<bool, Error>;
        scan(cursor: u64, visit: impl FnMut(&[u8])) -> Result<u64, Error>;
        scan_within_reach(cursor: u64, visit: impl FnMut(&[u8])) -> Result<u64, Error>;
        sample(cursor: u64, visit: impl FnMut(Resident)) -> u64;
        inspect(resident: Resident, key: &mut Vec<u8>, head: &mut [u8])
            -> Result<Option<Version>, Error>;
        evict(resident: Resident, key: &[u8], version: Version) -> Result<Eviction, Error>;
        used_bytes() -> u64;
    }
}

impl<M: Memory> Guarded for Objects<M> {
    type Guard<'a> = WriteGuard<'a, M>;

    fn seat(&self) -> &Seat {
        Self::seat(self)
    }

    fn write_start(&self, key: &[u8]) -> Result<WriteGuard<'_, M>, Error> {
        Self::write_start(self, key)
    }

    fn try_write_start(&self, key: &[u8]) -> Result<Option<WriteGuard<'_, M>>, Error> {
        Self::try_write_start(self, key)
    }

    /// Brings objects back from this host's own memory that others ask for.
    fn meanwhile(&self) -> Result<(), Error> {
        self.answer_in_tick()
    }

    /// Straight from the slot: neither from a copy nor from this host's own memory.
    fn read_bytes(
        &self,
        key: &[u8],
        offset: u64,
        into: &mut [u8],
    ) -> Result<Option<Version>, Error> {
        retry_with_backoff(self.memory(), || {
            let guard = match self.read_start(key) {
                Err(Error::NotFound) => return Ok(Some(None)),
                guard => guard?,
            };
            guard.read(offset, into)?;
            let version = guard.version();
            match guard.read_end() {
                Err(Error::Torn) => Ok(None),
                ended => ended.map(|()| Some(Some(version))),
            }
        })
    }
}

impl<M: Memory> Guard for WriteGuard<'_, M> {
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        Self::read(self, offset, into)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        Self::write(self, offset, bytes)
    }

    fn version(&self) -> Version {
        Self::version(self)
    }

    fn end(self) -> Result<(), Error> {
        self.write_end().map(drop)
    }
}

impl<M: Memory> Viewed for Objects<M> {
    type View<H: Deref<Target = Self>> = ViewBy<H, M>;

    fn view_by<H: Deref<Target = Self>>(
        objects: H,
        key: &[u8],
    ) -> Result<Option<ViewBy<H, M>>, Error> {
        Self::view_by(objects, key)
    }
}

impl<M: Memory> Reserving for Objects<M> {
    type Room<H: Deref<Target = Self>> = ReservationBy<H, M>;

    fn reserve_by<H: Deref<Target = Self>>(
        objects: H,
        key: &[u8],
        head: &[u8],
        bytes: u64,
    ) -> Result<ReservationBy<H, M>, Error> {
        Self::reserve_room_by(objects, key, head, bytes)
    }
}

impl<H: Deref<Target = Objects<M>>, M: Memory> Room for ReservationBy<H, M> {
    fn len(&self) -> u64 {
        Self::len(self)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        Self::write(self, offset, bytes)
    }

    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        Self::bytes_mut(self)
    }

    fn publish(self) -> Result<Version, Error> {
        Self::publish(self)
    }

    fn publish_new(self) -> Result<Version, Error> {
        Self::publish_new(self)
    }
}

impl<H: Deref<Target = Objects<M>>, M: Memory> tombolo_sharing::View for ViewBy<H, M> {
    fn version(&self) -> Version {
        Self::version(self)
    }

    fn is_contiguous(&self) -> bool {
        Self::is_contiguous(self)
    }

    fn value_bytes(&self) -> u64 {
        self.len()
    }

    fn copy_to(&self, offset: u64, into: &mut [u8]) {
        Self::copy_to(self, offset, into);
    }

    fn first_piece(&self) -> Cow<'_, [u8]> {
        self.pieces().next().unwrap_or_default()
    }

    fn bytes(&self) -> Cow<'_, [u8]> {
        Self::bytes(self)
    }

    fn end(self) -> Result<(), Error> {
        Self::end(self)
    }
}
