//! Databases whose tables SQL makes, and a host that serves SQL.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tombolo_database::hosts::{Attendant, Participation, PodEngine};
use tombolo_database::log::{GroupSettings, Recovered};
use tombolo_database::{Engine, Home, TableId, TableSpec, Transaction, TxError};
use tombolo_oltp::{Outcome, Seat, Workload};
use tombolo_postgres::{Config, Password, Server};
use tombolo_sql::{Settings, SqlDatabase};

use super::conditions::{Checked, Found};
use super::engines::with_engine;
use super::host::load_own;
use super::setting::{Chosen, Setting};
use super::store::Store;
use crate::cli::{EngineKind, SqlArgs};
use crate::output::say;
use crate::stop::Stop;

/// The engine's tables of a database for SQL: no workload runs on it here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SqlTables {
    pub(crate) partitions: u32,
}

impl Workload for SqlTables {
    type Worker = ();
    type Input = ();

    fn name(&self) -> &'static str {
        "tables of SQL"
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["none"]
    }

    fn tables(&self) -> Vec<TableSpec> {
        tombolo_sql::tables()
    }

    fn partitions(&self) -> u32 {
        self.partitions
    }

    fn load_replicated<E: Engine>(&self, _: &E) -> Result<(), TxError> {
        Ok(())
    }

    fn load_partition<E: Engine>(&self, _: &E, _: u32) -> Result<(), TxError> {
        Ok(())
    }

    fn worker(&self, _: &Seat) {}

    fn next(&self, (): &mut ()) {}

    fn kind(&self, (): &()) -> usize {
        0
    }

    fn run<T: Transaction>(&self, (): &mut (), (): &(), _: &mut T) -> Result<Outcome, TxError> {
        Ok(Outcome::RollBack)
    }
}

impl Checked for SqlTables {
    fn table_names(&self) -> Vec<String> {
        tombolo_sql::table_names()
    }

    fn shared_tables(&self) -> &'static [TableId] {
        &[]
    }

    fn check<E: Engine>(&self, _: &E, _: Vec<u32>) -> Result<Found, TxError> {
        Ok(Found::default())
    }
}

/// The user and the keys of the password that clients have to know.
fn login(args: &SqlArgs) -> Result<Option<(String, Password)>> {
    let (Some(user), Some(file)) = (&args.user, &args.password_file) else { return Ok(None) };
    let name = file.display();
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
    let password = text.trim_end_matches(['\r', '\n']);
    ensure!(!password.is_empty(), "{name} is empty; write a password into it");
    Ok(Some((user.clone(), Password::new(password)?)))
}

/// Serves SQL as one host of a database, until it is told to stop.
pub(crate) fn serve(args: &SqlArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let log = args.log.display();
    ensure!(args.log.is_dir(), "there is no directory {log}; `tombolo db create --sql` makes one");
    let store = Store::in_use(&args.log)?;
    let engine = EngineKind::of_pod(&args.pod)?;
    // Then the rows are in the pod.
    let is_running = with_engine!(engine, E => E::is_running(&args.pod))?;
    let (setting, recovered) = match is_running {
        true => (store.setting()?, None),
        false => store.read().map(|(setting, recovered)| (setting, Some(recovered)))?,
    };
    ensure!(
        matches!(setting.rows, Chosen::Sql { .. }),
        "the database in {log} was not made for SQL; `tombolo db create --sql` makes one that is"
    );
    ensure!(
        engine != EngineKind::Sundial,
        "Sundial+ lets rows come into ranges that were read, and SQL is serializable here; create \
         the pod with another --engine"
    );
    with_engine!(engine, E => serve_on::<E>(args, &stop, &store, (&setting, recovered)))
}

fn serve_on<E: PodEngine>(
    args: &SqlArgs,
    stop: &Stop,
    store: &Store,
    (setting, recovered): (&Setting, Option<Recovered>),
) -> Result<()> {
    let login = login(args)?;
    let trusts = login.is_none();
    let first_epoch = recovered.as_ref().map_or(1, |recovered| recovered.next);
    let engine = join::<E>(args, setting, first_epoch)?;
    let attendant = Attendant::start(Arc::clone(&engine));
    if engine.is_late() {
        attendant.begin_log(Arc::clone(store.directory()))?;
    } else {
        begin_together(&*engine, &attendant, store, recovered)?;
    }
    let settings = Settings { workers: setting.workers.into(), ..Settings::default() };
    let db = SqlDatabase::new(Arc::clone(&engine), settings);
    let config = Config { login, max_connections: args.max_connections.into() };
    let server = Server::bind(args.listen, db, config)?;
    let address = server.address()?;
    let open =
        if trusts { "; every user of this machine can connect without a password" } else { "" };
    say(format!("serving SQL on {address}, as host {}{open}\n", engine.home().0.0))?;
    server.run(|| stop.within(Duration::ZERO) || attendant.has_failed())?;
    drop(server);
    if let Err(error) = attendant.end() {
        bail!("{error}");
    }
    Ok(())
}

/// Loads what was recovered, and begins the log, together with all other hosts.
fn begin_together<E: PodEngine>(
    engine: &E,
    attendant: &Attendant<E>,
    store: &Store,
    recovered: Option<Recovered>,
) -> Result<()> {
    let recovered = recovered.context(
        "all hosts of the database have gone just now; `tombolo db recover` makes a new pod",
    )?;
    load_own(engine, &recovered)?;
    if engine.home().0 == Home(0) {
        recovered.close(store.directory())?;
    }
    drop(recovered);
    // All rows are there before the first transaction, and all hosts have read the log.
    engine.meet_all(2)?;
    attendant.begin_log(Arc::clone(store.directory()))?;
    Ok(engine.meet_all(3)?)
}

fn join<E: PodEngine>(args: &SqlArgs, setting: &Setting, first_epoch: u64) -> Result<Arc<E>> {
    let how = Participation {
        tables: setting.shape().tables,
        commit: GroupSettings::default(),
        is_logged: true,
        first_epoch,
    };
    Ok(Arc::new(E::take_part(&args.pod, how)?))
}
