//! Operations drawn over time, a row for each client.
//!
//! Columns are in time order but not to scale: as narrow as the labels allow.

use std::collections::BTreeMap;
use std::fmt;

pub(super) struct Timeline {
    pub(super) bars: Vec<Bar>,
}

/// One operation.
pub(super) struct Bar {
    pub(super) client: u32,
    pub(super) label: String,
    pub(super) bold: bool,
    pub(super) start: u64,
    pub(super) end: End,
}

#[derive(Clone, Copy)]
pub(super) enum End {
    /// The time, and the character to draw there.
    Marked(u64, char),
    /// Goes on to the right edge.
    Never,
}

/// A start or an end; at equal times starts come first, so that touching bars are seen to overlap.
type Edge = (u64, bool);

impl Bar {
    fn start_edge(&self) -> Edge {
        (self.start, false)
    }

    fn end_edge(&self) -> Edge {
        match self.end {
            End::Marked(time, _) => (time, true),
            End::Never => (u64::MAX, true),
        }
    }

    /// The bar's text, `width` columns wide.
    fn draw(&self, width: usize) -> String {
        let (fill, mark) = (if self.bold { '=' } else { '-' }, self.mark());
        let tail = width - self.min_width();
        let (left, right) = (1 + tail / 2, 1 + tail - tail / 2);
        let fill = |count| String::from(fill).repeat(count);
        format!("|{}{}{}{mark}", fill(left), self.label, fill(right))
    }

    fn min_width(&self) -> usize {
        self.label.len() + 4
    }

    fn mark(&self) -> char {
        match self.end {
            End::Marked(_, mark) => mark,
            End::Never => '>',
        }
    }
}

impl Timeline {
    /// The column of each edge, such that every bar has room for its label.
    fn columns(&self) -> BTreeMap<Edge, usize> {
        let mut columns: BTreeMap<Edge, usize> = BTreeMap::new();
        let edges = self.bars.iter().flat_map(|bar| [bar.start_edge(), bar.end_edge()]);
        for edge in edges {
            columns.insert(edge, 0);
        }
        let mut ending: BTreeMap<Edge, Vec<&Bar>> = BTreeMap::new();
        for bar in &self.bars {
            ending.entry(bar.end_edge()).or_default().push(bar);
        }
        let mut next_column = 0;
        let edges: Vec<_> = columns.keys().copied().collect();
        for edge in edges {
            let room = ending.get(&edge).into_iter().flatten();
            let column = room
                .map(|bar| columns[&bar.start_edge()] + bar.min_width() - 1)
                .fold(next_column, usize::max);
            columns.insert(edge, column);
            next_column = column + 1;
        }
        columns
    }

    /// The bars of each row, left to right: a client has a second row where its bars overlap.
    fn rows(&self) -> Vec<(u32, Vec<&Bar>)> {
        let mut bars: Vec<_> = self.bars.iter().collect();
        bars.sort_by_key(|bar| (bar.client, bar.start_edge()));
        let mut rows: Vec<(u32, Vec<&Bar>)> = Vec::new();
        for bar in bars {
            let has_room = |(client, row): &&mut (u32, Vec<&Bar>)| {
                *client == bar.client
                    && row.last().is_none_or(|last| last.end_edge() < bar.start_edge())
            };
            match rows.iter_mut().find(has_room) {
                Some((_, row)) => row.push(bar),
                None => rows.push((bar.client, vec![bar])),
            }
        }
        rows
    }
}

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.columns();
        for (client, bars) in self.rows() {
            let mut text = String::new();
            for bar in bars {
                let (start, end) = (columns[&bar.start_edge()], columns[&bar.end_edge()]);
                text.push_str(&" ".repeat(start - text.len()));
                text.push_str(&bar.draw(end + 1 - start));
            }
            writeln!(f, "client {client:<4} {text}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(client: u32, label: &str, start: u64, end: End) -> Bar {
        Bar { client, label: label.to_owned(), bold: label.starts_with('!'), start, end }
    }

    #[test]
    fn draws_concurrency_as_overlap() {
        let bars = vec![
            bar(2, "!1", 30, End::Marked(40, '|')),
            bar(0, "1", 10, End::Marked(12, '|')),
            bar(1, "2", 11, End::Marked(20, '?')),
            bar(0, "3", 12, End::Marked(12, 'x')),
            bar(1, "12", 21, End::Never),
        ];
        let expected = [
            "client 0    |--1--|",
            "client 0      |-3-x",
            "client 1     |--2--?|--12-->",
            "client 2             |=!1=|",
        ];
        let text = Timeline { bars }.to_string();
        assert_eq!(text.lines().collect::<Vec<_>>(), expected, "\n{text}");
    }
}
