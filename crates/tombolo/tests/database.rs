//! Databases, as embedders use them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tombolo::database::{
    Catalog, Column, ColumnType, Conflict, Database, DatabaseError, DatabasePlan, DatabaseSettings,
    Durability, Options, Partitioning, SchemaError, SetupError, TableSchema, TxError,
    WriteTransaction, create, plan_of, recover_pod, row,
};
use tombolo::{CreateOptions, PodError};

row! {
    /// An account in a branch.
    #[derive(Clone, Debug, PartialEq)]
    struct Account {
        branch: u32,
        number: u32,
        owner: String,
        cents: i64,
    }
}

/// An error of the closure's own.
#[derive(Debug)]
enum Refused {
    Overdrawn { by: i64 },
    Database(TxError),
}

impl From<TxError> for Refused {
    fn from(error: TxError) -> Self {
        Self::Database(error)
    }
}

struct Place {
    folder: tempfile::TempDir,
    plan: DatabasePlan,
}

fn columns() -> Vec<Column> {
    vec![
        Column::new("branch", ColumnType::U32),
        Column::new("number", ColumnType::U32),
        Column::new("owner", ColumnType::Text { most: 10 }),
        Column::new("cents", ColumnType::I64),
    ]
}

fn plan(hosts: u8) -> DatabasePlan {
    let accounts = TableSchema::new("accounts", columns(), &["branch", "number"])
        .unwrap()
        .partitioned(Partitioning::Leading { per_partition: 1 })
        .with_index("owner", &["branch", "owner"], true)
        .unwrap()
        .with_index("cents", &["branch", "cents"], false)
        .unwrap();
    let plan = DatabasePlan::new(hosts, Catalog::new(vec![accounts]).unwrap());
    DatabasePlan { workers: 2, ..plan }
}

impl Place {
    fn new(hosts: u8) -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap(), plan: plan(hosts) };
        create(&place.spec(), &place.plan, Some(&place.log()), Default::default()).unwrap();
        place
    }

    fn spec(&self) -> String {
        self.folder.path().join("pod").to_str().unwrap().to_owned()
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn options(&self) -> Options {
        // Threads wait for each other's locks, and for processors that others use, too.
        let (retries, patience) = (100_000, Duration::from_secs(60));
        let settings = DatabaseSettings { retries, patience, ..DatabaseSettings::default() };
        Options { log: Some(self.log()), settings, ..Options::default() }
    }

    /// All hosts, in the order of their homes.
    fn open(&self) -> Vec<Database> {
        let open = || Database::open(&self.spec(), &self.plan, self.options()).unwrap();
        let mut hosts = thread::scope(|scope| {
            let opening: Vec<_> = (0..self.plan.hosts).map(|_| scope.spawn(open)).collect();
            opening.into_iter().map(|host| host.join().unwrap()).collect::<Vec<_>>()
        });
        hosts.sort_by_key(|db| {
            use tombolo_database::Engine as _;
            db.engine().home().0.0
        });
        hosts
    }
}

fn account(branch: u32, number: u32, cents: i64) -> Account {
    Account { branch, number, owner: format!("owner {number}"), cents }
}

fn fill(db: &Database, branches: u32) {
    let accounts = db.table::<Account>("accounts").unwrap();
    db.transaction(|tx| {
        for branch in 0..branches {
            (0..10)
                .try_for_each(|n| accounts.insert(tx, &account(branch, n, i64::from(n) * 100)))?;
        }
        Ok::<_, TxError>(())
    })
    .unwrap();
}

/// Moves an amount between accounts, if there is enough.
fn transfer(db: &Database, from: (u32, u32), to: (u32, u32), cents: i64) -> Result<(), Refused> {
    let accounts = db.table::<Account>("accounts").unwrap();
    db.transaction(|tx| {
        let mut payer = accounts.get_for_update(tx, &from)?.expect("it is there");
        let mut payee = accounts.get_for_update(tx, &to)?.expect("it is there");
        if payer.cents < cents {
            return Err(Refused::Overdrawn { by: cents - payer.cents });
        }
        payer.cents -= cents;
        payee.cents += cents;
        accounts.update(tx, &payer)?;
        accounts.update(tx, &payee)?;
        Ok(())
    })
}

fn total(db: &Database) -> (usize, i64) {
    let accounts = db.table::<Account>("accounts").unwrap();
    let rows = db.read(|tx| accounts.range().rows(tx)).unwrap();
    (rows.len(), rows.iter().map(|account| account.cents).sum())
}

#[test]
fn rows_outlive_the_hosts_and_their_pod() {
    let place = Place::new(2);
    let hosts = place.open();
    fill(&hosts[0], 2);
    transfer(&hosts[1], (0, 9), (1, 0), 250).unwrap();
    assert_eq!(total(&hosts[1]), (20, 9000));
    hosts.into_iter().for_each(|db| db.leave().unwrap());
    assert_eq!(plan_of(&place.log()).unwrap(), place.plan);
    let again = place.open();
    assert_eq!(total(&again[0]), (20, 9000));
    drop(again);
    std::fs::remove_file(place.spec()).unwrap();
    let recovery = recover_pod(&place.spec(), &place.log(), Default::default()).unwrap();
    assert_eq!(recovery.rows, 20 * 3, "rows, and their entries in two indexes");
    let again = place.open();
    transfer(&again[0], (1, 0), (0, 9), 250).unwrap();
    assert_eq!(total(&again[1]), (20, 9000));
}

#[test]
fn an_error_of_the_closure_changes_nothing_and_comes_back_as_it_is() {
    let place = Place::new(1);
    let hosts = place.open();
    fill(&hosts[0], 1);
    match transfer(&hosts[0], (0, 1), (0, 2), 150) {
        Err(Refused::Overdrawn { by: 50 }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(total(&hosts[0]), (10, 4500));
    let metrics = hosts[0].metrics();
    assert_eq!((metrics.transactions.failures, metrics.transactions.commits), (1, 2));
}

#[test]
fn ranges_go_both_ways_with_limits_and_prefixes() {
    let place = Place::new(2);
    let hosts = place.open();
    fill(&hosts[0], 2);
    let accounts = hosts[1].table::<Account>("accounts").unwrap();
    let numbers = |rows: Vec<Account>| rows.iter().map(|row| row.number).collect::<Vec<_>>();
    hosts[1]
        .read(|tx| {
            let of_branch = accounts.range().prefix(&(1u32,))?;
            assert_eq!(numbers(of_branch.limit(3).rows(tx)?), [0, 1, 2]);
            let last = accounts.range().prefix(&(1u32,))?.reversed().limit(2);
            assert_eq!(numbers(last.rows(tx)?), [9, 8]);
            let middle = accounts.range().from(&(0u32, 4u32))?.before(&(0u32, 6u32))?;
            assert_eq!(numbers(middle.rows(tx)?), [4, 5]);
            let rich = accounts.by("cents")?.prefix(&(1u32,))?.reversed().limit(1);
            assert_eq!(numbers(rich.rows(tx)?), [9]);
            let named = accounts.by("owner")?.text_prefix(&(1u32,), "owner 7")?;
            assert_eq!(numbers(named.rows(tx)?), [7]);
            Ok::<_, TxError>(())
        })
        .unwrap();
}

/// Checkpoints of a running database: the hosts end without leaving, and recovery finds all.
#[test]
fn a_running_database_is_checkpointed() {
    let place = Place::new(2);
    let hosts = place.open();
    fill(&hosts[0], 2);
    let written = thread::scope(|scope| {
        let moving = hosts.iter().map(|db| {
            scope.spawn(move || {
                (0..30).for_each(|_| transfer(db, (0, 9), (1, 0), 1).unwrap());
            })
        });
        let moving: Vec<_> = moving.collect();
        let mut written = Vec::new();
        while moving.iter().any(|thread| !thread.is_finished()) {
            let host = &hosts[written.len() % 2];
            written.push(host.checkpoint().unwrap().expect("there is a log"));
            thread::sleep(Duration::from_millis(20));
        }
        written
    });
    assert!(!written.is_empty());
    assert!(written.iter().all(|done| done.rows == 60), "{written:?}");
    assert!(written.windows(2).all(|pair| pair[0].epoch < pair[1].epoch), "{written:?}");
    let last = hosts[0].checkpoint().unwrap().unwrap();
    assert!(last.removed_files > 0, "{last:?}");
    drop(hosts);
    let files = std::fs::read_dir(place.log()).unwrap().count();
    assert!(files < 12, "{files} files are left");
    let again = place.open();
    assert_eq!(total(&again[0]), (20, 9000));
    let accounts = again[1].table::<Account>("accounts").unwrap();
    let payer = again[1].read(|tx| accounts.get(tx, &(0u32, 9u32))).unwrap().unwrap();
    assert_eq!(payer.cents, 900 - 60);
}

#[test]
fn conflicts_are_retried_and_counted() {
    let place = Place::new(2);
    let hosts = place.open();
    fill(&hosts[0], 2);
    thread::scope(|scope| {
        for db in &hosts {
            for _ in 0..2 {
                scope.spawn(|| {
                    (0..30).for_each(|_| transfer(db, (0, 9), (1, 0), 1).unwrap());
                });
            }
        }
    });
    assert_eq!(total(&hosts[0]), (20, 9000));
    let of_hosts: Vec<_> = hosts.iter().map(Database::metrics).collect();
    let aborts = |m: &tombolo::database::Metrics| {
        let t = m.transactions;
        t.lock_aborts + t.gap_aborts + t.validation_aborts + t.moved_aborts
    };
    assert!(of_hosts.iter().map(aborts).sum::<u64>() > 0, "{of_hosts:?}");
    assert!(of_hosts.iter().map(|m| m.transactions.retries).sum::<u64>() > 0);
    let [first, second] = &of_hosts[..] else { panic!("two hosts") };
    assert!(first.engine.moved_in > 0 && second.engine.requests > 0, "{of_hosts:?}");
    assert!(first.engine.cleaned_lines > 0 && first.engine.invalidated_lines > 0);
    assert!(first.engine.scr_record_bytes > 0 && first.engine.scr_index_bytes > 0);
    assert!(first.log.bytes > 0 && first.log.syncs > 0 && !first.log.sync_p99.is_zero());
    assert!(first.durable_epoch < first.epoch);
    let by_table = hosts[0].scr_by_table();
    assert_eq!((by_table.len(), by_table[0].0.as_str()), (1, "accounts"));
    let engine = first.engine;
    assert!(by_table[0].1 > 0 && by_table[0].1 <= engine.scr_record_bytes + engine.scr_index_bytes);
}

/// A transaction that is always in another's way is given up after as many retries as there may be.
#[test]
fn retries_have_a_bound() {
    let place = Place::new(1);
    let settings = DatabaseSettings { retries: 3, ..DatabaseSettings::default() };
    let options = Options { settings, ..place.options() };
    let db = Database::open(&place.spec(), &place.plan, options).unwrap();
    fill(&db, 1);
    let accounts = db.table::<Account>("accounts").unwrap();
    db.transaction(|tx| {
        accounts.get_for_update(tx, &(0u32, 1u32))?;
        match transfer(&db, (0, 1), (0, 2), 1) {
            Err(Refused::Database(TxError::Exhausted { attempts: 4 })) => Ok(()),
            other => panic!("{other:?}"),
        }
    } as Result<(), TxError>)
        .unwrap();
    assert_eq!(db.metrics().transactions.exhausted, 1);
}

#[test]
fn bad_input_is_refused_with_one_clear_error_and_nothing_half_done() {
    let place = Place::new(1);
    let db = place.open().pop().unwrap();
    fill(&db, 1);
    let before = total(&db);
    let refused = |error: String, parts: &[&str]| {
        parts.iter().for_each(|part| assert!(error.contains(part), "{error:?} lacks {part:?}"));
    };
    let no_table = db.table::<Account>("account").err().unwrap();
    refused(no_table.to_string(), &["there is no table `account`"]);
    let accounts = db.table::<Account>("accounts").unwrap();
    refused(accounts.by("town").err().unwrap().to_string(), &["`accounts`", "no index `town`"]);
    let unknown = TableSchema::new("t", columns(), &["town"]).err().unwrap();
    refused(unknown.to_string(), &["table `t` has no column `town`"]);
    // The first change of each transaction is fine, and must not be there afterwards.
    let attempt = |what: &dyn Fn(&mut WriteTransaction<'_>) -> Result<(), TxError>| {
        let ended = db.transaction(|tx| {
            accounts.insert(tx, &account(0, 50, 1))?;
            what(tx)
        });
        let error = ended.unwrap_err().to_string();
        assert_eq!(total(&db), before, "{error}");
        error
    };
    let double = attempt(&|tx| accounts.insert(tx, &account(0, 3, 1)));
    refused(double, &["has a row with this key already"]);
    let unique = attempt(&|tx| {
        accounts.insert(tx, &Account { owner: "owner 3".into(), ..account(0, 51, 1) })
    });
    refused(unique, &["has a row with this key already"]);
    let long = "x".repeat(11);
    let too_long =
        attempt(&|tx| accounts.insert(tx, &Account { owner: long.clone(), ..account(0, 51, 1) }));
    refused(too_long, &["column `owner`", "table `accounts`"]);
    let short = attempt(&|tx| accounts.get(tx, &(0u32,)).map(drop));
    refused(short, &["1 values for 2 columns of table `accounts`"]);
    let bytes = attempt(&|tx| tx.insert_bytes(accounts.id(), &[7; 60], b"row"));
    refused(bytes, &["a key of 60 bytes", "shorten it"]);
}

#[test]
fn a_transaction_that_does_not_fit_the_log_is_refused_whole() {
    let place = Place::new(1);
    let notes = vec![
        Column::new("number", ColumnType::U32),
        Column::new("text", ColumnType::Bytes { most: 60_000 }),
    ];
    row! {
        struct Page { number: u32, text: Vec<u8> }
    }
    let table = TableSchema::new("pages", notes, &["number"]).unwrap();
    let plan = DatabasePlan::new(1, Catalog::new(vec![table]).unwrap());
    let log = place.folder.path().join("pages");
    create(&place.spec(), &plan, Some(&log), Default::default()).unwrap();
    let options = Options { log: Some(log), ..Options::default() };
    let db = Database::open(&place.spec(), &plan, options).unwrap();
    let pages = db.table::<Page>("pages").unwrap();
    let insert = |count: u32| {
        db.transaction(|tx| {
            (0..count)
                .try_for_each(|number| pages.insert(tx, &Page { number, text: vec![7; 60_000] }))
        })
    };
    match insert(80) {
        Err(error @ TxError::TooLarge { .. }) => {
            assert!(error.to_string().contains("split it"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(db.read(|tx| pages.range().rows(tx)).unwrap().len(), 0);
    insert(10).unwrap();
    assert_eq!(db.read(|tx| pages.range().rows(tx)).unwrap().len(), 10);
}

#[test]
fn what_is_of_something_else_is_refused() {
    let place = Place::new(1);
    let (spec, log) = (place.spec(), place.log());
    match create(&spec, &place.plan, Some(&log), Default::default()) {
        Err(DatabaseError::NotEmpty { path }) => assert_eq!(path, log.display().to_string()),
        other => panic!("{other:?}"),
    }
    let other = DatabasePlan { workers: 1, ..plan(1) };
    match Database::open(&spec, &other, place.options()).err() {
        Some(DatabaseError::OtherPlan { why, .. }) => assert!(why.contains("2 workers"), "{why}"),
        other => panic!("{other:?}"),
    }
    let table = TableSchema::new("accounts", columns(), &["branch", "number"]).unwrap();
    let other = DatabasePlan { catalog: Catalog::new(vec![table]).unwrap(), ..plan(1) };
    let error = Database::open(&spec, &other, place.options()).err().unwrap().to_string();
    assert!(error.contains("table `accounts` differs"), "{error}");
    let long = Column::new("name", ColumnType::Text { most: 40 });
    let table = TableSchema::new("names", vec![long], &["name"]).unwrap();
    let long = DatabasePlan::new(1, Catalog::new(vec![table]).unwrap());
    let error = create(&spec, &long, None, Default::default()).unwrap_err().to_string();
    assert!(error.contains("keys of table `names`") && error.contains("than 47"), "{error}");
    let empty = place.folder.path().join("empty");
    let options = Options { log: Some(empty), ..Options::default() };
    let error = Database::open(&spec, &place.plan, options).err().unwrap().to_string();
    assert!(error.contains("has no database"), "{error}");
    let options = Options { log: Some("/dev/null/log".into()), ..Options::default() };
    let error = Database::open(&spec, &place.plan, options).err().unwrap().to_string();
    assert!(error.contains("cannot use /dev/null/log for a log"), "{error}");
    let running = place.open();
    match recover_pod(&spec, &log, Default::default()) {
        Err(DatabaseError::InUse { .. }) => {}
        other => panic!("{other:?}"),
    }
    drop(running);
    // A pod of objects has no database.
    let objects = place.folder.path().join("objects").to_str().unwrap().to_owned();
    tombolo::create(&objects, CreateOptions::sized(32 << 20)).unwrap();
    match Database::open(&objects, &place.plan, place.options()).err() {
        Some(DatabaseError::Setup(SetupError::Pod(error @ PodError::NoArea { .. }))) => {
            assert!(error.to_string().contains("tigon"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    let error = create(&objects, &place.plan, None, Default::default()).unwrap_err().to_string();
    assert!(error.contains("pod of something else"), "{error}");
}

#[test]
fn a_type_of_rows_has_to_be_the_tables() {
    row! {
        struct Narrow { branch: u32, number: u32 }
    }
    let place = Place::new(1);
    let db = place.open().pop().unwrap();
    match db.table::<Narrow>("accounts").err() {
        Some(SchemaError::RowType { why, .. }) => assert!(why.contains("2 fields"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert!(!TxError::from(Conflict::Lock).to_string().is_empty());
}

const ROLE: &str = "TOMBOLO_TEST_DATABASE";

/// The second host of `a_host_that_dies_stops_the_others_and_loses_nothing`: not a test by itself.
#[test]
fn the_host_that_dies() {
    let Ok(folder) = std::env::var(ROLE) else { return };
    let folder = PathBuf::from(folder);
    let spec = folder.join("pod").to_str().unwrap().to_owned();
    let options = Options { log: Some(folder.join("log")), ..Options::default() };
    let db = Database::open(&spec, &plan(2), options).unwrap();
    let accounts = db.table::<Account>("accounts").unwrap();
    for number in 100.. {
        let insert = db.transaction_with(Durability::Memory, |tx| {
            accounts.insert(tx, &account(0, number, 0))?;
            accounts.insert(tx, &account(1, number, 0))
        });
        if insert.is_err() {
            return;
        }
        std::fs::write(folder.join("told"), (number - 99).to_string()).unwrap();
    }
}

/// The commits of the dead host were in its log buffer alone: the host that is left writes them
/// out.
#[test]
fn a_host_that_dies_stops_the_others_and_loses_nothing() {
    let place = Place::new(2);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["the_host_that_dies", "--exact", "--nocapture"])
        .env(ROLE, place.folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let db = Database::open(&place.spec(), &place.plan, place.options()).unwrap();
    let (since, told) = (Instant::now(), place.folder.path().join("told"));
    let count = || std::fs::read_to_string(&told).ok().and_then(|text| text.parse::<u64>().ok());
    while count().is_none_or(|count| count < 20) {
        assert!(since.elapsed() < Duration::from_secs(60), "the other host commits nothing");
        thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let committed = count().unwrap();
    let db = Arc::new(db);
    while db.failure().is_none() {
        assert!(since.elapsed() < Duration::from_secs(60), "the death is not noticed");
        thread::sleep(Duration::from_millis(1));
    }
    let accounts = db.table::<Account>("accounts").unwrap();
    let error = db.transaction(|tx| accounts.insert(tx, &account(0, 7, 7))).unwrap_err();
    assert!(error.to_string().contains("has died; run `tombolo db recover`"), "{error}");
    match Arc::into_inner(db).unwrap().leave() {
        Err(DatabaseError::Tx(TxError::HostDied { .. })) => {}
        other => panic!("{other:?}"),
    }
    let recovery = recover_pod(&place.spec(), &place.log(), Default::default()).unwrap();
    let rows = recovery.rows / 6;
    assert_eq!(recovery.rows % 6, 0, "each transaction is whole");
    assert!(rows >= committed && rows <= committed + 1, "{rows} of {committed} transactions");
}
