//! `tombolo db`: databases at rest, which are a checkpoint and logs in a directory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tombolo::database::DatabasePlan;
use tombolo::{PodSpec, format_size};
use tombolo_database::TableId;
use tombolo_database::log::Recovered;
use tombolo_memory::Mapped;
use tombolo_oltp::Workload as _;
use tombolo_pod::Pod;

use super::conditions::Checked as _;
use super::hex::{from_hex, to_hex};
use super::setting::{Chosen, Setting, with_workload};
use super::soak;
use super::store::{Store, misshapen, violations};
use super::tables::{Tables, read_schema};
use crate::cli::{
    DbCommand, DbCreateArgs, DbDumpArgs, DbInfoArgs, DbLoadArgs, DbLogArgs, DbPodArgs,
    DbRecoverArgs, SmallBankScale, TablesFrom, TpccScale, YcsbTxnScale,
};
use crate::output::{self, PROBLEMS, pairs, say, table};

pub(crate) fn run(command: &DbCommand) -> Result<ExitCode> {
    match command {
        DbCommand::Create(args) => create(args)?,
        DbCommand::Info(args) => info(args)?,
        DbCommand::Check(args) => return check(args),
        DbCommand::Recover(args) => return recover(args),
        DbCommand::Checkpoint(args) => checkpoint(args)?,
        DbCommand::Dump(args) => dump(args)?,
        DbCommand::Load(args) => load(args)?,
        DbCommand::Soak(args) => return soak::run(args),
    }
    Ok(ExitCode::SUCCESS)
}

/// Rows of YCSB and customers of SmallBank for each host, unless given.
const YCSB_ROWS: u32 = 300_000;
const ACCOUNTS: u32 = 100_000;

fn create(args: &DbCreateArgs) -> Result<()> {
    let setting = match (&args.tables_from, &args.schema) {
        _ if args.sql => setting_of_sql(args)?,
        (Some(from), None) => setting_of(args, *from)?,
        (None, Some(file)) => setting_of_file(args, file)?,
        _ => bail!("give one of --tables-from, --schema and --sql"),
    };
    make(&args.spec, &args.log, &setting, &args.pod, |store| {
        store.populate(&setting)?;
        Ok(None)
    })
}

/// Workers of a host for SQL, unless given: so many transactions run at once.
const SQL_WORKERS: u16 = 8;

/// A database whose tables SQL makes.
fn setting_of_sql(args: &DbCreateArgs) -> Result<Setting> {
    let of_tpcc = args.warehouses.is_some() || args.small || args.as_published;
    ensure!(!of_tpcc && args.rows.is_none(), "--sql makes no tables; give it alone");
    let (hosts, workers) = (args.hosts, args.workers.unwrap_or(SQL_WORKERS));
    Ok(Setting { rows: Chosen::Sql { partitions: hosts.into() }, hosts, workers })
}

/// A database with the tables that a file describes.
fn setting_of_file(args: &DbCreateArgs, file: &Path) -> Result<Setting> {
    let (hosts, workers) = (args.hosts, args.workers.unwrap_or(1));
    let of_tpcc = args.warehouses.is_some() || args.small || args.as_published;
    ensure!(!of_tpcc && args.rows.is_none(), "--schema makes tables without rows; give it alone");
    let (catalog, partitions) = (read_schema(file)?, args.partitions.unwrap_or(hosts.into()));
    ensure!(
        partitions >= hosts.into(),
        "{partitions} partitions are not enough for {hosts} hosts; have one for each at least"
    );
    let plan = DatabasePlan { hosts, workers, partitions, catalog };
    Ok(Setting { rows: Chosen::Tables { plan: Tables(plan) }, hosts, workers })
}

/// A database with a workload's tables and first rows.
fn setting_of(args: &DbCreateArgs, from: TablesFrom) -> Result<Setting> {
    let DbCreateArgs { small, as_published, rows, warehouses, hosts, seed, .. } = *args;
    let workers = args.workers.unwrap_or(1);
    ensure!(args.partitions.is_none(), "--partitions is for --schema; a workload has its own");
    let is_tpcc = from == TablesFrom::Tpcc;
    ensure!(is_tpcc || warehouses.is_none() && !small, "only TPC-C has warehouses; give --rows");
    ensure!(!is_tpcc || rows.is_none(), "TPC-C's rows follow from --warehouses and --small");
    let chosen = match from {
        TablesFrom::Tpcc => {
            let scale = TpccScale { warehouses, small, as_published, remote: None };
            Chosen::tpcc(&scale, u32::from(hosts) * u32::from(workers), seed)
        }
        TablesFrom::Ycsb => {
            let rows = rows.unwrap_or(YCSB_ROWS);
            let scale = YcsbTxnScale { rows, reads: 95, cross: 0, theta: 0.7, as_published };
            Chosen::ycsb(&scale, hosts, seed)
        }
        TablesFrom::Smallbank => {
            let scale = SmallBankScale { accounts: rows.unwrap_or(ACCOUNTS), cross: 0 };
            Chosen::smallbank(&scale, hosts, seed)
        }
    };
    Ok(Setting { rows: chosen.rows(), hosts, workers })
}

/// Makes a pod, and a database in an empty directory; if that fails there is none.
fn make(
    spec: &PodSpec,
    log: &Path,
    setting: &Setting,
    pod: &DbPodArgs,
    fill: impl FnOnce(&Store) -> Result<Option<u64>>,
) -> Result<()> {
    let store = Store::at_rest(log)?;
    ensure!(
        store.is_empty()?,
        "{} is not empty; give another directory, or empty it",
        log.display()
    );
    drop(create_pod(spec, setting, pod)?);
    let rows = fill(&store)?;
    let rows = rows.map_or_else(String::new, |rows| format!(" with {rows} rows"));
    say(format!(
        "created a database{rows} for {} hosts: {}\npod {spec}, log in {}\n",
        setting.hosts,
        setting.rows.size(),
        log.display()
    ))
}

fn create_pod(spec: &PodSpec, setting: &Setting, pod: &DbPodArgs) -> Result<Pod<Mapped>> {
    let bytes = (pod.scr, pod.size, setting.row_bytes());
    pod.engine.create_pod(spec, &setting.shape(), bytes)
}

/// The report on a database: its setting, its epochs, its log and its tables.
#[derive(Serialize)]
struct Info {
    workload: &'static str,
    setting: String,
    hosts: u8,
    workers: u16,
    partitions: u32,
    durable_epoch: u64,
    next_epoch: u64,
    log_bytes: u64,
    log_files: usize,
    tables: Vec<TableInfo>,
}

/// A table's number of rows, and the bytes of their keys and values.
#[derive(Serialize)]
struct TableInfo {
    name: String,
    rows: u64,
    bytes: u64,
}

impl Info {
    fn of(store: &Store, setting: &Setting, recovered: &Recovered) -> Result<Self> {
        let mut counts: BTreeMap<TableId, (u64, u64)> = BTreeMap::new();
        for row in &recovered.rows {
            let (rows, bytes) = counts.entry(row.table).or_default();
            *rows += 1;
            *bytes += (row.key.len() + row.row.len()) as u64;
        }
        let (log_bytes, log_files) = store.usage()?;
        Ok(with_workload!(&setting.rows.build(), workload => Self {
            workload: setting.rows.title(),
            setting: setting.rows.size(),
            hosts: setting.hosts,
            workers: setting.workers,
            partitions: workload.partitions(),
            durable_epoch: recovered.durable,
            next_epoch: recovered.next,
            log_bytes,
            log_files,
            tables: (0..).zip(workload.table_names())
                .map(|(table, name)| {
                    let (rows, bytes) = counts.get(&TableId(table)).copied().unwrap_or_default();
                    TableInfo { name, rows, bytes }
                })
                .collect(),
        }))
    }

    fn text(&self) -> String {
        let mut rows = table(&["table", "rows", "bytes"]);
        for TableInfo { name, rows: count, bytes } in &self.tables {
            rows.add_row([name.clone(), count.to_string(), format_size(*bytes)]);
        }
        let pairs = pairs(&[
            ("workload", format!("{}: {}", self.workload, self.setting)),
            ("hosts", format!("{} with {} workers each", self.hosts, self.workers)),
            ("partitions", self.partitions.to_string()),
            ("durable epoch", self.durable_epoch.to_string()),
            ("next epoch", self.next_epoch.to_string()),
            ("log", format!("{} in {} files", format_size(self.log_bytes), self.log_files)),
        ]);
        format!("{pairs}\n{rows}\n")
    }
}

fn info(args: &DbInfoArgs) -> Result<()> {
    let store = Store::existing(&args.log.log)?;
    let (setting, recovered) = store.read()?;
    output::print(&Info::of(&store, &setting, &recovered)?, args.format, Info::text)
}

/// The result of a check of a database, which is sound if there are no `problems`.
#[derive(Serialize)]
struct Findings {
    rows: u64,
    durable_epoch: u64,
    conditions: Option<&'static str>,
    problems: Vec<String>,
    /// Files that a checkpoint has made superfluous, after recovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_files: Option<usize>,
}

impl Findings {
    fn of(setting: &Setting, recovered: &Recovered) -> Result<Self> {
        let mut problems = misshapen(setting, recovered);
        let mut conditions = None;
        // Conditions are about rows that are where they belong.
        if problems.is_empty() {
            (conditions, problems) = violations(setting, recovered)?;
        }
        Ok(Self {
            rows: recovered.rows.len() as u64,
            durable_epoch: recovered.durable,
            conditions,
            problems,
            removed_files: None,
        })
    }

    fn text(&self) -> String {
        let mut text = format!("{} rows as of epoch {}\n", self.rows, self.durable_epoch);
        if let Some(removed) = self.removed_files {
            text +=
                &format!("a new checkpoint is written, and {removed} files before it removed\n");
        }
        let checked = self.conditions.unwrap_or("tables, lengths of keys and rows, partitions");
        match self.problems.len() {
            0 => text += &format!("no problems; checked: {checked}\n"),
            count => text += &format!("{count} problems; checked: {checked}\n"),
        }
        text + &self
            .problems
            .iter()
            .map(|problem| format!("problem: {problem}\n"))
            .collect::<String>()
    }

    fn code(&self) -> ExitCode {
        if self.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(PROBLEMS) }
    }
}

fn check(args: &DbInfoArgs) -> Result<ExitCode> {
    let store = Store::existing(&args.log.log)?;
    let (setting, recovered) = store.read()?;
    let findings = Findings::of(&setting, &recovered)?;
    output::print(&findings, args.format, Findings::text)?;
    Ok(findings.code())
}

fn recover(args: &DbRecoverArgs) -> Result<ExitCode> {
    let store = Store::existing(&args.log.log)?;
    let (setting, recovered) = store.read()?;
    let mut findings = Findings::of(&setting, &recovered)?;
    // A directory with problems stays as it is, to be looked at.
    if findings.problems.is_empty() {
        drop(create_pod(&args.spec, &setting, &args.pod)?);
        recovered.close(store.directory())?;
        findings.removed_files = Some(store.checkpoint(&recovered)?);
    }
    output::print(&findings, args.format, Findings::text)?;
    Ok(findings.code())
}

fn checkpoint(args: &DbLogArgs) -> Result<()> {
    let store = Store::existing(&args.log)?;
    let (_, recovered) = store.read()?;
    recovered.close(store.directory())?;
    let removed = store.checkpoint(&recovered)?;
    let (bytes, files) = store.usage()?;
    say(format!(
        "a checkpoint of {} rows as of epoch {}; {removed} files removed, {} in {files} files left\n",
        recovered.rows.len(),
        recovered.durable,
        format_size(bytes)
    ))
}

/// The first line of a dump.
#[derive(Serialize, Deserialize)]
struct DumpHead {
    tombolo_dump: u32,
    setting: Setting,
    rows: u64,
}

/// The format that dumps have.
const DUMP_VERSION: u32 = 1;

/// A row of a dump: the name of its table, key and row in hexadecimal digits.
#[derive(Serialize, Deserialize)]
struct DumpRow {
    table: String,
    key: String,
    row: String,
}

fn dump(args: &DbDumpArgs) -> Result<()> {
    let store = Store::existing(&args.log.log)?;
    let (setting, recovered) = store.read()?;
    match &args.out {
        None => write_dump(std::io::stdout().lock(), &setting, &recovered)
            .context("cannot write to the standard output"),
        Some(path) => {
            let name = path.display();
            let file = File::create(path).with_context(|| format!("cannot create {name}"))?;
            write_dump(file, &setting, &recovered).with_context(|| format!("cannot write {name}"))
        }
    }
}

fn write_dump(to: impl Write, setting: &Setting, recovered: &Recovered) -> Result<()> {
    let mut to = BufWriter::new(to);
    let rows = recovered.rows.len() as u64;
    let head = DumpHead { tombolo_dump: DUMP_VERSION, setting: setting.clone(), rows };
    writeln!(to, "{}", serde_json::to_string(&head)?)?;
    let names = with_workload!(&setting.rows.build(), workload => workload.table_names());
    for row in &recovered.rows {
        let name = names.get(usize::from(row.table.0));
        let table = name.with_context(|| format!("there is no table {}", row.table))?.clone();
        let line = DumpRow { table, key: to_hex(&row.key), row: to_hex(&row.row) };
        writeln!(to, "{}", serde_json::to_string(&line)?)?;
    }
    Ok(to.flush()?)
}

fn load(args: &DbLoadArgs) -> Result<()> {
    let name = args.from.display();
    let file = File::open(&args.from).with_context(|| format!("cannot open {name}"))?;
    let mut lines = BufReader::new(file).lines();
    let first = lines.next().transpose().with_context(|| format!("cannot read {name}"))?;
    let head: DumpHead = serde_json::from_str(&first.unwrap_or_default())
        .with_context(|| format!("{name} is no dump of a database"))?;
    ensure!(head.tombolo_dump == DUMP_VERSION, "{name} is a dump of another version");
    let names = with_workload!(&head.setting.rows.build(), workload => workload.table_names());
    let rows = (2..).zip(lines).map(|(number, line)| {
        let line = line.with_context(|| format!("cannot read {name}"))?;
        let row: DumpRow = serde_json::from_str(&line)
            .with_context(|| format!("line {number} of {name} is no row"))?;
        let table = names.iter().position(|name| *name == row.table);
        match (table, from_hex(&row.key), from_hex(&row.row)) {
            (Some(table), Some(key), Some(row)) => Ok((TableId(table as u16), key, row)),
            (None, ..) => {
                bail!("line {number} of {name} is of table {:?}, which is not known", row.table)
            }
            _ => bail!("line {number} of {name} has something else than hexadecimal digits"),
        }
    });
    let rows: Vec<_> = rows.collect::<Result<_>>()?;
    ensure!(
        rows.len() as u64 == head.rows,
        "{name} has {} rows, and says that it has {}; it was cut",
        rows.len(),
        head.rows
    );
    make(&args.spec, &args.log, &head.setting, &args.pod, |store| {
        store.fill(&head.setting, rows.into_iter().map(Ok)).map(Some)
    })
}
