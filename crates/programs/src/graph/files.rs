//! Files that graphs come in: lists of edges, Matrix Market, and GAP's serialized graphs; each of
//! them also gzipped.

use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::matrix_market;
use super::{EdgeList, MAX_VERTICES, MAX_WEIGHT};
use crate::ProgramError;

/// The first bytes of a gzipped file.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The first bytes of a Matrix Market file.
const MATRIX_MARKET: &[u8] = b"%%MatrixMarket";

/// A reader of a file's bytes, without gzip if it had that.
pub(crate) fn unpacked<'r>(mut reader: impl BufRead + 'r) -> io::Result<Box<dyn BufRead + 'r>> {
    if reader.fill_buf()?.starts_with(&GZIP) {
        let inner = flate2::bufread::MultiGzDecoder::new(reader);
        return Ok(Box::new(BufReader::with_capacity(1 << 16, inner)));
    }
    Ok(Box::new(reader))
}

impl EdgeList {
    /// Reads a graph in one of these formats, gzipped or not. Messages call it `file`.
    ///
    /// | Format | Is told by |
    /// | --- | --- |
    /// | GAP's serialized graph, and the one with weights | `file` ends in `.sg`, `.wsg` |
    /// | Matrix Market's coordinates | its first line |
    /// | a [list of edges](Self::read), such as GAP's `.el` and `.wel` | else |
    ///
    /// A serialized graph says whether it is directed. A Matrix Market file is directed unless it
    /// is symmetric. A list of edges is not.
    ///
    /// # Errors
    /// [`ProgramError::Edges`] with the line of a text, and [`ProgramError::Graph`] for a
    /// serialized graph.
    pub fn from_file(file: &str, reader: impl BufRead) -> Result<Self, ProgramError> {
        let unreadable = |error: io::Error| ProgramError::Graph {
            file: file.to_owned(),
            problem: format!("cannot be read: {error}"),
        };
        let mut text = unpacked(reader).map_err(unreadable)?;
        let name = file.strip_suffix(".gz").unwrap_or(file);
        match Path::new(name).extension().and_then(|ending| ending.to_str()) {
            Some("sg") => return Serialized { file, text: &mut text }.read(false),
            Some("wsg") => return Serialized { file, text: &mut text }.read(true),
            _ => {}
        }
        if text.fill_buf().map_err(unreadable)?.starts_with(MATRIX_MARKET) {
            return matrix_market::read(file, text);
        }
        Self::read(file, text, false)
    }
}

/// GAP's serialized graph, as its converter writes it on a 64-bit machine: whether it is directed
/// (a byte), edges and vertices (8 bytes each), for each vertex and one more where its row begins
/// (8 bytes), and the rows: vertices of 4 bytes, with a weight of 4 bytes behind each in a graph
/// that has weights. A directed graph has all of that once more, by the vertices that edges enter.
struct Serialized<'a> {
    file: &'a str,
    text: &'a mut dyn BufRead,
}

impl Serialized<'_> {
    fn read(mut self, weighted: bool) -> Result<EdgeList, ProgramError> {
        let directed = match self.bytes::<1>("whether it is directed")? {
            [0] => false,
            [1] => true,
            [other] => return Err(self.problem(format!("{other} says neither directed nor not"))),
        };
        let edges = self.number("its number of edges")?;
        let vertices = self.number("its number of vertices")?;
        if vertices == 0 || vertices > MAX_VERTICES as u64 {
            return Err(self.problem(format!("{vertices} vertices; there may be 1 to 2^28")));
        }
        let mut offsets = Vec::new();
        for _ in 0..=vertices {
            let offset = self.number("where a row begins")?;
            if offset > edges || offsets.last().is_some_and(|&last| last > offset) {
                return Err(self.problem(format!("a row begins at {offset} of {edges} edges")));
            }
            offsets.push(offset);
        }
        if offsets.first() != Some(&0) || offsets.last() != Some(&edges) {
            return Err(self.problem("its rows do not hold all edges".to_owned()));
        }
        let mut list = EdgeList {
            vertices: vertices as usize,
            edges: Vec::new(),
            weights: weighted.then(Vec::new),
            directed,
        };
        for (from, row) in (0..vertices as u32).zip(offsets.windows(2)) {
            for _ in row[0]..row[1] {
                self.edge(&mut list, from, directed)?;
            }
        }
        if list.edges.is_empty() {
            return Err(self.problem("it has no edges".to_owned()));
        }
        Ok(list)
    }

    /// An edge from a vertex. An undirected graph has it twice, once from each end.
    fn edge(&mut self, list: &mut EdgeList, from: u32, directed: bool) -> Result<(), ProgramError> {
        let to = u32::from_le_bytes(self.bytes("an edge")?);
        if to as usize >= list.vertices {
            let problem = format!("vertex {to} of {}", list.vertices);
            return Err(self.problem(problem));
        }
        let weight = match list.weights {
            Some(_) => Some(u32::from_le_bytes(self.bytes("a weight")?)),
            None => None,
        };
        if weight.is_some_and(|weight| weight > MAX_WEIGHT) {
            return Err(self.problem("a weight is negative, or larger than 2^30".to_owned()));
        }
        if directed || from <= to {
            list.edges.push((from, to));
            list.weights.iter_mut().for_each(|weights| weights.extend(weight));
        }
        Ok(())
    }

    fn number(&mut self, what: &str) -> Result<u64, ProgramError> {
        self.bytes(what).map(u64::from_le_bytes)
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], ProgramError> {
        let mut bytes = [0; N];
        match self.text.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(self.problem(format!("the file ends before {what}")))
            }
            Err(error) => Err(self.problem(format!("cannot be read: {error}"))),
        }
    }

    fn problem(&self, problem: String) -> ProgramError {
        ProgramError::Graph { file: self.file.to_owned(), problem }
    }
}
