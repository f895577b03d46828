//! A database of two hosts: this process and one that it starts move money between accounts, and
//! both see the same sum.
//!
//! `cargo run --release -p tombolo --example accounts`

use std::path::Path;
use std::process::Command;

use tombolo::database::{
    Catalog, Column, ColumnType, Database, DatabaseError, DatabasePlan, Options, Partitioning,
    SchemaError, TableSchema, TxError, create, row,
};

const POD: &str = "/dev/shm/tombolo-example-accounts";
const LOG: &str = "/tmp/tombolo-example-accounts";

row! {
    /// An account of a branch.
    #[derive(Debug)]
    struct Account {
        branch: u32,
        number: u32,
        cents: i64,
    }
}

/// Each branch is a partition: branch 0 is at home on one host, and branch 1 on the other.
fn plan() -> Result<DatabasePlan, SchemaError> {
    let columns = vec![
        Column::new("branch", ColumnType::U32),
        Column::new("number", ColumnType::U32),
        Column::new("cents", ColumnType::I64),
    ];
    let accounts = TableSchema::new("accounts", columns, &["branch", "number"])?
        .partitioned(Partitioning::Leading { per_partition: 1 })
        .with_index("by_cents", &["branch", "cents"], false)?;
    Ok(DatabasePlan::new(2, Catalog::new(vec![accounts])?))
}

/// Why money was not moved: an error of the program's own, which `transaction` hands back.
#[derive(Debug, thiserror::Error)]
enum TransferError {
    #[error("{0} cents are too few")]
    TooPoor(i64),
    #[error("there is no such account")]
    NoAccount,
    #[error(transparent)]
    Database(#[from] TxError),
}

fn transfer(db: &Database, from: (u32, u32), to: (u32, u32)) -> Result<(), TransferError> {
    let accounts = db.table::<Account>("accounts").map_err(TxError::from)?;
    db.transaction(|tx| {
        let payer = accounts.get_for_update(tx, &from)?.ok_or(TransferError::NoAccount)?;
        let payee = accounts.get_for_update(tx, &to)?.ok_or(TransferError::NoAccount)?;
        if payer.cents < 10 {
            return Err(TransferError::TooPoor(payer.cents));
        }
        accounts.update(tx, &Account { cents: payer.cents - 10, ..payer })?;
        accounts.update(tx, &Account { cents: payee.cents + 10, ..payee })?;
        Ok(())
    })
}

fn open() -> Result<Database, DatabaseError> {
    Database::open(POD, &plan()?, Options { log: Some(LOG.into()), ..Options::default() })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("second") {
        let db = open()?;
        // The other host fills the accounts in the meantime.
        for _ in 0..100 {
            match transfer(&db, (1, 1), (0, 1)) {
                Ok(()) | Err(TransferError::TooPoor(_) | TransferError::NoAccount) => {}
                Err(error) => return Err(error.into()),
            }
        }
        return Ok(db.leave()?);
    }
    if Path::new(LOG).exists() {
        std::fs::remove_dir_all(LOG)?;
    }
    create(POD, &plan()?, Some(Path::new(LOG)), Default::default())?;
    let mut second = Command::new(std::env::current_exe()?).arg("second").spawn()?;
    let db = open()?;
    let accounts = db.table::<Account>("accounts")?;
    db.transaction(|tx| {
        (0..2).try_for_each(|branch| {
            (0..5).try_for_each(|number| {
                accounts.insert(tx, &Account { branch, number, cents: 1000 })
            })
        })
    } as Result<(), TxError>)?;
    for _ in 0..20 {
        transfer(&db, (0, 2), (1, 1))?;
    }
    second.wait()?;
    let richest = db.read(|tx| accounts.by("by_cents")?.prefix(&(1u32,))?.reversed().first(tx))?;
    let all = db.read(|tx| accounts.range().rows(tx))?;
    println!("{richest:?}, {} cents in all", all.iter().map(|row| row.cents).sum::<i64>());
    println!("{:#?}", db.metrics());
    db.leave()?;
    std::fs::remove_dir_all(LOG)?;
    Ok(std::fs::remove_file(POD)?)
}
