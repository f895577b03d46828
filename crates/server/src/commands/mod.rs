//! The commands: a table, and what is common to all of them.

mod admin;
mod atomic;
mod bits;
mod client;
mod cluster;
mod dump;
mod expiry;
mod functions;
mod info;
mod introspection;
mod keyspace;
mod numbers;
mod pubsub;
mod refused;
mod scripting;
mod session;
mod strings;
mod table;
mod tracking;
mod transactions;

use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use tombolo_kv::{Change, Entry};

use self::table::COMMANDS;
pub(crate) use self::tracking::{Tracked, tell};
use crate::clients::Client;
use crate::database::{DATABASES, Database, Note, Notes};
use crate::reply::Reply;
use crate::session::{Replies, Session};
use crate::shared::Shared;
use crate::store::{Store, StoreError};

/// The version of Redis whose behaviour clients may expect.
const REDIS_VERSION: &str = "7.4.0";

/// The means of a command.
pub(crate) struct Context<'a> {
    shared: &'a Shared,
    session: &'a mut Session,
    /// Bytes that the values in the reply may have.
    room: u64,
    /// The store as it is for commands that are executed in one step.
    view: Option<&'a dyn Store>,
    /// The effects on keys, if clients want to know them.
    notes: Option<&'a Notes>,
    /// The news that clients get when that step is done.
    step: Step,
}

/// The news of several commands that are executed in one step.
#[derive(Default)]
struct Step {
    messages: Vec<Message>,
    /// The notes of each command that is through.
    notes: Vec<(&'static str, Vec<Note>)>,
    /// All keys of a database, or of all, were removed.
    flushed: bool,
}

/// A message that a client publishes.
struct Message {
    kind: crate::subscriptions::Kind,
    channel: Bytes,
    payload: Bytes,
}

impl Context<'_> {
    /// The database that the client has chosen.
    fn store(&self) -> Database<'_> {
        self.database(self.session.database)
    }

    fn database(&self, number: u8) -> Database<'_> {
        let store = self.view.unwrap_or(&*self.shared.store);
        Database { store, number, notes: self.notes }
    }

    /// The database with this number, of which keys may be there from here on.
    fn known_database(&self, number: i64) -> Result<u8, Failure> {
        let known = u8::try_from(number).ok().filter(|&number| number < DATABASES);
        let known = known.ok_or_else(|| Failure::new("ERR DB index is out of range"))?;
        if known > 0 && !self.shared.store.has_databases()? {
            self.shared.store.use_databases()?;
        }
        Ok(known)
    }

    /// Sees that there is room for a reply with so many bytes of values.
    fn reserve(&self, bytes: u64) -> Result<(), Failure> {
        if bytes <= self.room { Ok(()) } else { Err(Failure::Room(bytes)) }
    }

    /// Sees that there is room for the value of `key`.
    fn reserve_value(&self, key: &[u8]) -> Result<(), Failure> {
        self.reserve(self.store().stat(key)?.map_or(0, |stat| stat.value_bytes))
    }

    fn exists(&self, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.store().deadline(key)?.is_some())
    }
}

/// Why a command has no reply but an error, or none yet.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The error's code and text, as the client gets it.
    Error(String),
    /// The reply takes so many bytes, which are more than there is room for: nothing was done.
    Room(u64),
}

type Outcome = Result<Reply, Failure>;

impl Failure {
    fn new(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    fn syntax() -> Self {
        Self::new("ERR syntax error")
    }

    fn not_an_integer() -> Self {
        Self::new("ERR value is not an integer or out of range")
    }

    fn arity(command: &str) -> Self {
        Self::Error(format!("ERR wrong number of arguments for '{command}' command"))
    }

    fn subcommand(command: &str, subcommand: &[u8]) -> Self {
        let name = excerpt(subcommand);
        Self::Error(format!("ERR unknown subcommand '{name}'. Try {command} HELP."))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full(text) => Self::Error(format!("OOM {text}")),
            StoreError::Refused(text) => Self::Error(format!("ERR {text}")),
            StoreError::Unavailable(text) => Self::Error(format!("TRYAGAIN {text}")),
        }
    }
}

/// The outcome of a request.
pub(crate) enum Executed {
    /// Its reply.
    Replied(Reply),
    /// Nothing yet: it is to be executed again with room for a reply of so many bytes.
    NeedsRoom(u64),
}

fn finish(outcome: Outcome) -> Executed {
    match outcome {
        Ok(reply) => Executed::Replied(reply),
        Err(Failure::Error(text)) => Executed::Replied(Reply::Error(text)),
        Err(Failure::Room(bytes)) => Executed::NeedsRoom(bytes),
    }
}

/// A command, as `COMMAND` describes it.
pub(crate) struct Command {
    name: &'static str,
    /// The number of arguments, the name included; negative: at least as many.
    arity: i32,
    flags: &'static [&'static str],
    /// The first key's place, the last's, and the step between keys.
    keys: (i64, i64, i64),
    summary: &'static str,
    group: &'static str,
    run: fn(&mut Context<'_>, &[Bytes]) -> Outcome,
}

impl Command {
    fn accepts(&self, arguments: usize) -> bool {
        let wanted = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { arguments >= wanted } else { arguments == wanted }
    }

    /// The keys in a request.
    fn keys_of<'a>(&self, request: &'a [Bytes]) -> impl Iterator<Item = &'a Bytes> {
        let (first, last, step) = self.keys;
        let last = if last < 0 { request.len() as i64 + last } else { last };
        let places = (first..=last).step_by(step.max(1) as usize).filter(|&at| at > 0);
        places.filter_map(move |at| request.get(at as usize))
    }

    /// The classes of commands that it is of, as `ACL CAT` has them.
    fn categories(&self) -> impl Iterator<Item = &'static str> {
        let by_flag = [("readonly", "read"), ("write", "write"), ("admin", "admin")];
        let by_flag = by_flag.into_iter().filter(|(flag, _)| self.flags.contains(flag));
        let group = if self.group == "generic" { "keyspace" } else { self.group };
        let speed = if self.flags.contains(&"fast") { "fast" } else { "slow" };
        by_flag.map(|(_, category)| category).chain([group, speed])
    }

    fn is_of(&self, category: &[u8]) -> bool {
        self.categories().any(|own| is(category, own))
    }

    fn needs_authentication(&self) -> bool {
        !self.flags.contains(&"no_auth")
    }
}

/// Values of at least this length are copied where they don't keep other connections waiting.
const LARGE_BYTES: usize = 256 << 10;

/// Requests with more arguments than this, or walks over more keys, take long too.
const MANY: usize = 1000;

/// Executes a request, which has at least one argument: the command's name. Values in its reply may
/// have `room` bytes.
pub(crate) fn execute(
    request: &[Bytes],
    session: &mut Session,
    shared: &Shared,
    room: u64,
) -> Executed {
    let place = match prepare(request, session, shared) {
        Err(reply) => {
            transactions::spoil(session);
            return Executed::Replied(reply);
        }
        Ok(place) => place,
    };
    if let Some(reply) = transactions::queue(COMMANDS[place].name, request, session) {
        return Executed::Replied(reply);
    }
    let start = Instant::now();
    tracking::before(&COMMANDS[place], request, session, shared);
    let client = session.client.clone();
    show(&COMMANDS[place], request, session.database, &client, shared);
    let notes = notes_of(&COMMANDS[place], shared);
    let (notes, step) = (notes.as_ref(), Step::default());
    let mut context = Context { shared, session, room, view: None, notes, step };
    let mut run = || finish((COMMANDS[place].run)(&mut context, request));
    let large = request.len() > MANY || request.iter().any(|arg| arg.len() >= LARGE_BYTES);
    let executed = if large || room > LARGE_BYTES as u64 { patiently(run) } else { run() };
    if let Executed::Replied(reply) = &executed {
        tracking::after(&COMMANDS[place], session);
        let noted = notes.map_or_else(Vec::new, |notes| notes.split_off(0));
        tracking::tell(COMMANDS[place].name, &noted, client.id, shared);
        let time = start.elapsed();
        let failed = usize::from(matches!(reply, Reply::Error(_)));
        shared.tallies.of(place).add(1, failed, time);
        // Secrets are kept nowhere.
        let secret = COMMANDS[place].flags.contains(&"no_auth");
        if shared.tallies.is_slow(time) && !secret {
            shared.tallies.keep_slow(request, time, &client);
        }
    }
    executed
}

/// Where a command is to note what it does, if clients of some host want to know.
fn notes_of(command: &Command, shared: &Shared) -> Option<Notes> {
    let may_write = !command.flags.contains(&"readonly");
    (may_write && (shared.wants_changes() || shared.wants_events())).then(Notes::default)
}

/// Shows a request to clients that monitor. Secrets are shown to nobody.
fn show(command: &Command, request: &[Bytes], database: u8, from: &Client, shared: &Shared) {
    if shared.monitors.are_there() && command.needs_authentication() && command.name != "monitor" {
        shared.monitors.show(request, database, &from.peer.to_string());
    }
}

/// How many commands there are.
pub(crate) fn count() -> usize {
    COMMANDS.len()
}

/// Whether a request would change something.
pub(crate) fn writes(request: &[Bytes]) -> bool {
    // A transaction may.
    is(&request[0], "exec")
        || table::find(&request[0]).is_some_and(|command| command.flags.contains(&"write"))
}

/// The answer to `HELP` for a command.
fn help(lines: &'static [&'static str]) -> Reply {
    Reply::Array(lines.iter().map(|line| Reply::Simple(line)).collect())
}

/// The place of a request's command in the table, if that may be executed.
fn prepare(request: &[Bytes], session: &mut Session, shared: &Shared) -> Result<usize, Reply> {
    let Some(place) = table::place(&request[0]) else {
        if is_http(&request[0]) {
            session.closing = true;
            return Err(Reply::Error("ERR this is not an HTTP server".to_owned()));
        }
        return Err(if session.authenticated { unknown(request) } else { no_authentication() });
    };
    let command = &COMMANDS[place];
    if !session.authenticated && command.needs_authentication() {
        return Err(no_authentication());
    }
    if !command.accepts(request.len()) {
        shared.tallies.of(place).rejected.fetch_add(1, Ordering::Relaxed);
        return Err(wrong_arity(command.name));
    }
    if session.awaits_messages()
        && let Some(refusal) = pubsub::refusal(&request[0])
    {
        return Err(refusal);
    }
    Ok(place)
}

/// The name of the command at this place in the table.
pub(crate) fn name(place: usize) -> &'static str {
    COMMANDS[place].name
}

/// Requests of which several can be done together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// For a value, and nothing else.
    Get,
    /// To give a key a value that lasts, and nothing else.
    Set,
}

impl Kind {
    /// The place of its command in the table.
    pub(crate) fn place(self) -> usize {
        static PLACES: LazyLock<[usize; 2]> =
            LazyLock::new(|| ["get", "set"].map(|name| table::place(name.as_bytes()).unwrap_or(0)));
        PLACES[self as usize]
    }

    /// Of what kind a request is, if it is of one.
    pub(crate) fn of(request: &[Bytes], session: &Session) -> Option<Self> {
        match request {
            _ if !session.authenticated || session.queue.is_some() => None,
            _ if session.awaits_messages() || session.tracked.is_some() => None,
            _ if session.database != 0 => None,
            _ if session.replies != Replies::On => None,
            [name, _] if is(name, "get") => Some(Self::Get),
            [name, _, value] if is(name, "set") && value.len() < LARGE_BYTES => Some(Self::Set),
            _ => None,
        }
    }
}

/// Gives each of these keys a value; the answers.
pub(crate) fn set_each(store: &dyn Store, pairs: &[(Bytes, Bytes)]) -> impl Iterator<Item = Reply> {
    let answer = |outcome: Result<(), StoreError>| match outcome {
        Ok(()) => Reply::OK,
        Err(error) => error_of(error.into()),
    };
    store.put_each(pairs).into_iter().map(answer)
}

fn error_of(failure: Failure) -> Reply {
    match failure {
        Failure::Error(text) => Reply::Error(text),
        // Only commands that return values say so.
        Failure::Room(_) => Reply::Error("ERR there is no room for the reply".to_owned()),
    }
}

fn wrong_arity(command: &str) -> Reply {
    error_of(Failure::arity(command))
}

/// Runs what may take long, while other connections move to other threads.
fn patiently<T>(run: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(run)
}

/// Whether a line belongs to an HTTP request. Lines that follow may be commands that a web page
/// makes its reader's browser send to a server on the same machine, so they are not to be executed.
fn is_http(name: &[u8]) -> bool {
    is(name, "post") || is(name, "host:")
}

fn no_authentication() -> Reply {
    Reply::Error("NOAUTH Authentication required.".to_owned())
}

fn unknown(request: &[Bytes]) -> Reply {
    let name = excerpt(&request[0]);
    let mut arguments = String::new();
    for argument in &request[1..] {
        if arguments.len() >= 128 {
            break;
        }
        arguments += &format!("'{}' ", excerpt(argument));
    }
    let arguments = arguments.trim_end_matches('\n');
    Reply::Error(match refused::type_of(&request[0]) {
        Some(kind) => {
            format!("ERR unknown command '{name}': it is for {kind}, and values are strings here")
        }
        None => format!("ERR unknown command '{name}', with args beginning with: {arguments}"),
    })
}

fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// As much of what a client sent as an error quotes.
fn excerpt(bytes: &[u8]) -> String {
    printable(&bytes[..bytes.len().min(128)])
}

fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

fn integer(argument: &[u8]) -> Result<i64, Failure> {
    crate::decode::number(argument).ok_or_else(Failure::not_an_integer)
}

/// The action of [`modify`], and its answer.
struct Modified<T> {
    change: Change,
    answer: T,
}

impl<T> Modified<T> {
    fn keep(answer: T) -> Self {
        Self { change: Change::Keep, answer }
    }

    fn put(entry: Entry, answer: T) -> Self {
        Self { change: Change::Put(entry), answer }
    }

    fn delete(answer: T) -> Self {
        Self { change: Change::Delete, answer }
    }
}

/// Changes a key in one step, as `decide` says; a failure changes nothing.
fn modify<T>(
    context: &Context<'_>,
    key: &[u8],
    decide: impl FnMut(Option<Entry>) -> Result<Modified<T>, Failure>,
) -> Result<T, Failure> {
    modify_in(&context.store(), key, decide)
}

/// The same, in some database.
fn modify_in<T>(
    database: &Database<'_>,
    key: &[u8],
    mut decide: impl FnMut(Option<Entry>) -> Result<Modified<T>, Failure>,
) -> Result<T, Failure> {
    let mut answer = None;
    database.update(key, &mut |before| match decide(before) {
        Ok(modified) => {
            answer = Some(Ok(modified.answer));
            modified.change
        }
        Err(failure) => {
            answer = Some(Err(failure));
            Change::Keep
        }
    })?;
    answer.unwrap_or_else(|| Err(Failure::new("ERR the store did not look at the key")))
}
