//! One history for each named anomaly, next to the history that it is mistaken for.

use std::ops::Bound;

use tombolo_verify::serializability::{Condition, Doubt, Phenomenon, Verdict, check};
use tombolo_verify::transactions::{History, Operation, Outcome, Transaction};

type Entry = Transaction<&'static str, u32>;
type Op = Operation<&'static str, u32>;

fn transaction(session: u32, begun_at: u64, outcome: Outcome, operations: &[Op]) -> Entry {
    Transaction { session, begun_at, outcome, operations: operations.to_vec() }
}

/// A committed transaction.
fn done(session: u32, [begun_at, at]: [u64; 2], operations: &[Op]) -> Entry {
    transaction(session, begun_at, Outcome::Committed { at }, operations)
}

/// Committed transactions, all at once.
fn together(transactions: &[&[Op]]) -> Vec<Entry> {
    transactions.iter().zip(0..).map(|(operations, id)| done(id, [1, 9], operations)).collect()
}

fn append(key: &'static str, value: u32) -> Op {
    Operation::Append { key, value }
}

fn list(key: &'static str, list: &[u32]) -> Op {
    Operation::ReadList { key, list: list.to_vec() }
}

fn write(key: &'static str, value: u32) -> Op {
    Operation::Write { key, value }
}

fn read(key: &'static str, value: u32) -> Op {
    Operation::Read { key, value: Some(value) }
}

fn absent(key: &'static str) -> Op {
    Operation::Read { key, value: None }
}

fn insert(key: &'static str, value: u32) -> Op {
    Operation::Insert { key, value }
}

fn delete(key: &'static str) -> Op {
    Operation::Delete { key }
}

/// A scan of all rows.
fn scan(found: &[(&'static str, u32)]) -> Op {
    Operation::Scan { from: Bound::Unbounded, to: Bound::Unbounded, found: found.to_vec() }
}

fn verdict(condition: Condition, transactions: &[Entry]) -> Verdict<&'static str, u32> {
    check(&History::new(transactions.to_vec()).unwrap(), condition, 100_000)
}

#[track_caller]
fn assert_good(condition: Condition, transactions: &[Entry]) {
    let verdict = verdict(condition, transactions);
    assert!(verdict.passed(), "{verdict}");
}

#[track_caller]
fn assert_bad(condition: Condition, transactions: &[Entry], name: &str) {
    let verdict = verdict(condition, transactions);
    let violation = verdict.violation().unwrap_or_else(|| panic!("{verdict}"));
    assert_eq!(violation.anomaly.to_string(), name, "{violation}");
}

#[track_caller]
fn good(transactions: &[&[Op]]) {
    assert_good(Condition::Serializable, &together(transactions));
}

#[track_caller]
fn bad(transactions: &[&[Op]], name: &str) {
    assert_bad(Condition::Serializable, &together(transactions), name);
}

#[test]
fn dirty_write() {
    let [a, b] = [[append("x", 1), append("y", 1)], [append("x", 2), append("y", 2)]];
    good(&[&a, &b, &[list("x", &[1, 2]), list("y", &[1, 2])]]);
    bad(&[&a, &b, &[list("x", &[1, 2]), list("y", &[2, 1])]], "G0 (dirty write)");
}

#[test]
fn aborted_read() {
    for (write, read) in [(append("x", 1), list("x", &[1])), (write("x", 1), read("x", 1))] {
        let (write, read) = ([write], [read]);
        let history = |outcome| [transaction(0, 1, outcome, &write), done(1, [1, 9], &read)];
        assert_good(Condition::Strict, &history(Outcome::Unknown { at: 2 }));
        assert_good(Condition::Strict, &history(Outcome::Pending));
        let aborted = history(Outcome::Aborted { at: 2 });
        assert_bad(Condition::Serializable, &aborted, "G1a (aborted read)");
    }
}

#[test]
fn intermediate_read() {
    good(&[&[append("x", 1), append("x", 2)], &[list("x", &[1, 2])]]);
    bad(&[&[append("x", 1), append("x", 2)], &[list("x", &[1])]], "G1b (intermediate read)");
    good(&[&[write("x", 1), write("x", 2)], &[read("x", 2)]]);
    bad(&[&[write("x", 1), write("x", 2)], &[read("x", 1)]], "G1b (intermediate read)");
    bad(&[&[insert("x", 1), delete("x")], &[read("x", 1)]], "G1b (intermediate read)");
}

#[test]
fn circular_information_flow() {
    let name = "G1c (circular information flow)";
    bad(&[&[append("x", 1), list("y", &[1])], &[append("y", 1), list("x", &[1])]], name);
    bad(&[&[write("x", 1), read("y", 1)], &[write("y", 1), read("x", 1)]], name);
    good(&[&[write("x", 1), absent("y")], &[write("y", 1), read("x", 1)]]);
}

#[test]
fn lost_update() {
    let name = "G-single (lost update)";
    let lists: [&[Op]; 2] = [&[list("x", &[]), append("x", 1)], &[list("x", &[]), append("x", 2)]];
    bad(&[lists[0], lists[1], &[list("x", &[1, 2])]], name);
    bad(&lists, name);
    good(&[lists[0], &[list("x", &[1]), append("x", 2)]]);
    let rows: [&[Op]; 2] = [&[read("x", 1), write("x", 2)], &[read("x", 1), write("x", 3)]];
    bad(&[&[write("x", 1)], rows[0], rows[1]], name);
    good(&[&[write("x", 1)], rows[0], &[read("x", 2), write("x", 3)]]);
}

#[test]
fn read_skew() {
    let writer: &[Op] = &[append("x", 1), append("y", 1)];
    bad(&[writer, &[list("x", &[]), list("y", &[1])]], "G-single (read skew)");
    good(&[writer, &[list("x", &[1]), list("y", &[1])], &[list("x", &[]), list("y", &[])]]);
    let writer: &[Op] = &[write("x", 1), write("y", 1)];
    bad(&[writer, &[absent("x"), read("y", 1)]], "G-single (read skew)");
}

#[test]
fn non_repeatable_read() {
    let name = "G-single (non-repeatable read)";
    bad(&[&[append("x", 1)], &[list("x", &[]), list("x", &[1])]], name);
    bad(&[&[write("x", 1)], &[absent("x"), read("x", 1)]], name);
    good(&[&[write("x", 1)], &[absent("x"), absent("x")]]);
}

#[test]
fn write_skew() {
    let lists: [&[Op]; 2] = [
        &[list("x", &[]), list("y", &[]), append("x", 1)],
        &[list("x", &[]), list("y", &[]), append("y", 1)],
    ];
    bad(&lists, "G2-item (write skew)");
    good(&[lists[0], &[list("x", &[1]), list("y", &[]), append("y", 1)]]);
    bad(&[&[absent("y"), write("x", 1)], &[absent("x"), write("y", 1)]], "G2-item (write skew)");
}

#[test]
fn long_fork() {
    let history = |last: [Op; 2]| {
        together(&[&[write("x", 1)], &[write("y", 1)], &[read("x", 1), absent("y")], &last])
    };
    let fork = history([absent("x"), read("y", 1)]);
    assert_bad(Condition::Serializable, &fork, "G2-item (long fork)");
    assert_good(Condition::Serializable, &history([read("x", 1), read("y", 1)]));
    let lists = |last: [Op; 2]| {
        let first = [list("x", &[1]), list("y", &[])];
        together(&[&[append("x", 1)], &[append("y", 1)], &first, &last])
    };
    let fork = lists([list("x", &[]), list("y", &[1])]);
    assert_bad(Condition::Serializable, &fork, "G2-item (long fork)");
}

#[test]
fn phantom() {
    bad(&[&[scan(&[]), insert("x", 1)], &[scan(&[]), insert("y", 1)]], "G2 (phantom)");
    good(&[&[scan(&[]), insert("x", 1)], &[scan(&[("x", 1)]), insert("y", 1)]]);
    bad(&[&[insert("x", 1)], &[scan(&[]), scan(&[("x", 1)])]], "G2 (phantom)");
}

/// Each scan sees the row that the other transaction deletes.
#[test]
fn phantom_of_deletes() {
    let rows: &[Op] = &[insert("x", 1), insert("y", 2)];
    let both = scan(&[("x", 1), ("y", 2)]);
    bad(&[rows, &[both.clone(), delete("x")], &[both.clone(), delete("y")]], "G2 (phantom)");
    good(&[rows, &[both, delete("x")], &[scan(&[("y", 2)]), delete("y")]]);
}

/// A row that was deleted and inserted again is not missed, whatever came between.
#[test]
fn absent_at_several_times() {
    let life: [&[Op]; 4] = [&[insert("x", 1)], &[delete("x")], &[insert("x", 2)], &[delete("x")]];
    let history = |probe: &[Op]| {
        let mut history = together(&[life[0], life[1], life[2], life[3]]);
        history.push(done(9, [1, 9], probe));
        history
    };
    assert_good(Condition::Serializable, &history(&[scan(&[]), write("z", 1)]));
    assert_good(Condition::Serializable, &history(&[scan(&[("x", 2)])]));
    let name = "G-single (non-repeatable read)";
    assert_bad(Condition::Serializable, &history(&[read("x", 1), read("x", 2)]), name);
}

#[test]
fn row_in_a_scan_out_of_bounds_or_twice() {
    let scan = |to, found: &[(&'static str, u32)]| {
        let (from, to) = (Bound::Included("a"), Bound::Excluded(to));
        together(&[&[insert("m", 1)], &[Operation::Scan { from, to, found: found.to_vec() }]])
    };
    assert_good(Condition::Serializable, &scan("n", &[("m", 1)]));
    let name = "internal inconsistency";
    assert_bad(Condition::Serializable, &scan("m", &[("m", 1)]), name);
    assert_bad(Condition::Serializable, &scan("n", &[("m", 1), ("m", 1)]), name);
}

#[test]
fn own_writes() {
    let name = "internal inconsistency";
    good(&[&[append("x", 1), list("x", &[1]), append("x", 2), list("x", &[1, 2])]]);
    bad(&[&[append("x", 1), list("x", &[])]], name);
    bad(&[&[list("x", &[1]), append("x", 1)]], name);
    good(&[&[insert("x", 1), read("x", 1), delete("x"), scan(&[]), insert("x", 2)]]);
    bad(&[&[write("x", 1), absent("x")]], name);
    bad(&[&[insert("x", 1), scan(&[])]], name);
    bad(&[&[read("x", 1), write("x", 1)]], name);
    bad(&[&[insert("x", 1), insert("x", 2)]], name);
}

#[test]
fn values_from_nowhere() {
    bad(&[&[list("x", &[7])]], "garbage read");
    bad(&[&[read("x", 7)]], "garbage read");
    bad(&[&[scan(&[("x", 7)])]], "garbage read");
    bad(&[&[delete("x")]], "garbage read");
}

#[test]
fn lists_that_cannot_be() {
    let writers: [&[Op]; 3] = [&[append("x", 1)], &[append("x", 2)], &[append("x", 3)]];
    let history = |reads: &[&[u32]]| {
        let mut history = together(&writers);
        history.extend(reads.iter().map(|read| done(9, [1, 9], &[list("x", read)])));
        history
    };
    assert_good(Condition::Serializable, &history(&[&[2], &[2, 3], &[]]));
    assert_bad(Condition::Serializable, &history(&[&[1, 2], &[2]]), "incompatible order");
    assert_bad(Condition::Serializable, &history(&[&[1, 2, 1]]), "duplicate");
    bad(&[&[append("x", 1), append("x", 2)], &[list("x", &[2, 1])]], "disorder");
    bad(&[&[append("x", 1), append("x", 2)], &[list("x", &[2])]], "disorder");
}

/// The last append was lost, or is still to come: that takes a clock to tell.
#[test]
fn stale_read() {
    let history = |begun_at, session| {
        [done(0, [1, 5], &[append("x", 1)]), done(session, [begun_at, 9], &[list("x", &[])])]
    };
    assert_good(Condition::Serializable, &history(6, 0));
    assert_good(Condition::StrongSession, &history(6, 1));
    assert_bad(Condition::StrongSession, &history(6, 0), "G-single by time");
    assert_good(Condition::Strict, &history(5, 1));
    assert_bad(Condition::Strict, &history(6, 1), "G-single by time");
}

/// Real time makes a cycle over transactions that have no key in common.
#[test]
fn real_time_across_others() {
    let early = done(0, [1, 2], &[append("x", 1)]);
    let others = (0..50).map(|id| done(1, [3 + id, 3 + id], &[append("y", id as u32)]));
    let mut history: Vec<_> = others.collect();
    history.extend([early, done(2, [100, 101], &[list("x", &[])])]);
    let verdict = verdict(Condition::Strict, &history);
    let violation = verdict.violation().unwrap();
    assert_eq!((violation.transactions.len(), violation.cycles[0].len()), (2, 2), "{violation}");
}

/// Reads do not tell the order of two writes, but each order contradicts them.
#[test]
fn neither_order_of_blind_writes() {
    let history: [&[Op]; 4] = [
        &[write("x", 1), write("y", 1)],
        &[write("x", 2), write("y", 2)],
        &[read("x", 1), read("y", 2)],
        &[read("x", 2), read("y", 2)],
    ];
    good(&[history[0], history[1], history[3]]);
    let verdict = verdict(Condition::Serializable, &together(&history));
    let violation = verdict.violation().unwrap();
    assert_eq!(violation.anomaly.phenomenon, Phenomenon::GSingle, "{violation}");
    assert!(violation.cycles.iter().all(|cycle| cycle.iter().any(|step| step.assumed)));
}

/// A delete of unknown outcome explains that a row is gone, and an insert of unknown outcome that
/// there was one to delete.
#[test]
fn effects_that_no_value_proves() {
    let row = done(0, [1, 2], &[insert("x", 1)]);
    let gone = done(1, [5, 6], &[scan(&[])]);
    let delete_x = |outcome| transaction(2, 3, outcome, &[delete("x")]);
    let history = |outcome| [row.clone(), delete_x(outcome), gone.clone()];
    assert_good(Condition::Strict, &history(Outcome::Committed { at: 4 }));
    assert_good(Condition::Strict, &history(Outcome::Unknown { at: 4 }));
    assert_good(Condition::Strict, &history(Outcome::Pending));
    let name = "G2 by time";
    assert_bad(Condition::Strict, &history(Outcome::Aborted { at: 4 }), name);
    let again = done(3, [9, 9], &[delete("x")]);
    let twice = [history(Outcome::Pending).as_slice(), &[again]].concat();
    assert_bad(Condition::Strict, &twice, name);
}

/// Found by random histories: a transaction in doubt can be needed by another one alone, which
/// found a row, or read its value. Two that read each other's values cannot have had effects.
#[test]
fn effects_that_need_each_other() {
    let first = transaction(0, 0, Outcome::Pending, &[insert("x", 1)]);
    let second = transaction(1, 0, Outcome::Pending, &[delete("x"), insert("y", 2)]);
    let third = done(2, [1, 9], &[delete("y")]);
    assert_good(Condition::Serializable, &[first, second.clone(), third.clone()]);
    assert_bad(Condition::Serializable, &[second, third.clone()], "garbage read");

    let reader = transaction(1, 0, Outcome::Pending, &[read("x", 1), insert("y", 2)]);
    let history = |writer: &[Op]| {
        let writer = transaction(0, 0, Outcome::Pending, writer);
        [writer, reader.clone(), third.clone()]
    };
    assert_good(Condition::Serializable, &history(&[write("x", 1)]));
    let each_other = history(&[read("y", 2), write("x", 1)]);
    assert_bad(Condition::Serializable, &each_other, "garbage read");
}

#[test]
fn what_cannot_be_decided_is_no_pass() {
    let twice = together(&[&[write("x", 1)], &[write("x", 1)]]);
    let verdict_of = |history: &[Entry]| verdict(Condition::Serializable, history);
    assert!(matches!(verdict_of(&twice), Verdict::Undecided(Doubt::WrittenTwice { .. })));
    let retried = [
        transaction(0, 1, Outcome::Aborted { at: 2 }, &[write("x", 1)]),
        done(0, [3, 4], &[write("x", 1)]),
        done(1, [3, 4], &[read("x", 1)]),
    ];
    assert_good(Condition::Serializable, &retried);
    let both = together(&[&[write("x", 1)], &[list("x", &[])]]);
    assert!(matches!(verdict_of(&both), Verdict::Undecided(Doubt::ListAndRow { .. })));

    let gone = [done(0, [1, 2], &[insert("x", 0)]), done(0, [5, 6], &[absent("x")])];
    let with = |operations: &[Op]| {
        let doubtful = (1..9).map(|id| transaction(id, 0, Outcome::Pending, operations));
        gone.iter().cloned().chain(doubtful).collect::<Vec<_>>()
    };
    assert_good(Condition::Strict, &with(&[delete("x")]));
    let mixed = with(&[list("l", &[]), delete("x")]);
    let strict = verdict(Condition::Strict, &mixed);
    assert!(matches!(strict, Verdict::Undecided(Doubt::InDoubt { count: 8 })), "{strict}");
    assert!(!strict.passed() && strict.violation().is_none());
    assert_good(Condition::Strict, &mixed[..8]);

    let shuffled = [&[write("x", 1), write("y", 1)][..], &[write("x", 2), write("y", 2)]];
    let history = together(&[shuffled[0], shuffled[1], &[read("x", 1), read("y", 1)]]);
    let broke = check(&History::new(history).unwrap(), Condition::Serializable, 1);
    assert!(matches!(broke, Verdict::Undecided(Doubt::OutOfBudget { budget: 1 })), "{broke}");
}

#[test]
fn nothing_happened() {
    assert_good(Condition::Strict, &[]);
    assert_good(Condition::Strict, &[transaction(0, 1, Outcome::Pending, &[])]);
}

#[test]
fn tells_a_story() {
    let verdict = verdict(
        Condition::Strict,
        &[
            done(0, [1, 6], &[list("x", &[]), append("x", 1)]),
            done(1, [2, 5], &[list("x", &[]), append("x", 2)]),
            done(2, [7, 8], &[list("x", &[2, 1])]),
        ],
    );
    let expected = r#"
not strictly serializable: G-single (lost update)

T1  session 1  committed  [2, 5]
      read "x" as []
      appended 2 to "x"

T2  session 0  committed  [1, 6]
      read "x" as []
      appended 1 to "x"

T1 before T2 (ww): T1 appended 2 to "x", and then T2 appended 1 to "x"
T2 before T1 (rw): T2 read "x" as [], before T1 appended 2 to "x"
"#;
    assert_eq!(format!("\n{verdict}"), expected, "{verdict}");
}

#[test]
fn tells_a_story_without_a_cycle() {
    let verdict = verdict(
        Condition::Serializable,
        &[
            transaction(4, 1, Outcome::Aborted { at: 3 }, &[write("x", 1)]),
            done(5, [2, 5], &[scan(&[("x", 1)])]),
        ],
    );
    let expected = r#"
not serializable: G1a (aborted read)

T1  session 5  committed  [2, 5]
      scanned from Unbounded to Unbounded, and found {"x": 1}

T2  session 4  aborted  [1, 3]
      wrote 1 to "x"

key "x": T1 read 1, which T2 wrote before it aborted
"#;
    assert_eq!(format!("\n{verdict}"), expected, "{verdict}");
}
