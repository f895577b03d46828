//! Floor 1 of Tombolo: what one host can do to a pod's memory.
//!
//! [`Memory`] is the trait that everything above is written against; it has two back ends. The
//! mapped one, here ([`Mapped`]), compiles to plain loads, stores, cache-line cleans and atomics.
//! The simulator (its own crate) gives every host an incoherent cache. [`conformance`] holds both
//! to their word.
//!
//! A [`MemorySpec`] names memory, a [`Backing`] is the open file or device, a [`Region`] its
//! mapping, and two [`Window`]s of regions make a [`Mapped`].
//!
//! Invariants:
//! * Raw pointers into shared memory, atomics on it, inline assembly and `core::arch` occur in this
//!   crate alone. Above it there are typed offsets ([`ScrAddr`], [`LnrAddr`], [`Lines`]).
//! * References to shared memory are of two kinds: to words, which are atomic, and stay in this
//!   crate; and to bytes in a [view](Memory::view), while nobody writes them. All other bytes are
//!   copied in and out of private buffers.
//! * [`Memory::publish`] and [`Memory::consume`] are the only ways to couple the two regions.
//!
//! Left out: what the bytes mean. This crate knows no pods, logs or objects.

mod address;
mod arena;
mod backing;
mod cache;
pub mod conformance;
mod copy;
mod demand;
mod error;
mod fork;
mod handle;
mod huge;
mod life;
mod mapped;
mod memory;
mod numa;
pub mod paging;
mod past;
mod poison;
mod private;
mod process;
mod processor;
mod region;
mod site;
mod spec;
mod stream;
mod table;
mod whole;
mod word;
mod writeback;

pub use address::{LINE_BYTES, Lines, LnrAddr, ScrAddr};
pub use arena::Arena;
pub use backing::{Backing, Room};
pub use cache::CacheControl;
pub use error::MemoryError;
pub use fork::AroundForks;
#[doc(hidden)]
pub use fork::in_child;
pub use handle::FileHandle;
pub use huge::HugePages;
pub use life::LifeLock;
pub use lock_api;
pub use mapped::{Mapped, Prepared};
pub use memory::{Local, Memory, Moment, Work};
pub use poison::{OnMemoryError, on_memory_error};
pub use private::PrivateHeap;
pub use process::Process;
pub use processor::{TAGS, Tags, prefer_huge_pages, prefetch};
pub use region::{FilePart, Region, Window};
pub use site::Site;
pub use spec::{MemorySpec, Source, format_size, parse_size};
pub use table::Table;
pub use whole::Whole;
#[doc(hidden)]
pub use word::AtomicWord;
pub use word::{ByAddress, FetchOp, Located, MappedWord, Word};
pub use writeback::WriteBack;

/// A mutex for state shared by the threads of one host, as `M` implements it.
pub type HostMutex<M, T> = lock_api::Mutex<<M as Memory>::RawMutex, T>;
