//! The embedded database over an engine that runs one transaction at a time.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use proptest::prelude::*;
use tombolo_database::schema::{Catalog, Column, ColumnType, SchemaError, Table as Schema};
use tombolo_database::{
    Commit, Conflict, Database, DatabaseSettings, Decimal, Direction, Durability, EachRow, Engine,
    Home, ReadTx, Scan, SystemClock, Table, TableId, TableSpec, Transaction, Tx, TxError, row,
};

type Rows = BTreeMap<(TableId, Vec<u8>), Vec<u8>>;

/// An engine with a lock around everything, which can be made to report conflicts.
#[derive(Default)]
struct Toy {
    tables: Vec<TableSpec>,
    rows: Mutex<Rows>,
    /// Operations until the next conflict, and how many more there will be after it.
    conflicts: AtomicU64,
    epoch: AtomicU64,
    durable: AtomicU64,
}

struct ToyTx<'a> {
    engine: &'a Toy,
    rows: MutexGuard<'a, Rows>,
    before: Rows,
}

impl Toy {
    fn meet_conflict(&self) -> Result<(), TxError> {
        let left = self.conflicts.load(Ordering::Relaxed);
        if left > 0 {
            self.conflicts.store(left - 1, Ordering::Relaxed);
            return Err(Conflict::Lock.into());
        }
        Ok(())
    }
}

impl Engine for Toy {
    type Transaction<'a> = ToyTx<'a>;

    fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    fn partitions(&self) -> u32 {
        1
    }

    fn home(&self) -> (Home, u8) {
        (Home(0), 1)
    }

    fn home_of(&self, _: u32) -> Home {
        Home(0)
    }

    fn begin(&self, _: usize) -> ToyTx<'_> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        ToyTx { engine: self, before: rows.clone(), rows }
    }

    fn load(&self, _: TableId, _: &[u8], _: &[u8]) -> Result<(), TxError> {
        Ok(())
    }

    fn tick(&self) -> Result<(), TxError> {
        Ok(())
    }

    fn end_epoch(&self, epoch: u64) {
        self.durable.fetch_max(epoch, Ordering::Relaxed);
    }

    fn durable_epoch(&self) -> u64 {
        self.durable.load(Ordering::Relaxed)
    }
}

impl Drop for ToyTx<'_> {
    fn drop(&mut self) {
        *self.rows = std::mem::take(&mut self.before);
    }
}

impl Transaction for ToyTx<'_> {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.engine.meet_conflict()?;
        Ok(self.rows.get(&(table, key.to_vec())).map(Vec::as_slice))
    }

    fn get_for_update(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, TxError> {
        self.get(table, key)
    }

    fn update(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<bool, TxError> {
        self.engine.meet_conflict()?;
        let found = self.rows.get_mut(&(table, key.to_vec()));
        Ok(found.map(|found| *found = row.to_vec()).is_some())
    }

    fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<(), TxError> {
        if self.get(table, key)?.is_some() {
            return Err(TxError::Duplicate { table });
        }
        self.rows.insert((table, key.to_vec()), row.to_vec());
        Ok(())
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, TxError> {
        self.engine.meet_conflict()?;
        Ok(self.rows.remove(&(table, key.to_vec())).is_some())
    }

    fn scan(
        &mut self,
        table: TableId,
        scan: Scan<'_>,
        each: &mut EachRow<'_>,
    ) -> Result<(), TxError> {
        self.engine.meet_conflict()?;
        let (low, high) = scan.range;
        let low = match low {
            Bound::Unbounded => Bound::Included((table, Vec::new())),
            bound => bound.map(|key| (table, key.to_vec())),
        };
        let high = match high {
            Bound::Unbounded => Bound::Excluded((TableId(table.0 + 1), Vec::new())),
            bound => bound.map(|key| (table, key.to_vec())),
        };
        let found = self.rows.range((low, high)).map(|((_, key), row)| (key, row));
        let found: Vec<_> = match scan.direction {
            Direction::Forward => found.take(scan.limit).collect(),
            Direction::Backward => found.rev().take(scan.limit).collect(),
        };
        for (key, row) in found {
            if each(key, row).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn validate(&mut self) -> Result<(), TxError> {
        self.engine.meet_conflict()
    }

    fn commit(mut self) -> Result<Commit, TxError> {
        self.engine.meet_conflict()?;
        self.before = std::mem::take(&mut self.rows);
        Ok(Commit { epoch: self.engine.epoch.load(Ordering::Relaxed) })
    }

    fn abort(self) {}
}

row! {
    /// A bank's record of a customer.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Account {
        branch: u32,
        number: i64,
        owner: String,
        code: Option<i32>,
        balance: Decimal,
    }
}

type Ranges = fn(&Table<Account>, &mut ReadTx<ToyTx<'_>>) -> Result<Vec<Account>, TxError>;

fn catalog() -> Catalog {
    let columns = vec![
        Column::new("branch", ColumnType::U32),
        Column::new("number", ColumnType::I64),
        Column::new("owner", ColumnType::Text { most: 30 }),
        Column::new("code", ColumnType::I32).nullable(),
        Column::new("balance", ColumnType::Decimal { scale: 2 }),
    ];
    let accounts = Schema::new("accounts", columns, &["branch", "number"]).unwrap();
    let accounts = accounts.with_index("by_owner", &["owner"], false).unwrap();
    Catalog::new(vec![accounts.with_index("by_code", &["code"], true).unwrap()]).unwrap()
}

fn settings() -> DatabaseSettings {
    DatabaseSettings {
        retries: 5,
        back_off: Duration::from_nanos(1),
        patience: Duration::from_millis(1),
        ..DatabaseSettings::default()
    }
}

fn database() -> (Database<Toy>, Table<Account>) {
    let engine = Toy { tables: catalog().specs(), ..Toy::default() };
    let database = Database::new(engine, catalog(), SystemClock::default(), settings()).unwrap();
    let table = database.table("accounts").unwrap();
    (database, table)
}

fn account(number: i64, owner: &str, code: Option<i32>) -> Account {
    let branch = (number % 3) as u32;
    Account { branch, number, owner: owner.into(), code, balance: Decimal(number * 100) }
}

fn owners(accounts: Vec<Account>) -> Vec<String> {
    accounts.into_iter().map(|account| account.owner).collect()
}

/// Five accounts.
fn filled() -> (Database<Toy>, Table<Account>) {
    let (database, table) = database();
    let names = ["Eve", "Dan", "Anna", "Ann", "Bo"];
    database
        .transaction(|tx| {
            for (number, owner) in (0..).zip(names) {
                table.insert(tx, &account(number, owner, (number > 2).then_some(number as i32)))?;
            }
            Ok::<_, TxError>(())
        })
        .unwrap();
    (database, table)
}

#[test]
fn rows_are_found_by_key_and_by_index() {
    let (database, table) = filled();
    let read = |ranges: Ranges| owners(database.read(|tx| ranges(&table, tx)).unwrap());
    assert_eq!(read(|t, tx| t.range().rows(tx)), ["Eve", "Ann", "Dan", "Bo", "Anna"]);
    assert_eq!(read(|t, tx| t.range().prefix(&(1_u32,))?.rows(tx)), ["Dan", "Bo"]);
    assert_eq!(read(|t, tx| t.range().prefix(&(1_u32,))?.reversed().limit(1).rows(tx)), ["Bo"]);
    assert_eq!(read(|t, tx| t.range().from(&(1_u32, 2_i64))?.rows(tx)), ["Bo", "Anna"]);
    assert_eq!(read(|t, tx| t.range().after(&(0_u32,))?.to(&(1_u32,))?.rows(tx)), ["Dan", "Bo"]);
    assert_eq!(read(|t, tx| t.range().before(&(1_u32, 4_i64))?.rows(tx)), ["Eve", "Ann", "Dan"]);
    assert_eq!(read(|t, tx| t.range().from(&(2_u32,))?.before(&(1_u32,))?.rows(tx)).len(), 0);
    assert_eq!(
        read(|t, tx| t.by("by_owner")?.reversed().rows(tx)),
        ["Eve", "Dan", "Bo", "Anna", "Ann"]
    );
    assert_eq!(read(|t, tx| t.by("by_owner")?.text_prefix(&(), "An")?.rows(tx)), ["Ann", "Anna"]);
    assert_eq!(read(|t, tx| t.by("by_owner")?.prefix(&("Ann",))?.rows(tx)), ["Ann"]);
    assert_eq!(read(|t, tx| t.by("by_code")?.prefix(&(4_i32,))?.rows(tx)), ["Bo"]);
    assert_eq!(
        read(|t, tx| t.get(tx, &(2_u32, 2_i64)).map(|row| row.into_iter().collect())),
        ["Anna"]
    );
    assert_eq!(
        read(|t, tx| t.get(tx, &(2_u32, 1_i64)).map(|row| row.into_iter().collect())).len(),
        0
    );
    let first = database.read(|tx| table.by("by_owner")?.first(tx)).unwrap();
    assert_eq!(first, Some(account(3, "Ann", Some(3))));
}

#[test]
fn a_unique_index_refuses_a_second_row_and_nothing_has_changed() {
    let (database, table) = filled();
    database
        .transaction(|tx| {
            let refused = table.insert(tx, &account(9, "Zoe", Some(3)));
            assert!(matches!(refused, Err(TxError::Duplicate { table: TableId(2) })));
            let refused = table.update(tx, &account(4, "Bo", Some(3)));
            assert!(matches!(refused, Err(TxError::Duplicate { table: TableId(2) })));
            let refused = table.insert(tx, &account(4, "Bo", None));
            assert!(matches!(refused, Err(TxError::Duplicate { table: TableId(0) })));
            assert!(table.update(tx, &account(3, "Ann", Some(3)))?, "it is its own");
            table.insert(tx, &account(9, "Zoe", None))
        })
        .unwrap();
    let all = database.read(|tx| table.by("by_owner")?.rows(tx)).unwrap();
    assert_eq!(owners(all), ["Ann", "Anna", "Bo", "Dan", "Eve", "Zoe"]);
}

#[test]
fn conflicts_are_retried_and_the_closures_own_errors_are_not() {
    #[derive(Debug, PartialEq)]
    enum Refusal {
        Poor,
        Other(String),
    }
    impl From<TxError> for Refusal {
        fn from(error: TxError) -> Self {
            Self::Other(error.to_string())
        }
    }
    let (database, table) = filled();
    let mut runs = 0;
    let pay = |runs: &mut u32, tx: &mut Tx<ToyTx<'_>>| {
        *runs += 1;
        let mut account = table.get_for_update(tx, &(0_u32, 3_i64))?.ok_or(Refusal::Poor)?;
        account.balance.0 -= 200;
        table.update(tx, &account)?;
        if account.balance.0 < 0 { Err(Refusal::Poor) } else { Ok(account.balance) }
    };
    database.engine().conflicts.store(3, Ordering::Relaxed);
    assert_eq!(database.transaction(|tx| pay(&mut runs, tx)), Ok(Decimal(100)));
    assert_eq!(runs, 4);
    assert_eq!(database.transaction(|tx| pay(&mut runs, tx)), Err(Refusal::Poor));
    assert_eq!(runs, 5);
    let found = database.read(|tx| table.get(tx, &(0_u32, 3_i64))).unwrap().unwrap();
    assert_eq!(found.balance, Decimal(100), "a transaction that fails changes nothing");
    database.engine().conflicts.store(100, Ordering::Relaxed);
    let exhausted = "the transaction was in conflict with others 6 times; make it smaller";
    let refused = database.transaction(|tx| pay(&mut runs, tx));
    assert_eq!(refused, Err(Refusal::Other(exhausted.into())));
    // A closure that overlooks a conflict does not commit.
    database.engine().conflicts.store(1, Ordering::Relaxed);
    let found = database.read(|tx| {
        runs += 1;
        Ok::<_, TxError>(table.get(tx, &(0_u32, 3_i64)).ok().flatten())
    });
    assert!(found.unwrap().is_some());
    let metrics = database.metrics();
    assert_eq!((metrics.commits, metrics.lock_aborts), (4, 3 + 6 + 1));
    assert_eq!((metrics.failures, metrics.retries, metrics.exhausted), (1, 3 + 5 + 1, 1));
}

#[test]
fn a_commit_is_acknowledged_when_it_is_as_durable_as_was_asked_for() {
    let (database, table) = filled();
    database.engine().epoch.store(7, Ordering::Relaxed);
    let put = |durability| {
        database.transaction_with(durability, |tx| table.put(tx, &account(3, "Ann", None)))
    };
    put(Durability::Memory).unwrap();
    let late = put(Durability::Epoch);
    assert!(matches!(late, Err(TxError::NotDurable { epoch: 7, .. })), "{late:?}");
    let late = database.read(|tx| table.get(tx, &(0_u32, 3_i64)));
    assert!(matches!(late, Err(TxError::NotDurable { epoch: 7, .. })), "{late:?}");
    put(Durability::Immediate).unwrap();
    put(Durability::Epoch).unwrap();
}

#[test]
fn a_transaction_waits_for_a_worker() {
    let (database, table) = filled();
    let refused = database.transaction(|_| {
        let inner = database.read(|tx| table.get(tx, &(0_u32, 3_i64)));
        assert!(matches!(inner, Err(TxError::NoWorker { .. })), "{inner:?}");
        Ok::<_, TxError>(())
    });
    assert!(refused.is_ok(), "the worker is idle again");
    let panics = || database.read(|_| -> Result<(), TxError> { panic!("on purpose") });
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    assert!(database.read(|tx| table.get(tx, &(0_u32, 3_i64))).is_ok());
}

#[test]
fn rows_of_another_type_and_values_that_do_not_fit_are_refused() {
    row! {
        #[derive(Debug)]
        struct Short {
            branch: u32,
            number: i64,
            owner: String,
            code: i32,
            balance: Decimal,
        }
    }
    let (database, table) = filled();
    let refused = database.table::<Short>("accounts").err().unwrap();
    assert_eq!(
        refused.to_string(),
        "rows of table `accounts` are not of this type: either field or column `code` may be null, \
         not both"
    );
    assert!(matches!(database.table::<Short>("loans"), Err(SchemaError::NoTable(_))));
    let long = "x".repeat(31);
    let refused = database.transaction(|tx| table.insert(tx, &account(7, &long, None)));
    assert!(refused.unwrap_err().to_string().contains("column `owner` of table `accounts`"));
    let refused = database.read(|tx| table.get(tx, &(1_u32,)));
    assert_eq!(refused.unwrap_err().to_string(), "1 values for 2 columns of table `accounts`");
    let refused = database.read(|tx| table.by("by_age")?.rows(tx));
    assert_eq!(refused.unwrap_err().to_string(), "table `accounts` has no index `by_age`");
    let other = Database::new(Toy::default(), catalog(), SystemClock::default(), settings());
    assert!(matches!(other, Err(SchemaError::RowType { .. })));
}

/// A closure may give up over rows of two states, where the engine finds that out later: then it
/// runs again, and only what it says of rows of one state is told.
#[test]
fn an_error_of_a_closure_counts_when_its_rows_are_valid() {
    let (database, table) = database();
    let mut runs = 0;
    let told = database.read(|tx| {
        table.get(tx, &(0_u32, 3_i64))?;
        runs += 1;
        if runs == 1 {
            database.engine().conflicts.store(1, Ordering::Relaxed);
        }
        Err::<(), TxError>(TxError::Failed(format!("run {runs}")))
    });
    assert_eq!(told.unwrap_err().to_string(), "run 2");
    assert_eq!(database.metrics().lock_aborts, 1);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Account),
    Update(Account),
    Put(Account),
    Delete(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let row = (0_i64..6, "[ab]{0,2}", prop::option::of(0_i32..4))
        .prop_map(|(number, owner, code)| account(number, &owner, code));
    prop_oneof![
        row.clone().prop_map(Step::Insert),
        row.clone().prop_map(Step::Update),
        row.prop_map(Step::Put),
        (0_i64..6).prop_map(Step::Delete),
    ]
}

/// Applies the step to rows of a model; whether it is refused.
fn take(model: &mut BTreeMap<i64, Account>, step: &Step) -> bool {
    let clashes = |model: &BTreeMap<i64, Account>, row: &Account| {
        let others = model.values().filter(|other| other.number != row.number);
        row.code.is_some() && others.into_iter().any(|other| other.code == row.code)
    };
    match step {
        Step::Delete(number) => {
            model.remove(number);
            false
        }
        Step::Insert(row) if model.contains_key(&row.number) => true,
        Step::Update(row) if !model.contains_key(&row.number) => false,
        Step::Insert(row) | Step::Update(row) | Step::Put(row) => {
            let clashes = clashes(model, row);
            if !clashes {
                model.insert(row.number, row.clone());
            }
            clashes
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Indexes agree with the rows, whatever happens.
    #[test]
    fn indexes_agree_with_rows(steps in prop::collection::vec(step(), 1..30)) {
        let (database, table) = database();
        let mut model = BTreeMap::new();
        database.transaction(|tx| {
            for step in &steps {
                let done = match step {
                    Step::Insert(row) => table.insert(tx, row),
                    Step::Update(row) => table.update(tx, row).map(|_| ()),
                    Step::Put(row) => table.put(tx, row),
                    Step::Delete(number) => {
                        table.delete(tx, &((*number % 3) as u32, *number)).map(|_| ())
                    }
                };
                let refused = matches!(done, Err(TxError::Duplicate { .. }));
                assert_eq!(refused, take(&mut model, step), "{step:?}: {done:?}");
            }
            Ok::<_, TxError>(())
        }).unwrap();
        let mut expected: Vec<Account> = model.into_values().collect();
        expected.sort_unstable();
        let rows = database.read(|tx| table.range().rows(tx)).unwrap();
        prop_assert_eq!(&rows, &expected);
        for (index, of) in [("by_owner", 1), ("by_code", 2)] {
            let mut found = database.read(|tx| table.by(index)?.rows(tx)).unwrap();
            let sorted = found.is_sorted_by(|a, b| if of == 1 { a.owner <= b.owner } else { a.code <= b.code });
            prop_assert!(sorted, "{:?}", found);
            found.sort_unstable();
            prop_assert_eq!(&found, &expected);
        }
        prop_assert_eq!(database.engine().rows.lock().unwrap().len(), 3 * expected.len());
    }
}
