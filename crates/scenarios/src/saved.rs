//! Pods that are saved and loaded while hosts work in them.
//!
//! A save is a read of each object at some moment of it, and a load a write of each: so what they
//! did belongs to the history that is checked, from their beginning to their end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_objects::Objects;
use tombolo_objects::saved::{Existing, SavedFile};
use tombolo_sharing::TornWrites;
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};
use tombolo_verify::models::{Operation, Result as Answer};

use crate::crash::finish_and_read;
use crate::objects::{add_mixed_clients, contents};
use crate::operations::{Scribe, perform, tag};
use crate::world::{PARTITION, Setup, World, join};

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// Of a value that no other client writes.
const FROM_FILE: u64 = 7000 + 3;

/// A host joins while others do anything to four objects, and saves them. Another pod is loaded
/// with the saved file.
pub(crate) fn save_among_others(trial: &Trial) {
    let setup = Setup { hosts: 3, ..Setup::roomy(2) };
    let mut world = World::new(trial, &setup);
    add_mixed_clients(&mut world, &KEYS, 4, 6);
    let scribes = KEYS.map(|_| world.scribe());
    let saved: Rc<RefCell<Vec<u8>>> = Rc::default();
    let file = Rc::clone(&saved);
    world.thread(2, move |memory| {
        let host = join(memory);
        *file.borrow_mut() = save(&host, &scribes);
        host.leave().unwrap();
    });
    let hosts = world.hosts.clone();
    world.finish();
    hosts.iter().for_each(|host| host.leave().unwrap());
    let memory = hosts[0].memory().clone();
    setup.format(memory.clone());
    let file = saved.take();
    let other = join(memory);
    let mut checked = SavedFile::check(Cursor::new(&file)).unwrap();
    let all = checked.contents().saved;
    let loaded = other.load(&mut checked, Existing::Fail, |_| true).unwrap();
    assert_eq!((loaded.loaded, loaded.existing), (all, 0), "all of the file is loaded");
    assert_eq!(other.object_count().unwrap(), all.objects);
    let found = contents(&other, &KEYS);
    let again = tags_in(&save_alone(&other));
    assert_eq!(again, tags_in(&file), "what was loaded is what was saved");
    assert_eq!(KEYS.map(|key| again.get(key).copied()).to_vec(), found);
}

/// An object is saved that is in a host's own memory, while a third host has it brought back.
pub(crate) fn save_from_partition(trial: &Trial) {
    let setup = Setup { local: Some(PARTITION), ticking: true, ..Setup::small(3) };
    let mut world = World::new(trial, &setup);
    let scribe = world.scribe();
    // Values of eight lines: bringing them back takes its time.
    for operation in [Operation::Create(5), Operation::Put(12), Operation::Put(19)] {
        perform(&*world.hosts[0], &scribe, KEYS[0], operation);
    }
    world.client(0, |host, scribe| {
        for n in 4..9 {
            perform(host, scribe, KEYS[0], Operation::Put(7 * n + 5));
        }
    });
    let scribes = KEYS.map(|_| world.scribe());
    world.client(1, move |host, _| _ = save(host, &scribes));
    world.client(2, |host, scribe| {
        (0..3).for_each(|_| perform(host, scribe, KEYS[0], Operation::Get));
    });
    world.finish();
}

/// Two objects are saved, twice, while a host dies that writes one of them and has the other in its
/// own memory: what is lost with it is not in the file, and everything else is.
pub(crate) fn save_while_a_host_dies(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0], one_in: 1, deaths: Deaths::One });
    let (local, torn_writes) = (Some(PARTITION), Some(TornWrites::Lost));
    let mut world = World::new(trial, &Setup { kills, local, torn_writes, ..Setup::roomy(3) });
    let scribe = world.scribe();
    for key in &KEYS[..2] {
        perform(&*world.hosts[0], &scribe, key, Operation::Create(10));
    }
    world.client(0, |host, scribe| {
        for n in 2..9 {
            perform(host, scribe, KEYS[0], Operation::Put(10 * n));
            perform(host, scribe, KEYS[usize::from(n % 4 == 3)], Operation::Get);
        }
    });
    add_mixed_clients(&mut world, &KEYS, 2, 2);
    for _ in 0..2 {
        let scribes = KEYS.map(|_| world.scribe());
        world.client(1, move |host, _| {
            (0..host.memory().random() % 200).for_each(|_| host.memory().pause());
            save(host, &scribes);
        });
    }
    finish_and_read(&mut world, &KEYS);
}

/// A file is loaded while others do anything to the same objects: each gets the file's value at
/// some moment, or, if those that are there are kept, unless there is one.
pub(crate) fn load_among_others(trial: &Trial) {
    let mut world = World::new(trial, &Setup { hosts: 3, ..Setup::roomy(2) });
    let first = Rc::clone(&world.hosts[0]);
    let scribe = world.scribe();
    perform(&*first, &scribe, "a", Operation::Create(FROM_FILE));
    let file = save_alone(&first);
    perform(&*first, &scribe, "a", Operation::Delete);
    add_mixed_clients(&mut world, &["a", "b"], 4, 6);
    let (existing, operation) = match trial.seed % 2 {
        0 => (Existing::Replace, Operation::Put(FROM_FILE)),
        _ => (Existing::Keep, Operation::Create(FROM_FILE)),
    };
    world.thread(2, move |memory| {
        let host = join(memory.clone());
        let mut file = SavedFile::check(Cursor::new(file)).unwrap();
        let began = scribe.invoke("a".to_owned(), operation);
        let loaded = host.load(&mut file, existing, |_| true).unwrap();
        memory.answered();
        let was_new = loaded.existing == 0;
        let answer = if existing == Existing::Keep { Answer::Flag(was_new) } else { Answer::Done };
        scribe.returned(began, answer);
        host.leave().unwrap();
    });
    world.finish();
}

/// Saves all objects, recorded as a read of each of `KEYS`; the file.
fn save(host: &Objects<SimMemory>, scribes: &[Scribe]) -> Vec<u8> {
    let begin = |(scribe, key): (&Scribe, &&str)| scribe.invoke((*key).to_owned(), Operation::Get);
    let began: Vec<_> = scribes.iter().zip(&KEYS).map(begin).collect();
    let mut file = Vec::new();
    let contents = host.save(&mut file, |_| true).unwrap();
    host.memory().answered();
    let tags = tags_in(&file);
    for ((scribe, began), key) in scribes.iter().zip(began).zip(KEYS) {
        let found = tags.get(key).copied();
        if found.is_none() && contents.lost > 0 {
            host.memory().note("an object was lost, and not saved");
            scribe.failed(began);
        } else {
            scribe.returned(began, Answer::Value(found));
        }
    }
    file
}

/// Saves all objects while nobody is at work.
fn save_alone(host: &Objects<SimMemory>) -> Vec<u8> {
    let mut file = Vec::new();
    host.save(&mut file, |_| true).unwrap();
    file
}

/// The values of `KEYS` in a file, as it is when it is read.
fn tags_in(file: &[u8]) -> BTreeMap<String, u64> {
    let mut checked = SavedFile::check(Cursor::new(file)).unwrap();
    let mut found = BTreeMap::new();
    checked
        .visit(|key, bytes| {
            let key = String::from_utf8(key.to_vec()).unwrap();
            assert!(found.insert(key, tag(bytes)).is_none(), "a key is in the file twice");
            Ok(())
        })
        .unwrap();
    found
}
