//! One thread of a host: random operations, each recorded.

use anyhow::{Context, Result};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tombolo::{Change, Error, Objects, Version};
use tombolo_verify::models::Accumulate;

use super::clock::{Times, now, timed};
use super::record::{Did, Record, key_name};
use super::value::{LONGEST, Tag, Value};

/// How often a read through a guard is begun again before it is done as a whole.
const TORN_AT_MOST: u32 = 16;

/// A client gives way to others once in so many operations, so that more of them overlap than there
/// are processors.
const OPERATIONS_PER_YIELD: u64 = 8;

/// Who a client is.
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

/// What a client knows of a key.
#[derive(Clone, Copy, Default)]
struct Known {
    /// What it has read or written last.
    last: Option<(Version, Value)>,
    /// A value that was there before a write of this client was.
    overwritten: Option<Value>,
}

pub(super) struct Client<'a> {
    who: Identity,
    objects: &'a Objects,
    dice: ChaCha8Rng,
    tag: Tag,
    known: Vec<Known>,
    read: Vec<u8>,
    /// Report an overwritten value once.
    lies: bool,
    /// When the round began.
    start: u64,
    records: Vec<Record>,
}

/// What an operation came to that may be refused, or find no room.
enum Tried<T> {
    Done(T),
    Refused,
    NoRoom,
}

impl<T> Tried<T> {
    fn of(result: Result<T, Error>) -> Result<Self, Error> {
        match result {
            Ok(done) => Ok(Self::Done(done)),
            Err(Error::NotFound | Error::Exists | Error::Changed) => Ok(Self::Refused),
            Err(Error::LnrFull { .. }) => Ok(Self::NoRoom),
            Err(error) => Err(error),
        }
    }
}

impl<'a> Client<'a> {
    pub(super) fn new(who: Identity, objects: &'a Objects, lies: bool) -> Self {
        Self {
            dice: who.dice(),
            tag: Tag::first(who.life, who.thread),
            known: vec![Known::default(); who.keys as usize],
            who,
            objects,
            read: Vec::with_capacity(LONGEST),
            lies,
            start: 0,
            records: Vec::new(),
        }
    }

    /// Does operations until `end`; what they came to.
    pub(super) fn work(&mut self, start: u64, end: u64) -> Result<Vec<Record>> {
        self.start = start;
        while now() < end {
            let key = self.below(self.who.keys.into()) as u32;
            self.operation(key)?;
            self.give_way();
        }
        Ok(std::mem::take(&mut self.records))
    }

    /// Reads every key.
    pub(super) fn read_all(&mut self, start: u64) -> Result<Vec<Record>> {
        self.start = start;
        (0..self.who.keys).try_for_each(|key| self.read(key).with_context(|| key_name(key)))?;
        Ok(std::mem::take(&mut self.records))
    }

    fn operation(&mut self, key: u32) -> Result<()> {
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

    fn read(&mut self, key: u32) -> Result<()> {
        let name = key_name(key);
        let mut bytes = std::mem::take(&mut self.read);
        let (found, times) = timed(|| self.objects.read(name.as_bytes(), &mut bytes));
        let found = found?.map(|version| (version, Value::of(&bytes)));
        self.read = bytes;
        let told = self.lie(key).or(found.map(|(_, value)| value));
        self.note(key, times, Did::Read(told));
        self.known[key as usize].last = found;
        Ok(())
    }

    fn read_in_pieces(&mut self, key: u32) -> Result<()> {
        let name = key_name(key);
        let mut bytes = std::mem::take(&mut self.read);
        let dice = &mut self.dice;
        let (found, times) = timed(|| pieces_of(self.objects, name.as_bytes(), &mut bytes, dice));
        let found = found?.map(|version| (version, Value::of(&bytes)));
        self.read = bytes;
        self.note(key, times, Did::Read(found.map(|(_, value)| value)));
        self.known[key as usize].last = found;
        Ok(())
    }

    fn put(&mut self, key: u32) -> Result<()> {
        let (name, value, bytes) = self.fresh(key);
        let (done, times) = timed(|| self.objects.put(name.as_bytes(), &bytes));
        let did = |_| Did::Put(value);
        self.wrote(key, times, value, Tried::of(done)?, did)
    }

    fn create(&mut self, key: u32) -> Result<()> {
        let (name, value, bytes) = self.fresh(key);
        let (done, times) = timed(|| self.objects.create(name.as_bytes(), &bytes));
        let did = |done| Did::Create(value, done);
        self.wrote(key, times, value, Tried::of(done)?, did)
    }

    fn write(&mut self, key: u32) -> Result<()> {
        let (name, value, bytes) = self.fresh(key);
        let (done, times) = timed(|| self.objects.write(name.as_bytes(), &bytes));
        let did = |done| Did::Write(value, done);
        self.wrote(key, times, value, Tried::of(done)?, did)
    }

    /// Replaces what this client knows, if it is still that. A version names a value: comparing the one
    /// comes to the same as comparing the other.
    fn swap(&mut self, key: u32) -> Result<()> {
        let Some((version, expected)) = self.known[key as usize].last else {
            return self.read(key);
        };
        let (name, value, bytes) = self.fresh(key);
        let swap = || self.objects.compare_and_swap(name.as_bytes(), version, &bytes);
        let (done, times) = timed(swap);
        let did = |done| Did::Swap(expected, value, done);
        self.wrote(key, times, value, Tried::of(done)?, did)
    }

    fn delete(&mut self, key: u32) -> Result<()> {
        let name = key_name(key);
        let (done, times) = timed(|| self.objects.delete(name.as_bytes()));
        self.note(key, times, Did::Delete(done?));
        Ok(())
    }

    fn delete_in_update(&mut self, key: u32) -> Result<()> {
        let name = key_name(key);
        let mut there = false;
        let delete = |found: Option<&[u8]>| {
            there = found.is_some();
            Change::Delete
        };
        let (done, times) = timed(|| self.objects.update(name.as_bytes(), delete));
        done?;
        self.note(key, times, Did::Delete(there));
        Ok(())
    }

    fn update(&mut self, key: u32) -> Result<()> {
        let (name, value, bytes) = self.fresh(key);
        let mut before = None;
        let put = |found: Option<&[u8]>| {
            before = found.map(Value::of);
            Change::Put(bytes.clone())
        };
        let (done, times) = timed(|| self.objects.update(name.as_bytes(), put));
        match Tried::of(done)? {
            Tried::NoRoom => self.note(key, times, Did::NoRoom(value)),
            _ => self.note(key, times, Did::Update(value, before)),
        }
        Ok(())
    }

    /// Writes the back half under a guard that has read the whole: an update of the whole, to others.
    fn amend(&mut self, key: u32) -> Result<()> {
        let (name, more, _) = self.fresh(key);
        let (tag, dice) = (self.tag, &mut self.dice);
        let mut bytes = Vec::new();
        let (done, times) = timed(|| amend(self.objects, name.as_bytes(), tag, &mut bytes, dice));
        if matches!(done, Err(Error::NotFound)) {
            self.note(key, times, Did::Read(None));
            return Ok(());
        }
        let before = Value::of(&bytes);
        let after = before.accumulate(&more);
        self.note(key, times, Did::Update(after, Some(before)));
        self.learn(key, done?, after);
        Ok(())
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
        match tried {
            Tried::Done(version) => {
                self.note(key, times, did(true));
                self.learn(key, version, value);
            }
            Tried::Refused => self.note(key, times, did(false)),
            Tried::NoRoom => self.note(key, times, Did::NoRoom(value)),
        }
        Ok(())
    }

    fn note(&mut self, key: u32, times: Times, did: Did) {
        self.records.push(Record::new(self.who.client(), key, times, self.start, did));
    }

    /// This client's own write was of `value`: what it knew before is gone for good.
    fn learn(&mut self, key: u32, version: Version, value: Value) {
        let known = &mut self.known[key as usize];
        known.overwritten = known.last.map(|(_, before)| before);
        known.last = Some((version, value));
    }

    /// What to report instead of the truth, if it is to be a lie: a value that is overwritten.
    fn lie(&mut self, key: u32) -> Option<Value> {
        let lie = self.known[key as usize].overwritten.filter(|_| self.lies);
        self.lies &= lie.is_none();
        lie
    }

    /// A key's name, and a value for it that no other write has.
    fn fresh(&mut self, key: u32) -> (String, Value, Vec<u8>) {
        self.tag = self.tag.next();
        (key_name(key), Value::new(self.tag), self.tag.value())
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
