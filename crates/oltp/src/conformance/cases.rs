//! The checks of single operations.
//!
//! Each works on rows of its own, and leaves none behind.

use std::ops::Bound;

use tombolo_database::{Direction, Engine, TableId, Transaction, TxError};

use super::transact::{End, Pairs, Stretch, commit, epoch_of, rows_of, transact};
use super::{PARTITIONS, scans};

pub(super) const TABLE: TableId = TableId(0);
const OTHER: TableId = TableId(1);
const REPLICATED: TableId = TableId(2);
const MISSING: TableId = TableId(4);

/// Rows of the replicated table.
const COPIES: [(&[u8], &[u8]); 3] = [(b"a", b"first"), (b"aa", b""), (b"b", b"third")];

/// The longest key and the longest row of `TABLE`.
pub(super) const KEY_BYTES: usize = 24;
const ROW_BYTES: usize = 120;

/// An engine, and the partition that a check works on.
pub(super) struct Ground<'e, E> {
    pub(super) engine: &'e E,
    pub(super) partition: u32,
}

impl<E: Engine> Ground<'_, E> {
    pub(super) fn key(&self, number: u8) -> Vec<u8> {
        let mut key = self.partition.to_be_bytes().to_vec();
        key.extend(b"row");
        key.push(number);
        key
    }

    /// Keys from number `low` to number `high`.
    pub(super) fn stretch(&self, low: u8, high: u8) -> Stretch {
        Stretch { low: Bound::Included(self.key(low)), high: Bound::Included(self.key(high)) }
    }

    pub(super) fn fill(&self, numbers: impl IntoIterator<Item = u8> + Clone) {
        commit(self.engine, |transaction| {
            for number in numbers.clone() {
                transaction.insert(TABLE, &self.key(number), &[number])?;
            }
            Ok(())
        });
    }

    pub(super) fn clear(&self) {
        commit(self.engine, |transaction| {
            for (key, _) in rows_of(transaction, TABLE, &Stretch::all(), Direction::Forward)? {
                assert!(transaction.delete(TABLE, &key)?, "a row that was scanned is there");
            }
            Ok(())
        });
    }

    pub(super) fn row(&self, number: u8) -> Option<Vec<u8>> {
        commit(self.engine, |transaction| {
            Ok(transaction.get(TABLE, &self.key(number))?.map(<[u8]>::to_vec))
        })
    }

    pub(super) fn numbers(&self, rows: &Pairs) -> Vec<u8> {
        rows.iter()
            .map(|(key, _)| {
                let number = *key.last().expect("keys are not empty");
                assert_eq!(*key, self.key(number), "a key comes back as it is");
                number
            })
            .collect()
    }
}

/// Loads rows at the host of `engine`. A second one with the same key is refused, and so are rows
/// that do not fit.
///
/// # Panics
/// If the engine does not conform.
pub fn load<E: Engine>(engine: &E) {
    for (key, row) in COPIES {
        engine.load(REPLICATED, key, row).expect("a copy is loaded by each host");
    }
    for partition in 0..PARTITIONS {
        if engine.home_of(partition) == engine.home().0 {
            load_partition(engine, partition);
        }
    }
}

/// Rows are there that all hosts have loaded by [`load`].
///
/// # Panics
/// If the engine does not conform.
pub fn check_loaded<E: Engine>(engine: &E) {
    let rows = commit(engine, |transaction| {
        rows_of(transaction, TABLE, &Stretch::all(), Direction::Forward)
    });
    let expected: Pairs = (0..PARTITIONS).map(loaded).collect();
    assert_eq!(rows, expected, "loaded rows are there for each host");
}

fn loaded(partition: u32) -> (Vec<u8>, Vec<u8>) {
    (partition.to_be_bytes().to_vec(), vec![partition as u8; ROW_BYTES])
}

fn load_partition<E: Engine>(engine: &E, partition: u32) {
    let (key, row) = loaded(partition);
    engine.load(TABLE, &key, &row).expect("a row that fits is loaded");
    let error = engine.load(TABLE, &key, b"again").expect_err("a second row with the key");
    assert!(matches!(error, TxError::Duplicate { table: TABLE }), "{error}");
    let error = engine.load(TABLE, &[0; KEY_BYTES + 1], b"").expect_err("a long key");
    assert!(matches!(error, TxError::KeyLength { .. }), "{error}");
    let error = engine.load(TABLE, &key, &[0; ROW_BYTES + 1]).expect_err("a long row");
    assert!(matches!(error, TxError::RowLength { .. }), "{error}");
    let error = engine.load(MISSING, &key, b"").expect_err("no such table");
    assert!(matches!(error, TxError::NoTable { table: MISSING }), "{error}");
}

/// All operations, from the host of `engine` and in each partition. The rows of [`load`] are there
/// before; no rows are left but those of the replicated table.
///
/// # Panics
/// If the engine does not conform.
pub fn check_operations<E: Engine>(engine: &E) {
    Ground { engine, partition: 0 }.clear();
    for partition in 0..PARTITIONS {
        let ground = Ground { engine, partition };
        let cases: [fn(&Ground<'_, E>); 24] = [
            rows_come_and_go,
            rows_of_all_lengths,
            keys_of_all_lengths,
            one_row_twice,
            a_read_is_upgraded,
            insert_after_own_delete,
            what_a_transaction_does_to_its_own_insert,
            duplicates_are_refused_and_the_transaction_goes_on,
            absent_keys,
            scans::scans_in_both_directions,
            scans::scans_with_limits_and_breaks,
            scans::bounds_of_scans,
            scans::ranges_without_rows,
            scans::own_changes_are_scanned,
            scans::a_limit_does_not_count_what_was_deleted,
            scans::overlapping_scans,
            scans::scanned_rows_are_changed,
            an_aborted_transaction_has_changed_nothing,
            keys_and_rows_that_do_not_fit,
            no_such_table,
            tables_are_apart,
            replicated_tables_are_read_only,
            many_rows_at_once,
            epochs_do_not_go_back,
        ];
        for case in cases {
            case(&ground);
            ground.clear();
        }
    }
    scans::across_partitions(engine);
    scans::the_ends_of_a_table(engine);
    Ground { engine, partition: 0 }.clear();
}

fn rows_come_and_go<E: Engine>(on: &Ground<'_, E>) {
    on.fill([1]);
    assert_eq!(on.row(1), Some(vec![1]));
    let there = commit(on.engine, |t| t.update(TABLE, &on.key(1), b"new"));
    assert!(there, "the row was there");
    assert_eq!(on.row(1), Some(b"new".to_vec()));
    assert!(commit(on.engine, |t| t.delete(TABLE, &on.key(1))), "the row was there");
    assert_eq!(on.row(1), None);
    on.fill([1]);
    assert_eq!(on.row(1), Some(vec![1]), "a key that was deleted is used again");
}

fn rows_of_all_lengths<E: Engine>(on: &Ground<'_, E>) {
    commit(on.engine, |t| t.insert(TABLE, &on.key(1), b""));
    assert_eq!(on.row(1), Some(vec![]), "an empty row is a row");
    for bytes in [ROW_BYTES, 1, 64, 63, 0, 65, ROW_BYTES] {
        let row: Vec<u8> = (0..bytes).map(|byte| byte as u8 ^ 0x5a).collect();
        assert!(commit(on.engine, |t| t.update(TABLE, &on.key(1), &row)));
        assert_eq!(on.row(1), Some(row), "a row of {bytes} bytes");
    }
}

/// Keys that begin alike, the shorter one first, and zeros at the end count.
fn keys_of_all_lengths<E: Engine>(on: &Ground<'_, E>) {
    let key = |bytes: usize| {
        let mut key = on.partition.to_be_bytes().to_vec();
        key.resize(bytes, 0);
        key
    };
    commit(on.engine, |t| {
        (4..=KEY_BYTES).rev().try_for_each(|bytes| t.insert(TABLE, &key(bytes), &[bytes as u8]))
    });
    commit(on.engine, |t| {
        for bytes in 4..=KEY_BYTES {
            assert_eq!(t.get(TABLE, &key(bytes))?, Some(&[bytes as u8][..]), "{bytes} bytes");
        }
        let rows = rows_of(t, TABLE, &Stretch::all(), Direction::Forward)?;
        let expected: Pairs = (4..=KEY_BYTES).map(|n| (key(n), vec![n as u8])).collect();
        assert_eq!(rows, expected, "keys sort as bytes do");
        Ok(())
    });
}

fn one_row_twice<E: Engine>(on: &Ground<'_, E>) {
    on.fill([1]);
    let key = on.key(1);
    commit(on.engine, |t| {
        assert_eq!(t.get(TABLE, &key)?, Some(&[1][..]));
        assert_eq!(t.get(TABLE, &key)?, Some(&[1][..]));
        assert_eq!(t.get_for_update(TABLE, &key)?, Some(&[1][..]));
        assert_eq!(t.get_for_update(TABLE, &key)?, Some(&[1][..]));
        assert!(t.update(TABLE, &key, b"two")?);
        assert_eq!(t.get(TABLE, &key)?, Some(&b"two"[..]), "own updates are read");
        assert!(t.update(TABLE, &key, b"three")?);
        assert_eq!(t.get_for_update(TABLE, &key)?, Some(&b"three"[..]));
        Ok(())
    });
    assert_eq!(on.row(1), Some(b"three".to_vec()), "the last update counts");
    commit(on.engine, |t| {
        assert!(t.delete(TABLE, &key)?);
        assert!(!t.delete(TABLE, &key)?, "it is deleted already");
        Ok(())
    });
    assert_eq!(on.row(1), None);
}

fn a_read_is_upgraded<E: Engine>(on: &Ground<'_, E>) {
    on.fill([1, 2, 3]);
    commit(on.engine, |t| {
        for number in 1..=3 {
            t.get(TABLE, &on.key(number))?;
        }
        assert!(t.update(TABLE, &on.key(1), b"updated")?);
        assert!(t.delete(TABLE, &on.key(2))?);
        assert_eq!(t.get_for_update(TABLE, &on.key(3))?, Some(&[3][..]));
        assert!(t.update(TABLE, &on.key(3), b"as well")?);
        Ok(())
    });
    assert_eq!(on.row(1), Some(b"updated".to_vec()));
    assert_eq!(on.row(2), None);
    assert_eq!(on.row(3), Some(b"as well".to_vec()));
}

fn insert_after_own_delete<E: Engine>(on: &Ground<'_, E>) {
    on.fill([1, 2]);
    commit(on.engine, |t| {
        for number in [1, 2] {
            let key = on.key(number);
            assert!(t.delete(TABLE, &key)?);
            assert_eq!(t.get(TABLE, &key)?, None, "own deletes are seen");
            assert!(!t.update(TABLE, &key, b"no")?, "there is no row to update");
            t.insert(TABLE, &key, b"again")?;
            assert_eq!(t.get(TABLE, &key)?, Some(&b"again"[..]));
        }
        assert!(t.delete(TABLE, &on.key(2))?);
        Ok(())
    });
    assert_eq!(on.row(1), Some(b"again".to_vec()));
    assert_eq!(on.row(2), None);
}

fn what_a_transaction_does_to_its_own_insert<E: Engine>(on: &Ground<'_, E>) {
    commit(on.engine, |t| {
        for number in 1..=4 {
            t.insert(TABLE, &on.key(number), b"first")?;
        }
        assert!(t.update(TABLE, &on.key(1), b"second")?);
        assert!(t.delete(TABLE, &on.key(2))?);
        assert!(t.delete(TABLE, &on.key(3))?);
        t.insert(TABLE, &on.key(3), b"third")?;
        assert_eq!(t.get_for_update(TABLE, &on.key(4))?, Some(&b"first"[..]));
        Ok(())
    });
    assert_eq!(on.row(1), Some(b"second".to_vec()));
    assert_eq!(on.row(2), None, "what was inserted and deleted never was");
    assert_eq!(on.row(3), Some(b"third".to_vec()));
    assert_eq!(on.row(4), Some(b"first".to_vec()));
}

fn duplicates_are_refused_and_the_transaction_goes_on<E: Engine>(on: &Ground<'_, E>) {
    on.fill([1]);
    commit(on.engine, |t| {
        duplicate(t.insert(TABLE, &on.key(1), b"no"))?;
        assert_eq!(t.get(TABLE, &on.key(1))?, Some(&[1][..]));
        t.insert(TABLE, &on.key(2), b"own")?;
        duplicate(t.insert(TABLE, &on.key(2), b"no"))?;
        assert!(t.update(TABLE, &on.key(1), b"updated")?);
        duplicate(t.insert(TABLE, &on.key(1), b"no"))
    });
    assert_eq!(on.row(1), Some(b"updated".to_vec()));
    assert_eq!(on.row(2), Some(b"own".to_vec()));
}

fn duplicate(result: Result<(), TxError>) -> Result<(), TxError> {
    match result {
        Err(TxError::Duplicate { table: TABLE }) => Ok(()),
        Err(error) => Err(error),
        Ok(()) => panic!("an insert of a key that is there was accepted"),
    }
}

fn absent_keys<E: Engine>(on: &Ground<'_, E>) {
    on.fill([5]);
    commit(on.engine, |t| {
        for number in [1, 9] {
            let key = on.key(number);
            assert_eq!(t.get(TABLE, &key)?, None);
            assert_eq!(t.get_for_update(TABLE, &key)?, None);
            assert!(!t.update(TABLE, &key, b"no")?);
            assert!(!t.delete(TABLE, &key)?);
            assert_eq!(t.get(TABLE, &key)?, None, "nothing has made it");
        }
        t.insert(TABLE, &on.key(1), b"now")?;
        assert_eq!(t.get(TABLE, &on.key(1))?, Some(&b"now"[..]));
        Ok(())
    });
    assert_eq!(on.row(1), Some(b"now".to_vec()));
    assert_eq!(on.row(9), None);
}

fn an_aborted_transaction_has_changed_nothing<E: Engine>(on: &Ground<'_, E>) {
    on.fill([1, 2, 3]);
    for end in [End::Abort, End::Drop] {
        transact(on.engine, end, |t| {
            assert!(t.update(TABLE, &on.key(1), b"no")?);
            assert!(t.delete(TABLE, &on.key(2))?);
            assert!(t.delete(TABLE, &on.key(3))?);
            t.insert(TABLE, &on.key(3), b"no")?;
            t.insert(TABLE, &on.key(4), b"no")?;
            duplicate(t.insert(TABLE, &on.key(4), b"no"))
        });
        let rows = commit(on.engine, |t| rows_of(t, TABLE, &on.stretch(0, 9), Direction::Forward));
        assert_eq!(rows, [1, 2, 3].map(|number| (on.key(number), vec![number])), "{end:?}");
    }
}

fn keys_and_rows_that_do_not_fit<E: Engine>(on: &Ground<'_, E>) {
    on.fill([1]);
    let mut long = on.key(1);
    long.resize(KEY_BYTES + 1, 0);
    commit(on.engine, |t| {
        for key in [&[][..], &long] {
            no_key(key, t.get(TABLE, key))?;
            no_key(key, t.get_for_update(TABLE, key))?;
            no_key(key, t.update(TABLE, key, b"no"))?;
            no_key(key, t.insert(TABLE, key, b"no"))?;
            no_key(key, t.delete(TABLE, key))?;
        }
        let row = [7; ROW_BYTES + 1];
        no_row(t.update(TABLE, &on.key(1), &row))?;
        no_row(t.insert(TABLE, &on.key(2), &row))?;
        assert_eq!(t.get(TABLE, &on.key(1))?, Some(&[1][..]), "nothing is half done");
        assert_eq!(t.get(TABLE, &on.key(2))?, None);
        assert!(t.update(TABLE, &on.key(1), &row[1..])?, "the transaction goes on");
        Ok(())
    });
    assert_eq!(on.row(1), Some(vec![7; ROW_BYTES]));
}

fn no_key<R>(key: &[u8], result: Result<R, TxError>) -> Result<(), TxError> {
    match result {
        Err(TxError::KeyLength { table: TABLE, bytes, most: KEY_BYTES }) if bytes == key.len() => {
            Ok(())
        }
        Err(error) => Err(error),
        Ok(_) => panic!("a key of {} bytes was accepted", key.len()),
    }
}

fn no_row<R>(result: Result<R, TxError>) -> Result<(), TxError> {
    match result {
        Err(TxError::RowLength { table: TABLE, bytes, most: ROW_BYTES }) => {
            assert_eq!(bytes, ROW_BYTES + 1);
            Ok(())
        }
        Err(error) => Err(error),
        Ok(_) => panic!("a row that is too long was accepted"),
    }
}

fn no_such_table<E: Engine>(on: &Ground<'_, E>) {
    let key = on.key(1);
    commit(on.engine, |t| {
        for table in [MISSING, TableId(u16::MAX)] {
            no_table(table, t.get(table, &key))?;
            no_table(table, t.get_for_update(table, &key))?;
            no_table(table, t.update(table, &key, b""))?;
            no_table(table, t.insert(table, &key, b""))?;
            no_table(table, t.delete(table, &key))?;
            no_table(table, rows_of(t, table, &Stretch::all(), Direction::Forward))?;
        }
        t.insert(TABLE, &key, b"the transaction goes on")
    });
    assert!(on.row(1).is_some());
}

fn no_table<R>(table: TableId, result: Result<R, TxError>) -> Result<(), TxError> {
    match result {
        Err(TxError::NoTable { table: named }) => {
            assert_eq!(named, table, "the error names the table");
            Ok(())
        }
        Err(error) => Err(error),
        Ok(_) => panic!("table {table} was accepted"),
    }
}

fn tables_are_apart<E: Engine>(on: &Ground<'_, E>) {
    // As many keys share a partition in the other table.
    let mut other = (on.partition * 10 + 3).to_be_bytes().to_vec();
    other.extend(b"row");
    commit(on.engine, |t| {
        t.insert(TABLE, &on.key(1), b"here")?;
        t.insert(OTHER, &other, &[5; 1000])?;
        Ok(())
    });
    commit(on.engine, |t| {
        assert_eq!(t.get(OTHER, &on.key(1))?, None);
        assert_eq!(t.get(TABLE, &other)?, None);
        assert_eq!(t.get(OTHER, &other)?, Some(&[5; 1000][..]));
        assert!(t.delete(OTHER, &other)?);
        Ok(())
    });
    assert_eq!(on.row(1), Some(b"here".to_vec()));
}

fn replicated_tables_are_read_only<E: Engine>(on: &Ground<'_, E>) {
    let (key, row) = COPIES[0];
    commit(on.engine, |t| {
        assert_eq!(t.get(REPLICATED, key)?, Some(row));
        assert_eq!(t.get(REPLICATED, b"none")?, None);
        read_only(t.update(REPLICATED, key, b"no"))?;
        read_only(t.insert(REPLICATED, b"new", b"no"))?;
        read_only(t.delete(REPLICATED, key))?;
        let rows = rows_of(t, REPLICATED, &Stretch::all(), Direction::Backward)?;
        let expected = COPIES.iter().rev().map(|(key, row)| (key.to_vec(), row.to_vec()));
        assert!(rows.into_iter().eq(expected), "all copies are there, and no others");
        t.insert(TABLE, &on.key(1), b"the transaction goes on")
    });
    assert!(on.row(1).is_some());
}

fn read_only<R>(result: Result<R, TxError>) -> Result<(), TxError> {
    match result {
        Err(TxError::ReadOnly { table: REPLICATED }) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => panic!("a replicated table was changed"),
    }
}

fn many_rows_at_once<E: Engine>(on: &Ground<'_, E>) {
    on.fill(0..=199);
    commit(on.engine, |t| {
        for number in 0..=199 {
            assert!(t.update(TABLE, &on.key(number), &[number; ROW_BYTES])?);
        }
        Ok(())
    });
    let rows = commit(on.engine, |t| rows_of(t, TABLE, &on.stretch(0, 199), Direction::Forward));
    assert!(on.numbers(&rows).into_iter().eq(0..=199));
    assert!(rows.iter().all(|(key, row)| *row == vec![key[7]; ROW_BYTES]));
}

fn epochs_do_not_go_back<E: Engine>(on: &Ground<'_, E>) {
    let mut last = 0;
    for number in 1..=5 {
        let epoch = epoch_of(on.engine, |t| t.insert(TABLE, &on.key(number), b"row"));
        assert!(epoch >= last, "a later transaction of a worker committed in an earlier epoch");
        last = epoch;
    }
    let read = epoch_of(on.engine, |t| t.get(TABLE, &on.key(5)).map(drop));
    assert!(read >= last, "a reader is durable no earlier than what it has read");
}
