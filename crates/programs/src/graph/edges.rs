//! Lists of edges, and the text they are read from.

use std::io::{BufRead, Read};

use crate::ProgramError;

/// The most vertices a graph can have.
pub const MAX_VERTICES: usize = 1 << 28;
/// The largest weight.
pub const MAX_WEIGHT: u32 = 1 << 30;

/// The longest line that is read, in bytes.
const MAX_LINE: u64 = 1000;
/// Vertices that a list of few edges may name, and how many more each edge allows. (Tables are per
/// vertex: one edge to vertex 200,000,000 would take gigabytes.)
const FREE_VERTICES: usize = 1 << 20;
const VERTICES_PER_EDGE: usize = 64;

/// The edges of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeList {
    pub(crate) vertices: usize,
    pub(crate) edges: Vec<(u32, u32)>,
    /// One per edge, if there are any; else kernels make them up.
    pub(crate) weights: Option<Vec<u32>>,
    pub(crate) directed: bool,
}

impl EdgeList {
    /// An undirected graph without weights.
    pub(crate) fn generated(vertices: usize, edges: Vec<(u32, u32)>) -> Self {
        Self { vertices, edges, weights: None, directed: false }
    }

    /// Reads lines `from to` or `from to weight`: whole numbers separated by blanks, commas or
    /// tabs. Empty lines and lines that start with `#` or `%` say nothing. Messages call the text
    /// `file`.
    ///
    /// There are as many vertices as the largest number says. Weights are those of edges, if the
    /// first edge has one.
    ///
    /// # Errors
    ///
    /// [`ProgramError::Edges`] names the line that is no edge, or that names a vertex beyond
    /// [`MAX_VERTICES`] or, at the end, beyond what so few edges can make sense of.
    pub fn read(file: &str, text: impl BufRead, directed: bool) -> Result<Self, ProgramError> {
        let list = Self { vertices: 0, edges: Vec::new(), weights: None, directed };
        Reader { lines: Lines::new(file, text), largest: (0, 0), list }.read()
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.vertices
    }

    /// How many edges were read.
    pub fn edges(&self) -> usize {
        self.edges.len()
    }
}

/// The lines of a text, one by one, without blanks around them.
pub(super) struct Lines<'a, R> {
    file: &'a str,
    text: R,
    /// The number of the last one; the first is 1.
    number: u64,
    line: Vec<u8>,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub(super) fn new(file: &'a str, text: R) -> Self {
        Self { file, text, number: 0, line: Vec::new() }
    }

    /// The next line, unless the text ends.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, ProgramError> {
        self.number += 1;
        self.line.clear();
        let read = self.text.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut self.line);
        if let Err(error) = read {
            return Err(self.problem(format!("cannot be read: {error}")));
        }
        if self.line.len() as u64 > MAX_LINE {
            return Err(self.problem(format!("more than {MAX_LINE} bytes; this is no edge")));
        }
        Ok((!self.line.is_empty()).then(|| self.line.trim_ascii()))
    }

    pub(super) fn problem(&self, problem: String) -> ProgramError {
        ProgramError::Edges { file: self.file.to_owned(), line: self.number, problem }
    }
}

struct Reader<'a, R> {
    lines: Lines<'a, R>,
    /// The largest vertex, and the line that names it.
    largest: (usize, u64),
    list: EdgeList,
}

impl<R: BufRead> Reader<'_, R> {
    fn read(mut self) -> Result<EdgeList, ProgramError> {
        while let Some(line) = self.lines.next()? {
            let line = line.to_vec();
            self.add(&line)?;
        }
        self.finish()
    }

    fn add(&mut self, line: &[u8]) -> Result<(), ProgramError> {
        if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"%") {
            return Ok(());
        }
        let mut words = line
            .split(|byte| byte.is_ascii_whitespace() || *byte == b',')
            .filter(|word| !word.is_empty());
        let from = self.vertex(words.next())?;
        let to = self.vertex(words.next())?;
        let weight = words.next();
        if words.next().is_some() {
            return Err(self.problem("more than `from to weight`".to_owned()));
        }
        if self.list.edges.is_empty() && weight.is_some() {
            self.list.weights = Some(Vec::new());
        }
        let weight = weight.map(|weight| self.weight(weight)).transpose()?;
        match (&mut self.list.weights, weight) {
            (Some(weights), Some(weight)) => weights.push(weight),
            (None, None) => {}
            (Some(_), None) => {
                return Err(self.problem(
                    "no weight, but the first edge has one; write `from to weight`".to_owned(),
                ));
            }
            (None, Some(_)) => {
                return Err(self
                    .problem("a weight, but the first edge has none; write `from to`".to_owned()));
            }
        }
        self.list.edges.push((from, to));
        Ok(())
    }

    fn vertex(&mut self, word: Option<&[u8]>) -> Result<u32, ProgramError> {
        let Some(word) = word else {
            return Err(
                self.problem("one vertex only; write `from to` or `from to weight`".to_owned())
            );
        };
        let number = self.number(word, MAX_VERTICES as u64 - 1, "vertex")?;
        if number as usize >= self.largest.0 {
            self.largest = (number as usize, self.lines.number);
        }
        Ok(number)
    }

    fn weight(&self, word: &[u8]) -> Result<u32, ProgramError> {
        self.number(word, u64::from(MAX_WEIGHT), "weight")
    }

    fn number(&self, word: &[u8], largest: u64, what: &str) -> Result<u32, ProgramError> {
        let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u64>().ok());
        match number {
            Some(number) if number <= largest => Ok(number as u32),
            _ => Err(self.problem(format!(
                "{:?} is no {what}; it must be a whole number from 0 to {largest}",
                String::from_utf8_lossy(word)
            ))),
        }
    }

    fn finish(mut self) -> Result<EdgeList, ProgramError> {
        let edges = self.list.edges.len();
        if edges == 0 {
            return Err(self.problem("the text ends, and there was no edge".to_owned()));
        }
        let vertices = self.largest.0 + 1;
        if vertices > FREE_VERTICES && vertices / VERTICES_PER_EDGE > edges {
            self.lines.number = self.largest.1;
            return Err(self.problem(format!(
                "vertex {} in a list of {edges} edges; number the vertices from 0 on without gaps",
                vertices - 1
            )));
        }
        self.list.vertices = vertices;
        Ok(self.list)
    }

    fn problem(&self, problem: String) -> ProgramError {
        self.lines.problem(problem)
    }
}
