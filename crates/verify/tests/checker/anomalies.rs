//! One history for each classic way of going wrong, next to the history that it is mistaken for.

use tombolo_verify::history::{History, Outcome, Record};
use tombolo_verify::linearizability::{Verdict, check};
use tombolo_verify::models::{KeyValue, Operation, Result};

type V = Vec<u64>;
type Entry = Record<&'static str, Operation<V>, Result<V>>;

fn value(halves: u64) -> V {
    vec![halves, halves]
}

fn record(
    client: u32,
    invoked_at: u64,
    operation: Operation<V>,
    outcome: Outcome<Result<V>>,
) -> Entry {
    Record { client, key: "apple", operation, invoked_at, outcome }
}

fn done(client: u32, [from, at]: [u64; 2], operation: Operation<V>, result: Result<V>) -> Entry {
    record(client, from, operation, Outcome::Returned { at, result })
}

fn put(client: u32, times: [u64; 2], halves: u64) -> Entry {
    done(client, times, Operation::Put(value(halves)), Result::Done)
}

fn get(client: u32, times: [u64; 2], halves: u64) -> Entry {
    done(client, times, Operation::Get, Result::Value(Some(value(halves))))
}

fn get_none(client: u32, times: [u64; 2]) -> Entry {
    done(client, times, Operation::Get, Result::Value(None))
}

fn verdict(records: &[Entry]) -> Verdict<&'static str, Operation<V>, Result<V>> {
    check(&KeyValue::default(), &History::new(records.to_vec()).unwrap(), 10_000)
}

#[track_caller]
fn assert_good(records: &[Entry]) {
    let verdict = verdict(records);
    assert!(verdict.is_linearizable(), "{verdict}");
}

/// A violation in which exactly `culprits` cannot be placed.
#[track_caller]
fn assert_bad(records: &[Entry], culprits: &[Entry]) {
    let verdict = verdict(records);
    let violation = verdict.violation().unwrap_or_else(|| panic!("{verdict}"));
    assert_eq!(violation.unplaced, culprits, "{violation}");
}

#[test]
fn stale_read() {
    let history = |old: Entry| [put(0, [1, 2], 1), put(0, [3, 5], 2), old];
    assert_good(&history(get(1, [4, 6], 1)));
    assert_good(&history(get(1, [5, 6], 1)));
    assert_bad(&history(get(1, [6, 7], 1)), &[get(1, [6, 7], 1)]);
}

/// An order that ends at a later operation may be longer than any that ends at the stale read: two
/// deletions overlap, and what came between them to be deleted returned after the lie.
#[test]
fn stale_read_before_longer_orders() {
    let delete = |client, times| done(client, times, Operation::Delete, Result::Flag(true));
    let lie = get(0, [9, 10], 1);
    assert_bad(
        &[
            put(0, [1, 2], 1),
            put(0, [3, 4], 2),
            delete(2, [5, 20]),
            get_none(3, [5, 21]),
            delete(1, [6, 8]),
            lie.clone(),
            put(1, [11, 12], 3),
        ],
        &[lie],
    );
}

#[test]
fn lost_update() {
    let update = |client, times, new, old: Option<u64>| {
        done(client, times, Operation::Update(value(new)), Result::Value(old.map(value)))
    };
    let first = update(0, [1, 5], 1, None);
    assert_good(&[first.clone(), update(1, [2, 6], 2, Some(1))]);
    let second = update(1, [2, 6], 2, None);
    assert_bad(&[first, second.clone()], &[second]);
}

#[test]
fn lost_increment() {
    let increment = |client, times, now| {
        done(client, times, Operation::Append(vec![7]), Result::Value(Some(vec![7; now])))
    };
    assert_good(&[increment(0, [1, 5], 2), increment(1, [2, 6], 1)]);
    assert_bad(&[increment(0, [1, 5], 1), increment(1, [2, 6], 1)], &[increment(1, [2, 6], 1)]);
}

#[test]
fn torn_read() {
    let puts = [put(0, [1, 2], 1), put(0, [3, 6], 2)];
    let torn = done(1, [4, 5], Operation::Get, Result::Value(Some(vec![2, 1])));
    let history = |read: Entry| [puts[0].clone(), puts[1].clone(), read];
    assert_good(&history(get(1, [4, 5], 2)));
    assert_bad(&history(torn.clone()), &[torn]);
}

#[test]
fn dirty_read_of_a_failed_write() {
    let write = |outcome| record(0, 3, Operation::Put(value(2)), outcome);
    let history = |outcome| [put(0, [1, 2], 1), write(outcome), get(1, [5, 6], 2)];
    assert_good(&history(Outcome::Unknown { at: 4 }));
    assert_good(&history(Outcome::Pending));
    assert_bad(&history(Outcome::Failed { at: 4 }), &[get(1, [5, 6], 2)]);
}

#[test]
fn reads_of_two_clients_that_go_back_in_time() {
    let writes = [put(0, [1, 2], 1), put(0, [3, 9], 2)];
    let history = |reads: [Entry; 2]| [&writes[..], &reads].concat();
    assert_good(&history([get(1, [4, 5], 1), get(2, [6, 7], 2)]));
    assert_good(&history([get(1, [4, 6], 2), get(2, [6, 7], 1)]));
    let late = get(2, [6, 7], 1);
    assert_bad(&history([get(1, [4, 5], 2), late.clone()]), &[late]);
}

#[test]
fn a_write_that_never_returned_is_seen_and_then_not() {
    let crashed = record(0, 3, Operation::Put(value(2)), Outcome::Pending);
    let history = |reads: [Entry; 2]| [&[put(0, [1, 2], 1), crashed.clone()], &reads[..]].concat();
    assert_good(&history([get(1, [4, 5], 1), get(2, [6, 7], 1)]));
    assert_good(&history([get(1, [4, 5], 1), get(2, [6, 7], 2)]));
    let late = get(2, [6, 7], 1);
    assert_bad(&history([get(1, [4, 5], 2), late.clone()]), &[late]);
}

#[test]
fn deleted_key_comes_back() {
    let delete = done(1, [3, 4], Operation::Delete, Result::Flag(true));
    let history = |reads: [Entry; 2]| [&[put(0, [1, 2], 1), delete.clone()], &reads[..]].concat();
    assert_good(&history([get_none(0, [5, 6]), get_none(0, [7, 8])]));
    assert_bad(&history([get_none(0, [5, 6]), get(0, [7, 8], 1)]), &[get(0, [7, 8], 1)]);
}

#[test]
fn two_winners_of_one_create() {
    let create = |client, times, won| {
        done(client, times, Operation::Create(value(u64::from(client))), Result::Flag(won))
    };
    assert_good(&[create(1, [1, 5], false), create(2, [2, 6], true)]);
    assert_bad(&[create(1, [1, 5], true), create(2, [2, 6], true)], &[create(2, [2, 6], true)]);
}

#[test]
fn two_winners_of_one_compare_and_swap() {
    let swap = |client, times, won| {
        let operation =
            Operation::CompareAndSwap { expected: value(9), new: value(u64::from(client)) };
        done(client, times, operation, Result::Flag(won))
    };
    let history = |other| [put(0, [1, 2], 9), swap(1, [3, 6], true), swap(2, [4, 7], other)];
    assert_good(&history(false));
    assert_bad(&history(true), &[swap(2, [4, 7], true)]);
}

#[test]
fn keys_do_not_excuse_each_other() {
    let mut pear = get(1, [3, 4], 1);
    pear.key = "pear";
    let verdict = verdict(&[put(0, [1, 2], 1), pear]);
    assert_eq!(verdict.violation().map(|violation| violation.key), Some("pear"));
}

#[test]
fn explanation_shows_who_did_what_when() {
    let verdict = verdict(&[
        put(0, [1, 4], 1),
        record(1, 2, Operation::Put(value(2)), Outcome::Failed { at: 5 }),
        record(3, 3, Operation::Put(value(3)), Outcome::Pending),
        get(2, [6, 7], 2),
        get(0, [8, 9], 1),
    ]);
    let expected = r#"
key "apple" is not linearizable

client 0    |-1-|
client 1     |-~1-x
client 2           |=!1=|
client 3      |----~2---->

in this order:
     1  client 0  Put([1, 1]) -> Done  [1, 4]
which leaves Some([1, 1])
none can be next:
    !1  client 2  Get -> Value(Some([2, 2]))  [6, 7]
not counted:
    ~1  client 1  Put([2, 2]) failed  [2, 5]
    ~2  client 3  Put([3, 3]) had not returned  [3, ..]
"#;
    assert_eq!(format!("\n{verdict}"), expected, "{verdict}");
}
