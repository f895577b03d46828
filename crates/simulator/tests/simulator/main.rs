//! The simulator keeps the promises of a back end, and breaks all that none of them makes.

mod conformance;
mod exploration;
mod incoherence;
