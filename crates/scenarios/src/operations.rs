//! Operations of clients on objects, and their results, recorded.

use std::cell::Cell;

use tombolo_sharing::{Change, Error, Item, Scheme};
use tombolo_simulator::SimMemory;
use tombolo_verify::history::{Client, Invocation, Recorder};
use tombolo_verify::models::{Operation, Result as Answer};

/// The operations of clients, and their results.
pub(crate) type Log = Recorder<String, Operation<u64>, Answer<u64>>;
/// A client's pen.
pub(crate) type Scribe = Client<String, Operation<u64>, Answer<u64>>;

/// A host, and what is done there to which keys, one after the other.
pub(crate) type ScriptedClient<'a> = (usize, &'a [(&'a str, Operation<u64>)]);

/// A value that tells which write made it, of a length that differs from write to write, and that
/// shows when it is torn.
pub(crate) fn value(tag: u64) -> Vec<u8> {
    let words = [1, 3, 9, 20, 2, 60, 200][(tag % 7) as usize];
    tag.to_le_bytes().repeat(words)
}

/// The tag of a value, which is whole.
pub(crate) fn tag(bytes: &[u8]) -> u64 {
    let tag = u64::from_le_bytes(*bytes.first_chunk().expect("a value has at least a word"));
    assert!(bytes == value(tag), "torn: not the {} bytes that write {tag} made", value(tag).len());
    tag
}

/// One operation on an object, recorded. Errors that say "no room" count as not done.
pub(crate) fn perform<S: Scheme<Memory = SimMemory>>(
    host: &S,
    scribe: &Scribe,
    key: &str,
    operation: Operation<u64>,
) {
    try_perform(host, scribe, key, operation).unwrap_or_else(|error| panic!("{error}"));
}

/// The same, for which others may not be there any more, though they have a seat. On an error
/// nothing was done.
pub(crate) fn try_perform<S: Scheme<Memory = SimMemory>>(
    host: &S,
    scribe: &Scribe,
    key: &str,
    operation: Operation<u64>,
) -> Result<(), Error> {
    let name = key.as_bytes();
    let began = scribe.invoke(key.to_owned(), operation.clone());
    let answer = match operation {
        Operation::Get => read(host, name),
        Operation::Put(tag) => host.put(name, &value(tag)).map(|_| Answer::Done),
        Operation::Create(tag) => flag(host.create(name, &value(tag)).map(|_| ())),
        Operation::Replace(tag) => flag(host.write(name, &value(tag)).map(|_| ())),
        Operation::Delete => host.delete(name).map(Answer::Flag),
        Operation::CompareAndSwap { expected, new } => {
            flag(compare_and_swap(host, name, expected, new))
        }
        Operation::Update(new) => update(host, name, new),
        Operation::Append(_) => unreachable!("not a thing objects do"),
    };
    host.memory().answered();
    conclude(host, scribe, key, began, answer)
}

/// Records what an operation on `key` that `began` has come to.
pub(crate) fn conclude<S: Scheme<Memory = SimMemory>>(
    host: &S,
    scribe: &Scribe,
    key: &str,
    began: Invocation,
    answer: Result<Answer<u64>, Error>,
) -> Result<(), Error> {
    let memory = host.memory();
    match answer {
        Ok(answer) => scribe.returned(began, answer),
        Err(Error::LnrFull { .. } | Error::TooLarge { .. }) => {
            memory.note("no room in LNR");
            scribe.failed(began);
        }
        Err(error) if error.is_loss() => {
            scribe.failed(began);
            return lose(host, scribe, key);
        }
        Err(Error::Fenced { .. }) => {
            memory.note("an operation on a host that was fenced: done or not");
        }
        Err(error) => {
            scribe.failed(began);
            return Err(error);
        }
    }
    Ok(())
}

/// A value is lost with a host, or with memory: a client that comes across that deletes what is
/// left, as by a delete of the value.
fn lose<S: Scheme<Memory = SimMemory>>(host: &S, scribe: &Scribe, key: &str) -> Result<(), Error> {
    let began = scribe.invoke(key.to_owned(), Operation::Delete);
    let deleted = host.forget_lost(key.as_bytes());
    host.memory().answered();
    match deleted {
        Ok(true) => {
            host.memory().note("a value was lost");
            scribe.returned(began, Answer::Flag(true));
        }
        Ok(false) => scribe.failed(began),
        Err(Error::Fenced { .. }) => {}
        Err(error) => {
            scribe.failed(began);
            return Err(error);
        }
    }
    Ok(())
}

fn read<S: Scheme>(host: &S, key: &[u8]) -> Result<Answer<u64>, Error> {
    let mut bytes = Vec::new();
    let found = host.read(key, &mut bytes)?;
    Ok(Answer::Value(found.map(|_| tag(&bytes))))
}

/// Reads of several objects together, each of them recorded.
pub(crate) fn read_together<S: Scheme<Memory = SimMemory>>(
    host: &S,
    scribes: &[Scribe],
    keys: &[&str],
) {
    let begin = |(scribe, key): (&Scribe, &&str)| scribe.invoke((*key).to_owned(), Operation::Get);
    let began: Vec<_> = scribes.iter().zip(keys).map(begin).collect();
    let mut items = vec![Item::default(); keys.len()];
    host.multi_get(keys, &mut items).unwrap();
    host.memory().answered();
    for ((scribe, began), item) in scribes.iter().zip(began).zip(items) {
        scribe.returned(began, Answer::Value(item.version.map(|_| tag(&item.value))));
    }
}

/// Writes of several objects together, each of them recorded. They begin at once, also if a key is
/// there twice.
pub(crate) fn write_together<S: Scheme<Memory = SimMemory>>(
    host: &S,
    scribes: &[Scribe],
    writes: &[(&str, u64)],
) {
    let begin = |(scribe, (key, tag)): (&Scribe, &(&str, u64))| {
        scribe.invoke((*key).to_owned(), Operation::Put(*tag))
    };
    let began: Vec<_> = scribes.iter().zip(writes).map(begin).collect();
    let pairs: Vec<_> = writes.iter().map(|&(key, tag)| (key, value(tag))).collect();
    let outcomes = host.multi_put(&pairs);
    host.memory().answered();
    for ((scribe, began), outcome) in scribes.iter().zip(began).zip(outcomes) {
        match outcome {
            Ok(_) => scribe.returned(began, Answer::Done),
            Err(Error::LnrFull { .. }) => {
                host.memory().note("no room in LNR");
                scribe.failed(began);
            }
            Err(Error::Fenced { .. }) => {
                host.memory().note("an operation on a host that was fenced: done or not");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn flag(outcome: Result<(), Error>) -> Result<Answer<u64>, Error> {
    match outcome {
        Ok(()) => Ok(Answer::Flag(true)),
        Err(Error::Exists | Error::NotFound | Error::Changed) => Ok(Answer::Flag(false)),
        Err(error) => Err(error),
    }
}

/// Compares values by way of versions: writes if the version read with the expected value stands.
fn compare_and_swap<S: Scheme>(host: &S, key: &[u8], expected: u64, new: u64) -> Result<(), Error> {
    let mut bytes = Vec::new();
    let version = host.read(key, &mut bytes)?.ok_or(Error::NotFound)?;
    if tag(&bytes) != expected {
        return Err(Error::Changed);
    }
    host.compare_and_swap(key, version, &value(new)).map(|_| ())
}

fn update<S: Scheme>(host: &S, key: &[u8], new: u64) -> Result<Answer<u64>, Error> {
    let mut before = None;
    host.update(key, |bytes| {
        before = bytes.map(tag);
        Change::Put(value(new))
    })?;
    Ok(Answer::Value(before))
}

/// A random operation; every write has a tag of its own.
pub(crate) fn some_operation(dice: u64, tags: &Cell<u64>) -> Operation<u64> {
    let fresh = || {
        tags.set(tags.get() + 1);
        tags.get()
    };
    match dice % 16 {
        0..7 => Operation::Get,
        7..10 => Operation::Put(fresh()),
        10 => Operation::Create(fresh()),
        11 => Operation::Replace(fresh()),
        12 | 13 => Operation::Delete,
        14 => Operation::Update(fresh()),
        _ => Operation::CompareAndSwap { expected: tags.get(), new: fresh() },
    }
}
