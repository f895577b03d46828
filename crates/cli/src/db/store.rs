//! The directory of a database: checkpoint, logs, and whether hosts use it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tombolo_database::log::{
    CheckpointPart, CheckpointWriter, Claim, Directory, Recovered, Storage as _, catalog, recover,
};
use tombolo_database::{Engine, Home, OrderedKey, TableId, TableSpec, TxError, Version, key_width};
use tombolo_oltp::{Reference, ReferenceTransaction, Workload, load};

use super::conditions::{Checked, all_partitions};
use super::setting::{Chosen, Setting, with_workload};

/// How long a command waits for another one that uses the same directory.
const PATIENCE: Duration = Duration::from_secs(2);

/// Threads that read logs.
const READERS: usize = 2;

/// Findings of one kind that are told.
const MOST_FOUND: usize = 20;

/// A database's directory, as long as this process uses it.
pub(crate) struct Store {
    path: PathBuf,
    directory: Arc<Directory>,
}

impl Store {
    /// The directory as hosts use it, which is there.
    pub(crate) fn in_use(path: &Path) -> Result<Self> {
        Self::open(path, Claim::Running)
    }

    /// The directory for a command that needs the database at rest. It is made if it is not there.
    ///
    /// # Errors
    /// That hosts use it, or that it cannot be made or read.
    pub(crate) fn at_rest(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        Self::open(path, Claim::AtRest)
    }

    /// The same of a database that is there.
    pub(crate) fn existing(path: &Path) -> Result<Self> {
        ensure!(
            path.is_dir(),
            "there is no directory {}; give the one of a database",
            path.display()
        );
        Self::at_rest(path)
    }

    fn open(path: &Path, claim: Claim) -> Result<Self> {
        let name = path.display();
        let since = Instant::now();
        let directory = loop {
            match Directory::claim(path, claim) {
                Ok(directory) => break directory,
                // A command that only reads is soon done.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ensure!(
                        since.elapsed() < PATIENCE,
                        "hosts, or another command, use the log in {name}; stop them first"
                    );
                    thread::sleep(Duration::from_millis(10));
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot use {name} for a log"));
                }
            }
        };
        Ok(Self { path: path.to_owned(), directory: Arc::new(directory) })
    }

    pub(crate) fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    pub(crate) fn is_empty(&self) -> Result<bool> {
        Ok(self.directory.list()?.is_empty())
    }

    /// Bytes and number of its files.
    pub(crate) fn usage(&self) -> Result<(u64, usize)> {
        let files = self.directory.list()?;
        let sizes = files.iter().map(|file| fs::metadata(self.path.join(file)).map(|m| m.len()));
        Ok((sizes.sum::<std::io::Result<u64>>()?, files.len()))
    }

    fn ensure_empty(&self) -> Result<()> {
        let name = self.path.display();
        ensure!(self.is_empty()?, "{name} is not empty; give another directory, or empty it");
        Ok(())
    }

    /// Writes the checkpoint that a database begins with.
    fn create(
        &self,
        setting: &Setting,
        fill: impl FnOnce(CheckpointPart<Arc<Directory>>) -> Result<CheckpointPart<Arc<Directory>>>,
    ) -> Result<()> {
        let mut writer = CheckpointWriter::begin(Arc::clone(&self.directory), 0)?;
        let part = fill(writer.part()?)?;
        writer.add(part)?;
        Ok(writer.finish(&setting.encode()?, 0, 0)?)
    }

    /// Begins a database with its workload's rows, in an empty directory.
    pub(crate) fn populate(&self, setting: &Setting) -> Result<()> {
        self.ensure_empty()?;
        self.create(setting, |part| {
            with_workload!(&setting.rows.build(), workload => {
                let engine = Loading::new(workload, part);
                load(workload, &engine, 0, 1)?;
                Ok(engine.part.into_inner().expect("no thread panics with it"))
            })
        })
    }

    /// Begins a database with these rows, in an empty directory.
    pub(crate) fn fill(
        &self,
        setting: &Setting,
        rows: impl Iterator<Item = Result<(TableId, Vec<u8>, Vec<u8>)>>,
    ) -> Result<u64> {
        self.ensure_empty()?;
        let mut count = 0;
        self.create(setting, |part| {
            with_workload!(&setting.rows.build(), workload => {
                let engine = Loading::new(workload, part);
                for row in rows {
                    let (table, key, row) = row?;
                    engine.load(table, &key, &row)?;
                    count += 1;
                }
                Ok(engine.part.into_inner().expect("no thread panics with it"))
            })
        })?;
        Ok(count)
    }

    /// Reads checkpoint and logs. Changes nothing.
    ///
    /// # Errors
    /// That a file is damaged or missing; that there is no checkpoint.
    pub(crate) fn read(&self) -> Result<(Setting, Recovered)> {
        let recovered = recover(&self.directory, READERS)?;
        let name = self.path.display();
        ensure!(
            !recovered.catalog.is_empty(),
            "{name} has no checkpoint; a database that can be recovered begins with \
             `tombolo db create`"
        );
        Ok((self.decode(&recovered.catalog)?, recovered))
    }

    fn decode(&self, catalog: &[u8]) -> Result<Setting> {
        let name = self.path.display();
        Setting::decode(catalog)
            .with_context(|| format!("the catalog in {name} is of another program"))
    }

    /// The description of the database that the newest checkpoint records. Hosts may run.
    ///
    /// # Errors
    /// That the checkpoint is damaged; that there is none.
    pub(crate) fn setting(&self) -> Result<Setting> {
        let since = Instant::now();
        let catalog = loop {
            match catalog(&self.directory) {
                // A newer one may just have taken its place.
                Err(_) if since.elapsed() < PATIENCE => thread::sleep(Duration::from_millis(10)),
                found => break found?,
            }
        };
        let name = self.path.display();
        self.decode(&catalog.with_context(|| format!("{name} has no checkpoint"))?)
    }

    /// Writes a checkpoint of what was recovered, and removes what came before; how many files.
    pub(crate) fn checkpoint(&self, recovered: &Recovered) -> Result<usize> {
        Ok(recovered.checkpoint(&self.directory, READERS)?)
    }
}

/// An engine that writes what is loaded into a checkpoint.
struct Loading {
    tables: Vec<TableSpec>,
    partitions: u32,
    part: Mutex<CheckpointPart<Arc<Directory>>>,
    /// Whose transactions it has: none.
    empty: Reference,
}

impl Loading {
    fn new<W: Workload>(workload: &W, part: CheckpointPart<Arc<Directory>>) -> Self {
        let (tables, partitions) = (workload.tables(), workload.partitions());
        let empty = Reference::new(&[], partitions);
        Self { tables, partitions, part: Mutex::new(part), empty }
    }
}

impl Engine for Loading {
    type Transaction<'a> = ReferenceTransaction<'a>;

    fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    fn partitions(&self) -> u32 {
        self.partitions
    }

    fn home(&self) -> (Home, u8) {
        (Home(0), 1)
    }

    fn home_of(&self, _: u32) -> Home {
        Home(0)
    }

    fn begin(&self, worker: usize) -> ReferenceTransaction<'_> {
        self.empty.begin(worker)
    }

    fn load(&self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        let spec = self.tables.get(usize::from(table.0)).ok_or(TxError::NoTable { table })?;
        if let Some(wrong) = misfit(table, spec, key, row) {
            return Err(wrong);
        }
        let partition = spec.partition_of(key, self.partitions);
        let mut part = self.part.lock().expect("no thread panics with it");
        Ok(part.row((table, partition), key, Version::default(), row)?)
    }

    fn tick(&self) -> Result<(), TxError> {
        Ok(())
    }

    fn durable_epoch(&self) -> u64 {
        0
    }
}

/// Why a row does not fit its table.
fn misfit(table: TableId, spec: &TableSpec, key: &[u8], row: &[u8]) -> Option<TxError> {
    let most = usize::from(spec.key_bytes);
    if key.is_empty() || key.len() > most {
        return Some(TxError::KeyLength { table, bytes: key.len(), most });
    }
    let most = spec.row_bytes as usize;
    (row.len() > most).then_some(TxError::RowLength { table, bytes: row.len(), most })
}

/// Faults in the form of the rows: tables, lengths, partitions and order.
pub(crate) fn misshapen(setting: &Setting, recovered: &Recovered) -> Vec<String> {
    with_workload!(&setting.rows.build(), workload => {
        let (tables, partitions) = (workload.tables(), workload.partitions());
        let mut found = Vec::new();
        for row in &recovered.rows {
            let Some(spec) = tables.get(usize::from(row.table.0)) else {
                found.push(format!("a row is in table {}, which there is not", row.table));
                continue;
            };
            if let Some(error) = misfit(row.table, spec, &row.key, &row.row) {
                found.push(error.to_string());
            } else if spec.partition_of(&row.key, partitions) != row.partition {
                let key = OrderedKey::new(&row.key, key_width(spec.key_bytes));
                found.push(format!(
                    "table {} has key {key:?} in partition {}", row.table, row.partition
                ));
            }
        }
        found.truncate(MOST_FOUND);
        found
    })
}

/// Checks the rows of a database in an engine of this process: what was checked, and what is wrong.
pub(crate) fn violations(
    setting: &Setting,
    recovered: &Recovered,
) -> Result<(Option<&'static str>, Vec<String>)> {
    if let Chosen::Tables { plan } = &setting.rows {
        let checked = "types of rows, and entries of indexes";
        return Ok((Some(checked), plan.0.catalog.check_rows(&recovered.rows)));
    }
    with_workload!(&setting.rows.build(), workload => {
        let Some(conditions) = workload.conditions() else { return Ok((None, Vec::new())) };
        let engine = Reference::new(&workload.tables(), workload.partitions());
        for row in &recovered.rows {
            engine.load(row.table, &row.key, &row.row)?;
        }
        let found = workload.check(&engine, all_partitions(workload.partitions()))?;
        Ok((Some(conditions), workload.violations(&[found])))
    })
}
