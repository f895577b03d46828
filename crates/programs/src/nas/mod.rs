//! Kernels like those of the NAS parallel benchmarks, of any size. EP, FT and MG follow the suite
//! to the digits: where a size is one of its classes, they are held to its published results. CG's
//! matrix, IS's iterations and the equations of BT, SP and LU are simpler than the suite's.

mod adi;
mod cg;
mod ep;
mod ft;
mod is;
mod lu;
mod mg;
mod sequence;

pub(crate) use adi::{Bt, Sp};
pub(crate) use cg::Cg;
pub(crate) use ep::Ep;
pub(crate) use ft::Ft;
pub(crate) use is::Is;
pub(crate) use lu::Lu;
pub(crate) use mg::Mg;

/// Whether a number is the right one but for `tolerance`, relative to it.
fn is_close(number: f64, right: f64, tolerance: f64) -> bool {
    (number - right).abs() <= tolerance * right.abs()
}
