//! One thread of a host: random operations, each noted before it begins and after it has ended.

use std::sync::Arc;

use anyhow::{Context, Result};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tombolo::{Change, Error, Objects, Version};
use tombolo_verify::models::Accumulate;
use tombolo_workloads::{Inserts, Op, Operations, Properties, Workload};

use super::clock::{Times, now, timed};
use super::journal::Journal;
use super::record::{Attempt, Began, Did, Record, key_name};
use super::value::{LONGEST, Tag, Value};

/// How often a read through a guard is begun again before it is done as a whole.
const TORN_AT_MOST: u32 = 16;

/// A client gives way to others once in so many operations, so that more of them overlap than there
/// are processors.
const OPERATIONS_PER_YIELD: u64 = 8;

/// The thread that a client is, and the seed and the number of keys that it works with.
#[derive(Clone, Copy)]
pub(super) struct Identity {
    pub(super) host: u32,
    pub(super) thread: u32,
    /// Which start of a host's process this is, of all there were.
    pub(super) life: u32,
    pub(super) seed: u64,
    pub(super) keys: u32,
}

impl Identity {
    /// Hosts and threads can be told from the decimal digits.
    fn client(&self) -> u32 {
        self.host * 100 + self.thread
    }

    fn dice(&self) -> ChaCha8Rng {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed[8..12].copy_from_slice(&self.life.to_le_bytes());
        seed[12..16].copy_from_slice(&self.thread.to_le_bytes());
        ChaCha8Rng::from_seed(seed)
    }
}

/// A client's knowledge of a key.
#[derive(Clone, Copy, Default)]
struct Known {
    /// The version and value that it has read or written last.
    last: Option<(Version, Value)>,
    /// A value that was there before a write of this client was.
    overwritten: Option<Value>,
}

/// The faults of a client that are to be found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plants {
    /// Report an overwritten value once.
    pub(super) stale_read: bool,
    /// Report once that a value is lost which is there.
    pub(super) loss: bool,
}

pub(super) struct Client<'a> {
    who: Identity,
    objects: &'a Objects,
    journal: &'a Journal,
    dice: ChaCha8Rng,
    /// The choice of operations and objects, if not by dice.
    load: Option<Operations>,
    tag: Tag,
    known: Vec<Known>,
    read: Vec<u8>,
    plants: Plants,
}

/// The outcome of an operation that may be refused, find no room, or find the value lost.
enum Tried<T> {
    Done(T),
    Refused,
    NoRoom,
    Lost,
}

impl<T> Tried<T> {
    fn of(result: Result<T, Error>) -> Result<Self, Error> {
        match result {
            Ok(done) => Ok(Self::Done(done)),
            Err(Error::NotFound | Error::Exists | Error::Changed) => Ok(Self::Refused),
            Err(Error::LnrFull { .. }) => Ok(Self::NoRoom),
            Err(error) if error.is_loss() => Ok(Self::Lost),
            Err(error) => Err(error),
        }
    }
}

/// Whether a host's client failed because the host was fenced: what it was at may be done or not.
pub(super) fn is_fenced(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Fenced { .. }))
}

/// The operations of a thread under YCSB's workload with this letter.
fn load(letter: char, who: Identity) -> Result<Operations> {
    let mut properties = Properties::new();
    properties.read(&format!("workload{letter}"), Workload::stock_text(letter)?)?;
    properties.set(&format!("recordcount={}", who.keys))?;
    let workload = Workload::from_properties(&properties)?;
    let inserts = Arc::new(Inserts::new(&workload));
    Ok(Operations::new(&workload, who.dice().next_u64(), who.thread, inserts)?)
}

impl<'a> Client<'a> {
    /// One that does all kinds of operations, or those of YCSB's workload with this letter.
    pub(super) fn new(
        who: Identity,
        objects: &'a Objects,
        journal: &'a Journal,
        letter: Option<char>,
        plants: Plants,
    ) -> Result<Self> {
        Ok(Self {
            dice: who.dice(),
            load: letter.map(|letter| load(letter, who)).transpose()?,
            tag: Tag::first(who.life, who.thread),
            known: vec![Known::default(); who.keys as usize],
            who,
            objects,
            journal,
            read: Vec::with_capacity(LONGEST),
            plants,
        })
    }

    /// Does operations until `end`.
    pub(super) fn work(&mut self, end: u64) -> Result<()> {
        while now() < end {
            match self.load.as_mut().and_then(Iterator::next) {
                Some(operation) => self.loaded_operation(operation),
                None => self.operation(),
            }?;
            self.give_way();
        }
        Ok(())
    }

    /// Reads every key.
    pub(super) fn read_all(&mut self) -> Result<()> {
        (0..self.who.keys).try_for_each(|key| self.read(key).with_context(|| key_name(key)))
    }

    fn operation(&mut self) -> Result<()> {
        let key = self.below(self.who.keys.into()) as u32;
        let (what, outcome) = match self.below(20) {
            0..5 => ("read", self.read(key)),
            5..7 => ("read in pieces", self.read_in_pieces(key)),
            7..10 => ("put", self.put(key)),
            10 => ("create", self.create(key)),
            11 => ("write", self.write(key)),
            12 => ("delete", self.delete(key)),
            13 => ("delete within an update", self.delete_in_update(key)),
            14 => ("update", self.update(key)),
            15..18 => ("compare-and-swap", self.swap(key)),
            _ => ("partial write", self.amend(key)),
        };
        outcome.with_context(|| format!("{what} of {}", key_name(key)))
    }

    fn loaded_operation(&mut self, operation: Op) -> Result<()> {
        let key = operation.key() as u32;
        let (what, outcome) = match operation {
            Op::Read { .. } | Op::Scan { .. } => ("read", self.read(key)),
            Op::Update { .. } | Op::Insert { .. } => ("put", self.put(key)),
            Op::ReadModifyWrite { .. } => ("update", self.update(key)),
        };
        outcome.with_context(|| format!("{what} of {}", key_name(key)))
    }

    /// Does `operation`, of which it is noted before that it is under way.
    fn attempt<T>(
        &mut self,
        key: u32,
        attempt: Attempt,
        operation: impl FnOnce(&Objects, &[u8], &mut ChaCha8Rng) -> Result<T, Error>,
    ) -> Result<(Tried<T>, Times)> {
        let name = key_name(key);
        let client = self.who.client();
        self.journal.began(Began { client, key, invoked_at: now(), attempt })?;
        let (result, times) = timed(|| operation(self.objects, name.as_bytes(), &mut self.dice));
        Ok((Tried::of(result)?, times))
    }

    fn read(&mut self, key: u32) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.read);
        let (tried, times) =
            self.attempt(key, Attempt::Read, |objects, name, _| objects.read(name, &mut bytes))?;
        self.read = bytes;
        self.has_read(key, times, tried)
    }

    fn has_read(&mut self, key: u32, times: Times, tried: Tried<Option<Version>>) -> Result<()> {
        let found = match tried {
            Tried::Done(version) => version.map(|version| (version, Value::of(&self.read))),
            Tried::Refused | Tried::NoRoom => None,
            Tried::Lost => return self.note(key, times, Did::FoundLost),
        };
        if found.is_some() && std::mem::take(&mut self.plants.loss) {
            return self.note(key, times, Did::FoundLost);
        }
        let told = self.lie(key).or(found.map(|(_, value)| value));
        self.known[key as usize].last = found;
        self.note(key, times, Did::Read(told))
    }

    fn read_in_pieces(&mut self, key: u32) -> Result<()> {
        let mut bytes = std::mem::take(&mut self.read);
        let read = |objects: &Objects, name: &[u8], dice: &mut ChaCha8Rng| {
            pieces_of(objects, name, &mut bytes, dice)
        };
        let (tried, times) = self.attempt(key, Attempt::Read, read)?;
        self.read = bytes;
        self.has_read(key, times, tried)
    }

    fn put(&mut self, key: u32) -> Result<()> {
        let (value, bytes) = self.fresh();
        let put = |objects: &Objects, name: &[u8], _: &mut _| objects.put(name, &bytes);
        let (tried, times) = self.attempt(key, Attempt::Put(value), put)?;
        self.wrote(key, times, value, tried, |_| Did::Put(value))
    }

    fn create(&mut self, key: u32) -> Result<()> {
        let (value, bytes) = self.fresh();
        let create = |objects: &Objects, name: &[u8], _: &mut _| objects.create(name, &bytes);
        let (tried, times) = self.attempt(key, Attempt::Create(value), create)?;
        self.wrote(key, times, value, tried, |done| Did::Create(value, done))
    }

    fn write(&mut self, key: u32) -> Result<()> {
        let (value, bytes) = self.fresh();
        let write = |objects: &Objects, name: &[u8], _: &mut _| objects.write(name, &bytes);
        let (tried, times) = self.attempt(key, Attempt::Write(value), write)?;
        self.wrote(key, times, value, tried, |done| Did::Write(value, done))
    }

    /// Replaces what this client knows, if it is still that. A version names a value: comparing the
    /// one comes to the same as comparing the other.
    fn swap(&mut self, key: u32) -> Result<()> {
        let Some((version, expected)) = self.known[key as usize].last else {
            return self.read(key);
        };
        let (value, bytes) = self.fresh();
        let swap = |objects: &Objects, name: &[u8], _: &mut _| {
            objects.compare_and_swap(name, version, &bytes)
        };
        let (tried, times) = self.attempt(key, Attempt::Swap(expected, value), swap)?;
        self.wrote(key, times, value, tried, |done| Did::Swap(expected, value, done))
    }

    fn delete(&mut self, key: u32) -> Result<()> {
        let delete = |objects: &Objects, name: &[u8], _: &mut _| objects.delete(name);
        let (tried, times) = self.attempt(key, Attempt::Delete, delete)?;
        self.deleted(key, times, tried)
    }

    fn delete_in_update(&mut self, key: u32) -> Result<()> {
        let delete = |objects: &Objects, name: &[u8], _: &mut _| {
            let mut there = false;
            let delete = |found: Option<&[u8]>| {
                there = found.is_some();
                Change::Delete
            };
            objects.update(name, delete).map(|()| there)
        };
        let (tried, times) = self.attempt(key, Attempt::Delete, delete)?;
        self.deleted(key, times, tried)
    }

    fn deleted(&mut self, key: u32, times: Times, tried: Tried<bool>) -> Result<()> {
        let did = match tried {
            Tried::Done(there) => Did::Delete(there),
            Tried::Refused | Tried::NoRoom => Did::Delete(false),
            Tried::Lost => Did::FoundLost,
        };
        self.note(key, times, did)
    }

    fn update(&mut self, key: u32) -> Result<()> {
        let (value, bytes) = self.fresh();
        let update = |objects: &Objects, name: &[u8], _: &mut _| {
            let mut before = None;
            let put = |found: Option<&[u8]>| {
                before = found.map(Value::of);
                Change::Put(bytes.clone())
            };
            objects.update(name, put).map(|()| before)
        };
        let (tried, times) = self.attempt(key, Attempt::Update(value), update)?;
        let did = match tried {
            Tried::Done(before) => Did::Update(value, before),
            Tried::Refused | Tried::NoRoom => Did::NoRoom(value),
            Tried::Lost => Did::FoundLost,
        };
        self.note(key, times, did)
    }

    /// Writes the back half under a guard that has read the whole: an update of the whole, to
    /// others.
    fn amend(&mut self, key: u32) -> Result<()> {
        let (more, _) = self.fresh();
        let tag = self.tag;
        let amend = |objects: &Objects, name: &[u8], dice: &mut ChaCha8Rng| {
            let mut bytes = Vec::new();
            let version = amend(objects, name, tag, &mut bytes, dice)?;
            Ok((version, Value::of(&bytes)))
        };
        let (tried, times) = self.attempt(key, Attempt::Amend(more), amend)?;
        match tried {
            Tried::Done((version, before)) => {
                let after = before.accumulate(&more);
                self.learn(key, version, after);
                self.note(key, times, Did::Update(after, Some(before)))
            }
            Tried::Refused => self.note(key, times, Did::Read(None)),
            Tried::NoRoom => self.note(key, times, Did::NoRoom(more)),
            Tried::Lost => self.note(key, times, Did::FoundLost),
        }
    }

    /// Notes what a write of `value` came to, and that it is there now if it is.
    fn wrote(
        &mut self,
        key: u32,
        times: Times,
        value: Value,
        tried: Tried<Version>,
        did: impl FnOnce(bool) -> Did,
    ) -> Result<()> {
        let did = match tried {
            Tried::Done(version) => {
                self.learn(key, version, value);
                did(true)
            }
            Tried::Refused => did(false),
            Tried::NoRoom => Did::NoRoom(value),
            Tried::Lost => Did::FoundLost,
        };
        self.note(key, times, did)
    }

    fn note(&self, key: u32, times: Times, did: Did) -> Result<()> {
        self.journal.did(Record::new(self.who.client(), key, times, did))
    }

    /// This client's own write was of `value`: what it knew before is gone for good.
    fn learn(&mut self, key: u32, version: Version, value: Value) {
        let known = &mut self.known[key as usize];
        known.overwritten = known.last.map(|(_, before)| before);
        known.last = Some((version, value));
    }

    /// The report instead of the truth, if it is to be a lie: a value that is overwritten.
    fn lie(&mut self, key: u32) -> Option<Value> {
        let lie = self.known[key as usize].overwritten.filter(|_| self.plants.stale_read);
        self.plants.stale_read &= lie.is_none();
        lie
    }

    /// A value that no other write has.
    fn fresh(&mut self) -> (Value, Vec<u8>) {
        self.tag = self.tag.next();
        (Value::new(self.tag), self.tag.value())
    }

    fn below(&mut self, end: u64) -> u64 {
        self.dice.next_u64() % end
    }

    fn give_way(&mut self) {
        if self.below(OPERATIONS_PER_YIELD) == 0 {
            std::thread::yield_now();
        }
    }
}

/// Reads a value in two pieces through a guard, or, if it changes all the time, as a whole.
fn pieces_of(
    objects: &Objects,
    key: &[u8],
    bytes: &mut Vec<u8>,
    dice: &mut ChaCha8Rng,
) -> Result<Option<Version>, Error> {
    for _ in 0..TORN_AT_MOST {
        let guard = match objects.read_start(key) {
            Err(Error::NotFound) => return Ok(None),
            guard => guard?,
        };
        let version = guard.version();
        bytes.resize(guard.len() as usize, 0);
        let (first, second) = bytes.split_at_mut(cut(guard.len(), dice));
        guard.read(0, first)?;
        std::thread::yield_now();
        guard.read(first.len() as u64, second)?;
        match guard.read_end() {
            Err(Error::Torn) => {}
            ended => return ended.map(|()| Some(version)),
        }
    }
    objects.read(key, bytes)
}

/// Reads a value into `before`, and writes its back half in two pieces.
fn amend(
    objects: &Objects,
    key: &[u8],
    tag: Tag,
    before: &mut Vec<u8>,
    dice: &mut ChaCha8Rng,
) -> Result<Version, Error> {
    let mut guard = objects.write_start(key)?;
    before.resize(guard.len() as usize, 0);
    guard.read(0, before)?;
    let half = before.len() / 2;
    let back = tag.words((before.len() - half) / 8);
    let (first, second) = back.split_at(cut(back.len() as u64, dice));
    guard.write(half as u64, first)?;
    std::thread::yield_now();
    guard.write((half + first.len()) as u64, second)?;
    guard.write_end()
}

/// Somewhere within `length` bytes.
fn cut(length: u64, dice: &mut ChaCha8Rng) -> usize {
    (dice.next_u64() % length.max(1)) as usize
}
