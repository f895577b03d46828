//! The answer to a question about transactions.

use std::fmt;

/// A proof, a counterexample, or neither.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict<P, W, D> {
    /// It holds.
    Passed(P),
    /// It does not.
    Violation(Box<W>),
    /// The history does not tell, or it would take too long. Not a pass.
    Undecided(D),
}

impl<P, W, D> Verdict<P, W, D> {
    /// Whether it is proven to hold.
    #[must_use]
    pub fn passed(&self) -> bool {
        matches!(self, Self::Passed(_))
    }

    /// The counterexample, if it is proven not to hold.
    #[must_use]
    pub fn violation(&self) -> Option<&W> {
        match self {
            Self::Violation(violation) => Some(violation),
            _ => None,
        }
    }
}

impl<P: fmt::Display, W: fmt::Display, D: fmt::Display> fmt::Display for Verdict<P, W, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(proof) => write!(f, "{proof}"),
            Self::Violation(violation) => write!(f, "{violation}"),
            Self::Undecided(doubt) => write!(f, "undecided: {doubt}"),
        }
    }
}
