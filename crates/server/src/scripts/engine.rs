//! The interpreter, and running a script in it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mlua::chunk::ChunkMode;
use mlua::{
    Error, Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Value, Variadic, VmState,
};

use super::{Scripts, convert, library, name_of};
use crate::reply::Reply;

/// How long a script may run.
const MOST_TIME: Duration = Duration::from_secs(5);
/// Bytes that an interpreter may have.
const MOST_BYTES: usize = 256 << 20;
/// An interpreter that has more than this after a script is given up.
const KEEP_BYTES: usize = 16 << 20;
/// Instructions between two looks at the clock.
const BETWEEN_LOOKS: u32 = 10_000;
/// Scripts that are kept compiled.
const MOST_COMPILED: usize = 1000;

/// The places of code in messages.
const SCRIPT: &str = "user_script";
const FUNCTION: &str = "user_function";

const PRELUDE: &str = include_str!("prelude.lua");

/// Why a script that runs is to end at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It ran for too long.
    TooLong,
    /// A client has asked for that.
    Killed,
    /// Its caller does not serve it any more.
    ByCaller,
}

/// The outcome of a script.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Its reply, which may be an error that it ends with.
    Replied(Reply),
    /// It was ended.
    Ended(Ended),
}

/// A script, and what it is given.
pub(crate) struct Run<'a> {
    pub(crate) scripts: &'a Scripts,
    pub(crate) name: &'a str,
    pub(crate) text: &'a [u8],
    /// The function to be run, if the text is a library.
    pub(crate) function: Option<&'a str>,
    pub(crate) keys: &'a [Bytes],
    pub(crate) arguments: &'a [Bytes],
}

/// A function that a library declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) flags: Vec<String>,
}

struct Interpreter {
    lua: Lua,
    /// Runs scripts and functions, and loads libraries.
    runner: Table,
    compiled: HashMap<String, Function>,
    ended: Rc<Cell<Option<Ended>>>,
}

thread_local! {
    static INTERPRETER: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
}

impl Run<'_> {
    /// The place of its code in messages.
    fn place(&self) -> &'static str {
        if self.function.is_some() { FUNCTION } else { SCRIPT }
    }

    /// Its name in messages.
    fn shown(&self) -> &str {
        self.function.unwrap_or(self.name)
    }
}

/// Runs a script. `call` executes a command for it, or returns `None` if the script is to end.
pub(crate) fn run(run: &Run<'_>, call: impl FnMut(Vec<Bytes>) -> Option<Reply>) -> Outcome {
    run.scripts.running.fetch_add(1, Ordering::Relaxed);
    let outcome = INTERPRETER.with(|kept| {
        // A script that runs another one finds none here, and gets one of its own.
        let own = kept.try_borrow_mut().ok().and_then(|mut kept| kept.take());
        let mut interpreter = match own.map_or_else(Interpreter::new, Ok) {
            Ok(interpreter) => interpreter,
            Err(error) => return failed(run, &error.to_string()),
        };
        let outcome = interpreter.run(run, call);
        if interpreter.lua.used_memory() > KEEP_BYTES {
            let _ = interpreter.lua.gc_collect();
        }
        let is_small = interpreter.lua.used_memory() <= KEEP_BYTES;
        if is_small && let Ok(mut kept) = kept.try_borrow_mut() {
            *kept = Some(interpreter);
        }
        outcome
    });
    run.scripts.running.fetch_sub(1, Ordering::Relaxed);
    outcome
}

/// Whether a script can be compiled.
///
/// # Errors
/// The error that a client gets.
pub(crate) fn check(name: &str, text: &[u8]) -> Result<(), String> {
    with_interpreter(|interpreter| {
        interpreter.compile(name, text, SCRIPT).map(drop).map_err(|error| not_lua(&error, SCRIPT))
    })
}

/// Loads a library, and returns the functions that it declares.
///
/// # Errors
/// The error that a client gets.
pub(crate) fn declare(scripts: &Scripts, text: &[u8]) -> Result<Vec<Declared>, String> {
    let name = &name_of(text);
    let run = Run { scripts, name, text, function: Some(""), keys: &[], arguments: &[] };
    with_interpreter(|interpreter| interpreter.declare(&run))
}

fn with_interpreter<T>(
    body: impl FnOnce(&mut Interpreter) -> Result<T, String>,
) -> Result<T, String> {
    INTERPRETER.with(|kept| {
        let mut kept = kept.borrow_mut();
        let new = || Interpreter::new().map_err(|error| format!("ERR {}", plain(&error)));
        let mut interpreter = kept.take().map_or_else(new, Ok)?;
        let outcome = body(&mut interpreter);
        *kept = Some(interpreter);
        outcome
    })
}

fn not_lua(error: &Error, place: &str) -> String {
    let what = if place == SCRIPT { "script (new function)" } else { "function" };
    format!("ERR Error compiling {what}: {}", plain(error))
}

impl Interpreter {
    fn new() -> Result<Self, Error> {
        let libraries = StdLib::STRING | StdLib::TABLE | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        lua.set_memory_limit(MOST_BYTES)?;
        let ended: Rc<Cell<Option<Ended>>> = Rc::default();
        let told = ended.clone();
        let is_ended = lua.create_function(move |_, ()| Ok(told.get().is_some()))?;
        let native = library::native(&lua)?;
        let chunk = lua.load(PRELUDE).set_name("=prelude").set_mode(ChunkMode::Text);
        let runner: Table = chunk.call((native, is_ended))?;
        Ok(Self { lua, runner, compiled: HashMap::new(), ended })
    }

    fn run(&mut self, run: &Run<'_>, call: impl FnMut(Vec<Bytes>) -> Option<Reply>) -> Outcome {
        self.ended.set(None);
        let script = match self.compile(run.name, run.text, run.place()) {
            Ok(script) => script,
            Err(error) => return Outcome::Replied(Reply::Error(not_lua(&error, run.place()))),
        };
        let result = self.watch(run).and_then(|()| self.call(&script, run, call));
        self.lua.remove_hook();
        match (self.ended.get(), result) {
            (Some(ended), _) => Outcome::Ended(ended),
            (None, Ok(reply)) => Outcome::Replied(reply),
            (None, Err(error)) => failed(run, &plain(&error)),
        }
    }

    fn declare(&mut self, run: &Run<'_>) -> Result<Vec<Declared>, String> {
        self.ended.set(None);
        let library = self.compile(run.name, run.text, FUNCTION);
        let library = library.map_err(|error| not_lua(&error, FUNCTION))?;
        let loaded = self.watch(run).and_then(|()| {
            self.runner.get::<Function>("declare")?.call::<(bool, Value, Table)>(library)
        });
        self.lua.remove_hook();
        let refused = |why: &str| format!("ERR Error registering functions: {why}");
        let (is_well, why, functions) = loaded.map_err(|error| refused(&plain(&error)))?;
        if !is_well {
            return Err(refused(&text_of(&why)));
        }
        let functions = functions.sequence_values::<Table>().map(|function| {
            let function = function?;
            let flags: Table = function.get("flags")?;
            Ok(Declared {
                name: function.get("name")?,
                description: function.get("description")?,
                flags: flags.sequence_values().collect::<Result<_, _>>()?,
            })
        });
        functions.collect::<Result<_, _>>().map_err(|error: Error| refused(&plain(&error)))
    }

    /// The code of a script or a library, whose place in messages is given.
    fn compile(&mut self, name: &str, text: &[u8], place: &str) -> Result<Function, Error> {
        let name = format!("{place} {name}");
        if let Some(function) = self.compiled.get(&name) {
            return Ok(function.clone());
        }
        if self.compiled.len() >= MOST_COMPILED {
            self.compiled.clear();
        }
        let chunk = self.lua.load(without_shebang(text)).set_name(format!("@{place}"));
        let function = chunk.set_mode(ChunkMode::Text).into_function()?;
        self.compiled.insert(name, function.clone());
        Ok(function)
    }

    /// Ends the script when its time is over, or a client wants that.
    fn watch(&self, run: &Run<'_>) -> Result<(), Error> {
        let (started, ended) = (Instant::now(), self.ended.clone());
        let kills = run.scripts.kills.clone();
        let before = kills.load(Ordering::Relaxed);
        let triggers = HookTriggers::new().every_nth_instruction(BETWEEN_LOOKS);
        self.lua.set_hook(triggers, move |_, _| {
            if ended.get().is_none() {
                if started.elapsed() > MOST_TIME {
                    ended.set(Some(Ended::TooLong));
                } else if kills.load(Ordering::Relaxed) != before {
                    ended.set(Some(Ended::Killed));
                }
            }
            match ended.get() {
                Some(_) => Err(Error::runtime("the script was ended")),
                None => Ok(VmState::Continue),
            }
        })
    }

    fn call(
        &self,
        script: &Function,
        run: &Run<'_>,
        mut call: impl FnMut(Vec<Bytes>) -> Option<Reply>,
    ) -> Result<Reply, Error> {
        let lua = &self.lua;
        lua.scope(|scope| {
            let serve = scope.create_function_mut(|lua, words: Variadic<Value>| {
                let request = match convert::request(&words) {
                    Ok(request) => request,
                    Err(text) => return convert::error(lua, &text),
                };
                match call(request) {
                    Some(reply) => convert::to_lua(lua, &reply),
                    None => {
                        self.ended.set(Some(Ended::ByCaller));
                        Ok(Value::Nil)
                    }
                }
            })?;
            let (keys, arguments) =
                (convert::list(lua, run.keys)?, convert::list(lua, run.arguments)?);
            let (is_well, value): (bool, Value) = match run.function {
                None => {
                    let runner: Function = self.runner.get("run")?;
                    runner.call((script, keys, arguments, serve))?
                }
                Some(name) => {
                    let runner: Function = self.runner.get("call")?;
                    runner.call((script, name, keys, arguments, serve))?
                }
            };
            Ok(match &value {
                _ if is_well => convert::to_reply(&value, 0),
                // An error of a command that the script has not caught.
                Value::Table(table) => {
                    let line: Option<String> = table.raw_get("line").unwrap_or_default();
                    with_name(convert::to_reply(&value, 0), run, line)
                }
                _ => error_reply(run, &text_of(&value)),
            })
        })
    }
}

const NO_TEXT: &str = "the script ended with an error that is no text";

/// The text of an error that a script has ended with.
fn text_of(error: &Value) -> String {
    match error {
        Value::Error(error) => plain(error),
        Value::String(text) => text.to_string_lossy(),
        _ => NO_TEXT.to_owned(),
    }
}

fn failed(run: &Run<'_>, text: &str) -> Outcome {
    Outcome::Replied(error_reply(run, text))
}

/// An error of a script, which begins with its place: `user_script:3: text`.
fn error_reply(run: &Run<'_>, text: &str) -> Reply {
    let is_own = |place: &&str| place.split(':').next() == Some(run.place());
    let place = text.split(": ").next().filter(is_own).unwrap_or(run.place());
    Reply::Error(format!("ERR {text} script: {}, on @{place}.", run.shown()))
}

/// An error that a command has returned, with the script that has not caught it.
fn with_name(reply: Reply, run: &Run<'_>, line: Option<String>) -> Reply {
    let line = line.map_or_else(String::new, |line| format!(":{line}"));
    match reply {
        Reply::Error(text) => {
            Reply::Error(format!("{text} script: {}, on @{}{line}.", run.shown(), run.place()))
        }
        _ => error_reply(run, NO_TEXT),
    }
}

/// The message of an error, without its place in the interpreter.
fn plain(error: &Error) -> String {
    let text = match error {
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        Error::SyntaxError { message, .. } => message.clone(),
        Error::CallbackError { cause, .. } => return plain(cause),
        other => other.to_string(),
    };
    text.split("\nstack traceback").next().unwrap_or_default().to_owned()
}

/// A script may begin with a line that says in which language it is; its lines keep their numbers.
fn without_shebang(text: &[u8]) -> &[u8] {
    match text.starts_with(b"#!") {
        true => &text[text.iter().position(|&byte| byte == b'\n').unwrap_or(text.len())..],
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(text: &str) -> Outcome {
        let scripts = Scripts::default();
        let name = crate::scripts::name_of(text.as_bytes());
        let keys = [Bytes::from_static(b"key")];
        let arguments = [b"one", b"two"].map(|argument| Bytes::from_static(argument));
        let run_of = Run {
            scripts: &scripts,
            name: &name,
            text: text.as_bytes(),
            function: None,
            keys: &keys,
            arguments: &arguments,
        };
        run(&run_of, |request| {
            Some(match &request[0][..] {
                b"get" => Reply::bulk(&request[1]),
                b"null" => Reply::Null,
                b"ok" => Reply::OK,
                _ => Reply::Error("ERR no".to_owned()),
            })
        })
    }

    fn reply(text: &str) -> Reply {
        match ran(text) {
            Outcome::Replied(reply) => reply,
            Outcome::Ended(ended) => panic!("{text}: {ended:?}"),
        }
    }

    fn error(text: &str) -> String {
        match reply(text) {
            Reply::Error(text) => text,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn values_are_converted_as_redis_does() {
        assert_eq!(reply("return 3.99"), Reply::Integer(3));
        assert_eq!(reply("return true"), Reply::Integer(1));
        assert_eq!(reply("return false"), Reply::Null);
        assert_eq!(reply("return"), Reply::Null);
        assert_eq!(reply("return KEYS[1] .. ARGV[2]"), Reply::bulk("keytwo"));
        assert_eq!(
            reply("return {1, 'a', nil, 4}"),
            Reply::Array(vec![Reply::Integer(1), Reply::bulk("a")])
        );
        assert_eq!(reply("return {ok='fine'}"), Reply::Status("fine".to_owned()));
        assert_eq!(reply("return {err='MINE x'}"), Reply::Error("MINE x".to_owned()));
        assert_eq!(reply("return redis.call('ok')"), Reply::Status("OK".to_owned()));
        assert_eq!(reply("return redis.call('null') == false"), Reply::Integer(1));
        assert_eq!(reply("return redis.call('get', 12)"), Reply::bulk("12"));
        assert_eq!(reply("return redis.pcall('bad').err"), Reply::bulk("ERR no"));
        assert!(error("return redis.call('bad')").starts_with("ERR no script: "));
        assert!(error("redis.call()").contains("at least one argument"));
        assert_eq!(
            reply("return redis.sha1hex('')"),
            Reply::bulk("da39a3ee5e6b4b0d3255bfef95601890afd80709")
        );
    }

    #[test]
    fn a_script_leaves_nothing_and_reaches_nothing() {
        for text in [
            "x = 1",
            "KEYS = 1",
            "string.x = 1",
            "redis.call = 1",
            "_G.x = 1",
            "rawset(_G, 'x', 1)",
            "rawset(redis, 'x', 1)",
            "setmetatable(_G, {})",
            "setmetatable(redis, {})",
            "loadstring('x = 1')()",
        ] {
            assert!(error(text).contains("readonly table"), "{text}: {}", error(text));
        }
        for name in
            ["os", "io", "require", "load", "dofile", "debug", "coroutine", "print", "getfenv"]
        {
            let text = error(&format!("return {name}"));
            assert!(text.contains("nonexistent global variable"), "{text}");
        }
        assert_eq!(reply("return getmetatable('') == false"), Reply::Integer(1));
        assert_eq!(reply("return string.dump == nil"), Reply::Integer(1));
        assert_eq!(reply("return loadstring('\\27x') == nil"), Reply::Integer(1));
        assert_eq!(reply("return loadstring('return KEYS[1]')()"), Reply::bulk("key"));
        assert!(error("return loadstring('return dofile')()").contains("nonexistent"));
        assert!(error("return nothing").starts_with(
            "ERR user_script:1: Script attempted to access nonexistent global variable 'nothing'"
        ));
    }

    #[test]
    fn a_script_ends_in_time_whatever_it_catches() {
        for text in [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "while true do xpcall(function() while true do end end, function() end) end",
            "xpcall(function() while true do end end, function() while true do end end)",
        ] {
            let outcome = ran(text);
            assert!(matches!(outcome, Outcome::Ended(Ended::TooLong)), "{text}: {outcome:?}");
        }
    }

    #[test]
    fn a_script_that_wants_too_much_memory_fails() {
        let text =
            error("local t = {} while true do t[#t + 1] = string.rep('x', 1000000) .. #t end");
        assert!(text.contains("memory"), "{text}");
        assert_eq!(reply("return 1"), Reply::Integer(1));
    }

    #[test]
    fn libraries_are_there() {
        assert_eq!(reply("return cjson.encode({a=1})"), Reply::bulk("{\"a\":1}"));
        assert_eq!(reply("return cjson.encode({1, 'x', true})"), Reply::bulk("[1,\"x\",true]"));
        assert_eq!(reply("return cjson.decode('[1, {\"a\": \"b\"}]')[2].a"), Reply::bulk("b"));
        assert_eq!(reply("return cjson.decode('[null]')[1] == cjson.null"), Reply::Integer(1));
        assert_eq!(reply("return bit.band(12, 10)"), Reply::Integer(8));
        assert_eq!(reply("return bit.bnot(0)"), Reply::Integer(-1));
        assert_eq!(reply("return bit.tohex(255)"), Reply::bulk("000000ff"));
        assert_eq!(reply("return ('ab'):upper()"), Reply::bulk("AB"));
        assert_eq!(reply("return math.floor(2.5)"), Reply::Integer(2));
    }
}
