use super::point::{Load, Messages, System};
use super::*;

fn tiny() -> TigonSettings {
    TigonSettings { profile: tigon_test_bed(), scale: 0.002, seed: 5 }
}

fn two_hosts(load: Load) -> Point {
    Point { hosts: 2, ..Point::new(load) }
}

#[test]
fn one_seed_comes_to_one_result() {
    let point = two_hosts(Load::Ycsb { reads: 50, cross: 50 });
    let [first, second] = [0; 2].map(|_| point.measure(&tiny()).unwrap());
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
}

#[test]
fn rows_that_all_fit_do_not_move_and_others_do() {
    let load = Load::Ycsb { reads: 95, cross: 100 };
    let all = two_hosts(load).measure(&tiny()).unwrap();
    assert_eq!((all.shared.moved_in, all.shared.messages), (0, 0));
    let little = Point { scr_mib: 6, starts_shared: false, ..two_hosts(load) };
    let some = little.measure(&tiny()).unwrap();
    assert!(some.shared.moved_in > 0 && some.shared.messages > 0, "{some:?}");
    assert!(some.commits < all.commits, "{some:?} and {all:?}");
}

#[test]
fn what_commits_becomes_durable() {
    let ran = two_hosts(Load::Tpcc { orders: 60, payments: 90 }).measure(&tiny()).unwrap();
    assert!(ran.commits > 100 && ran.log_bytes > 0, "{ran:?}");
    assert_eq!(ran.durable, ran.commits);
}

/// Three workers of a host read the replicated table for the first time at once. One of them held
/// the cell that the table is kept in while it waited for a mutex, which gave way to the next one:
/// it waited for the cell, and with it the thread that all of them run on.
#[test]
fn workers_that_first_read_a_replicated_table_at_once_go_on() {
    let point = Point { epoch_ms: 1, ..Point::new(Load::Tpcc { orders: 0, payments: 0 }) };
    assert!(point.measure(&tiny()).unwrap().commits > 0);
}

/// On one host, half of the transactions take what one worker of the published source was measured
/// to take, in microseconds.
#[test]
fn published_steps_come_to_what_was_measured() {
    let settings = TigonSettings { scale: 0.01, ..tiny() };
    for (reads, measured) in [(100, 1e3 / 108.0), (50, 1e3 / 26.0)] {
        let point = Point { hosts: 1, ..Point::new(Load::Ycsb { reads, cross: 0 }) };
        let half = point.measure(&settings).unwrap().commit_us[0];
        assert!((half / measured - 1.0).abs() < 0.1, "{half} us instead of {measured} us");
    }
}

#[test]
fn every_system_runs() {
    let variants = [
        System::NO_SWCC,
        System::NON_TEMPORAL,
        System::NO_SHARED_READER,
        System::LRU,
        System::FIFO,
        System::NO_SHORTCUTS,
        System::NO_DIRTY_BIT,
        System::NO_NEXT_KEY_LOCKS,
        System::Objects,
    ];
    let messages = [Messages::Network, Messages::Pod, Messages::PodAndWorker];
    let others = messages.map(System::Sundial).into_iter().chain(messages.map(System::Ds2pl));
    let load = Load::Tpcc { orders: 60, payments: 90 };
    for system in variants.into_iter().chain(others) {
        let ran = Point { system, ..two_hosts(load) }.measure(&tiny()).unwrap();
        assert!(ran.commits > 20, "{system:?}: {ran:?}");
        assert_eq!(ran.durable, ran.commits, "{system:?}");
        let asks = !matches!(system, System::Tigon(_) | System::Objects);
        let has_asked = !asks || ran.shared.messages > 0;
        assert!(has_asked, "{system:?}: {ran:?}");
    }
}

#[test]
fn all_that_is_compared_is_measured() {
    let ran = two_hosts(Load::Ycsb { reads: 95, cross: 0 }).measure(&tiny()).unwrap();
    for figure in TIGON_FIGURES {
        let points = (figure.points)();
        let measured = Measured {
            ran: points.into_iter().map(|point| (point, ran.clone())).collect(),
            scale: 0.002,
            scr_access: 259e-9,
        };
        let drawn = (figure.draw)(&measured);
        assert!(!drawn.rows.is_empty() && drawn.svg().is_ok(), "{}", figure.id);
        for (name, values) in &drawn.columns {
            assert_eq!(values.len(), drawn.places.len(), "{} of {}", name, figure.id);
        }
    }
}
