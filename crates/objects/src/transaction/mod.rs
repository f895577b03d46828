//! Changing several objects in one step, on any hosts' objects, with hosts that may die.
//!
//! 1. The objects that change are locked, in the order of their keys, each at the version that was
//!    read. A new object is created locked, by one event; it has no value yet ([`UNWRITTEN`]).
//! 2. An object that does not fit its slot any more, or is viewed, moves as it is to another one.
//!    So nothing that can run out is needed later.
//! 3. Objects that were read, and do not change, are looked at again. The reads and locks hold
//!    together at the instant before this.
//! 4. A redo note is created: an object that holds all objects as they are to be. **It decides**:
//!    an event of a host that was fenced has no effect, so hosts that take its locks over find the
//!    note, or know that there never will be one.
//! 5. The objects are stored in their slots and cleaned; those to be gone are deleted, by events.
//! 6. The note is deleted. *Then* the locks are released: as long as there is the note, each of the
//!    locks is the transaction's, or was taken over.
//!
//! A host that takes over the lock of a dead host looks for its notes: the object is then what the
//! note says, or else as it was ([`recovery`](crate::recovery)). So does the host that opens a pod
//! in which all have died. Nothing is undone, since nothing is changed before the note.
//!
//! No thread waits for long with locks in hand, neither for another lock, nor for a record: what is
//! in its way may wait for it. That is a conflict, and its caller tries again.

mod note;
mod participant;

use std::time::Duration;

use smallvec::SmallVec;
use tombolo_memory::{Lines, Memory, Work};
use tombolo_sharing::{Counter, Part, Reads, Transactional, Writes, retry_with_backoff};

use crate::error::{changed_under_lock, may_be_committed};
use crate::host::Locks;
use crate::host::lookup::{Attempt, Lookup};
use crate::ids::NOTE_PREFIX;
use crate::replica::event::Event;
use crate::write::own_locks::OwnLocks;
use crate::write::relocate::OpenIntent;
use crate::{Error, Objects, Version, sites};

pub(crate) use note::{Redo, decode, note_key};
pub(crate) use participant::{Participant, UNWRITTEN};

/// How often an object is looked at, or its lock tried, that is in use.
const TRIES: u32 = 8;

/// How often a step is tried that a transaction owes. Each try may wait for the log for seconds.
const INSISTING: u32 = 8;

/// The intents of a transaction.
#[derive(Clone, Copy)]
struct Intents {
    /// Of its note, which is named by it.
    note: OpenIntent,
    /// Of one step after the other.
    step: OpenIntent,
}

type Participants<'a, 'w, M> = Vec<Participant<'a, 'w, M>>;

/// The objects that a transaction has locked.
struct Taken<'a, 'w, M: Memory> {
    participants: Participants<'a, 'w, M>,
    own: OwnLocks,
}

impl<'a, 'w, M: Memory> Taken<'a, 'w, M> {
    fn add(&mut self, participant: Participant<'a, 'w, M>) {
        self.own.add(&participant.locked);
        self.participants.push(participant);
    }
}

/// The outcome of locking an object that changes.
enum TakenIn<'a, 'w, M: Memory> {
    Joined(Box<Participant<'a, 'w, M>>),
    /// It is to be gone, and is not there.
    Nothing,
    Conflict,
}

impl<M: Memory> Transactional for Objects<M> {
    fn transact(
        &self,
        reads: &Reads,
        writes: &Writes,
        still: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        Self::transact(self, reads, writes, still)
    }

    fn removals(&self, key: &[u8]) -> Result<u64, Error> {
        let hash = self.hash(key)?;
        Ok(self.state(hash).removals(hash))
    }
}

impl<M: Memory> Objects<M> {
    /// Makes all of `writes` at one instant, if then all of `reads` is still so and `still` says
    /// so; whether it was: see [`Transactional::transact`].
    ///
    /// # Errors
    /// [`Error::Setup`] if writers lock by the log ([`Locks::Log`]); [`Error::ReservedKey`]; those
    /// of [`put`](Self::put). [`Error::Fenced`]: all was done, or nothing.
    pub fn transact(
        &self,
        reads: &Reads,
        writes: &Writes,
        still: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        if self.locks == Locks::Log {
            let text = "its hosts lock objects by the log, which has no transactions";
            return Err(Error::Setup(text.to_owned()));
        }
        self.memory().works(Work::Operation);
        self.answer_at_once();
        reads.keys().chain(writes.keys()).try_for_each(|key| self.hash(key).map(drop))?;
        if writes.keys().any(|key| key.starts_with(NOTE_PREFIX)) {
            return Err(Error::ReservedKey);
        }
        let alone = writes.len() == 1 && reads.keys().all(|key| writes.contains_key(key));
        match writes.first_key_value() {
            None => Ok(self.are_unchanged(reads.iter(), &OwnLocks::default())? && still()),
            Some((key, value)) if alone => {
                self.commit_one(key, value.as_deref(), reads.get(key).copied(), still)
            }
            Some(_) => self.commit_several(reads, writes, still),
        }
    }

    /// Changes one object, if it is as it was read.
    fn commit_one(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        seen: Option<Option<Version>>,
        still: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        self.retry_with_backoff(|| {
            let mut locked = match self.lock(key) {
                Err(error) if error.is_loss() && seen.is_some() => return Ok(Some(false)),
                Ok(None) => return self.commit_new(key, value, seen, still),
                locked => locked?.ok_or(Error::NotFound)?,
            };
            let same = seen.is_none_or(|version| version == Some(locked.header().version));
            if !self.memory().check(sites::TRANSACTION_SEEN, same) || !still() {
                return Ok(Some(false));
            }
            match value {
                Some(value) => locked.set(key, value).and_then(|()| locked.finish()),
                None => locked.delete(),
            }
            .map(|()| Some(true))
        })
    }

    /// The same, of an object that is not there; `None` if it is now, and may be.
    fn commit_new(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        seen: Option<Option<Version>>,
        still: &dyn Fn() -> bool,
    ) -> Result<Option<bool>, Error> {
        if matches!(seen, Some(Some(_))) || !still() {
            return Ok(Some(false));
        }
        let Some(value) = value else { return Ok(Some(true)) };
        match self.create(key, value) {
            Err(Error::Exists) => Ok(seen.map(|_| false)),
            created => created.map(|_| Some(true)),
        }
    }

    /// Changes several objects.
    fn commit_several(
        &self,
        reads: &Reads,
        writes: &Writes,
        still: &dyn Fn() -> bool,
    ) -> Result<bool, Error> {
        let intents = self.transaction_intents()?;
        let mut taken =
            Taken { participants: Vec::with_capacity(writes.len()), own: OwnLocks::default() };
        let prepared = self.prepare(intents, reads, writes, still, &mut taken);
        let Taken { participants, own } = taken;
        let decided = match prepared {
            Ok(true) => self.decide(intents, &participants, &own),
            other => other,
        };
        let ended = match &decided {
            Ok(true) => self.carry_out(intents, participants, &own),
            Err(error) if may_be_committed(error) => {
                participants.into_iter().for_each(Participant::leave);
                return decided;
            }
            _ => self.give_up(participants),
        };
        // If not, this host was fenced. Its intents are left to those that go on without it.
        if ended.is_ok() {
            self.end_intents(intents);
        }
        decided
    }

    /// Two intents, which its caller has until it ends them.
    fn transaction_intents(&self) -> Result<Intents, Error> {
        let intent = || self.open_intent().map(|intent| OpenIntent { alone: false, ..intent });
        retry_with_backoff(self.memory(), || {
            let Some(note) = intent() else { return Ok(None) };
            // Nobody waits for one while it has another.
            let Some(step) = intent() else {
                self.intents.end(note.intent_slot, false);
                return Ok(None);
            };
            Ok(Some(Intents { note, step }))
        })
    }

    fn end_intents(&self, Intents { note, step }: Intents) {
        self.intents.end(note.intent_slot, true);
        self.intents.end(step.intent_slot, true);
    }

    /// Locks what changes and validates what was read; whether nothing has changed since. Those
    /// that it has locked are among the participants in any case.
    fn prepare<'a, 'w>(
        &'a self,
        intents: Intents,
        reads: &Reads,
        writes: &'w Writes,
        still: &dyn Fn() -> bool,
        taken: &mut Taken<'a, 'w, M>,
    ) -> Result<bool, Error> {
        let mut absent = Reads::new();
        for (key, value) in writes {
            let seen = reads.get(key).copied();
            let joined = self.briefly(|| {
                self.join_in((key, value.as_deref(), seen), intents.step, &taken.own)
            })?;
            match joined.unwrap_or(TakenIn::Conflict) {
                TakenIn::Joined(participant) => taken.add(*participant),
                TakenIn::Nothing => _ = absent.insert(key.clone(), None),
                TakenIn::Conflict => return Ok(false),
            }
        }
        taken.participants.iter_mut().try_for_each(Participant::make_room)?;
        let others = reads.iter().filter(|(key, _)| !writes.contains_key(*key));
        let unchanged = self.are_unchanged(others.chain(&absent), &taken.own)?;
        Ok(self.memory().check(sites::TRANSACTION_VALIDATE, unchanged) && still())
    }

    /// Locks an object that changes, if it is as it was read; `None` if it is to be tried again.
    fn join_in<'a, 'w>(
        &'a self,
        (key, value, seen): (&'w [u8], Option<&'w [u8]>, Option<Option<Version>>),
        step: OpenIntent,
        own: &OwnLocks,
    ) -> Result<Option<TakenIn<'a, 'w, M>>, Error> {
        let join = |locked, is_new| {
            let participant = Participant::new(locked, key, value, is_new);
            Some(TakenIn::Joined(Box::new(participant)))
        };
        let locked = match self.lock_to_commit(key, step, own) {
            Err(error) if error.is_loss() && seen.is_some() => {
                return Ok(Some(TakenIn::Conflict));
            }
            locked => locked?,
        };
        if matches!(locked, Lookup::Retry) {
            return Ok(None);
        }
        if let Lookup::Found(mut locked) = locked {
            let same = seen.is_none_or(|version| version == Some(locked.header().version));
            if self.memory().check(sites::TRANSACTION_SEEN, same) {
                return Ok(join(locked, false));
            }
            locked.unlock(false)?;
            return Ok(Some(TakenIn::Conflict));
        }
        match (seen, value) {
            (Some(Some(_)), _) => Ok(Some(TakenIn::Conflict)),
            (_, None) => Ok(Some(TakenIn::Nothing)),
            (_, Some(value)) => {
                let inserted = self.insert_locked(key, value, step, own)?;
                Ok(inserted.and_then(|locked| join(locked, true)))
            }
        }
    }

    /// Repeats `attempt` until it comes to something; `None` if it does not soon. Nobody waits for
    /// long with locks in hand: others may wait for those, and have what this thread waits for.
    fn briefly<T>(
        &self,
        mut attempt: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        for attempts in 0..TRIES {
            if let Some(done) = attempt()? {
                return Ok(Some(done));
            }
            self.sync_others()?;
            self.look_around()?;
            self.memory().back_off(1 << attempts);
        }
        Ok(None)
    }

    /// Whether objects are at these versions, or absent. None of them is waited for.
    fn are_unchanged<'k>(
        &self,
        reads: impl Iterator<Item = (&'k Vec<u8>, &'k Option<Version>)>,
        own: &OwnLocks,
    ) -> Result<bool, Error> {
        for (key, &version) in reads {
            if !self.is_unchanged(key, version, own)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_unchanged(
        &self,
        key: &[u8],
        version: Option<Version>,
        own: &OwnLocks,
    ) -> Result<bool, Error> {
        let hash = self.hash(key)?;
        let looked = self.briefly(|| {
            let found = self.lookup(hash, |found, tail| {
                if own.has(&found.entry) {
                    return Ok(Attempt::OtherKey);
                }
                self.read_found(found, tail, key, Part::Nothing, &mut Vec::new())
            });
            match found {
                Ok(Lookup::Found(header)) => Ok(Some(version == Some(header.version))),
                Ok(Lookup::Absent) => Ok(Some(version.is_none())),
                Ok(Lookup::Retry) => Ok(None),
                Err(error) if error.is_loss() => Ok(Some(false)),
                Err(error) => Err(error),
            }
        })?;
        Ok(looked.unwrap_or(false))
    }

    /// Creates the note: from here on the transaction is done. `false` if something is in the way.
    fn decide(
        &self,
        intents: Intents,
        objects: &[Participant<'_, '_, M>],
        own: &OwnLocks,
    ) -> Result<bool, Error> {
        if !self.memory().keeps(sites::TRANSACTION_NOTE) {
            return Ok(true);
        }
        let key = note_key(self.stay(), intents.note.intent_slot);
        let hash = self.hash(&key)?;
        self.check_index(hash)?;
        let mut value = Vec::new();
        for participant in objects {
            note::encode(&participant.redo().ok_or_else(changed_under_lock)?, &mut value);
        }
        let Some(expected) = self.absent_beside(hash, &key, own)? else { return Ok(false) };
        let note = intents.note;
        let placed = self.place(note, hash, &key, &value, Duration::ZERO)?;
        let (slot, intent_slot) = (placed.slot, note.intent_slot);
        let event = Event::Create { hash, slot, expected, intent_slot, record: None };
        let created = self.announce(&placed, None, event);
        if matches!(created, Ok(true)) {
            // The intent says so as long as there is the note.
            self.state(hash).space.resolve(slot, true);
        } else {
            self.end_placing(hash, &placed, None, created.as_ref().copied());
        }
        created
    }

    /// Does what the note says, and ends the note. On an error this host was fenced.
    fn carry_out(
        &self,
        intents: Intents,
        mut participants: Participants<'_, '_, M>,
        own: &OwnLocks,
    ) -> Result<(), Error> {
        let mut dirty = SmallVec::<[Lines; 8]>::new();
        participants.iter_mut().for_each(|participant| dirty.extend(participant.store()));
        let cleaned = dirty.iter().map(|lines| lines.count()).sum();
        self.counters.add(Counter::CleanedLines, cleaned);
        self.memory().publish(sites::TRANSACTION_CLEAN, dirty, |_| ());
        let deleted = participants.iter().try_for_each(|it| self.insist(|| it.delete()));
        let first = self.memory().keeps(sites::TRANSACTION_NOTE_FIRST);
        let done = match (deleted, first) {
            (Ok(()), true) => self.insist(|| self.drop_note(intents.note, own)),
            (deleted, _) => deleted,
        };
        if done.is_err() {
            participants.into_iter().for_each(Participant::leave);
            return done;
        }
        participants.into_iter().for_each(Participant::release);
        if first { Ok(()) } else { self.insist(|| self.drop_note(intents.note, own)) }
    }

    fn drop_note(&self, note: OpenIntent, own: &OwnLocks) -> Result<(), Error> {
        let key = note_key(self.stay(), note.intent_slot);
        let hash = self.hash(&key)?;
        let entry = self.repeat(|| {
            self.lookup(hash, |found, tail| {
                if own.has(&found.entry) {
                    return Ok(Attempt::OtherKey);
                }
                let looked = self.look(found, tail, &key, Part::Nothing, |_, _| ())?;
                Ok(looked.map(|_| found.entry))
            })
        })?;
        let Some(entry) = entry else { return Ok(()) };
        if self.delete_with_intent(note, entry, None)? { Ok(()) } else { Err(changed_under_lock()) }
    }

    /// Releases objects, which are as they were. On an error this host was fenced.
    fn give_up(&self, participants: Participants<'_, '_, M>) -> Result<(), Error> {
        let mut given_up = Ok(());
        for participant in participants {
            match &given_up {
                Ok(()) => given_up = participant.give_up(),
                Err(_) => participant.leave(),
            }
        }
        given_up
    }

    /// Repeats a step without which objects would stay locked: the log may have no room for it. A
    /// host that cannot take the step fences itself, and the others take it. So an error says that
    /// this host was fenced.
    pub(crate) fn insist(&self, mut step: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
        for _ in 0..INSISTING {
            match step() {
                Err(error) if !may_be_committed(&error) => {}
                done => return done,
            }
        }
        self.area().fence(self.stay());
        self.records.abandon();
        Err(self.is_fenced())
    }
}
