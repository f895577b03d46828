//! The commands: a table, and what is common to all of them.

mod admin;
mod expiry;
mod keyspace;
mod numbers;
mod session;
mod strings;
mod table;

use std::sync::LazyLock;
use std::time::Instant;

use bytes::Bytes;
use tombolo_kv::{Change, Entry};

use crate::reply::Reply;
use crate::session::Session;
use crate::shared::Shared;
use crate::store::{Store, StoreError};

/// The version of Redis whose behaviour clients may expect.
const REDIS_VERSION: &str = "7.4.0";

/// What a command works with.
pub(crate) struct Context<'a> {
    shared: &'a Shared,
    session: &'a mut Session,
}

impl Context<'_> {
    fn store(&self) -> &dyn Store {
        &*self.shared.store
    }
}

/// An error reply: its code and text, as the client gets it.
#[derive(Debug)]
pub(crate) struct Failure(String);

type Outcome = Result<Reply, Failure>;

impl Failure {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    fn syntax() -> Self {
        Self::new("ERR syntax error")
    }

    fn not_an_integer() -> Self {
        Self::new("ERR value is not an integer or out of range")
    }

    fn arity(command: &str) -> Self {
        Self(format!("ERR wrong number of arguments for '{command}' command"))
    }

    fn subcommand(command: &str, subcommand: &[u8]) -> Self {
        let name = excerpt(subcommand);
        Self(format!("ERR unknown subcommand '{name}'. Try {command} HELP."))
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full(text) => Self(format!("OOM {text}")),
            StoreError::Refused(text) => Self(format!("ERR {text}")),
            StoreError::Unavailable(text) => Self(format!("TRYAGAIN {text}")),
        }
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

    fn needs_authentication(&self) -> bool {
        !self.flags.contains(&"no_auth")
    }
}

/// Values of at least this length are copied where they don't keep other connections waiting.
const LARGE_BYTES: usize = 256 << 10;

/// Requests with more arguments than this, or walks over more keys, take long too.
const MANY: usize = 1000;

/// Executes a request, which has at least one argument: the command's name.
pub(crate) fn execute(request: &[Bytes], session: &mut Session, shared: &Shared) -> Reply {
    let Some(number) = table::find(&request[0]) else {
        if is_http(&request[0]) {
            session.closing = true;
            return Reply::Error("ERR this is not an HTTP server".to_owned());
        }
        return if session.authenticated { unknown(request) } else { no_authentication() };
    };
    let command = &table::COMMANDS[number];
    if !command.accepts(request.len()) {
        return Reply::Error(Failure::arity(command.name).0);
    }
    if !session.authenticated && command.needs_authentication() {
        return no_authentication();
    }
    let mut context = Context { shared, session };
    let mut run = || (command.run)(&mut context, request).unwrap_or_else(|f| Reply::Error(f.0));
    let large = request.len() > MANY || request.iter().any(|arg| arg.len() >= LARGE_BYTES);
    let started = Instant::now();
    let reply = if large { patiently(run) } else { run() };
    shared.latencies.note(number, 1, started.elapsed());
    reply
}

/// How many commands there are.
pub(crate) fn count() -> usize {
    table::COMMANDS.len()
}

/// The name of the command with this number.
pub(crate) fn name(number: usize) -> &'static str {
    table::COMMANDS[number].name
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
    /// The number of the command.
    pub(crate) fn command(self) -> usize {
        static GET: LazyLock<Option<usize>> = LazyLock::new(|| table::find(b"get"));
        static SET: LazyLock<Option<usize>> = LazyLock::new(|| table::find(b"set"));
        let number = match self {
            Self::Get => *GET,
            Self::Set => *SET,
        };
        number.expect("the table has both")
    }

    /// Of what kind a request is, if it is of one.
    pub(crate) fn of(request: &[Bytes], session: &Session) -> Option<Self> {
        match request {
            _ if !session.authenticated => None,
            [name, _] if is(name, "get") => Some(Self::Get),
            [name, _, value] if is(name, "set") && value.len() < LARGE_BYTES => Some(Self::Set),
            _ => None,
        }
    }
}

/// Gives each of these keys a value; the answers.
pub(crate) fn set_each(store: &dyn Store, pairs: &[(Bytes, Bytes)]) -> impl Iterator<Item = Reply> {
    let answer = |outcome| match outcome {
        Ok(()) => Reply::OK,
        Err(error) => Reply::Error(Failure::from(error).0),
    };
    store.put_each(pairs).into_iter().map(answer)
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
    Reply::Error(format!("ERR unknown command '{name}', with args beginning with: {arguments}"))
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

/// What [`modify`] is to do, and what to answer.
struct Step<T> {
    change: Change,
    answer: T,
}

impl<T> Step<T> {
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
    mut decide: impl FnMut(Option<Entry>) -> Result<Step<T>, Failure>,
) -> Result<T, Failure> {
    let mut answer = None;
    context.store().update(key, &mut |before| match decide(before) {
        Ok(step) => {
            answer = Some(Ok(step.answer));
            step.change
        }
        Err(failure) => {
            answer = Some(Err(failure));
            Change::Keep
        }
    })?;
    answer.unwrap_or_else(|| Err(Failure::new("ERR the store did not look at the key")))
}
