//! Limits of what a database is made for, and the clauses that say what is beyond them.

use tombolo_memory::LINE_BYTES;

use crate::{MAX_KEY_BYTES, TableSpec};

/// The largest log buffer, and the largest message.
const MAX_BUFFER_BYTES: u64 = 1 << 30;

/// Whether a number is within 1 to `most`.
///
/// # Errors
/// A clause that says so of `what`.
pub fn within(what: &str, value: u64, most: u64) -> Result<(), String> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{value} {what} are not within 1 to {most}"))
}

/// Whether buffers of so many bytes are whole lines, and not too large.
///
/// # Errors
/// A clause that says so of `what`.
pub fn whole_lines(what: &str, bytes: u64) -> Result<(), String> {
    if bytes > 0 && bytes.is_multiple_of(LINE_BYTES) && bytes <= MAX_BUFFER_BYTES {
        return Ok(());
    }
    Err(format!("{what} of {bytes} bytes are not whole lines of up to {MAX_BUFFER_BYTES}"))
}

/// Whether a database that was made for `most` tables can have these, as far as their keys tell.
///
/// # Errors
/// A clause that says what does not fit.
pub fn check_tables(tables: &[TableSpec], most: u16) -> Result<(), String> {
    let count = tables.len();
    if count > usize::from(most) {
        return Err(format!("{count} tables are more than the {most} it was made for"));
    }
    tables.iter().enumerate().try_for_each(|(number, table)| {
        let what = format!("bytes of a key of table {number}");
        within(&what, table.key_bytes.into(), MAX_KEY_BYTES as u64)
    })
}
