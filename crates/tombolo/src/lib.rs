//! Share objects among hosts, or processes, through memory of which little or nothing is coherent.
//!
//! A *pod* is memory that several hosts map: a file in `/dev/shm`, a DAX device, a PCI BAR. One
//! process [creates](create) it, any of up to 64 [join](Member::join) it, as [`Objects`] (keys and
//! bytes, versions, partial writes, guards) or as a [`Store`] (keys and values that expire). Each
//! other host reads a write from the moment it has returned.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("pod");
//! # let spec = path.to_str().unwrap();
//! use tombolo::{CreateOptions, Objects};
//!
//! // On one host: let spec = "/dev/shm/my-pod";
//! tombolo::create(spec, CreateOptions::sized(64 << 20))?;
//! let mine = Objects::join(spec)?;
//! mine.put(b"greeting", b"hello")?;
//!
//! // On another:
//! let theirs = Objects::join(spec)?;
//! let mut value = Vec::new();
//! theirs.read(b"greeting", &mut value)?;
//! assert_eq!(value, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! [`Regions`] are another way to share: named ranges of bytes that processes load and store in.
//! Their pages are kept coherent by page protection, by replicas, or by the hardware.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # if tombolo_memory::paging::SharedPages::new(1, None).is_err() { return Ok(()); }
//! # let folder = tempfile::tempdir_in("/dev/shm")?;
//! # let spec: tombolo::PodSpec = folder.path().join("pod").to_str().unwrap().parse()?;
//! use tombolo::{Mode, RegionShape, Regions, Sizes};
//!
//! // On one host: let spec = "/dev/shm/my-pod".parse()?;
//! let sizes = Sizes { scr_bytes: Some(1 << 20), lnr_bytes: Some(8 << 20), ..Sizes::default() };
//! tombolo::create_region_pod(&spec, sizes, 8, RegionShape::default())?;
//! let mine = Regions::join(&spec)?;
//! mine.create("table", 1 << 20, Mode::Owned)?;
//! let table = mine.open("table")?;
//! table.bytes().store(4096, 7_u64);
//!
//! // On another:
//! let theirs = Regions::join(&spec)?.open("table")?;
//! assert_eq!(theirs.bytes().load::<u64>(4096), 7);
//! # Ok(())
//! # }
//! ```
//!
//! # What to know
//!
//! * Handles are shared by the threads of a process: pass references, or clones, which are the same
//!   host. A thread that each host has does its background work.
//! * Dropping a handle, or [`Member::leave`], leaves the pod. A process may also be killed at any
//!   time: the other hosts take over its locks and go on, and its seat becomes free. The value that
//!   it was just writing is lost, unless the pod keeps what writes overwrite. If all are killed,
//!   the next host that joins finds what they had written, as long as the pod's memory keeps its
//!   bytes. Nothing is lost if a process catches signals, and leaves.
//! * An error of the memory in which one object lies costs that object. One in SCR, the log or mail
//!   is passed on to the handler of SIGBUS that the program had; [`on_memory_error`] changes that.
//! * A view ([`Objects::view`], [`Store::view`](tombolo_kv::Store::view)) shows a large value where
//!   it lies, and keeps its room until it is dropped: look, and let go. An owned view
//!   ([`Store::view_owned`], [`Objects::view_owned`]) can be sent elsewhere.
//! * A room ([`Store::reserve_owned`]) is memory of the pod for a value to come: it is filled, and
//!   then published or dropped.
//! * Each host stores into the pod, also one that only reads: its seat, its beat, and how far it
//!   has applied the log. A host that reads applies changes and cleans up after dead hosts like any
//!   other. So the pod has to be writable for it, and there is no read-only join.
//! * Objects stay in the pod when all hosts have left, for as long as its memory keeps its bytes.
//! * A [`database`] has tables of rows, and transactions over them. It takes a pod of its own.
//! * Values that a [`Store`] has put are objects whose first bytes say when they expire. Use a pod
//!   through one of the two interfaces.
//!
//! Left out: anything asynchronous. Operations take microseconds, and block.

pub mod database;
mod keys;
mod member;
mod objects;
mod owned;
mod store;

use std::path::Path;

pub use keys::Keys;
pub use member::{Handle, Member};
pub use owned::{ObjectRoom, ObjectView, OwnedView, Shown, StoreRoom, StoreView};
pub use store::Lifetime;
pub use tombolo_kv::{
    Change as StoreChange, Entry, Error as StoreError, Evicted, Removal, RemovalHook, ValueRoom,
    ValueView,
};
pub use tombolo_memory::FetchOp;
pub use tombolo_memory::paging::PageSpace;
pub use tombolo_memory::{
    Mapped, MemoryError, MemorySpec, OnMemoryError, Source, format_size, on_memory_error,
    parse_size,
};
pub use tombolo_objects::{
    BreakEven, Change, Chunk, ChunkUse, Cleanup, Costs, Error, IndexLimits, Item, Locks,
    MAX_KEY_BYTES, Maintenance, Options, Place, Placement, Profile, ReadGuard, Recency,
    Reservation, Stats, Thresholds, Usage, Version, View, WriteGuard, saved,
};
pub use tombolo_pod::{Kind, MAX_AREAS, MAX_HOSTS, PodError, PodSpec, Sizes, Stay};
pub use tombolo_regions::{
    BlockMode, BlockStats, Mode, RegionEntry, RegionError, Regions, Shape as RegionShape,
    SharedRegion, create_pod as create_region_pod,
};
pub use tombolo_sharing::{
    AreaOptions, CreateOptions, EvictionPolicy, EvictionReason, Geometry, OBJECTS, ObjectArea,
    Options as LayoutOptions, PAGES, RecordWidth, TornWrites,
};

/// A pod in mapped memory.
pub type Pod = tombolo_pod::Pod<Mapped>;

/// The objects of a pod, as this host shares them. It has all operations of
/// [`Objects<Mapped>`](tombolo_objects::Objects), too.
pub type Objects = Member<tombolo_objects::Objects<Mapped>>;

/// The key-value store of a pod, as this host serves it.
pub type Store = Member<tombolo_kv::Store<tombolo_objects::Objects<Mapped>>>;

/// The reads and changes of a transaction on a [`Store`].
pub type StoreTransaction<'a> = tombolo_kv::Transaction<'a, tombolo_objects::Objects<Mapped>>;

/// Creates an empty pod in the memory that `spec` names: `/dev/shm/pod`, `/dev/dax0.0`, or two
/// specs for a coherent and a non-coherent part, `/dev/dax0.0+/dev/dax1.0`.
///
/// # Errors
/// [`PodError`]. The memory's contents are still there then, unless `options` force it.
pub fn create(spec: impl AsRef<Path>, options: CreateOptions) -> Result<Pod, PodError> {
    tombolo_sharing::create(&spec_of(spec.as_ref())?, options)
}

/// Creates an empty pod with several areas, in which tenants live side by side: objects, and the
/// pages of a page cache.
///
/// # Errors
/// As of [`create`].
pub fn create_areas(
    spec: impl AsRef<Path>,
    sizes: Sizes,
    areas: &[AreaOptions],
) -> Result<Pod, PodError> {
    tombolo_sharing::create_areas(&spec_of(spec.as_ref())?, sizes, areas)
}

/// Opens the pod that `spec` names, without joining it.
///
/// # Errors
/// [`PodError`].
pub fn open(spec: impl AsRef<Path>) -> Result<Pod, PodError> {
    tombolo_pod::open(&spec_of(spec.as_ref())?)
}

/// A path that is no text can have no options.
fn spec_of(spec: &Path) -> Result<PodSpec, PodError> {
    match spec.to_str() {
        Some(text) => text.parse(),
        None => Ok(PodSpec::path(spec)),
    }
}
