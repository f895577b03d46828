//! Hermitage's cases of isolation, between transactions of two hosts on engine `tigon`.
//!
//! Each case is two or three transactions in a given order of their statements. Some of them may
//! fail with 40001. The rows that the others have read, and those that are left, have to be those
//! of these transactions one after the other, in some order.

mod common;

use common::{Host, database, hosts, ok, run, session};
use tombolo_oltp::in_process::while_ticking;
use tombolo_sql::{Session, SqlDatabase, Status, state};

/// Statements, each of the transaction with this number. The last of a transaction is its COMMIT
/// or ROLLBACK.
type Case = (&'static str, &'static [(usize, &'static str)]);

const CASES: &[Case] = &[
    (
        "G0 write cycles",
        &[
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (1, "UPDATE test SET value = 12 WHERE id = 1"),
            (0, "UPDATE test SET value = 21 WHERE id = 2"),
            (0, "COMMIT"),
            (1, "UPDATE test SET value = 22 WHERE id = 2"),
            (1, "COMMIT"),
        ],
    ),
    (
        "G1a aborted reads",
        &[
            (0, "UPDATE test SET value = 101 WHERE id = 1"),
            (1, "SELECT * FROM test ORDER BY id"),
            (0, "ROLLBACK"),
            (1, "SELECT * FROM test ORDER BY id"),
            (1, "COMMIT"),
        ],
    ),
    (
        "G1b intermediate reads",
        &[
            (0, "UPDATE test SET value = 101 WHERE id = 1"),
            (1, "SELECT * FROM test ORDER BY id"),
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (0, "COMMIT"),
            (1, "SELECT * FROM test ORDER BY id"),
            (1, "COMMIT"),
        ],
    ),
    (
        "G1c circular information flow",
        &[
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (1, "UPDATE test SET value = 22 WHERE id = 2"),
            (0, "SELECT * FROM test WHERE id = 2"),
            (1, "SELECT * FROM test WHERE id = 1"),
            (0, "COMMIT"),
            (1, "COMMIT"),
        ],
    ),
    (
        "OTV observed transaction vanishes",
        &[
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (0, "UPDATE test SET value = 19 WHERE id = 2"),
            (1, "UPDATE test SET value = 12 WHERE id = 1"),
            (0, "COMMIT"),
            (2, "SELECT * FROM test WHERE id = 1"),
            (1, "UPDATE test SET value = 18 WHERE id = 2"),
            (2, "SELECT * FROM test WHERE id = 2"),
            (1, "COMMIT"),
            (2, "SELECT * FROM test WHERE id = 2"),
            (2, "SELECT * FROM test WHERE id = 1"),
            (2, "COMMIT"),
        ],
    ),
    (
        "PMP predicate-many-preceders",
        &[
            (0, "SELECT * FROM test WHERE value = 30"),
            (1, "INSERT INTO test VALUES (3, 30)"),
            (1, "COMMIT"),
            (0, "SELECT * FROM test WHERE value % 3 = 0 ORDER BY id"),
            (0, "COMMIT"),
        ],
    ),
    (
        "PMP with write predicates",
        &[
            (0, "UPDATE test SET value = value + 10"),
            (1, "DELETE FROM test WHERE value = 20"),
            (0, "COMMIT"),
            (1, "COMMIT"),
        ],
    ),
    (
        "P4 lost update",
        &[
            (0, "SELECT * FROM test WHERE id = 1"),
            (1, "SELECT * FROM test WHERE id = 1"),
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (1, "UPDATE test SET value = 11 WHERE id = 1"),
            (0, "COMMIT"),
            (1, "COMMIT"),
        ],
    ),
    (
        "P4 lost update, of a sum",
        &[
            (0, "SELECT * FROM test WHERE id = 1"),
            (1, "UPDATE test SET value = value + 1 WHERE id = 1"),
            (0, "UPDATE test SET value = value + 1 WHERE id = 1"),
            (1, "COMMIT"),
            (0, "COMMIT"),
        ],
    ),
    (
        "G-single read skew",
        &[
            (0, "SELECT * FROM test WHERE id = 1"),
            (1, "SELECT * FROM test WHERE id = 1"),
            (1, "SELECT * FROM test WHERE id = 2"),
            (1, "UPDATE test SET value = 12 WHERE id = 1"),
            (1, "UPDATE test SET value = 18 WHERE id = 2"),
            (1, "COMMIT"),
            (0, "SELECT * FROM test WHERE id = 2"),
            (0, "COMMIT"),
        ],
    ),
    (
        "G-single with predicates",
        &[
            (0, "SELECT * FROM test WHERE value % 5 = 0 ORDER BY id"),
            (1, "UPDATE test SET value = 12 WHERE value = 10"),
            (1, "COMMIT"),
            (0, "SELECT * FROM test WHERE value % 3 = 0 ORDER BY id"),
            (0, "COMMIT"),
        ],
    ),
    (
        "G-single with write predicates",
        &[
            (0, "SELECT * FROM test WHERE id = 1"),
            (1, "SELECT * FROM test ORDER BY id"),
            (1, "UPDATE test SET value = 12 WHERE id = 1"),
            (1, "UPDATE test SET value = 18 WHERE id = 2"),
            (1, "COMMIT"),
            (0, "DELETE FROM test WHERE value = 20"),
            (0, "COMMIT"),
        ],
    ),
    (
        "G2-item write skew",
        &[
            (0, "SELECT * FROM test WHERE id IN (1, 2) ORDER BY id"),
            (1, "SELECT * FROM test WHERE id IN (1, 2) ORDER BY id"),
            (0, "UPDATE test SET value = 11 WHERE id = 1"),
            (1, "UPDATE test SET value = 21 WHERE id = 2"),
            (0, "COMMIT"),
            (1, "COMMIT"),
        ],
    ),
    (
        "G2 anti-dependency cycles",
        &[
            (0, "SELECT * FROM test WHERE value % 3 = 0 ORDER BY id"),
            (1, "SELECT * FROM test WHERE value % 3 = 0 ORDER BY id"),
            (0, "INSERT INTO test VALUES (3, 30)"),
            (1, "INSERT INTO test VALUES (4, 42)"),
            (0, "COMMIT"),
            (1, "COMMIT"),
        ],
    ),
    (
        "G2 with two edges",
        &[
            (0, "SELECT * FROM test ORDER BY id"),
            (1, "UPDATE test SET value = value + 5 WHERE id = 2"),
            (1, "COMMIT"),
            (2, "SELECT * FROM test ORDER BY id"),
            (2, "COMMIT"),
            (0, "UPDATE test SET value = 0 WHERE id = 1"),
            (0, "COMMIT"),
        ],
    ),
];

/// A transaction's rows, by its statements; `None` if it had no effect.
type Seen = Option<Vec<Vec<String>>>;

fn reset(session: &mut Session<'_, Host>) {
    ok(session, "DELETE FROM test");
    ok(session, "INSERT INTO test VALUES (1, 10), (2, 20)");
}

fn left(session: &mut Session<'_, Host>) -> Vec<String> {
    ok(session, "SELECT * FROM test ORDER BY id")
}

/// Runs the statements in their order, the transactions on hosts in turn.
fn interleaved(dbs: &[SqlDatabase<Host>], steps: &[(usize, &str)]) -> Vec<Seen> {
    let count = 1 + steps.iter().map(|(number, _)| *number).max().unwrap();
    let mut sessions: Vec<_> = (0..count).map(|number| session(&dbs[number % 2])).collect();
    let mut seen: Vec<Seen> = vec![Some(Vec::new()); count];
    for &(number, sql) in steps {
        let session = &mut sessions[number];
        if seen[number].is_none() {
            continue;
        }
        if session.status() == Status::Idle {
            ok(session, "BEGIN");
        }
        match run(session, sql) {
            Ok(_) if sql == "ROLLBACK" => seen[number] = None,
            Ok(rows) => seen[number].as_mut().unwrap().push(rows),
            Err(error) => {
                assert_eq!(error.state, state::SERIALIZATION_FAILURE, "{sql}: {error:?}");
                seen[number] = None;
                if session.status() != Status::Idle {
                    ok(session, "ROLLBACK");
                }
            }
        }
    }
    seen
}

/// The same transactions one after the other, those that had an effect.
fn in_turn(
    session: &mut Session<'_, Host>,
    steps: &[(usize, &str)],
    order: &[usize],
    seen: &[Seen],
) -> Vec<Seen> {
    let mut found = vec![None; seen.len()];
    for &number in order.iter().filter(|number| seen[**number].is_some()) {
        ok(session, "BEGIN");
        let own = steps.iter().filter(|(other, _)| *other == number);
        found[number] = Some(own.map(|(_, sql)| ok(session, sql)).collect());
    }
    found
}

#[test]
fn transactions_of_two_hosts_are_as_one_after_the_other() {
    let (hosts, _directory) = hosts();
    while_ticking(&hosts, || {
        let dbs: Vec<_> = hosts.iter().map(database).collect();
        let mut checking = session(&dbs[0]);
        ok(&mut checking, "CREATE TABLE test (id int PRIMARY KEY, value int)");
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for (name, steps) in CASES {
            reset(&mut checking);
            let seen = interleaved(&dbs, steps);
            let rolls_back = steps.iter().any(|(_, sql)| *sql == "ROLLBACK");
            let some = rolls_back || seen.iter().any(Option::is_some);
            assert!(some, "{name}: all transactions have failed");
            let rows = left(&mut checking);
            let explains = orders.iter().any(|order| {
                reset(&mut checking);
                let order: Vec<usize> =
                    order.iter().copied().filter(|number| *number < seen.len()).collect();
                let found = in_turn(&mut checking, steps, &order, &seen);
                found == seen && left(&mut checking) == rows
            });
            assert!(explains, "{name}: no order gives {seen:?} and {rows:?}");
        }
    });
}
