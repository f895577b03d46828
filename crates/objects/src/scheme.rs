//! Objects as one of several ways of sharing.

use tombolo_memory::Memory;
use tombolo_pod::Pod;

use crate::{Change, Error, Objects, Options, Scheme, Stats, Usage, Version};

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

    fn join(pod: Pod<M>, options: Options) -> Result<Self, Error> {
        Self::join(pod, options)
    }

    passed_on! {
        leave() -> Result<(), Error>;
        tick() -> Result<(), Error>;
        pod() -> &Pod<M>;
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
        delete_version(key: &[u8], expected: Version) -> Result<bool, Error>;
        scan(cursor: u64, visit: impl FnMut(&[u8])) -> Result<u64, Error>;
        scan_within_reach(cursor: u64, visit: impl FnMut(&[u8])) -> Result<u64, Error>;
    }
}
