//! The order of transactions, as reads of lists tell it.
//!
//! The longest list that was read tells the order of its appends. Values that were appended and
//! never read come behind it, in an order that nothing depends on. So the order of lists is known
//! exactly.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

use super::accesses::ListAccesses;
use super::anomaly::{Direct, Phenomenon};
use super::facts::{Facts, Key};
use super::graph::{Graph, Kind};

/// Adds the dependencies of one list to `graph`.
///
/// # Errors
///
/// The first thing that is wrong whatever the order of transactions.
pub(super) fn add_dependencies<'h, K: Ord + Debug, V: Eq + Hash + Debug>(
    facts: &Facts<'h, K, V>,
    key: Key,
    accesses: &ListAccesses<'h, V>,
    graph: &mut Graph,
) -> Result<(), Direct> {
    let mut longest = (usize::MAX, &[][..]);
    for &read in &accesses.reads {
        if read.1.len() > longest.1.len() {
            longest = read;
        }
    }
    let list = List { facts, key, accesses, longest };
    let writers = list.writers(longest)?;
    list.check_prefixes()?;
    let unread = list.check_appends(&writers)?;
    list.check_reads(&writers)?;
    list.add_edges(&writers, &unread, graph);
    Ok(())
}

struct List<'a, 'h, K, V> {
    facts: &'a Facts<'h, K, V>,
    key: Key,
    accesses: &'a ListAccesses<'h, V>,
    /// The longest read.
    longest: (usize, &'h [V]),
}

impl<'h, K: Ord + Debug, V: Eq + Hash + Debug> List<'_, 'h, K, V> {
    fn direct(&self, phenomenon: Phenomenon, transactions: Vec<usize>, what: String) -> Direct {
        Direct { phenomenon, transactions, key: self.key, what }
    }

    /// The transaction that appended each value that `reader` read.
    fn writers(&self, (reader, values): (usize, &'h [V])) -> Result<Vec<usize>, Direct> {
        let mut met = HashSet::new();
        let mut writers = Vec::with_capacity(values.len());
        for value in values {
            let Some(origin) = self.facts.origin(self.key, value) else {
                let what = format!("T1 read {value:?}, which no transaction appended");
                return Err(self.direct(Phenomenon::Garbage, vec![reader], what));
            };
            let writer = origin.transaction;
            if self.facts.is_aborted(writer) {
                let what = format!("T1 read {value:?}, which T2 appended before it aborted");
                return Err(self.direct(Phenomenon::G1a, vec![reader, writer], what));
            }
            if !met.insert(value) {
                let what = format!("T1 read {value:?} twice in one list");
                return Err(self.direct(Phenomenon::Duplicate, vec![reader], what));
            }
            writers.push(writer);
        }
        Ok(writers)
    }

    fn check_prefixes(&self) -> Result<(), Direct> {
        let (longest_reader, longest) = self.longest;
        for &(reader, values) in &self.accesses.reads {
            if !longest.starts_with(values) {
                self.writers((reader, values))?;
                let what = "T1 and T2 read the list, and neither list continues the other";
                let transactions = vec![longest_reader, reader];
                let phenomenon = Phenomenon::IncompatibleOrder;
                return Err(self.direct(phenomenon, transactions, what.to_owned()));
            }
        }
        Ok(())
    }

    /// The transactions with appends that were never read.
    fn check_appends(&self, writers: &[usize]) -> Result<Vec<usize>, Direct> {
        let mut left: HashMap<usize, &[&V]> = HashMap::new();
        for (transaction, values) in &self.accesses.appends {
            left.insert(*transaction, values);
        }
        for (value, writer) in self.longest.1.iter().zip(writers) {
            match left.get_mut(writer).and_then(|values| values.split_off_first()) {
                Some(&next) if next == value => {}
                next => {
                    let missing = next.map_or(String::new(), |next| format!(", and not {next:?}"));
                    let what = format!("T1 read {value:?}{missing}; T2 appended them in order");
                    let transactions = vec![self.longest.0, *writer];
                    return Err(self.direct(Phenomenon::Disorder, transactions, what));
                }
            }
        }
        let appends = self.accesses.appends.iter().map(|(transaction, _)| *transaction);
        Ok(appends.filter(|transaction| !left[transaction].is_empty()).collect())
    }

    /// No read ends within a transaction's appends, or has those that its own transaction does
    /// later.
    fn check_reads(&self, writers: &[usize]) -> Result<(), Direct> {
        let first_of: HashMap<_, _> =
            writers.iter().enumerate().rev().map(|(at, &writer)| (writer, at)).collect();
        for &(reader, values) in &self.accesses.reads {
            if first_of.get(&reader).is_some_and(|&first| first < values.len()) {
                let what = "T1 read what it appended only later".to_owned();
                return Err(self.direct(Phenomenon::Internal, vec![reader], what));
            }
            let Some(last) = values.last() else { continue };
            let origin = self.facts.origin(self.key, last).expect("all values have writers");
            if !origin.is_final {
                let what = format!("T1 read a list that ends with {last:?}, and T2 appended more");
                let transactions = vec![reader, origin.transaction];
                return Err(self.direct(Phenomenon::G1b, transactions, what));
            }
        }
        Ok(())
    }

    fn add_edges(&self, writers: &[usize], unread: &[usize], graph: &mut Graph) {
        let (ww, wr) = (Kind::Ww(self.key), Kind::Wr(self.key));
        let rw = Kind::Rw { key: self.key, in_range: false };
        let mut add = |from: usize, to: usize, kind| {
            if from != to {
                graph.add(from, to, kind);
            }
        };
        writers.windows(2).for_each(|pair| add(pair[0], pair[1], ww));
        if let Some(&last) = writers.last() {
            unread.iter().for_each(|&next| add(last, next, ww));
        }
        for &(reader, values) in &self.accesses.reads {
            if !values.is_empty() {
                add(writers[values.len() - 1], reader, wr);
            }
            match writers.get(values.len()) {
                Some(&next) => add(reader, next, rw),
                None => unread.iter().for_each(|&next| add(reader, next, rw)),
            }
        }
    }
}
