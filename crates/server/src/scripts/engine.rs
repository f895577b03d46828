//! The interpreter, and running a script in it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mlua::chunk::ChunkMode;
use mlua::{Error, Function, HookTriggers, Lua, LuaOptions, StdLib, Value, Variadic, VmState};

use super::{Scripts, convert, library};
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
    pub(crate) keys: &'a [Bytes],
    pub(crate) arguments: &'a [Bytes],
}

struct Interpreter {
    lua: Lua,
    runner: Function,
    compiled: HashMap<String, Function>,
    ended: Rc<Cell<Option<Ended>>>,
}

thread_local! {
    static INTERPRETER: RefCell<Option<Interpreter>> = const { RefCell::new(None) };
}

/// Runs a script. `call` executes a command for it, or returns `None` if the script is to end.
pub(crate) fn run(run: &Run<'_>, call: impl FnMut(Vec<Bytes>) -> Option<Reply>) -> Outcome {
    run.scripts.running.fetch_add(1, Ordering::Relaxed);
    let outcome = INTERPRETER.with(|kept| {
        // A script that runs another one finds none here, and gets one of its own.
        let own = kept.try_borrow_mut().ok().and_then(|mut kept| kept.take());
        let mut interpreter = match own.map_or_else(Interpreter::new, Ok) {
            Ok(interpreter) => interpreter,
            Err(error) => return failed(run.name, &error.to_string()),
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
    INTERPRETER.with(|kept| {
        let mut kept = kept.borrow_mut();
        let mut interpreter = match kept.take().map_or_else(Interpreter::new, Ok) {
            Ok(interpreter) => interpreter,
            Err(error) => return Err(format!("ERR {}", plain(&error))),
        };
        let compiled = interpreter.compile(name, text).map(drop).map_err(|error| not_lua(&error));
        *kept = Some(interpreter);
        compiled
    })
}

fn not_lua(error: &Error) -> String {
    format!("ERR Error compiling script (new function): {}", plain(error))
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
        let runner: Function = chunk.call((native, is_ended))?;
        Ok(Self { lua, runner, compiled: HashMap::new(), ended })
    }

    fn run(&mut self, run: &Run<'_>, call: impl FnMut(Vec<Bytes>) -> Option<Reply>) -> Outcome {
        self.ended.set(None);
        let script = match self.compile(run.name, run.text) {
            Ok(script) => script,
            Err(error) => return Outcome::Replied(Reply::Error(not_lua(&error))),
        };
        let result = self.watch(run).and_then(|()| self.call(&script, run, call));
        self.lua.remove_hook();
        match (self.ended.get(), result) {
            (Some(ended), _) => Outcome::Ended(ended),
            (None, Ok(reply)) => Outcome::Replied(reply),
            (None, Err(error)) => failed(run.name, &plain(&error)),
        }
    }

    fn compile(&mut self, name: &str, text: &[u8]) -> Result<Function, Error> {
        if let Some(function) = self.compiled.get(name) {
            return Ok(function.clone());
        }
        if self.compiled.len() >= MOST_COMPILED {
            self.compiled.clear();
        }
        let chunk =
            self.lua.load(without_shebang(text)).set_name("@user_script").set_mode(ChunkMode::Text);
        let function = chunk.into_function()?;
        self.compiled.insert(name.to_owned(), function.clone());
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
            let (is_well, value): (bool, Value) =
                self.runner.call((script, keys, arguments, serve))?;
            if is_well {
                return Ok(convert::to_reply(&value, 0));
            }
            Ok(match &value {
                // An error of a command that the script has not caught.
                Value::Table(_) => with_name(convert::to_reply(&value, 0), run.name),
                Value::Error(error) => error_reply(run.name, &plain(error)),
                Value::String(text) => error_reply(run.name, &text.to_string_lossy()),
                _ => error_reply(run.name, "the script ended with an error that is no text"),
            })
        })
    }
}

fn failed(name: &str, text: &str) -> Outcome {
    Outcome::Replied(error_reply(name, text))
}

/// An error of a script, which begins with its place: `user_script:3: text`.
fn error_reply(name: &str, text: &str) -> Reply {
    let place = text.split(": ").next().filter(|place| place.starts_with("user_script:"));
    let place = place.unwrap_or("user_script");
    Reply::Error(format!("ERR {text} script: {name}, on @{place}."))
}

/// An error that a command has returned, with the script that has not caught it.
fn with_name(reply: Reply, name: &str) -> Reply {
    match reply {
        Reply::Error(text) => Reply::Error(format!("{text} script: {name}, on @user_script.")),
        _ => error_reply(name, "the script ended with an error that is no text"),
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
