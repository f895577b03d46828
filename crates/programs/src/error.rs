//! Errors of programs.

/// Why a program cannot be made, or what is wrong with what it did.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// There is no program of this name.
    #[error("there is no program {name:?}; the nearest name is {nearest:?}")]
    Unknown {
        /// The name that is not known.
        name: String,
        /// The known name that takes the fewest edits to reach.
        nearest: &'static str,
    },
    /// A parameter is out of its range.
    #[error("{parameter} is {value}, but {program} takes {expected}")]
    Parameter {
        /// The program.
        program: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        value: u64,
        /// The values that it may have.
        expected: String,
    },
    /// A list of edges is none.
    #[error("{file}:{line}: {problem}")]
    Edges {
        /// The file, as its reader called it.
        file: String,
        /// The line; the first is 1.
        line: u64,
        /// The fault there, and the remedy.
        problem: String,
    },
    /// A file that is no text is no graph.
    #[error("the graph {file}: {problem}")]
    Graph {
        /// The file, as its reader called it.
        file: String,
        /// The fault.
        problem: String,
    },
    /// A program was verified before all its threads had ended.
    #[error("{ended} of {threads} threads of {program} have ended; run them all before verifying")]
    Running {
        /// The program.
        program: &'static str,
        /// How many have ended.
        ended: usize,
        /// How many there are.
        threads: usize,
    },
    /// A program's result is not what it must be.
    #[error("the result of {program} is wrong: {problem}")]
    Wrong {
        /// The program.
        program: &'static str,
        /// The expected and the found text.
        problem: String,
    },
}
