//! Schedules can be enumerated, recorded, done again and shortened.

use tombolo_memory::{Memory, ScrAddr};
use tombolo_simulator::{
    Adversary, Caches, Config, Schedule, SimMemory, Simulation, Trial, catch, enumerate,
    find_failure, minimise,
};

const WORD: ScrAddr<u64> = ScrAddr::new(64);

/// Two hosts add one to a word three times each, in two steps each time.
fn lost_update(trial: &Trial) {
    let mut simulation = Simulation::new(Config::default(), trial);
    for host in 0..2 {
        simulation.spawn(host, |memory| (0..3).for_each(|_| add_one(&memory)));
    }
    simulation.run().unwrap();
    assert_eq!(simulation.memory(0).load(WORD), 6, "an update was lost");
}

fn add_one(memory: &SimMemory) {
    let before = memory.load(WORD);
    memory.store(WORD, before + 1);
}

fn enumerated(preemptions: usize, test: impl Fn(&Trial)) -> (u64, bool) {
    let found = enumerate(&Trial::new(0), preemptions, Caches::default(), test, || true);
    (found.schedules, found.failure.is_some())
}

#[test]
fn every_schedule_is_run_once() {
    let test = |trial: &Trial| {
        let mut simulation = Simulation::new(Config::default(), trial);
        for host in 0..2 {
            simulation.spawn(host, |memory| (0..3).for_each(|_| _ = memory.load(WORD)));
        }
        simulation.run().unwrap();
    };
    // None; before one of the first thread's three operations; then also before one of the
    // second's.
    let counts = [0, 1, 2].map(|preemptions| enumerated(preemptions, test));
    assert_eq!(counts, [(1, false), (4, false), (13, false)]);
}

#[test]
fn one_preemption_is_enough_to_lose_an_update() {
    assert_eq!(enumerated(0, lost_update), (1, false));
    assert!(enumerated(1, lost_update).1);
}

#[test]
fn a_failure_is_done_again_and_shortened() {
    let (seed, why) = find_failure(&Trial::new(0), 0..100, lost_update).expect("it fails");
    let recorded = Trial::new(seed).recorded();
    assert_eq!(catch(|| lost_update(&recorded)), Err(why));
    let schedule = recorded.observed().schedule.clone();
    let short = minimise(&recorded, &schedule, None, 1_000, lost_update);
    let fails = |actions: Vec<_>| {
        let script = Adversary::Script(Schedule { actions }, None);
        catch(|| lost_update(&recorded.with_adversary(script))).is_err()
    };
    assert!(fails(short.actions.clone()));
    for left_out in 0..short.actions.len() {
        let mut actions = short.actions.clone();
        actions.remove(left_out);
        assert!(!fails(actions), "{short:?} can do without number {left_out}");
    }
}

#[test]
fn every_player_finds_it() {
    for adversary in [Adversary::Walk, Adversary::Priority, Adversary::Aimed] {
        let trial = Trial::new(0).with_adversary(adversary);
        assert!(find_failure(&trial, 0..300, lost_update).is_some(), "{trial:?}");
    }
}

/// A mutant used to be hunted for hours: the scenario looked at the outcome in a loop without end.
#[test]
fn what_follows_a_run_ends_in_any_case() {
    let forever = |trial: &Trial| {
        let mut simulation = Simulation::new(Config::default(), trial);
        simulation.run().unwrap();
        simulation.run_calmly().unwrap();
        while simulation.memory(0).load(WORD) == 0 {}
    };
    assert!(catch(|| forever(&Trial::new(0))).is_err_and(|why| why.contains("a loop")));
}
