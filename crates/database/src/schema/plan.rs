//! The plan of a database: its tables, and its hosts.
//!
//! ```text
//! magic (8) | hosts (1) | zero (1) | workers (2) | partitions (4) | the catalog
//! ```

use super::{Catalog, SchemaError};
use crate::hosts::DatabaseShape;

const MAGIC: [u8; 8] = *b"TOMBPLAN";
const HEAD: usize = 16;

/// Bytes of a plan at most.
const MOST_BYTES: usize = 1 << 20;

/// The tables, hosts and workers of a database. The checkpoint in its directory has them, so that a
/// database can be opened and recovered without other knowledge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabasePlan {
    /// Hosts of the database. All of them come before the first transaction.
    pub hosts: u8,
    /// Threads of each host that run transactions at once.
    pub workers: u16,
    /// Partitions of each table that is divided. Partition `p` is at home on host `p % hosts`.
    pub partitions: u32,
    /// The tables.
    pub catalog: Catalog,
}

impl DatabasePlan {
    /// A database of these tables for so many hosts, with a partition and a worker for each.
    pub fn new(hosts: u8, catalog: Catalog) -> Self {
        Self { hosts, workers: 1, partitions: hosts.into(), catalog }
    }

    /// The shape that an engine is made for. Log buffers have the usual size.
    pub fn shape(&self) -> DatabaseShape {
        DatabaseShape {
            hosts: self.hosts,
            partitions: self.partitions,
            workers: self.workers,
            tables: self.catalog.specs(),
            log_buffer_bytes: DatabaseShape::LOG_BUFFER_BYTES,
        }
    }

    /// The plan as bytes.
    ///
    /// # Errors
    /// [`SchemaError::CatalogSize`].
    pub fn encode(&self) -> Result<Vec<u8>, SchemaError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([self.hosts, 0]);
        bytes.extend(self.workers.to_le_bytes());
        bytes.extend(self.partitions.to_le_bytes());
        bytes.extend(self.catalog.encode(MOST_BYTES)?);
        Ok(bytes)
    }

    /// Whether bytes are meant to be a plan.
    pub fn is_plan(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// The plan that `bytes` are.
    ///
    /// # Errors
    /// [`SchemaError::CatalogVersion`] or [`SchemaError::Damaged`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SchemaError> {
        let (head, catalog) = bytes.split_first_chunk::<HEAD>().ok_or(SchemaError::Damaged)?;
        if !Self::is_plan(head) {
            return Err(SchemaError::Damaged);
        }
        Ok(Self {
            hosts: head[8],
            workers: u16::from_le_bytes([head[10], head[11]]),
            partitions: u32::from_le_bytes([head[12], head[13], head[14], head[15]]),
            catalog: Catalog::decode(catalog)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, ColumnType, Table};

    #[test]
    fn plans_read_back() {
        let column = Column::new("number", ColumnType::U32);
        let table = Table::new("accounts", vec![column], &["number"]).unwrap();
        let catalog = Catalog::new(vec![table]).unwrap();
        let plan = DatabasePlan { hosts: 3, workers: 300, partitions: 70_000, catalog };
        let bytes = plan.encode().unwrap();
        assert_eq!(DatabasePlan::decode(&bytes), Ok(plan));
        for length in 0..bytes.len() {
            assert!(DatabasePlan::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
    }
}
