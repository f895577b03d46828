//! Programs, and what they leave behind: results, and traces of what they touched.

mod graphs;
mod kernels;
mod traces;
