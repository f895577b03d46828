//! Files without a pod: what is written is read, and nothing else is.

use std::io::Cursor;

use proptest::prelude::*;

use super::reader::read;
use super::writer::FileWriter;
use super::*;
use crate::MAX_KEY_BYTES;

const POD: Uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

type KeyAndValue = (Vec<u8>, Vec<u8>);

fn written(records: &[KeyAndValue], lost: u64) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = FileWriter::new(&mut file, POD).unwrap();
    records.iter().for_each(|(key, value)| writer.add(key, value).unwrap());
    writer.finish(lost).unwrap();
    file
}

fn records_in(file: &[u8]) -> Result<(Contents, Vec<KeyAndValue>), SavedError> {
    let mut found = Vec::new();
    let contents = read(file, |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        Ok(())
    })?;
    Ok((contents, found))
}

fn some_records() -> Vec<KeyAndValue> {
    (1..6u8).map(|n| (vec![n; usize::from(n)], vec![!n; 7 * usize::from(n) - 7])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_is_written_is_read(
        mut records in prop::collection::vec(
            (prop::collection::vec(any::<u8>(), 1..=MAX_KEY_BYTES), prop::collection::vec(any::<u8>(), 0..5000)),
            0..40,
        ),
        large in prop::collection::vec((0..40usize, 0..3 * BLOCK_BYTES), 0..4),
        lost: u64,
    ) {
        for (at, bytes) in large {
            records.insert(at.min(records.len()), (vec![1], vec![at as u8; bytes]));
        }
        let (contents, found) = records_in(&written(&records, lost)).unwrap();
        let bytes = records.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        let saved = Amount { objects: records.len() as u64, bytes };
        prop_assert_eq!(contents, Contents { pod: POD, saved, lost });
        prop_assert!(found == records);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>, after in 0..100usize) {
        let mut file = written(&some_records(), 0);
        file.truncate(after);
        file.extend(bytes);
        let _ = records_in(&file);
    }
}

#[test]
fn each_flipped_bit_is_found() {
    let whole = written(&some_records(), 3);
    for bit in 0..8 * whole.len() {
        let mut file = whole.clone();
        file[bit / 8] ^= 1 << (bit % 8);
        let refused = SavedFile::check(Cursor::new(file)).expect_err("one bit is another");
        match refused {
            SavedError::Foreign => assert!(bit < 8 * 8),
            SavedError::Version { .. } => assert!((8 * 8..12 * 8).contains(&bit)),
            SavedError::Damaged { at, .. } => assert!(at <= bit as u64 / 8),
            other => panic!("bit {bit}: {other}"),
        }
    }
}

#[test]
fn each_truncation_is_found() {
    let whole = written(&some_records(), 0);
    for length in 0..whole.len() {
        let refused = records_in(&whole[..length]).expect_err("it is cut off");
        match refused {
            SavedError::Foreign => assert!(length < MAGIC.len()),
            SavedError::CutOff { at, .. } => assert_eq!(at, length as u64),
            other => panic!("{length} bytes: {other}"),
        }
    }
    let refused = records_in(&[&whole[..], &[0]].concat()).unwrap_err();
    assert!(matches!(refused, SavedError::Damaged { at, .. } if at == whole.len() as u64));
}

/// Where the file's blocks begin, and where its end does.
fn blocks(file: &[u8]) -> Vec<usize> {
    let mut at = HEADER_BYTES + 4;
    let mut found = vec![at];
    loop {
        let bytes = u32::from_le_bytes(file[at..][..4].try_into().unwrap()) as usize;
        if bytes == 0 {
            return found;
        }
        at += BLOCK_HEAD_BYTES + 4 + bytes + 4;
        found.push(at);
    }
}

#[test]
fn blocks_that_are_missing_or_elsewhere_are_found() {
    let records: Vec<KeyAndValue> = (1..4u8).map(|n| (vec![n], vec![n; BLOCK_BYTES])).collect();
    let file = written(&records, 0);
    let at = blocks(&file);
    assert_eq!(at.len(), 4);
    let part = |number: usize| &file[at[number]..at.get(number + 1).copied().unwrap_or(file.len())];
    let header = &file[..at[0]];
    for (order, bad) in
        [(&[1, 2, 3][..], 0), (&[0, 2, 3], 1), (&[1, 0, 2, 3], 0), (&[0, 1, 1, 2, 3], 2)]
    {
        let parts: Vec<&[u8]> = order.iter().map(|&number| part(number)).collect();
        let changed = [header, &parts.concat()].concat();
        let expected = header.len() + parts[..bad].concat().len();
        let refused = records_in(&changed).unwrap_err();
        assert!(
            matches!(refused, SavedError::Damaged { at, .. } if at == expected as u64),
            "{order:?}: {refused}"
        );
    }
}

#[test]
fn a_writer_that_counts_wrong_is_found() {
    let mut file = Vec::new();
    let mut writer = FileWriter::new(&mut file, POD).unwrap();
    writer.add(b"key", b"value").unwrap();
    writer.saved.objects += 1;
    writer.finish(0).unwrap();
    let refused = records_in(&file).unwrap_err();
    assert!(refused.to_string().contains("other objects"), "{refused}");
}
