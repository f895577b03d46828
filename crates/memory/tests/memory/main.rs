//! Mapped memory: among mappings and processes, and when it fails.

mod mapped;
mod poison;
