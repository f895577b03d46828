//! Whether rows are such as their tables say.

use std::collections::HashMap;

use super::{Catalog, Table};
use crate::TableId;
use crate::log::RecoveredRow;

/// Findings that are told.
const MOST: usize = 20;

impl Catalog {
    /// The names of the engine's tables, in the order of their numbers: indexes are called by their
    /// table and their own name.
    pub fn names(&self) -> Vec<String> {
        let of_table = |table: &Table| {
            let indexes =
                table.indexes.iter().map(|index| format!("{}.{}", table.name, index.name));
            [table.name.clone()].into_iter().chain(indexes).collect::<Vec<_>>()
        };
        self.tables().iter().flat_map(of_table).collect()
    }

    /// Faults of rows: values that are not of their columns' types, and entries of indexes
    /// that no row has, or that are missing. Of many findings some are told.
    pub fn check_rows(&self, rows: &[RecoveredRow]) -> Vec<String> {
        let mut by_table: HashMap<TableId, HashMap<&[u8], &[u8]>> = HashMap::new();
        for row in rows {
            by_table.entry(row.table).or_default().insert(&row.key, &row.row);
        }
        let (mut found, mut number) = (Vec::new(), 0);
        for table in self.tables() {
            let of = |offset: usize| by_table.get(&TableId(number + offset as u16));
            let mut entries: Vec<HashMap<&[u8], &[u8]>> =
                (0..table.indexes.len()).map(|n| of(1 + n).cloned().unwrap_or_default()).collect();
            for (key, row) in of(0).into_iter().flatten() {
                let Ok(values) = table.decode(key, row) else {
                    found.push(format!("table `{}` has a row of another type", table.name));
                    continue;
                };
                for (n, index) in entries.iter_mut().enumerate() {
                    let (entry, _) = table.index_key(n, &values, key);
                    if index.remove(&*entry) != Some(*key) {
                        let name = &table.indexes[n].name;
                        found.push(format!("index `{name}` of `{}` lacks {values:?}", table.name));
                    }
                }
            }
            let left = entries.iter().zip(&table.indexes).filter(|(left, _)| !left.is_empty());
            found.extend(left.map(|(left, index)| {
                let (count, name) = (left.len(), &index.name);
                format!("index `{name}` of `{}` has {count} entries without rows", table.name)
            }));
            number += 1 + table.indexes.len() as u16;
        }
        found.truncate(MOST);
        found
    }
}
