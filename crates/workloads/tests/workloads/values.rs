//! Values tell which key and version they belong to, and whether they are whole.

use proptest::prelude::*;
use tombolo_workloads::{Corruption, check_value, fill_value, version_bits};

fn value(key: u64, version: u64, length: usize) -> Vec<u8> {
    let mut value = vec![0; length];
    fill_value(key, version, &mut value);
    value
}

/// The part of a version that fits a value of this length.
fn told(version: u64, length: usize) -> u64 {
    version & u64::MAX.checked_shr(u64::BITS - version_bits(length)).unwrap_or(0)
}

#[test]
fn every_changed_byte_is_noticed() {
    for length in (16..=80).chain([100, 1000]) {
        let mut value = value(7, 3, length);
        for place in 0..length {
            for flip in 1..=255 {
                value[place] ^= flip;
                let corruption = check_value(7, &value).unwrap_err();
                match corruption {
                    Corruption::Damaged { key_number: 7, version: 3, offset } => {
                        assert_eq!(offset, place);
                    }
                    Corruption::Foreign { key_number: 7, length_bytes } => {
                        assert!(place < 16 && length_bytes == length);
                    }
                    other => panic!("byte {place} of {length}: {other:?}"),
                }
                value[place] ^= flip;
            }
        }
    }
}

#[test]
fn versions_of_tiny_values_are_told_in_part() {
    assert_eq!((version_bits(0), version_bits(1), version_bits(15)), (0, 4, 60));
    assert_eq!((version_bits(16), version_bits(1000)), (64, 64));
    assert_eq!(check_value(5, &[]), Err(Corruption::Empty { key_number: 5 }));
    for length in 1..16 {
        for version in [0, 1, 2, 15, 16, 300, u64::MAX] {
            let value = value(5, version, length);
            assert_eq!(check_value(5, &value), Ok(told(version, length)), "{length} bytes");
        }
    }
}

/// As many escape as there is no room to tell them: about one in 2^4 per byte.
#[test]
fn most_damage_to_tiny_values_is_noticed() {
    for (length, tolerated) in [(1, 0.1), (2, 0.01), (3, 0.001), (4, 0.0001), (8, 0.0)] {
        let (mut unnoticed, mut cases) = (0.0, 0.0);
        for key in 0..200 {
            for version in 0..10 {
                let mut value = value(key, version, length);
                unnoticed += f64::from(check_value(key + 1, &value).is_ok());
                cases += 1.0;
                for place in 0..length {
                    for bit in 0..8 {
                        value[place] ^= 1 << bit;
                        unnoticed += f64::from(check_value(key, &value).is_ok());
                        cases += 1.0;
                        value[place] ^= 1 << bit;
                    }
                }
            }
        }
        assert!(unnoticed <= tolerated * cases, "{unnoticed} of {cases} with {length} bytes");
    }
}

#[test]
fn a_torn_value_tells_both_versions() {
    let (before, after) = (value(9, 4, 1000), value(9, 5, 1000));
    for cut in (16..=976).step_by(8) {
        let torn = [&after[..cut], &before[cut..]].concat();
        let expected = Corruption::Torn { key_number: 9, version: 5, offset: cut, end_version: 4 };
        assert_eq!(check_value(9, &torn), Err(expected));
    }
    let torn = [&after[..64], &before[64..]].concat();
    assert_eq!(
        check_value(9, &torn).unwrap_err().to_string(),
        "the value of record 9 is torn: it is version 5 before byte 64, and version 4 at its end",
    );
}

#[test]
fn a_line_from_before_is_noticed_in_the_middle_of_a_value() {
    let (before, mut after) = (value(9, 4, 1000), value(9, 5, 1000));
    after[128..192].copy_from_slice(&before[128..192]);
    let expected = Corruption::Damaged { key_number: 9, version: 5, offset: 128 };
    assert_eq!(check_value(9, &after), Err(expected));
}

/// Else values written by one version could not be checked by another.
#[test]
fn values_never_change() {
    let hexadecimal =
        |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hexadecimal(value(1, 2, 20)), "299b3d42773b43b303ac9a013587011242868e90");
    assert_eq!(hexadecimal(value(1, 2, 5)), "55de0a3888");
}

proptest! {
    #[test]
    fn whole_values_tell_their_version(key: u64, version: u64, length in 1usize..2000) {
        prop_assert_eq!(check_value(key, &value(key, version, length)), Ok(told(version, length)));
    }

    #[test]
    fn values_of_other_keys_are_foreign(
        key in 0..1u64 << 53, other in 0..1u64 << 53, version: u64, length in 16usize..200,
    ) {
        prop_assume!(key != other);
        let expected = Corruption::Foreign { key_number: other, length_bytes: length };
        prop_assert_eq!(check_value(other, &value(key, version, length)), Err(expected));
    }

    #[test]
    fn values_cut_short_or_prolonged_are_foreign(
        key: u64, version: u64, length in 16usize..200, cut in 16usize..200,
    ) {
        prop_assume!(cut != length);
        let mut value = value(key, version, length);
        value.resize(cut, 0);
        let expected = Corruption::Foreign { key_number: key, length_bytes: cut };
        prop_assert_eq!(check_value(key, &value), Err(expected));
    }

    #[test]
    fn torn_values_are_noticed(
        key: u64, one: u64, other: u64, length in 16usize..300, cut: prop::sample::Index,
    ) {
        let (whole, rest) = (value(key, one, length), value(key, other, length));
        let mut torn = whole.clone();
        let cut = cut.index(length);
        torn[cut..].copy_from_slice(&rest[cut..]);
        prop_assume!(torn != whole && torn != rest);
        prop_assert!(check_value(key, &torn).is_err());
    }

    #[test]
    fn other_bytes_are_no_value(key: u64, bytes in prop::collection::vec(any::<u8>(), 16..100)) {
        prop_assert!(check_value(key, &bytes).is_err());
    }
}
