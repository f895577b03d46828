//! A session: one client's statements and transactions.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sqlparser::ast;
use tombolo_database::Engine;

use crate::bind::{Binder, Ddl};
use crate::catalog::Catalog;
use crate::control::{Control, control_of};
use crate::copy::CopyPlan;
use crate::database::{BusyWorker, SqlDatabase};
use crate::datetime;
use crate::error::{Result, SqlError, state};
use crate::exec::{Exec, Outcome};
use crate::explain;
use crate::parse;
use crate::patterns::Patterns;
use crate::plan::{OutputColumn, Plan};
use crate::schema::Changer;
use crate::settings::Facts;
use crate::store::Work;
use crate::types::{DataType, Datum, Row};

/// How long the first statement of a transaction is run again after conflicts. Those behind it
/// cannot be: the client has seen rows.
const FIRST_STATEMENT_TIMEOUT: Duration = Duration::from_millis(50);

/// Where a session stands, as clients are told after each statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Outside of a transaction.
    Idle,
    /// In a transaction.
    InTransaction,
    /// In a transaction that has failed: it can only be rolled back.
    Failed,
}

/// A statement that was parsed.
#[derive(Clone, Debug)]
pub struct Statement(pub(crate) Arc<ast::Statement>);

/// A statement whose names and types are known. It may be run again and again.
#[derive(Clone, Debug)]
pub struct Prepared {
    statement: Arc<ast::Statement>,
    /// Types of its parameters as the client has given them.
    given: Vec<DataType>,
    /// Types of its parameters.
    pub params: Vec<DataType>,
    /// Columns of its result; `None` if it has none.
    pub columns: Option<Vec<OutputColumn>>,
    bound: Bound,
}

/// The kind of a statement.
#[derive(Clone, Debug)]
enum Bound {
    /// Reads or changes rows, by a plan for a version of the catalog.
    Plan(u64, Arc<Plan>),
    Explain(Arc<Plan>),
    Ddl,
    Control(Arc<Control>),
    Copy(Arc<ast::Statement>),
    /// There is no statement.
    Empty,
}

impl Prepared {
    /// A query without a statement.
    pub fn empty() -> Self {
        Self {
            statement: Arc::new(ast::Statement::UnlockTables),
            given: Vec::new(),
            params: Vec::new(),
            columns: None,
            bound: Bound::Empty,
        }
    }

    /// Whether there is no statement.
    pub fn is_empty(&self) -> bool {
        matches!(self.bound, Bound::Empty)
    }
}

/// The result of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// Rows.
    Rows {
        /// Their columns.
        columns: Vec<OutputColumn>,
        /// The rows.
        rows: Vec<Row>,
        /// The command's tag, without the number of rows if it is `SELECT`.
        tag: String,
    },
    /// Something was done.
    Done {
        /// The method, in a sentence.
        tag: String,
        /// A warning or a notice: whether it is a warning, its code, and its text.
        notice: Option<(bool, &'static str, String)>,
    },
    /// The client is to send rows: [`Session::copy_in`] takes them.
    CopyIn(Arc<CopyPlan>),
    /// Lines for the client.
    CopyOut(Arc<CopyPlan>, Vec<Vec<u8>>),
}

/// A transaction of the session.
struct Open<'d> {
    // Dropped before the worker that it runs on.
    work: Option<Work<'d>>,
    worker: BusyWorker<'d>,
    /// Whether the client has seen something of it.
    has_answered: bool,
    catalog: Arc<Catalog>,
    /// Names, places in the list of changes, and catalogs.
    savepoints: Vec<(String, usize, Arc<Catalog>)>,
    began: i64,
    /// Whether it was begun by a query of several statements, and not by BEGIN.
    is_implicit: bool,
    is_read_only: bool,
    has_failed: bool,
}

/// A client's session.
pub struct Session<'d, E: Engine> {
    db: &'d SqlDatabase<E>,
    open: Option<Open<'d>>,
    facts: Facts,
    patterns: Patterns,
    cancel: Arc<AtomicBool>,
    statements: HashMap<String, Arc<Prepared>>,
}

impl<'d, E: Engine> Session<'d, E> {
    /// A session of `user`. When `cancel` becomes true the running statement fails.
    pub fn new(db: &'d SqlDatabase<E>, facts: Facts, cancel: Arc<AtomicBool>) -> Self {
        let (open, patterns, statements) = (None, Patterns::default(), HashMap::new());
        Self { db, open, facts, patterns, cancel, statements }
    }

    /// Parameters of the session.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The same, to be changed.
    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.facts
    }

    /// Where it stands.
    pub fn status(&self) -> Status {
        match &self.open {
            None => Status::Idle,
            Some(open) if open.has_failed => Status::Failed,
            Some(_) => Status::InTransaction,
        }
    }

    /// The statements of a query.
    ///
    /// # Errors
    /// That it is no SQL: the transaction fails then.
    pub fn parse(&mut self, sql: &str) -> Result<Vec<Statement>> {
        let parsed = parse::statements(sql);
        let parsed = parsed.map(|all| all.into_iter().map(|one| Statement(Arc::new(one))));
        parsed.map(Iterator::collect).inspect_err(|_| self.fail())
    }

    /// Runs all statements of a query, as one transaction unless they say otherwise. Calls `each`
    /// with the response of each; it may run [`copy_in`](Self::copy_in).
    ///
    /// # Errors
    /// Of the statement that failed; those behind it do not run.
    pub fn query(
        &mut self,
        sql: &str,
        each: &mut dyn FnMut(&mut Self, Response) -> Result<()>,
    ) -> Result<()> {
        let statements = self.parse(sql)?;
        let several = statements.len() > 1;
        for statement in statements {
            self.cancel.store(false, Ordering::Relaxed);
            let done =
                self.query_one(&statement, several).and_then(|response| each(self, response));
            if let Err(error) = done {
                self.fail();
                self.end_implicit(false)?;
                return Err(error);
            }
        }
        self.end_implicit(true)
    }

    fn query_one(&mut self, statement: &Statement, several: bool) -> Result<Response> {
        if several && self.open.is_none() && control_of(&statement.0)?.is_none() {
            self.begin(true)?;
        }
        let prepared = self.prepare(statement, &[])?;
        if !prepared.params.is_empty() {
            let message = "there is no parameter $1";
            return Err(SqlError::new(state::UNDEFINED_PARAMETER, message));
        }
        self.execute(&prepared, &[])
    }

    /// Begins a transaction that a statement, and those behind it up to
    /// [`end_implicit`](Self::end_implicit), are one of. A statement about transactions begins
    /// none.
    ///
    /// # Errors
    /// That no worker is free.
    pub fn begin_implicit(&mut self, prepared: &Prepared) -> Result<()> {
        match prepared.bound {
            Bound::Control(_) | Bound::Empty => Ok(()),
            _ if self.open.is_some() => Ok(()),
            _ => self.begin(true),
        }
    }

    /// Ends a transaction that no BEGIN has begun: commits it, or gives it up.
    ///
    /// # Errors
    /// That it cannot be committed.
    pub fn end_implicit(&mut self, commit: bool) -> Result<()> {
        match &self.open {
            Some(open) if open.is_implicit && commit && !open.has_failed => {
                self.commit().map(|_| ())
            }
            Some(open) if open.is_implicit => {
                self.open = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Notes that a statement has failed: so has the transaction.
    pub fn fail(&mut self) {
        if let Some(open) = &mut self.open {
            open.has_failed = true;
            if open.savepoints.is_empty() {
                // Its locks are in the way of others.
                open.work = None;
            }
        }
    }

    /// Binds a statement whose parameters have these types, as far as they are known.
    ///
    /// # Errors
    /// That it names something that there is not, or types do not fit: the transaction fails then.
    pub fn prepare(&mut self, statement: &Statement, params: &[DataType]) -> Result<Prepared> {
        self.prepare_inner(statement, params).inspect_err(|_| self.fail())
    }

    fn prepare_inner(&mut self, statement: &Statement, given: &[DataType]) -> Result<Prepared> {
        let prepared = |bound, params, columns| Prepared {
            statement: Arc::clone(&statement.0),
            given: given.to_vec(),
            params,
            columns,
            bound,
        };
        if let Some(control) = control_of(&statement.0)? {
            let columns = control.columns();
            return Ok(prepared(Bound::Control(Arc::new(control)), Vec::new(), columns));
        }
        if self.status() == Status::Failed {
            return Err(in_failed_transaction());
        }
        let (statement, given) = (&statement.0, given);
        match &**statement {
            ast::Statement::Copy { .. } => {
                return Ok(prepared(Bound::Copy(Arc::clone(statement)), Vec::new(), None));
            }
            ast::Statement::CreateTable(_)
            | ast::Statement::CreateIndex(_)
            | ast::Statement::Drop { .. }
            | ast::Statement::Truncate(_)
            | ast::Statement::AlterTable(_) => {
                return Ok(prepared(Bound::Ddl, Vec::new(), None));
            }
            _ => {}
        }
        let explained = match &**statement {
            ast::Statement::Explain {
                statement,
                analyze,
                verbose: _,
                format: None,
                options: None,
                ..
            } => {
                if *analyze {
                    return Err(SqlError::unsupported("EXPLAIN ANALYZE"));
                }
                Some(&**statement)
            }
            ast::Statement::Explain { .. } => {
                return Err(SqlError::unsupported("EXPLAIN with options"));
            }
            _ => None,
        };
        let target = explained.unwrap_or(statement);
        let (version, plan, params) = self.with_catalog(|catalog| {
            let mut binder = Binder::new(catalog, given);
            let plan = binder.statement(target)?;
            Ok((catalog.version, Arc::new(plan), binder.into_params()))
        })?;
        if explained.is_some() {
            let columns = Some(explain::columns());
            return Ok(prepared(Bound::Explain(plan), params, columns));
        }
        let columns = plan.columns().map(<[OutputColumn]>::to_vec);
        Ok(prepared(Bound::Plan(version, plan), params, columns))
    }

    /// Calls `inner` with the catalog as the transaction sees it; outside of one, as it is now.
    fn with_catalog<R>(&mut self, inner: impl FnOnce(&Catalog) -> Result<R>) -> Result<R> {
        if let Some(open) = &self.open {
            return inner(&open.catalog);
        }
        let catalog = self.retry(|session, work| session.db.catalog(work))?;
        inner(&catalog)
    }

    /// Runs a statement.
    ///
    /// # Errors
    /// Why it failed: so does the transaction.
    pub fn execute(&mut self, prepared: &Prepared, params: &[Datum]) -> Result<Response> {
        self.execute_inner(prepared, params).inspect_err(|error| {
            self.fail();
            if error.is_conflict()
                && let Some(open) = &mut self.open
            {
                // Nothing brings it back.
                open.work = None;
            }
        })
    }

    fn execute_inner(&mut self, prepared: &Prepared, params: &[Datum]) -> Result<Response> {
        if let Bound::Control(control) = &prepared.bound {
            return self.control(control);
        }
        if self.status() == Status::Failed {
            return Err(in_failed_transaction());
        }
        match &prepared.bound {
            Bound::Plan(version, plan) => {
                let is_change = !plan.only_reads();
                if is_change {
                    self.check_writes()?;
                }
                let statement = Arc::clone(&prepared.statement);
                let (plan, outcome) =
                    self.run_plan((*version, plan), &statement, &prepared.given, params)?;
                let same = plan.columns() == prepared.columns.as_deref();
                if !same {
                    let message = "cached plan must not change result type";
                    return Err(SqlError::new(state::FEATURE_NOT_SUPPORTED, message));
                }
                Ok(response_of(&plan, outcome))
            }
            Bound::Explain(plan) => Ok(explain::explain(plan)),
            Bound::Ddl => {
                self.check_writes()?;
                self.ddl(&prepared.statement)
            }
            Bound::Copy(statement) => {
                let plan = self.with_catalog(|catalog| CopyPlan::new(catalog, statement))?;
                if plan.is_in() {
                    self.check_writes()?;
                    return Ok(Response::CopyIn(Arc::new(plan)));
                }
                let plan = Arc::new(plan);
                let query = Arc::clone(plan.query());
                let statement =
                    Statement(Arc::new(ast::Statement::Query(Box::new((*query).clone()))));
                let inner = self.prepare_inner(&statement, &[])?;
                match self.execute_inner(&inner, &[])? {
                    Response::Rows { columns, rows, .. } => {
                        let lines = plan.lines(&columns, &rows)?;
                        Ok(Response::CopyOut(plan, lines))
                    }
                    _ => Err(SqlError::unsupported("COPY of such a query")),
                }
            }
            Bound::Control(_) | Bound::Empty => {
                Ok(Response::Done { tag: String::new(), notice: None })
            }
        }
    }

    fn check_writes(&self) -> Result<()> {
        match &self.open {
            Some(open) if open.is_read_only => {
                let message = "cannot execute a change in a read-only transaction";
                Err(SqlError::new(state::READ_ONLY_TRANSACTION, message))
            }
            _ => Ok(()),
        }
    }

    /// Inserts rows that a client has sent; how many.
    ///
    /// # Errors
    /// That a row cannot be read, or is refused.
    pub fn copy_in(&mut self, plan: &CopyPlan, rows: &[Row]) -> Result<u64> {
        let done = self.in_transaction(|session, work, catalog| {
            let table = catalog.table(plan.table())?.clone();
            let mut exec = session.exec(work, catalog, &[], datetime::now());
            plan.insert(&mut exec, &table, rows)
        });
        done.inspect_err(|_| self.fail())
    }

    fn exec<'x>(
        &'x mut self,
        work: &'x mut Work<'d>,
        catalog: &'x Catalog,
        params: &'x [Datum],
        now: i64,
    ) -> Exec<'x, 'd> {
        Exec {
            work,
            catalog,
            params,
            outer: Vec::new(),
            now,
            session: &self.facts,
            patterns: &mut self.patterns,
            cancel: &self.cancel,
            hidden: &self.db.hidden,
            cache: HashMap::new(),
        }
    }

    fn run_plan(
        &mut self,
        (version, plan): (u64, &Arc<Plan>),
        statement: &ast::Statement,
        given: &[DataType],
        params: &[Datum],
    ) -> Result<(Arc<Plan>, Outcome)> {
        let began = self.open.as_ref().map_or_else(datetime::now, |open| open.began);
        self.in_transaction(|session, work, catalog| {
            // Tables may have changed since the statement was bound.
            let plan = match catalog.version == version {
                true => Arc::clone(plan),
                false => Arc::new(Binder::new(catalog, given).statement(statement)?),
            };
            let outcome = session.exec(work, catalog, params, began).run(&plan)?;
            // Otherwise the commit tells.
            if session.open.is_some() && plan.only_reads() {
                work.validated(Ok(()))?;
            }
            Ok((plan, outcome))
        })
    }

    /// Runs `inner` in the session's transaction, or in one of its own, which is run again after
    /// conflicts.
    fn in_transaction<R>(
        &mut self,
        mut inner: impl FnMut(&mut Self, &mut Work<'d>, &Catalog) -> Result<R>,
    ) -> Result<R> {
        let Some(open) = &mut self.open else {
            return self.retry(|session, work| {
                let catalog = session.db.catalog(work)?;
                inner(session, work, &catalog)
            });
        };
        let Some(mut work) = open.work.take() else { return Err(in_failed_transaction()) };
        let (since, mut retry) = (Instant::now(), 0);
        loop {
            let catalog = Arc::clone(&self.open.as_ref().expect("it is open").catalog);
            let done = inner(self, &mut work, &catalog);
            let done = done.or_else(|error| work.validated(Err(error)));
            let open = self.open.as_mut().expect("it is open");
            match done {
                // The client has seen nothing of the transaction: it can begin again.
                Err(error)
                    if error.is_conflict()
                        && !open.has_answered
                        && since.elapsed() < FIRST_STATEMENT_TIMEOUT =>
                {
                    drop(work);
                    retry += 1;
                    self.db.back_off(retry, self.facts.random());
                    let open = self.open.as_mut().expect("it is open");
                    work = self.db.begin(&open.worker);
                    match self.db.catalog(&mut work) {
                        Ok(catalog) => open.catalog = catalog,
                        Err(error) if error.is_conflict() => {}
                        Err(error) => return Err(error),
                    }
                }
                done => {
                    open.has_answered = true;
                    open.work = Some(work);
                    return done;
                }
            }
        }
    }

    /// Runs `inner` in a transaction of its own, and again after conflicts, until it is durable.
    fn retry<R>(
        &mut self,
        mut inner: impl FnMut(&mut Self, &mut Work<'d>) -> Result<R>,
    ) -> Result<R> {
        let worker = self.db.worker()?;
        let retries = self.db.settings().retries;
        let mut retry = 0;
        loop {
            let mut work = self.db.begin(&worker);
            let done = inner(self, &mut work).or_else(|error| work.validated(Err(error)));
            let done = done.and_then(|result| {
                let commit = work.into_inner().commit_boxed()?;
                Ok((result, commit))
            });
            match done {
                Ok((result, commit)) => {
                    drop(worker);
                    self.db.acknowledge(commit)?;
                    return Ok(result);
                }
                Err(error) if error.is_conflict() && retry < retries => {
                    if self.cancel.load(Ordering::Relaxed) {
                        crate::store::check_cancel(&self.cancel)?;
                    }
                    retry += 1;
                    self.db.back_off(retry, self.facts.random());
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn ddl(&mut self, statement: &ast::Statement) -> Result<Response> {
        let db = self.db;
        let apply = |session: &mut Self, work: &mut Work<'d>, catalog: &Catalog| {
            let changes: Vec<Ddl> = Binder::new(catalog, &[])
                .ddl(statement)?
                .ok_or_else(|| SqlError::unsupported(crate::bind::first_words(statement)))?;
            let mut catalog = catalog.clone();
            let mut notice = None;
            for change in &changes {
                let mut changer = Changer {
                    work,
                    catalog: &mut catalog,
                    places: db.places,
                    hidden: &db.hidden,
                    cancel: &session.cancel,
                };
                notice = changer.change(change)?.or(notice);
            }
            Ok((catalog, notice))
        };
        let (catalog, notice) = self.in_transaction(apply)?;
        if let Some(open) = &mut self.open {
            open.catalog = Arc::new(catalog);
        }
        let tag = tag_of_ddl(statement);
        Ok(Response::Done { tag, notice: notice.map(|notice| (false, "00000", notice)) })
    }

    fn begin(&mut self, is_implicit: bool) -> Result<()> {
        let worker = self.db.worker()?;
        let retries = self.db.settings().retries;
        let (mut retry, db) = (0, self.db);
        let (work, catalog) = loop {
            let mut work = db.begin(&worker);
            match db.catalog(&mut work) {
                Ok(catalog) => break (work, catalog),
                // Nothing was done yet.
                Err(error) if error.is_conflict() && retry < retries => {
                    drop(work);
                    retry += 1;
                    db.back_off(retry, self.facts.random());
                }
                Err(error) => return Err(error),
            }
        };
        self.open = Some(Open {
            work: Some(work),
            worker,
            has_answered: false,
            catalog,
            savepoints: Vec::new(),
            began: datetime::now(),
            is_implicit,
            is_read_only: false,
            has_failed: false,
        });
        Ok(())
    }

    /// Commits the session's transaction; whether it was rolled back instead, having failed.
    fn commit(&mut self) -> Result<bool> {
        let Some(mut open) = self.open.take() else { return Ok(false) };
        let work = open.work.take();
        let (false, Some(work)) = (open.has_failed, work) else { return Ok(true) };
        let commit = work.into_inner().commit_boxed()?;
        drop(open);
        self.db.acknowledge(commit)?;
        Ok(false)
    }

    /// Statements that are about the session itself.
    fn control(&mut self, control: &Control) -> Result<Response> {
        let is_end =
            matches!(control, Control::Commit | Control::Rollback | Control::RollbackTo(_));
        if self.status() == Status::Failed && !is_end {
            return Err(in_failed_transaction());
        }
        let done = |tag: &str| Ok(Response::Done { tag: tag.to_owned(), notice: None });
        let warned = |tag: &str, code, text: &str| {
            let notice = Some((true, code, text.to_owned()));
            Ok(Response::Done { tag: tag.to_owned(), notice })
        };
        match control {
            Control::Begin { read_only } => {
                if let Some(open) = &mut self.open {
                    if open.is_implicit {
                        open.is_implicit = false;
                        open.is_read_only = *read_only;
                        return done("BEGIN");
                    }
                    let text = "there is already a transaction in progress";
                    return warned("BEGIN", state::ACTIVE_TRANSACTION, text);
                }
                self.begin(false)?;
                if let Some(open) = &mut self.open {
                    open.is_read_only = *read_only;
                }
                done("BEGIN")
            }
            Control::Commit => match self.open {
                None => {
                    let text = "there is no transaction in progress";
                    warned("COMMIT", state::NO_ACTIVE_TRANSACTION, text)
                }
                Some(_) => match self.commit()? {
                    true => done("ROLLBACK"),
                    false => done("COMMIT"),
                },
            },
            Control::Rollback => match self.open.take() {
                None => {
                    let text = "there is no transaction in progress";
                    warned("ROLLBACK", state::NO_ACTIVE_TRANSACTION, text)
                }
                Some(open) => {
                    if let Some(work) = open.work {
                        work.into_inner().abort_boxed();
                    }
                    done("ROLLBACK")
                }
            },
            Control::Savepoint(name) => {
                let open = self.open_block("SAVEPOINT")?;
                let Some(work) = &mut open.work else { return Err(in_failed_transaction()) };
                work.notes = true;
                open.has_answered = true;
                open.savepoints.push((name.clone(), work.mark(), Arc::clone(&open.catalog)));
                done("SAVEPOINT")
            }
            Control::Release(name) => {
                let open = self.open_block("RELEASE SAVEPOINT")?;
                let at = savepoint(&open.savepoints, name)?;
                open.savepoints.truncate(at);
                done("RELEASE")
            }
            Control::RollbackTo(name) => {
                let open = self.open_block("ROLLBACK TO SAVEPOINT")?;
                let at = savepoint(&open.savepoints, name)?;
                let Some(work) = &mut open.work else {
                    let message = "the whole transaction was in conflict with another one";
                    return Err(SqlError::new(state::SERIALIZATION_FAILURE, message)
                        .with_hint("Roll it back, and run it again."));
                };
                let (_, mark, catalog) = &open.savepoints[at];
                work.undo_to(*mark)?;
                open.catalog = Arc::clone(catalog);
                open.savepoints.truncate(at + 1);
                open.has_failed = false;
                done("ROLLBACK")
            }
            Control::SetTransaction { read_only } => {
                if let (Some(read_only), Some(open)) = (read_only, &mut self.open) {
                    open.is_read_only = *read_only;
                }
                done("SET")
            }
            Control::Set { name, value } => {
                self.facts.set(name, value.as_deref())?;
                done(if value.is_some() { "SET" } else { "RESET" })
            }
            Control::Show(name) => {
                let value = self.facts.setting(name).ok_or_else(|| {
                    let message = format!("unrecognized configuration parameter \"{name}\"");
                    SqlError::new(state::UNDEFINED_OBJECT, message)
                })?;
                let columns = control.columns().unwrap_or_default();
                let rows = vec![vec![Datum::Text(value)]];
                Ok(Response::Rows { columns, rows, tag: "SHOW".to_owned() })
            }
            Control::ShowAll => {
                let columns = control.columns().unwrap_or_default();
                let row = |(name, value)| vec![Datum::Text(name), Datum::Text(value)];
                let rows = self.facts.all().into_iter().map(row).collect();
                Ok(Response::Rows { columns, rows, tag: "SHOW".to_owned() })
            }
            Control::Deallocate(name) => {
                match name {
                    Some(name) => {
                        self.statements.remove(name).map(drop).ok_or_else(|| no_statement(name))?;
                    }
                    None => self.statements.clear(),
                }
                done(if name.is_some() { "DEALLOCATE" } else { "DEALLOCATE ALL" })
            }
            Control::Maintenance(tag) => {
                if *tag == "VACUUM" && self.open.is_some() {
                    let message = "VACUUM cannot run inside a transaction block";
                    return Err(SqlError::new(state::ACTIVE_TRANSACTION, message));
                }
                done(tag)
            }
            Control::DiscardAll => {
                if self.open.is_some() {
                    let message = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SqlError::new(state::ACTIVE_TRANSACTION, message));
                }
                self.statements.clear();
                self.facts.reset();
                done("DISCARD ALL")
            }
        }
    }

    fn open_block(&mut self, what: &str) -> Result<&mut Open<'d>> {
        self.open.as_mut().filter(|open| !open.is_implicit).ok_or_else(|| {
            let message = format!("{what} can only be used in transaction blocks");
            SqlError::new(state::NO_ACTIVE_TRANSACTION, message)
        })
    }

    /// Keeps a statement under a name; without one until the next such.
    ///
    /// # Errors
    /// That the name is taken.
    pub fn keep(&mut self, name: &str, prepared: Prepared) -> Result<()> {
        if !name.is_empty() && self.statements.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new(state::DUPLICATE_STATEMENT, message));
        }
        self.statements.insert(name.to_owned(), Arc::new(prepared));
        Ok(())
    }

    /// The statement that is kept under a name.
    ///
    /// # Errors
    /// That there is none.
    pub fn kept(&self, name: &str) -> Result<Arc<Prepared>> {
        self.statements.get(name).cloned().ok_or_else(|| no_statement(name))
    }

    /// Forgets the statement with a name.
    pub fn forget(&mut self, name: &str) {
        self.statements.remove(name);
    }
}

fn no_statement(name: &str) -> SqlError {
    let message = format!("prepared statement \"{name}\" does not exist");
    SqlError::new(state::INVALID_STATEMENT_NAME, message)
}

fn in_failed_transaction() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(state::IN_FAILED_TRANSACTION, message)
}

fn savepoint(savepoints: &[(String, usize, Arc<Catalog>)], name: &str) -> Result<usize> {
    savepoints.iter().rposition(|(other, ..)| other == name).ok_or_else(|| {
        let message = format!("savepoint \"{name}\" does not exist");
        SqlError::new(state::NO_SUCH_SAVEPOINT, message)
    })
}

fn response_of(plan: &Plan, outcome: Outcome) -> Response {
    let Outcome { rows, changed } = outcome;
    let tag = match plan {
        Plan::Select(_) => format!("SELECT {}", rows.len()),
        Plan::Insert(_) => format!("INSERT 0 {changed}"),
        Plan::Modify(modify) if modify.set.is_some() => format!("UPDATE {changed}"),
        Plan::Modify(_) => format!("DELETE {changed}"),
    };
    match plan.columns() {
        Some(columns) => Response::Rows { columns: columns.to_vec(), rows, tag },
        None => Response::Done { tag, notice: None },
    }
}

fn tag_of_ddl(statement: &ast::Statement) -> String {
    match statement {
        ast::Statement::CreateTable(_) => "CREATE TABLE".to_owned(),
        ast::Statement::CreateIndex(_) => "CREATE INDEX".to_owned(),
        ast::Statement::Drop { object_type, .. } => format!("DROP {object_type}"),
        ast::Statement::Truncate(_) => "TRUNCATE TABLE".to_owned(),
        _ => "ALTER TABLE".to_owned(),
    }
}
