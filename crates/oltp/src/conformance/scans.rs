//! The checks of scans.

use std::ops::Bound;

use tombolo_database::{Direction, Engine, Scan, Transaction};

use super::PARTITIONS;
use super::cases::{Ground, KEY_BYTES, TABLE};
use super::transact::{Pairs, Stretch, commit, met, rows_of};

pub(super) fn scans_in_both_directions<E: Engine>(on: &Ground<'_, E>) {
    on.fill([7, 3, 1, 9, 5]);
    for for_update in [false, true] {
        let scan = |direction| {
            commit(on.engine, |t| {
                let stretch = on.stretch(2, 8);
                let range = stretch.range();
                met(t, TABLE, Scan { range, direction, limit: usize::MAX, for_update }, usize::MAX)
            })
        };
        let forward = scan(Direction::Forward);
        assert_eq!(on.numbers(&forward), [3, 5, 7]);
        assert!(forward.iter().all(|(key, row)| key.ends_with(row)), "rows come with their keys");
        assert_eq!(on.numbers(&scan(Direction::Backward)), [7, 5, 3]);
    }
}

pub(super) fn scans_with_limits_and_breaks<E: Engine>(on: &Ground<'_, E>) {
    on.fill(1..=9);
    let stretch = on.stretch(2, 8);
    let scan = |direction, limit, break_after| {
        let found = commit(on.engine, |t| {
            let scan = Scan { range: stretch.range(), direction, limit, for_update: false };
            met(t, TABLE, scan, break_after)
        });
        on.numbers(&found)
    };
    let all = usize::MAX;
    assert_eq!(scan(Direction::Forward, 0, all), [0; 0]);
    assert_eq!(scan(Direction::Forward, 1, all), [2]);
    assert_eq!(scan(Direction::Backward, 1, all), [8]);
    assert_eq!(scan(Direction::Forward, 3, all), [2, 3, 4]);
    assert_eq!(scan(Direction::Backward, 3, all), [8, 7, 6]);
    assert_eq!(scan(Direction::Forward, 7, all), [2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(scan(Direction::Forward, 8, all), [2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(scan(Direction::Forward, all, 2), [2, 3]);
    assert_eq!(scan(Direction::Backward, all, 2), [8, 7]);
}

pub(super) fn bounds_of_scans<E: Engine>(on: &Ground<'_, E>) {
    on.fill([2, 4, 6]);
    let scan = |low: Bound<u8>, high: Bound<u8>| {
        let stretch = Stretch { low: low.map(|n| on.key(n)), high: high.map(|n| on.key(n)) };
        let found = commit(on.engine, |t| rows_of(t, TABLE, &stretch, Direction::Forward));
        on.numbers(&found)
    };
    use Bound::{Excluded, Included, Unbounded};
    assert_eq!(scan(Included(2), Included(6)), [2, 4, 6]);
    assert_eq!(scan(Excluded(2), Excluded(6)), [4]);
    assert_eq!(scan(Included(3), Excluded(6)), [4], "bounds need not be keys of rows");
    assert_eq!(scan(Excluded(3), Included(5)), [4]);
    assert_eq!(scan(Unbounded, Excluded(4)), [2]);
    assert_eq!(scan(Included(4), Unbounded), [4, 6]);
    assert_eq!(scan(Included(4), Included(4)), [4]);
    // Bounds that are shorter than any key, and one of the greatest bytes.
    let short = Stretch { low: Included(vec![]), high: Excluded(vec![0xff; KEY_BYTES]) };
    let found = commit(on.engine, |t| rows_of(t, TABLE, &short, Direction::Backward));
    assert_eq!(on.numbers(&found), [6, 4, 2]);
    let prefix = Stretch { low: Included(vec![0]), high: Excluded(vec![1]) };
    let found = commit(on.engine, |t| rows_of(t, TABLE, &prefix, Direction::Forward));
    assert_eq!(on.numbers(&found), [2, 4, 6]);
}

pub(super) fn ranges_without_rows<E: Engine>(on: &Ground<'_, E>) {
    let none = |stretch: Stretch| {
        for direction in [Direction::Forward, Direction::Backward] {
            let found = commit(on.engine, |t| rows_of(t, TABLE, &stretch, direction));
            assert_eq!(found, [], "{stretch:?} {direction:?}");
        }
    };
    none(Stretch::all());
    none(on.stretch(1, 9));
    on.fill([2, 8]);
    none(on.stretch(3, 7));
    none(on.stretch(9, 20));
    none(on.stretch(8, 2));
    let excluded = |low, high| Stretch {
        low: Bound::Excluded(on.key(low)),
        high: Bound::Excluded(on.key(high)),
    };
    none(excluded(2, 2));
    none(excluded(2, 8));
    none(excluded(8, 2));
    none(Stretch { low: Bound::Included(on.key(2)), high: Bound::Excluded(on.key(2)) });
}

pub(super) fn own_changes_are_scanned<E: Engine>(on: &Ground<'_, E>) {
    on.fill([2, 4, 6]);
    let expected = [(1, b"one".to_vec()), (4, b"four".to_vec()), (6, vec![6]), (9, b"9".to_vec())];
    let check = |t: &mut E::Transaction<'_>| {
        let mut rows = rows_of(t, TABLE, &on.stretch(0, 20), Direction::Backward)?;
        rows.reverse();
        assert_eq!(rows, rows_of(t, TABLE, &on.stretch(0, 20), Direction::Forward)?);
        let expected: Pairs =
            expected.iter().map(|(number, row)| (on.key(*number), row.clone())).collect();
        assert_eq!(rows, expected);
        Ok(())
    };
    commit(on.engine, |t| {
        t.insert(TABLE, &on.key(9), b"9")?;
        t.insert(TABLE, &on.key(1), b"one")?;
        assert!(t.update(TABLE, &on.key(4), b"four")?);
        assert!(t.delete(TABLE, &on.key(2))?);
        t.insert(TABLE, &on.key(5), b"gone")?;
        assert!(t.delete(TABLE, &on.key(5))?);
        check(t)
    });
    commit(on.engine, check);
}

pub(super) fn a_limit_does_not_count_what_was_deleted<E: Engine>(on: &Ground<'_, E>) {
    on.fill(1..=6);
    commit(on.engine, |t| {
        for number in [1, 2, 6] {
            assert!(t.delete(TABLE, &on.key(number))?);
        }
        let stretch = on.stretch(0, 9);
        let mut first = |direction| {
            let scan = Scan { range: stretch.range(), direction, limit: 2, for_update: true };
            met(t, TABLE, scan, usize::MAX)
        };
        assert_eq!(on.numbers(&first(Direction::Forward)?), [3, 4]);
        assert_eq!(on.numbers(&first(Direction::Backward)?), [5, 4]);
        Ok(())
    });
}

pub(super) fn overlapping_scans<E: Engine>(on: &Ground<'_, E>) {
    on.fill(1..=9);
    commit(on.engine, |t| {
        let stretches = [(1, 5, false), (3, 7, true), (5, 9, false), (1, 9, true), (4, 4, true)];
        for (low, high, for_update) in stretches {
            for direction in [Direction::Forward, Direction::Backward] {
                let stretch = on.stretch(low, high);
                let scan =
                    Scan { range: stretch.range(), direction, limit: usize::MAX, for_update };
                let mut numbers = on.numbers(&met(t, TABLE, scan, usize::MAX)?);
                numbers.sort_unstable();
                assert!(numbers.into_iter().eq(low..=high));
            }
        }
        t.insert(TABLE, &on.key(20), b"behind the scanned ones")?;
        assert!(t.delete(TABLE, &on.key(5))?);
        Ok(())
    });
    assert_eq!(on.row(5), None);
}

pub(super) fn scanned_rows_are_changed<E: Engine>(on: &Ground<'_, E>) {
    on.fill(1..=6);
    commit(on.engine, |t| {
        let stretch = on.stretch(1, 9);
        for for_update in [true, false] {
            let (range, direction) = (stretch.range(), Direction::Forward);
            let scan = Scan { range, direction, limit: usize::MAX, for_update };
            for (key, mut row) in met(t, TABLE, scan, usize::MAX)? {
                row[0] += 100;
                assert!(t.update(TABLE, &key, &row)?);
            }
        }
        Ok(())
    });
    assert!((1..=6).all(|number| on.row(number) == Some(vec![number + 200])));
}

/// Scans go on behind the last row of a partition, since partitions are stretches of keys.
pub(super) fn across_partitions<E: Engine>(engine: &E) {
    let key = |partition: u32, row: u8| {
        let mut key = partition.to_be_bytes().to_vec();
        key.push(row);
        key
    };
    let all: Vec<Vec<u8>> = [0, 2, 3, 5]
        .into_iter()
        .flat_map(|partition| [key(partition, 1), key(partition, 2)])
        .collect();
    commit(engine, |t| all.iter().try_for_each(|key| t.insert(TABLE, key, b"row")));
    let keys = |stretch: &Stretch, direction, limit| {
        commit(engine, |t| {
            let scan = Scan { range: stretch.range(), direction, limit, for_update: false };
            let rows = met(t, TABLE, scan, usize::MAX)?;
            Ok(rows.into_iter().map(|(key, _)| key).collect::<Vec<_>>())
        })
    };
    let inner = Stretch { low: Bound::Excluded(key(0, 1)), high: Bound::Excluded(key(5, 2)) };
    let most = usize::MAX;
    let mut expected = all[1..7].to_vec();
    assert_eq!(keys(&inner, Direction::Forward, most), expected, "partitions lie in order");
    expected.reverse();
    assert_eq!(keys(&inner, Direction::Backward, most), expected);
    assert_eq!(keys(&inner, Direction::Backward, 4), expected[..4]);
    assert_eq!(keys(&Stretch::all(), Direction::Forward, 3), all[..3]);
    Ground { engine, partition: 0 }.clear();
}

/// The first row and the last row of a table come and go; nothing lies beyond them.
pub(super) fn the_ends_of_a_table<E: Engine>(engine: &E) {
    let (first, last) = (0_u32.to_be_bytes(), (PARTITIONS + 9).to_be_bytes());
    let ends = |direction| {
        commit(engine, |t| {
            let range = (Bound::Unbounded, Bound::Unbounded);
            let scan = Scan { range, direction, limit: 1, for_update: true };
            Ok(met(t, TABLE, scan, 1)?.pop().map(|(key, _)| key))
        })
    };
    assert_eq!(ends(Direction::Forward), None);
    commit(engine, |t| {
        t.insert(TABLE, &first, b"first")?;
        t.insert(TABLE, &last, b"last")
    });
    assert_eq!(ends(Direction::Forward), Some(first.to_vec()));
    assert_eq!(ends(Direction::Backward), Some(last.to_vec()));
    assert!(commit(engine, |t| t.delete(TABLE, &last)));
    assert_eq!(ends(Direction::Backward), Some(first.to_vec()));
}
