//! Matrix Market's coordinates: a header, comments, a line of sizes, and a line for each entry.
//!
//! Rows and columns are vertices, from 1 on. An integer is a weight. A real number is rounded to
//! one, and its sign is dropped: kernels take whole weights from 1 on. A pattern has none, and of
//! complex numbers the real part counts.

use std::io::BufRead;

use super::edges::Lines;
use super::{EdgeList, MAX_VERTICES, MAX_WEIGHT};
use crate::ProgramError;

/// The kind of a matrix' entries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Pattern,
    /// Numbers behind the two places.
    Numbers(usize),
}

/// Reads a graph; it is directed unless the matrix is symmetric.
pub(super) fn read(file: &str, text: impl BufRead) -> Result<EdgeList, ProgramError> {
    let mut lines = Lines::new(file, text);
    let header = lines.next()?.map(|line| line.to_ascii_lowercase()).unwrap_or_default();
    let (field, directed) = header_of(&header).map_err(|problem| lines.problem(problem))?;
    let (vertices, entries) = sizes(&mut lines)?;
    let weights = (field != Field::Pattern).then(Vec::new);
    let mut list = EdgeList { vertices, edges: Vec::new(), weights, directed };
    while let Some(line) = entry(&mut lines)? {
        let found = edge(&line, field, vertices).map_err(|problem| lines.problem(problem))?;
        let (from, to, weight) = found;
        list.edges.push((from, to));
        list.weights.iter_mut().for_each(|weights| weights.push(weight));
    }
    match list.edges.len() as u64 {
        0 => Err(lines.problem("the matrix has no entries".to_owned())),
        found if found != entries => {
            Err(lines.problem(format!("{found} entries, where the line of sizes says {entries}")))
        }
        _ => Ok(list),
    }
}

fn header_of(header: &[u8]) -> Result<(Field, bool), String> {
    let text = String::from_utf8_lossy(header);
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, "matrix", "coordinate", field, symmetry] = words[..] else {
        return Err(format!(
            "{text:?} is not `%%MatrixMarket matrix coordinate FIELD SYMMETRY`; dense matrices are \
             no graphs"
        ));
    };
    let field = match field {
        "pattern" => Field::Pattern,
        "integer" | "real" | "double" => Field::Numbers(1),
        "complex" => Field::Numbers(2),
        other => return Err(format!("{other} is none of pattern, integer, real and complex")),
    };
    match symmetry {
        "general" => Ok((field, true)),
        "symmetric" | "skew-symmetric" | "hermitian" => Ok((field, false)),
        other => Err(format!("{other} is none of general, symmetric, skew-symmetric, hermitian")),
    }
}

/// The next line that is no comment.
fn entry<R: BufRead>(lines: &mut Lines<'_, R>) -> Result<Option<Vec<u8>>, ProgramError> {
    while let Some(line) = lines.next()? {
        if !line.is_empty() && !line.starts_with(b"%") {
            return Ok(Some(line.to_vec()));
        }
    }
    Ok(None)
}

/// Vertices and entries.
fn sizes<R: BufRead>(lines: &mut Lines<'_, R>) -> Result<(usize, u64), ProgramError> {
    let line = entry(lines)?.unwrap_or_default();
    let numbers: Vec<Option<u64>> = words(&line).map(whole).collect();
    let [Some(rows), Some(columns), Some(entries)] = numbers[..] else {
        return Err(lines.problem("no line of sizes: `ROWS COLUMNS ENTRIES`".to_owned()));
    };
    let vertices = rows.max(columns);
    if vertices == 0 || vertices > MAX_VERTICES as u64 {
        return Err(lines.problem(format!("{vertices} vertices; there may be 1 to 2^28")));
    }
    Ok((vertices as usize, entries))
}

fn edge(line: &[u8], field: Field, vertices: usize) -> Result<(u32, u32, u32), String> {
    let mut words = words(line);
    let mut vertex = || {
        let number = words.next().and_then(whole).filter(|&n| n >= 1 && n <= vertices as u64);
        number.map(|number| number as u32 - 1).ok_or_else(|| {
            format!("a row or column is missing, or is not a whole number from 1 to {vertices}")
        })
    };
    let (from, to) = (vertex()?, vertex()?);
    let numbers: Vec<Option<f64>> = words.map(real).collect();
    let weight = match (field, &numbers[..]) {
        (Field::Pattern, []) => 1,
        (Field::Numbers(count), [Some(first), ..]) if numbers.len() == count => {
            first.abs().round().clamp(1.0, f64::from(MAX_WEIGHT)) as u32
        }
        (Field::Pattern, _) => return Err("a value in a pattern, which has none".to_owned()),
        _ => return Err("no value behind row and column, or one that is no number".to_owned()),
    };
    Ok((from, to, weight))
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn whole(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn real(word: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}
