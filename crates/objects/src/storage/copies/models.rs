//! One thread reads a copy while another one's takes its place, under the model checker (`--cfg
//! loom`).

use std::rc::Rc;

use tombolo_model::HostMemory;
use tombolo_model::loom::thread;
use tombolo_sharing::{Header, Version};

use super::ring::{Copies, CopyContents};
use crate::ids::{Generation, KeyHash};
use crate::storage::index::validated;
use crate::storage::index::{Entry, Found, Index, IndexLimits, IndexWriter};
use crate::storage::records::Sets;

const COUNTER: u32 = 4;

fn memory() -> HostMemory {
    HostMemory::new(0, 0)
}

struct Host {
    index: Index,
    copies: Copies<HostMemory>,
}

impl Host {
    /// A host with two objects, each noted as fresh, and room for a copy of one.
    fn new(hashes: [KeyHash; 2]) -> (Rc<Self>, IndexWriter) {
        let limits = IndexLimits { segment_buckets: 4, segments: 2, load_permille: 4000 };
        let (index, mut writer) = (Index::new(limits, &Sets::new(16)), IndexWriter::default());
        for (hash, generation) in hashes.into_iter().zip(1..) {
            index.insert(&mut writer, Entry::read_shared(hash, generation, generation.into()));
            let found = find(&index, hash);
            validated::set(&memory(), found.cell, generation, found.cell.validated_at, COUNTER);
        }
        let copies = Copies::new(64).unwrap().unwrap();
        (Rc::new(Self { index, copies }), writer)
    }

    /// Keeps a copy of the object with this hash, whose bytes are those of its generation.
    fn keep(&self, hash: KeyHash) {
        let found = find(&self.index, hash);
        let generation = found.entry.generation;
        let byte = generation as u8;
        let header = Header::new(Version(u64::from(generation)), &[byte], 7);
        let (key, value) = (&[byte][..], &[byte; 7][..]);
        let contents = CopyContents { hash, generation, counter: COUNTER, header, key, value };
        self.copies.keep(&memory(), &found, &contents, |_| &self.index);
    }

    /// Reads a copy of the object with this hash, if there is one.
    fn read(&self, hash: KeyHash) {
        let found = find(&self.index, hash);
        let Some(copy) = self.copies.hold(&memory(), &found) else { return };
        let (counter, header) = copy.start();
        let mut value = Vec::new();
        if let Some(header) = header {
            copy.value(&header, 0, 7, &mut value);
        }
        if copy.is_still(&memory()) {
            let generation: Generation = found.entry.generation;
            let version = header.map(|header| header.version.0);
            assert_eq!((counter, version), (COUNTER, Some(u64::from(generation))), "torn");
            assert_eq!(value, [generation as u8; 7], "torn");
        }
    }

    /// Whether the object with this hash is said to have a copy.
    fn is_copied(&self, hash: KeyHash) -> bool {
        validated::copy_line(find(&self.index, hash).cell.validated_at).is_some()
    }
}

fn find(index: &Index, hash: KeyHash) -> Found<'_> {
    index.find(&memory(), hash).into_iter().next().unwrap()
}

/// A named copy that a reader finds is whole.
fn a_copy_is_made() {
    let (host, _) = Host::new([2, 3]);
    let keeper = Rc::clone(&host);
    let keeper = thread::spawn(move || keeper.keep(2));
    host.read(2);
    keeper.join().unwrap();
}

/// A thread that reads a copy while another one takes its place finds out.
fn a_copy_makes_room() {
    let (host, _) = Host::new([2, 3]);
    host.keep(2);
    let keeper = Rc::clone(&host);
    let keeper = thread::spawn(move || keeper.keep(3));
    host.read(2);
    keeper.join().unwrap();
}

/// A bucket is split while a copy of one of its objects makes room: no entry names it any more.
fn a_copy_makes_room_in_a_split() {
    let (host, mut writer) = Host::new([3, 7]);
    host.keep(7);
    let splitter = Rc::clone(&host);
    let splitter = thread::spawn(move || assert!(splitter.index.split(&mut writer)));
    host.keep(3);
    splitter.join().unwrap();
    assert!(!(host.is_copied(3) && host.is_copied(7)), "two objects have one copy");
}

tombolo_model::models! {
    a_copy_is_made,
    a_copy_makes_room,
    a_copy_makes_room_in_a_split,
}
