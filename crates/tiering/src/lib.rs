//! Pages in two tiers.
mod page;
mod transaction;
#[cfg(test)]
mod model;
