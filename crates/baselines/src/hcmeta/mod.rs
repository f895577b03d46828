//! HCMeta: the index and the coherence records lie in SCR, physically shared.
//!
//! Keys are partitioned among the hosts by their hash. An object's owner always knows of it; other
//! hosts find it through an entry in SCR, which names its slot and says whose caches are current. A
//! host that finds no entry asks the owner, by message, which makes one, if need be by taking
//! another object's away: the object is *shared*, the other one *unshared*. That is this scheme's
//! churn. Reads and writes of shared objects take no messages; nor do the owner's of its own
//! objects.
//!
//! Variants: unshared objects stay in LNR, or are moved to their owner's own memory
//! ([`Options::local`]). (With an SCR in which all entries fit there is no churn.) An object gets
//! an entry when it is created, as long as there are free ones.
//!
//! An owner looks for messages before each of its operations, while it waits for others, and when
//! it is idle. The thread that finds the message does all that an answer takes. To be compared with
//! owners that are slower than that, an owner can be given a [`Pace`].
//!
//! Invariants:
//! * An object is shared or unshared under the mutex of its shard; only its owner does so.
//! * An entry changes hands only while its record is locked, and has another version afterwards: a
//!   reader to whom record, key and place look the same before and after its read has read one
//!   object.
//! * An unshared object's lines are its owner's alone, and may be dirty in its caches.
//!
//! All hosts join before the first operation, and leave together (Tigon, too, has a fixed set of
//! them); a host that dies takes its objects with it. An owner that does not answer for five
//! seconds is given up on; it may still do what it was asked for.

mod body;
mod entry;
mod evict;
mod guard;
mod membership;
mod operations;
mod owner;
mod partition;
mod record;
mod request;
mod request_server;
mod sites;
mod space;
mod table;
mod value;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tombolo_host::Host;
use tombolo_memory::{LINE_BYTES, Local, Memory, ScrAddr, Work};
use tombolo_pod::{Enrolment, Mailbox, Reply};
use tombolo_sharing::{Counter, Counters, Error, ObjectArea, hash_key, retry_spinning};

use body::Means;
use partition::Partition;
use record::Layout;
use request::{INLINE_KEY, KeyAt, Outcome, Wish, encode};
use request_server::RequestServer;
use space::Space;
use table::Table;

pub use evict::Victims;
pub use guard::WriteGuard;
pub use request_server::Pace;
pub use sites::ALL as SITES;

/// How a host takes part. All hosts of a pod say the same.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many hosts there are.
    pub hosts: u8,
    /// Bytes of a key that an entry has room for.
    pub key_bytes: u64,
    /// Objects without an entry are in their owner's own memory, instead of LNR.
    pub local: bool,
    /// How fast owners answer.
    pub pace: Pace,
    /// The object that gives an entry up if there is none left.
    pub victims: Victims,
    /// Shards of what a host knows of its objects.
    pub shards: usize,
    /// How often an idle host looks for messages in one tick.
    pub idle_looks: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            hosts: 1,
            key_bytes: 40,
            local: false,
            pace: Pace::default(),
            victims: Victims::default(),
            shards: 1024,
            idle_looks: 200_000,
        }
    }
}

/// How often one that waits for slow owners looks for an answer.
const LOOK: Duration = Duration::from_micros(1);

/// The objects of a pod, as one host shares them under HCMeta.
pub struct HcMeta<M: Memory> {
    area: ObjectArea<M>,
    host: Arc<Host<M>>,
    enrolment: Enrolment,
    options: Options,
    mailbox: Mailbox<M>,
    table: Table<M>,
    layout: Layout,
    space: Space<M>,
    partition: Partition<M>,
    counters: Counters,
    versions: AtomicU64,
    request_server: RequestServer<M>,
    /// Whether anything was done since the last tick.
    active: AtomicBool,
}

impl<M: Memory> HcMeta<M> {
    fn memory(&self) -> &M {
        self.area.memory()
    }

    fn means(&self) -> Means<'_, M> {
        let Self { area, space, counters, versions, .. } = self;
        Means { memory: area.memory(), space, counters, versions }
    }

    fn count(&self, counter: Counter) {
        self.counters.add(counter, 1);
    }

    fn hash(&self, key: &[u8]) -> Result<u64, Error> {
        self.memory().works(Work::Operation);
        hash_key(self.area.pod(), key)
    }

    /// Tells what of this host's memory it takes to look an object of its own up.
    fn owned_touched(&self, hash: u64) {
        self.memory().touches(Local::Partition, true, || {
            let first = own_line(hash, 2);
            first..first + 2
        });
    }

    /// Tells that this host reads or writes an object's value in its own memory.
    fn local_touched(&self, hash: u64, value_bytes: usize, write: bool) {
        self.memory().touches(Local::Objects, write, || {
            let lines = (value_bytes as u64).div_ceil(LINE_BYTES);
            let first = own_line(hash, 64);
            first..first + lines
        });
    }

    /// From now on this host answers so fast, and takes answers to need so long.
    pub fn set_pace(&self, pace: Pace) {
        self.request_server.set(pace);
    }

    /// The host that owns the object with this key, whether there is one or not.
    ///
    /// # Errors
    /// [`Error::KeyLength`].
    pub fn owner(&self, key: &[u8]) -> Result<u8, Error> {
        Ok(self.owner_of(hash_key(self.area.pod(), key)?))
    }

    /// Whose the object with this hash is.
    fn owner_of(&self, hash: u64) -> u8 {
        ((hash >> 48) % u64::from(self.options.hosts)) as u8
    }

    fn own_count(&self) -> ScrAddr<u64> {
        self.table.objects(self.enrolment.host())
    }

    /// Repeats `attempt` until it comes to something; in between this host answers others.
    fn retry_with_backoff<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        if !self.active.load(Ordering::Relaxed) {
            self.active.store(true, Ordering::Relaxed);
        }
        retry_spinning(self.memory(), || {
            self.serve()?;
            attempt()
        })
    }

    /// Asks the owner of an object for something, and waits for what comes of it.
    fn ask(&self, owner: u8, wish: Wish, key: KeyAt<'_>) -> Result<Outcome, Error> {
        let payload = encode(wish, key);
        let started = self.memory().uptime();
        let mut ticket = self.retry_with_backoff(|| Ok(self.mailbox.try_post(owner, &payload)))?;
        let answer = self.retry_with_backoff(|| match ticket.reply() {
            Reply::Waiting => {
                if self.request_server.takes_time() {
                    self.memory().sleep(LOOK);
                }
                Ok(None)
            }
            Reply::Answered(answer) => Ok(Some(answer)),
            Reply::Gone => Err(Error::OwnerGone { host: owner }),
        })?;
        let delay = self.request_server.delay();
        while !delay.is_zero() && self.memory().uptime().saturating_sub(started) < delay {
            self.serve()?;
            self.memory().pause();
        }
        match Outcome::decode(answer) {
            Outcome::Failed => Err(Error::Damaged(format!("host {owner} came upon damage"))),
            Outcome::NoRoom(bytes) if !matches!(wish, Wish::Keys(_)) => {
                Err(Error::LnrFull { bytes: bytes.into() })
            }
            outcome => Ok(outcome),
        }
    }

    /// The same, about the object with `key`.
    fn ask_about(&self, owner: u8, wish: Wish, key: &[u8]) -> Result<Outcome, Error> {
        if key.len() <= INLINE_KEY {
            return self.ask(owner, wish, KeyAt::Here(key));
        }
        let means = self.means();
        let (lines, header) = means.place(key, &[], means.next_version())?;
        means.publish(sites::HAND_CLEAN, [lines], |memory| {
            memory.gives(lines, header.total_bytes());
        });
        // Unless there is an answer, the owner may still look at the slot: then nobody uses it
        // again.
        let outcome = self.ask(owner, wish, KeyAt::Line(lines.first()))?;
        self.space.free(lines.first());
        Ok(outcome)
    }

    /// Has an object of another host shared: its entry, unless there is no such object.
    fn ask_to_share(&self, owner: u8, key: &[u8]) -> Result<Outcome, Error> {
        let started = self.memory().uptime();
        let outcome = self.ask_about(owner, Wish::Share, key)?;
        if matches!(outcome, Outcome::Done(_)) {
            let took = self.memory().uptime().saturating_sub(started);
            self.count(Counter::Churn);
            self.counters.add(Counter::ChurnNs, took.as_nanos() as u64);
        }
        Ok(outcome)
    }
}

/// Where what belongs to the object with this hash might lie in its owner's memory, if it takes so
/// many lines: apart from others', nearly always.
fn own_line(hash: u64, lines: u64) -> u64 {
    hash % ((1 << 40) / lines) * lines
}
