//! Two hosts of one pod serve the same tables, on engine `tigon`.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{database, hosts, ok, run, session};
use tombolo_oltp::in_process::while_ticking;
use tombolo_sql::{Status, state};

#[test]
fn a_table_of_one_host_is_there_on_the_other() {
    let (hosts, _directory) = hosts();
    while_ticking(&hosts, || {
        let dbs: Vec<_> = hosts.iter().map(database).collect();
        let (mut one, mut other) = (session(&dbs[0]), session(&dbs[1]));
        ok(&mut one, "CREATE TABLE t (id int PRIMARY KEY, v text, n int)");
        ok(&mut one, "CREATE INDEX t_n ON t (n)");
        ok(
            &mut other,
            "INSERT INTO t SELECT x, 'row ' || x, x % 10 FROM generate_series(1, 100) AS x",
        );
        assert_eq!(ok(&mut one, "SELECT v FROM t WHERE id = 42"), ["row 42"]);
        assert_eq!(ok(&mut one, "SELECT count(*) FROM t WHERE n = 3"), ["10"]);
        ok(&mut one, "UPDATE t SET n = 100 WHERE n = 3");
        assert_eq!(ok(&mut other, "SELECT count(*) FROM t WHERE n = 100"), ["10"]);
        assert_eq!(ok(&mut other, "SELECT id FROM t ORDER BY id DESC LIMIT 2"), ["100", "99"]);

        // A table that goes and comes on one host is another one on the other.
        ok(&mut other, "DROP TABLE t");
        assert_eq!(run(&mut one, "SELECT * FROM t").unwrap_err().state, state::UNDEFINED_TABLE);
        ok(&mut other, "CREATE TABLE t (a text)");
        ok(&mut one, "INSERT INTO t VALUES ('new')");
        assert_eq!(ok(&mut other, "SELECT * FROM t"), ["new"]);
        ok(&mut one, "TRUNCATE t");
        assert_eq!(ok(&mut other, "SELECT count(*) FROM t"), ["0"]);
    });
}

#[test]
fn two_hosts_that_create_one_table_get_one() {
    let (hosts, _directory) = hosts();
    while_ticking(&hosts, || {
        let dbs: Vec<_> = hosts.iter().map(database).collect();
        for round in 0..10 {
            let sql = format!("CREATE TABLE t{round} (id int PRIMARY KEY)");
            let made = thread::scope(|scope| {
                let create = |db| {
                    let sql = &sql;
                    scope.spawn(move || run(&mut session(db), sql).map_err(|error| error.state))
                };
                let threads: Vec<_> = dbs.iter().map(create).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            let refused = made.iter().filter(|made| **made == Err(state::DUPLICATE_TABLE)).count();
            let created = made.iter().filter(|made| made.is_ok()).count();
            assert_eq!((created, refused), (1, 1), "{made:?}");
        }
    });
}

#[test]
fn money_is_neither_made_nor_lost_by_transfers_of_two_hosts() {
    let (hosts, _directory) = hosts();
    while_ticking(&hosts, || {
        let dbs: Vec<_> = hosts.iter().map(database).collect();
        let mut checking = session(&dbs[0]);
        ok(&mut checking, "CREATE TABLE bank (id int PRIMARY KEY, cents bigint NOT NULL)");
        ok(&mut checking, "INSERT INTO bank SELECT x, 100 FROM generate_series(1, 8) AS x");
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let transfer = |number: usize| {
                let db = &dbs[number % 2];
                scope.spawn(move || {
                    let mut session = session(db);
                    let mut done = 0;
                    for round in 0..200 {
                        let (from, to) = (round % 8 + 1, (round * 3 + number) % 8 + 1);
                        let moved = run(&mut session, "BEGIN")
                            .and_then(|_| {
                                let sql =
                                    format!("UPDATE bank SET cents = cents - 1 WHERE id = {from}");
                                run(&mut session, &sql)
                            })
                            .and_then(|_| {
                                let sql =
                                    format!("UPDATE bank SET cents = cents + 1 WHERE id = {to}");
                                run(&mut session, &sql)
                            })
                            .and_then(|_| run(&mut session, "COMMIT"));
                        match moved {
                            Ok(_) => done += 1,
                            Err(error) => {
                                assert_eq!(error.state, state::SERIALIZATION_FAILURE, "{error:?}");
                                if session.status() != Status::Idle {
                                    ok(&mut session, "ROLLBACK");
                                }
                            }
                        }
                    }
                    done
                })
            };
            let threads: Vec<_> = (0..2).map(transfer).collect();
            let (ended, db) = (&has_ended, &dbs[1]);
            let watching = scope.spawn(move || {
                let mut session = session(db);
                while !ended.load(Ordering::Relaxed) {
                    assert_eq!(ok(&mut session, "SELECT sum(cents) FROM bank"), ["800"]);
                }
            });
            let done: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            has_ended.store(true, Ordering::Relaxed);
            watching.join().unwrap();
            assert!(done > 10, "{done} transfers were committed");
        });
        assert_eq!(ok(&mut checking, "SELECT sum(cents) FROM bank"), ["800"]);
    });
}
