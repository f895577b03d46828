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
