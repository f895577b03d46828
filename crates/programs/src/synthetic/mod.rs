//! Programs that no suite has, whose parts want their memory kept coherent in different ways: at
//! different times ([`Phases`]), and in different places ([`Mixed`]).

mod mixed;
mod phases;

pub(crate) use mixed::Mixed;
pub(crate) use phases::Phases;
