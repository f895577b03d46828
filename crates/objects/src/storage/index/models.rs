//! One thread changes the index while another reads it, under the model checker (`--cfg loom`).
//!
//! An entry's slot and record follow from its generation here, so a torn one shows.

use std::rc::Rc;

use tombolo_model::HostMemory;
use tombolo_model::loom::sync::atomic::{AtomicU64, Ordering, fence};
use tombolo_model::loom::thread;

use super::{CELLS, Entry, Found, Index, IndexLimits, IndexWriter, Sharing, ToNote, bucket_number};
use crate::ids::{Generation, KeyHash};
use crate::sites;
use crate::storage::index::validated;
use crate::storage::index::validated::{NEVER_VALIDATED, READ_SHARED, ValidatedAt};
use crate::storage::records::{RecordId, Sets};

fn memory() -> HostMemory {
    HostMemory::new(0, 0)
}

fn entry(hash: KeyHash, generation: Generation) -> Entry {
    read_shared(hash, generation).shared(Sharing::record(RecordId(generation)))
}

fn read_shared(hash: KeyHash, generation: Generation) -> Entry {
    Entry::read_shared(hash, generation, generation.into())
}

/// An index with these hashes' entries, of generations from 1 on.
fn index(limits: IndexLimits, hashes: &[KeyHash]) -> (Rc<Index>, IndexWriter) {
    let (index, mut writer) = (Index::new(limits, &Sets::new(16)), IndexWriter::default());
    for (&hash, generation) in hashes.iter().zip(1..) {
        index.insert(&mut writer, entry(hash, generation));
    }
    (Rc::new(index), writer)
}

fn index_of(limits: IndexLimits, entry: Entry) -> (Rc<Index>, IndexWriter) {
    let (index, mut writer) = index(limits, &[]);
    index.insert(&mut writer, entry);
    (index, writer)
}

/// A table of one group of buckets that does not grow.
const FIXED: IndexLimits = IndexLimits { segment_buckets: 4, segments: 1, load_permille: 4000 };

/// One that grows.
const GROWING: IndexLimits = IndexLimits { segment_buckets: 4, segments: 2, load_permille: 4000 };

/// Hashes in the last of four buckets; the second moves when there are five, and not again.
const STAYS: KeyHash = 3;
const MOVES: KeyHash = 7;

fn change(index: &Rc<Index>, change: impl FnOnce(&Index) + 'static) -> thread::JoinHandle<()> {
    let index = Rc::clone(index);
    thread::spawn(move || change(&index))
}

fn find(index: &Index, hash: KeyHash) -> Vec<Entry> {
    index.find(&memory(), hash).iter().map(|found| found.entry).collect()
}

fn first(index: &Index) -> Found<'_> {
    index.find(&memory(), 0).into_iter().next().unwrap()
}

/// A reader sees the entry before the update or after it.
fn an_update() {
    let (index, _) = index(FIXED, &[0]);
    let writer = change(&index, |index| {
        index.update(&memory(), 0, 1, |_| Some(entry(0, 2)));
    });
    let found = find(&index, 0);
    assert!(found == [entry(0, 1)] || found == [entry(0, 2)], "torn: {found:?}");
    writer.join().unwrap();
}

/// Another object with the same hash takes the place of one that is removed.
fn a_successor() {
    let (index, mut writer) = index(FIXED, &[0]);
    let writer = change(&index, move |index| {
        index.remove(0, 1, |_| true);
        index.insert(&mut writer, entry(0, 2));
    });
    let found = find(&index, 0);
    let whole = found.is_empty() || found == [entry(0, 1)] || found == [entry(0, 2)];
    assert!(whole, "torn: {found:?}");
    writer.join().unwrap();
}

/// A chain gets its second bucket; what was there is found all the time.
fn a_longer_chain() {
    let (index, mut writer) = index(FIXED, &[0; CELLS]);
    let next = CELLS as Generation + 1;
    let writer = change(&index, move |index| index.insert(&mut writer, entry(0, next)));
    let found = find(&index, 0);
    let expected: Vec<Entry> = (1..=next).map(|generation| entry(0, generation)).collect();
    assert!(found == expected || found == expected[..CELLS], "lost or torn: {found:?}");
    writer.join().unwrap();
}

/// The table grows; an entry that moves to the new bucket is found all the time.
fn a_split() {
    let (index, mut writer) = index(GROWING, &[STAYS, MOVES]);
    let writer = change(&index, move |index| assert!(index.split(&mut writer)));
    assert_eq!(find(&index, MOVES), [entry(MOVES, 2)]);
    writer.join().unwrap();
}

/// The table grows where there is a chain, all of which is made anew.
fn a_split_of_a_chain() {
    let hashes = [[STAYS].repeat(CELLS), vec![MOVES]].concat();
    let (index, mut writer) = index(GROWING, &hashes);
    let writer = change(&index, move |index| assert!(index.split(&mut writer)));
    assert_eq!(find(&index, MOVES), [entry(MOVES, CELLS as Generation + 1)]);
    writer.join().unwrap();
}

/// The table grows, and an entry moves from one of the buckets that were there to another.
fn a_split_that_evens_out() {
    const HASH: KeyHash = 12;
    let (index, mut writer) = index(GROWING, &[]);
    index.split(&mut writer);
    index.insert(&mut writer, entry(HASH, 1));
    let number = |index: &Index| bucket_number(HASH, index.size_as_seen());
    let before = number(&index);
    let writer = change(&index, move |index| assert!(index.split(&mut writer)));
    assert_eq!(find(&index, HASH), [entry(HASH, 1)]);
    writer.join().unwrap();
    assert!(before < 5 && number(&index) < 5 && before != number(&index));
}

/// A thread that looks for one entry sees it as it was or as it is.
fn one_that_is_updated() {
    let (index, _) = index(FIXED, &[1]);
    let writer = change(&index, |index| {
        index.update(&memory(), 1, 1, |_| Some(entry(1, 2)));
    });
    let (found, alone) = index.find_one(&memory(), 1);
    let found = found.unwrap().entry;
    assert!(alone && (found == entry(1, 1) || found == entry(1, 2)), "torn: {found:?}");
    writer.join().unwrap();
}

/// Nor is it missed when its bucket is split.
fn one_that_moves() {
    let (index, mut writer) = index(GROWING, &[STAYS, MOVES]);
    let writer = change(&index, move |index| assert!(index.split(&mut writer)));
    let (found, alone) = index.find_one(&memory(), MOVES);
    assert!(alone && found.unwrap().entry == entry(MOVES, 2));
    writer.join().unwrap();
}

/// A note that overflows is seen as it was or as it is, or not at once.
fn one_that_overflows() {
    let generation = CELLS as Generation + 1;
    let hashes = [[STAYS].repeat(CELLS), vec![MOVES]].concat();
    let (index, _) = index(FIXED, &hashes);
    let writer = change(&index, move |index| {
        let change = |_| Some(entry(MOVES, 9));
        assert!(index.update(&memory(), MOVES, generation.into(), change).is_some());
    });
    let lookup = index.begin_lookup(MOVES).unwrap();
    let found = index.find_at_once(&memory(), lookup, drop).map(|found| found.entry);
    let of = |generation| entry(MOVES, generation);
    let whole = found.is_none_or(|found| found == of(generation) || found == of(9));
    assert!(whole, "torn: {found:?}");
    writer.join().unwrap();
}

/// A step of a walk meets all that is there all the time, up to where it says that it got.
fn a_walk() {
    let (index, mut writer) = index(GROWING, &[MOVES]);
    let writer = change(&index, move |index| assert!(index.split(&mut writer)));
    let (met, next) = index.scan(&memory(), 0);
    assert_eq!((met.as_slice(), next), (&[MOVES][..], 0));
    writer.join().unwrap();
}

/// Steps of a thread before it noted its good read, such as dropping lines, are done for a thread
/// that relies on the note. (Dropping lines ends with a fence.)
fn a_note_of(entry: Entry, validated_at: ValidatedAt) {
    let (index, _) = index_of(FIXED, entry);
    let dropped = Rc::new(AtomicU64::new(0));
    let reader = good_read(&index, &dropped, validated_at);
    let found = first(&index);
    if validated::is_fresh(&memory(), found.cell.validated_at, validated_at) {
        assert_eq!(dropped.load(Ordering::Relaxed), 1, "nothing was dropped");
    }
    reader.join().unwrap();
}

/// A thread that drops lines and then notes its good read.
fn good_read(
    index: &Rc<Index>,
    dropped: &Rc<AtomicU64>,
    validated_at: ValidatedAt,
) -> thread::JoinHandle<()> {
    let dropped = Rc::clone(dropped);
    change(index, move |index| {
        let found = first(index);
        dropped.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        validated::set(&memory(), found.cell, 1, found.cell.validated_at, validated_at);
    })
}

const COUNTER: u32 = 4;

fn a_note() {
    a_note_of(entry(0, 1), COUNTER);
}

fn a_note_of_a_read_shared_object() {
    a_note_of(read_shared(0, 1), READ_SHARED);
}

/// A state's counter goes to a note, for another thread to rely on.
fn a_note_that_is_passed_on() {
    let (index, _) = index_of(FIXED, read_shared(0, 1));
    let dropped = Rc::new(AtomicU64::new(0));
    let reader = good_read(&index, &dropped, READ_SHARED);
    let keeper = change(&index, |index| {
        let found = first(index);
        if found.cell.validated_at == READ_SHARED {
            found.cell.mark_validated(1, READ_SHARED, validated::copied(1), Ordering::Relaxed);
        }
    });
    let validated_at = first(&index).cell.validated_at;
    if validated_at == READ_SHARED || validated::copy_line(validated_at).is_some() {
        assert_eq!(dropped.load(Ordering::Relaxed), 1, "nothing was dropped");
    }
    reader.join().unwrap();
    keeper.join().unwrap();
}

/// A note that is made while a bucket is split is in the new one, unless it was too late.
fn a_note_that_moves() {
    let (index, mut writer) = index_of(GROWING, read_shared(MOVES, 1));
    let found = index.find(&memory(), MOVES).into_iter().next().unwrap();
    assert!(found.cell.mark_validated(1, NEVER_VALIDATED, READ_SHARED, Ordering::Relaxed));
    let writer = change(&index, move |index| assert!(index.split(&mut writer)));
    let named = found.cell.mark_validated(1, READ_SHARED, validated::copied(1), Ordering::Relaxed);
    writer.join().unwrap();
    let validated_at = index.find(&memory(), MOVES).into_iter().next().unwrap().cell.validated_at;
    let expected = if named { validated::copied(1) } else { READ_SHARED };
    assert_eq!(validated_at, expected, "lost, or there again");
}

/// A note that comes late, of an object that has been written since, is not one of what it is now.
fn a_late_note_of(entry: Entry, validated_at: ValidatedAt) {
    let (index, _) = index_of(FIXED, entry);
    let found = first(&index);
    let writer = change(&index, |index| {
        index.update(&memory(), 0, 1, |entry| Some(Entry { generation: 2, ..entry }));
    });
    validated::set(&memory(), found.cell, 1, found.cell.validated_at, validated_at);
    writer.join().unwrap();
    let found = first(&index);
    assert!(
        !validated::is_fresh(&memory(), found.cell.validated_at, validated_at),
        "nobody has read it since"
    );
}

fn a_late_note() {
    a_late_note_of(entry(0, 1), COUNTER);
}

fn a_late_note_of_a_read_shared_object() {
    a_late_note_of(read_shared(0, 1), READ_SHARED);
}

/// A writer's note of what it has seen is not set for an entry that has changed meanwhile, and
/// changes nothing else.
fn a_late_note_of_a_writer() {
    let (index, _) = index(FIXED, &[0]);
    let to_note = first(&index).cell.to_note(1, COUNTER).unwrap();
    let writer = change(&index, |index| {
        index.update(&memory(), 0, 1, |_| Some(entry(0, 2)));
    });
    to_note.set();
    writer.join().unwrap();
    let Found { entry: found, cell } = first(&index);
    assert_eq!((found, cell.validated_at), (entry(0, 2), NEVER_VALIDATED));
}

tombolo_model::models! {
    a_late_note,
    a_late_note_of_a_writer,
    a_late_note_of_a_read_shared_object,
    an_update,
    one_that_is_updated,
    one_that_moves,
    one_that_overflows,
    a_note,
    a_note_of_a_read_shared_object,
    a_note_that_moves,
    a_note_that_is_passed_on,
    a_split,
    a_longer_chain,
    a_successor,
    a_walk,
    a_split_of_a_chain,
    a_split_that_evens_out,
}

#[test]
fn every_step_is_needed() {
    let sites = [sites::READ_SEEN_GENERATION];
    let superfluous = [
        // The data that a note names passes on with it. Notes of these models name nothing; those
        // of copies do.
        "cell.rs: told_by_note(word.swap(0, Ordering::Acquire), state.generation())",
    ];
    tombolo_model::every_step_is_needed(MODELS, &sites, &superfluous);
}

/// The forbidden way: a cell is read, and the chain's version not looked at.
#[test]
fn a_read_without_the_version_is_torn() {
    fn model() {
        let (index, _) = index(FIXED, &[0]);
        let writer = change(&index, |index| {
            index.update(&memory(), 0, 1, |_| Some(entry(0, 2)));
        });
        let found = index.main.get(0).unwrap().first_with(0, drop).unwrap().0.entry;
        assert_eq!(found.slot, found.generation.into(), "torn");
        writer.join().unwrap();
    }
    assert!(tombolo_model::fails(model));
}

/// A forbidden step: a writer says what it has seen by a store. An entry that has moved is
/// there twice.
#[test]
fn a_note_by_a_store_brings_an_entry_back() {
    fn model() {
        let (index, mut writer) = index(GROWING, &[MOVES]);
        let found = index.find(&memory(), MOVES).into_iter().next().unwrap();
        let to_note = found.cell.to_note(1, COUNTER);
        let Some(ToNote::State { word, new, .. }) = to_note else { panic!("there is no note") };
        let writer = change(&index, move |index| assert!(index.split(&mut writer)));
        word.store(new, Ordering::Relaxed);
        writer.join().unwrap();
        assert_eq!(index.entries().count(), 1, "there twice");
    }
    assert!(tombolo_model::fails(model));
}
