//! Floor 4: a cache of files' pages that all hosts of a pod share (section 5 of the paper).
//!
//! Each page of a file, and its *head* (size, time, epoch), is an object. Files lie in a
//! [`Backing`] that all hosts reach. Bytes within one page are read and written in one step.
//! Appending and cutting are one step, too. A reader sees what was written before, on any host.
//! Reads and writes of several pages may be seen in part.
//!
//! * **Admission.** A page that is not there is read from its file and created, by one thread of
//!   all hosts: under a latch, after looking for the page again. Without that, what was read from
//!   the file could be older than a page that has come and gone meanwhile.
//! * **Dirty pages.** The writer of a page marks it before the page can be seen. A marked page
//!   stays: it is written to its file, under its lock, before its mark goes, and only then may it
//!   be evicted. On MEGALON the mark is its coherence record's, which it keeps that long: a page
//!   without a record is as it is in its file.
//! * **Cutting.** A thread that cuts a file, or appends to it, has it alone: the head's epoch is
//!   odd meanwhile. It waits for admissions that began before, and takes the pages beyond the end
//!   out of the cache before the file is cut below. Reads, writes and admissions that began with
//!   another epoch begin again. So no old byte comes back when the file grows.
//! * **Durability.** [`PageCache::sync`] writes back all dirty pages of the file, whichever host
//!   wrote them, and then makes the file durable. Bytes that were synchronised survive that all
//!   hosts lose power.
//! * **Nothing outlives the hosts.** A pod for a page cache is empty when the first host joins it:
//!   files may have changed meanwhile. If pages were dirty when the last host died, the next host
//!   brings them to their files first.
//! * **Hosts that die.** The others go on. A page that a dead host was changing is as in its file,
//!   if it was not dirty; if it was, it cannot be read or written until somebody synchronises the
//!   file, and is told that it is lost; or it is as it was before, if writes are undone. A dead
//!   host may have had a file alone, or made it longer. The host that uses the file next ends what
//!   the dead one was at.
//! * **Locks.** A thread that has a latch may wait for an object's lock, not the other way round. A
//!   thread that has a page's lock may look at the head, never wait for its lock, for a record, or
//!   for another host's answer: it takes the file alone instead.
//!
//! Written against [`Pages`]: what is required of a way of sharing, and where marks are.
//! [`ByRecord`] is MEGALON; [`InHeader`] is any other way, with marks in the pages, to compare it
//! with.
//!
//! Left out: names, directories, permissions (the file system below has them); reading ahead; hosts
//! that die under other schemes than MEGALON.

mod backing;
mod below;
mod cache;
mod clock;
mod counts;
mod dead;
mod error;
mod evict;
mod gone;
mod head;
mod holes;
mod in_header;
mod key;
mod latch;
mod limit;
mod page;
mod pages;
mod salvage;
mod sites;
mod uses;

pub use backing::{Attributes, Backing, Fate, FileId, Handle, NO_HANDLE};
pub use below::Below;
pub use cache::{Options, PAGE_BYTES, PageCache};
pub use counts::Counts;
pub use error::Error;
pub use head::Stamp;
pub use in_header::InHeader;
pub use key::{KEY_BYTES, Key};
pub use page::PageWriteBack;
pub use pages::{ByRecord, Held, MemoryOf, OptionsOf, Pages};
pub use sites::ALL as SITES;
