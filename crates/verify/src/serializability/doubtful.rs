//! Transactions in doubt that no value proves to have committed.
//!
//! Such a transaction may have had effects, or not. It matters where it may have deleted a row that
//! others found absent, or stored one that others deleted. If it accessed rows alone, the
//! [solver](super::solver) may assume its effects. Otherwise it is tried with and without them.

use std::fmt::Debug;
use std::hash::Hash;

use super::accesses::Accesses;
use super::anomaly::Direct;
use super::graph::{Graph, Kind};
use super::rows::{Access, Maybe, Row, Version, Want};
use super::{Answer, Doubt, Question, Verdict, Violation};
use crate::transactions::{Operation, Transaction};

/// How many transactions in doubt that accessed lists, too, are tried with and without effects.
const MOST_TRIED: usize = 6;

impl<'h, K, V> Question<'_, 'h, K, V>
where
    K: Ord + Clone + Debug,
    V: Eq + Hash + Clone + Debug,
{
    /// Adds the accesses of the transactions in doubt that could help and accessed rows alone, and
    /// returns which these are.
    pub(super) fn add_dormant(
        &self,
        counted: &[bool],
        graph: &mut Graph,
        rows: &mut [Row],
    ) -> Vec<bool> {
        let mut dormant = vec![false; counted.len()];
        let helpful = self.helpful(counted).into_iter();
        helpful.filter(|&index| !self.has_lists(index)).for_each(|index| dormant[index] = true);
        // Each round but the last takes one away.
        let added = loop {
            match self.rows_of(&dormant, counted) {
                Ok(added) => break added,
                Err(impossible) => dormant[impossible] = false,
            }
        };
        for row in rows {
            let Ok(at) = added.binary_search_by_key(&row.key, |(key, _)| *key) else { continue };
            for access in &added[at].1 {
                for want in &access.wants {
                    if let Version::Of(writer) = want.version {
                        graph.add(writer, access.transaction, Kind::Wr(row.key));
                    }
                }
            }
            row.add(added[at].1.clone());
        }
        dormant
    }

    /// The accesses of the transactions in `dormant`, by key.
    ///
    /// # Errors
    ///
    /// One of them that cannot have had effects.
    fn rows_of(
        &self,
        dormant: &[bool],
        counted: &[bool],
    ) -> Result<Vec<(usize, Vec<Access>)>, usize> {
        let culprit = |direct: Direct| direct.transactions[0];
        let accesses = Accesses::of(self.facts, dormant).map_err(culprit)?;
        let mut rows = Vec::new();
        for (key, accesses) in accesses.rows.iter().enumerate() {
            let row = Row::new(self.facts, key, accesses).map_err(culprit)?;
            if !row.accesses.is_empty() {
                rows.push((key, row.accesses));
            }
        }
        self.unfounded(dormant, counted, &rows).map_or(Ok(rows), Err)
    }

    /// A transaction in `dormant` that read a value of one that cannot have come before it: one
    /// that is left out, or that in turn depends on it.
    fn unfounded(
        &self,
        dormant: &[bool],
        counted: &[bool],
        rows: &[(usize, Vec<Access>)],
    ) -> Option<usize> {
        let mut founded = counted.to_vec();
        loop {
            let mut next = counted.to_vec();
            (0..next.len()).filter(|&index| dormant[index]).for_each(|index| next[index] = true);
            for access in rows.iter().flat_map(|(_, accesses)| accesses) {
                let is_founded = |want: &Want| match want.version {
                    Version::Of(writer) => founded[writer],
                    Version::Any { .. } => true,
                };
                next[access.transaction] &= access.wants.iter().all(is_founded);
            }
            if next == founded {
                return (0..next.len()).find(|&index| dormant[index] && !founded[index]);
            }
            founded = next;
        }
    }

    fn has_lists(&self, index: usize) -> bool {
        let is_list = |operation: &Operation<K, V>| {
            matches!(operation, Operation::Append { .. } | Operation::ReadList { .. })
        };
        self.facts.transactions[index].operations.iter().any(is_list)
    }

    /// The states in which transactions in doubt that are not counted may have left rows, by key.
    pub(super) fn maybe(&self, counted: &[bool]) -> Vec<Maybe> {
        let mut maybe = vec![Maybe::default(); self.facts.keys().len()];
        for index in self.doubtful(counted) {
            for (key, present) in self.writes(&self.facts.transactions[index]) {
                maybe[key].add(present);
            }
        }
        maybe
    }

    fn doubtful(&self, counted: &[bool]) -> Vec<usize> {
        let transactions = self.facts.transactions;
        let is_open = |&index: &usize| !counted[index] && transactions[index].is_in_doubt();
        (0..transactions.len()).filter(is_open).collect()
    }

    /// The rows that the transaction wrote, and whether it left them present.
    fn writes(&self, transaction: &'h Transaction<K, V>) -> Vec<(usize, bool)> {
        let write = |operation: &'h Operation<K, V>| match operation {
            Operation::Write { key, .. } | Operation::Insert { key, .. } => Some((key, true)),
            Operation::Delete { key } => Some((key, false)),
            _ => None,
        };
        let writes = transaction.operations.iter().filter_map(write);
        writes.map(|(key, present)| (self.facts.key(key), present)).collect()
    }

    /// The answer when there is a violation without the transactions in doubt that accessed lists,
    /// too, and that no value proves: it stands if it stands with any of them.
    pub(super) fn answer_with_doubtful(
        &self,
        counted: Vec<bool>,
        found: Violation<K, V>,
    ) -> Verdict<K, V> {
        let mut doubtful = self.helpful(&counted);
        doubtful.retain(|&index| self.has_lists(index));
        if doubtful.len() > MOST_TRIED {
            return Verdict::Undecided(Doubt::InDoubt { count: doubtful.len() });
        }
        let mut undecided = None;
        for chosen in 1..1_usize << doubtful.len() {
            let mut counted = counted.clone();
            let bits = (0..doubtful.len()).filter(|bit| chosen & (1 << bit) != 0);
            bits.for_each(|bit| counted[doubtful[bit]] = true);
            self.facts.add_observed(&mut counted);
            match self.answer(&counted) {
                Answer::Serial(serial) => return Verdict::Passed(serial),
                Answer::Undecided(doubt) => undecided = Some(doubt),
                Answer::Violation(_) | Answer::Undone(_) => {}
            }
        }
        match undecided {
            Some(doubt) => Verdict::Undecided(doubt),
            None => Verdict::Violation(Box::new(found)),
        }
    }

    /// The transactions in doubt whose effects could explain that some row was absent or present
    /// for those that are counted, or for others of them, and those whose values they read.
    fn helpful(&self, counted: &[bool]) -> Vec<usize> {
        let mut wanted = vec![Maybe::default(); self.facts.keys().len()];
        let all = (0..counted.len()).filter(|&index| counted[index]);
        all.for_each(|index| self.add_wants(index, &mut wanted));
        let doubtful = self.doubtful(counted);
        let mut helpful = vec![false; counted.len()];
        loop {
            let before = helpful.clone();
            for &index in &doubtful {
                let mut writes = self.writes(&self.facts.transactions[index]).into_iter();
                helpful[index] |= writes.any(|(key, present)| wanted[key].has(present));
            }
            self.facts.add_observed(&mut helpful);
            let more = doubtful.iter().filter(|&&index| helpful[index] && !before[index]);
            let more: Vec<_> = more.copied().collect();
            if more.is_empty() {
                return doubtful.into_iter().filter(|&index| helpful[index]).collect();
            }
            more.into_iter().for_each(|index| self.add_wants(index, &mut wanted));
        }
    }

    /// Adds the rows that the transaction found absent, or present without their values.
    fn add_wants(&self, index: usize, wanted: &mut [Maybe]) {
        for operation in &self.facts.transactions[index].operations {
            match operation {
                Operation::Read { key, value: None } | Operation::Insert { key, .. } => {
                    wanted[self.facts.key(key)].add(false);
                }
                Operation::Delete { key } => wanted[self.facts.key(key)].add(true),
                Operation::Scan { from, to, .. } => {
                    let range = self.facts.between(from, to);
                    wanted[range].iter_mut().for_each(|wanted| wanted.add(false));
                }
                _ => {}
            }
        }
    }
}
