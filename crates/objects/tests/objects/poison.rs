//! Memory errors in a pod on mapped memory: its file is cut off under hosts, which is a real
//! SIGBUS.

use std::fs::OpenOptions;

use tombolo_memory::Mapped;
use tombolo_objects::{Error, Objects, Options, Reads, Writes};
use tombolo_pod::{PodSpec, open};
use tombolo_sharing::{CreateOptions, create};

const BYTES: u64 = 16 << 20;
const OBJECTS: u32 = 4000;

fn value(number: u32, round: u8) -> Vec<u8> {
    // Some take chunks of their own.
    let length = if number.is_multiple_of(500) { 200_000 } else { 600 + number as usize % 1000 };
    vec![number as u8 ^ round; length]
}

#[test]
fn hosts_survive_a_file_that_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pod");
    let spec = PodSpec::path(&path);
    let options = CreateOptions {
        scr_bytes: Some(1 << 20),
        lnr_bytes: Some(BYTES),
        layout: Default::default(),
        ..CreateOptions::default()
    };
    create(&spec, options).unwrap();
    let first = Objects::join(open(&spec).unwrap(), Options::default()).unwrap();
    for number in 0..OBJECTS {
        first.put(&number.to_le_bytes(), &value(number, 0)).unwrap();
    }
    let length = std::fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 4).unwrap();

    let mut bytes = Vec::new();
    let mut lost = 0;
    let (mut there, mut gone) = (Vec::new(), Vec::new());
    for number in 0..OBJECTS {
        let key = number.to_le_bytes();
        match first.read(&key, &mut bytes) {
            Ok(found) => {
                assert!(found.is_some());
                assert_eq!(bytes, value(number, 0), "what is read is whole");
                there = key.to_vec();
            }
            Err(Error::Poisoned) => {
                lost += 1;
                gone = key.to_vec();
            }
            Err(error) => panic!("{number}: {error}"),
        }
    }
    assert!(lost > 0 && lost < OBJECTS, "{lost} of {OBJECTS}");
    assert_eq!(first.stats().poisoned, u64::from(lost));
    assert!(first.usage().lnr_poisoned_bytes > 0);
    transactions_leave_it_lost(&first, &there, &gone);

    for number in 0..OBJECTS {
        let key = number.to_le_bytes();
        assert!(first.read(&key, &mut bytes).is_ok() || first.forget_lost(&key).unwrap());
    }
    let mut written = Vec::new();
    for number in 0..OBJECTS {
        match first.put(&number.to_le_bytes(), &value(number, 1)) {
            Ok(_) => written.push(number),
            Err(Error::LnrFull { .. } | Error::Poisoned) => {}
            Err(error) => panic!("{number}: {error}"),
        }
    }
    for number in written {
        first.read(&number.to_le_bytes(), &mut bytes).unwrap().unwrap();
        assert_eq!(bytes, value(number, 1));
    }
    first.leave().unwrap();
}

/// A transaction that comes to nothing used to delete a lost object that it would have written:
/// nobody heard of the loss then.
fn transactions_leave_it_lost(host: &Objects<Mapped>, there: &[u8], gone: &[u8]) {
    let one = Writes::from([(gone.to_vec(), Some(b"value".to_vec()))]);
    let several = Writes::from([(gone.to_vec(), None), (there.to_vec(), None)]);
    for writes in [one, several] {
        let transacted = host.transact(&Reads::new(), &writes, &|| false);
        assert!(matches!(transacted, Err(Error::Poisoned)), "{transacted:?}");
        let read = host.read(gone, &mut Vec::new());
        assert!(matches!(read, Err(Error::Poisoned)), "{read:?}");
    }
}
