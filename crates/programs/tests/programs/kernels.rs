//! Every program computes what its oracle says, with any number of threads and in any schedule.

use tombolo_programs::{Parameters, Program, ProgramError, ProgramName, Turn, run_in_turns};

fn run(name: ProgramName, parameters: &Parameters, threads: usize, longest_turn: usize) {
    let program = Program::new(name, parameters, threads).unwrap();
    run_in_turns(&program, parameters.seed, longest_turn, |_, turn| turn);
    if let Err(error) = program.verify() {
        panic!("{error}; {threads} threads, turns of {longest_turn}, {parameters:?}");
    }
}

#[test]
fn results_are_right_with_any_number_of_threads() {
    for &name in ProgramName::ALL {
        for threads in [1, 4, 32] {
            for (seed, longest_turn) in [(1, 1), (2, 100)] {
                let parameters = Parameters { scale: Some(9), seed, ..Parameters::default() };
                run(name, &parameters, threads, longest_turn);
            }
        }
    }
}

#[test]
fn small_sizes() {
    for &name in ProgramName::ALL {
        for scale in 0..5 {
            if name.scales().contains(&scale) {
                let parameters = Parameters { scale: Some(scale), ..Parameters::default() };
                run(name, &parameters, 3, 5);
            }
        }
    }
}

#[test]
fn what_has_not_run_is_not_right() {
    let program = Program::<Turn>::new(ProgramName::Bfs, &Parameters::default(), 2).unwrap();
    assert!(matches!(program.verify(), Err(ProgramError::Running { ended: 0, threads: 2, .. })));
}

/// At these sizes programs compare their results with what the NAS benchmarks publish.
#[test]
fn class_s_of_nas() {
    for (name, scale, rounds, threads) in
        [(ProgramName::Ep, 24, 1, 1), (ProgramName::Ft, 18, 6, 8), (ProgramName::Mg, 15, 4, 8)]
    {
        let rounds = Some(rounds);
        let parameters = Parameters { scale: Some(scale), rounds, ..Parameters::default() };
        run(name, &parameters, threads, 1000);
    }
}

#[test]
fn more_rounds() {
    for &name in ProgramName::ALL {
        let parameters =
            Parameters { scale: Some(7), rounds: Some(3), seed: 3, ..Parameters::default() };
        run(name, &parameters, 5, 20);
    }
}
