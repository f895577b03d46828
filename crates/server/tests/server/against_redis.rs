//! Random commands, and their replies here and from a Redis server, if there is one.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::client::{Client, request, server};

pub(crate) struct Redis {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Redis {
    /// `None` where it is not installed, which is said.
    pub(crate) fn start() -> Option<Self> {
        // Another program may take the port that was free.
        for _ in 0..10 {
            match Self::try_start() {
                Some(Some(redis)) => return Some(redis),
                Some(None) => {}
                None => {
                    eprintln!("there is no redis-server to compare with");
                    return None;
                }
            }
        }
        panic!("redis-server gets no port");
    }

    /// `None` where it is not installed, and `Some(None)` if it does not get the port.
    fn try_start() -> Option<Option<Self>> {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let port = free.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            spawned => {
                let mut redis = Self { process: spawned.unwrap(), address: free };
                let own = format!("process_id:{}\r\n", redis.process.id());
                for _ in 0..3000 {
                    if redis.process.try_wait().unwrap().is_some() {
                        return Some(None);
                    }
                    if TcpStream::connect(free).is_ok() {
                        let is_own = Client::to(free).ask("INFO server").contains(&own);
                        return Some(is_own.then_some(redis));
                    }
                    sleep(Duration::from_millis(10));
                }
                panic!("redis-server does not answer");
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The server's part of a conversation is a Redis server's, if there is one to compare with.
pub(crate) fn compare_with_redis(talk: impl Fn(SocketAddr) -> Vec<String>) {
    let Some(redis) = Redis::start() else { return };
    let server = server(|_| ());
    let (here, there) = (talk(server.local_addr()), talk(redis.address));
    here.iter().zip(&there).for_each(|(here, there)| assert_eq!(here, there));
    assert_eq!(here.len(), there.len());
}

/// Numbers without a pattern that matters, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % end
    }

    fn one_of<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

const KEYS: &[&str] = &["a", "b", "c", "d", ""];
const VALUES: &[&str] = &[
    "",
    "1",
    "-7",
    "12",
    "9223372036854775807",
    "3.25",
    "0.1",
    "-1e3",
    "0x1p3",
    "hello world",
    "foobar",
    "\u{ff}\u{0}x",
    "ohmytext",
    "mynewtext",
];
const NUMBERS: &[&str] =
    &["0", "1", "-1", "2", "5", "-3", "7", "100", "-100", "x", "", "9223372036854775807", "1.5"];
const TIMES: &[&str] = &["100000000", "-1", "0", "200000000", "9223372036854775", "x"];
/// Far off, as seconds since 1970. Two of them compare alike on both servers, whenever each gets
/// them; times from now would not.
const MOMENTS: &[&str] = &["4102444800", "4102444801", "4102450000"];
const TYPES: &[&str] = &["u8", "i8", "u3", "i5", "u63", "i64", "u1", "u64", "i0", "8"];

const DATABASES: &[&str] = &["0", "0", "1", "15", "16", "x"];

/// Commands: `K` is a key, `V` a value, `N` a number, `T` a time in seconds, `A` one since 1970,
/// `F` the type of a field, and `D` a database.
const COMMANDS: &[&str] = &[
    "SET K V",
    "SET K V",
    "SET K V",
    "SET K V NX",
    "SET K V XX",
    "SET K V GET",
    "SET K V KEEPTTL",
    "SET K V EX T",
    "SET K V NX EX T",
    "SET K V NX XX",
    "SET K V EXAT T",
    "GET K",
    "GET K",
    "GETDEL K",
    "GETEX K",
    "GETEX K PERSIST",
    "GETEX K EX T",
    "GETSET K V",
    "SETNX K V",
    "SETEX K T V",
    "MGET K K K",
    "MSET K V K V",
    "MSET K V K",
    "APPEND K V",
    "STRLEN K",
    "GETRANGE K N N",
    "SUBSTR K N N",
    "SETRANGE K N V",
    "INCR K",
    "DECR K",
    "INCRBY K N",
    "DECRBY K N",
    "INCRBYFLOAT K V",
    "DEL K K",
    "UNLINK K",
    "EXISTS K K",
    "TOUCH K K",
    "TYPE K",
    "EXPIRE K T",
    "EXPIRE K T NX",
    "EXPIRE K T XX",
    "EXPIREAT K T",
    "EXPIREAT K A",
    "EXPIREAT K A GT",
    "EXPIREAT K A LT",
    "EXPIREAT K A GT LT",
    "EXPIRETIME K",
    "PERSIST K",
    "GETBIT K N",
    "SETBIT K N N",
    "BITCOUNT K",
    "BITCOUNT K N N",
    "BITCOUNT K N N BIT",
    "BITCOUNT K N N BYTE",
    "BITPOS K N",
    "BITPOS K N N",
    "BITPOS K N N N",
    "BITPOS K N N N BIT",
    "BITOP AND K K K",
    "BITOP OR K K K",
    "BITOP XOR K K K",
    "BITOP NOT K K",
    "BITOP XOR K K",
    "BITFIELD K GET F N",
    "BITFIELD K SET F N N",
    "BITFIELD K INCRBY F N N GET F #N",
    "BITFIELD K OVERFLOW SAT INCRBY F N N SET F #N N",
    "BITFIELD K OVERFLOW FAIL INCRBY F N N SET F #N N",
    "BITFIELD_RO K GET F N",
    "LCS K K",
    "LCS K K LEN",
    "LCS K K IDX",
    "LCS K K IDX MINMATCHLEN N WITHMATCHLEN",
    "COPY K K",
    "COPY K K REPLACE",
    "COPY K K DB D",
    "COPY K K REPLACE DB D",
    "MOVE K D",
    "SELECT D",
    "SELECT D",
    "FLUSHDB",
    "KEYS nothing*",
    "MSETNX K V K V",
    "RENAME K K",
    "RENAMENX K K",
    "WATCH K K",
    "UNWATCH",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "EXEC",
    "DISCARD",
    "PING V",
    "ECHO V",
    "FLUSHALL",
];

fn words(dice: &mut Dice) -> Vec<&'static str> {
    let word = |word: &'static str, dice: &mut Dice| match word {
        "K" => dice.one_of(KEYS),
        "V" => dice.one_of(VALUES),
        "N" => dice.one_of(NUMBERS),
        "T" => dice.one_of(TIMES),
        "A" => dice.one_of(MOMENTS),
        "F" => dice.one_of(TYPES),
        "D" => dice.one_of(DATABASES),
        "#N" => dice.one_of(&["#0", "#1", "#7", "#", "#-1"]),
        word => word,
    };
    // A flush now and then, not one in a hundred.
    let command = match dice.one_of(COMMANDS) {
        "FLUSHALL" | "FLUSHDB" if dice.below(10) > 0 => "EXISTS K",
        command => command,
    };
    command.split(' ').map(|text| word(text, dice)).collect()
}

/// Whether a difference is one that there is to be: numbers that are exact here, and what is looked
/// at first of a request with several faults.
fn is_known(words: &[&str], queued: &[&str], here: &str, there: &str) -> bool {
    match words[0] {
        "EXEC" => {
            let known = ["INCRBYFLOAT", "BITCOUNT", "BITPOS"];
            queued.iter().any(|name| known.contains(name))
        }
        "INCRBYFLOAT" => here.starts_with('$') && there.starts_with('$'),
        // Up to version 7.0 the key is looked up before the range is parsed.
        "BITCOUNT" | "BITPOS" => here.starts_with("-ERR") && [":0\r\n", ":-1\r\n"].contains(&there),
        _ => false,
    }
}

#[test]
fn replies_are_those_of_a_redis_server() {
    let Some(redis) = Redis::start() else { return };
    let server = server(|_| ());
    let mut clients = [Client::of(&server), Client::to(redis.address)];
    let mut dice = Dice(42);
    let (mut recent, mut differences) = (Vec::new(), BTreeMap::new());
    let mut queued = Vec::new();
    for _ in 0..10_000 {
        let words = words(&mut dice);
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let bytes = request(&bytes);
        clients.iter_mut().for_each(|client| client.send(&bytes));
        let [here, there] = clients.each_mut().map(|client| client.reply());
        recent.push(words.join(" "));
        queued.push(words[0]);
        // A second MULTI is refused, and changes nothing.
        let of_this = match words[0] {
            "EXEC" | "DISCARD" => std::mem::take(&mut queued),
            _ => queued.clone(),
        };
        if here == there {
            continue;
        }
        if !is_known(&words, &of_this, &here, &there) {
            let last = recent[recent.len().saturating_sub(6)..].to_vec();
            differences.entry(words[0]).or_insert((last, here, there));
        }
        queued.clear();
        // Both go on with the same keys.
        clients.iter_mut().for_each(|client| _ = client.ask("RESET"));
        clients.iter_mut().for_each(|client| _ = client.ask("FLUSHALL"));
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// A client that is told of everything that clients do to keys.
struct Witness(Client);

impl Witness {
    fn of(address: SocketAddr) -> Self {
        let mut witness = Client::to(address);
        witness.ask("CONFIG SET notify-keyspace-events KEg$");
        witness.ask("PSUBSCRIBE __key*");
        Self(witness)
    }

    /// The channels and messages since the last time. `other` can publish.
    fn told(&mut self, other: &mut Client) -> Vec<String> {
        other.ask("PUBLISH __keys end");
        let message = || {
            let message = self.0.reply();
            let lines: Vec<_> = message.split("\r\n").collect();
            Some(format!("{} {}", lines[6], lines[8])).filter(|told| told != "__keys end")
        };
        std::iter::from_fn(message).collect()
    }
}

/// Events are those of a Redis server, in their order.
#[test]
fn events_are_those_of_a_redis_server() {
    let Some(redis) = Redis::start() else { return };
    let server = server(|_| ());
    let addresses = [server.local_addr(), redis.address];
    let mut clients = addresses.map(Client::to);
    let mut others = addresses.map(Client::to);
    let mut witnesses = addresses.map(Witness::of);
    let (mut dice, mut recent, mut events) = (Dice(43), Vec::new(), 0);
    for _ in 0..10_000 {
        let words = words(&mut dice);
        // Redis tells nobody of a string that BITFIELD has made longer without setting a field.
        if words.contains(&"FAIL") {
            continue;
        }
        let bytes: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let [here, there] = clients.each_mut().map(|client| {
            client.send(&request(&bytes));
            client.reply()
        });
        recent.push(words.join(" "));
        let mut both = witnesses.iter_mut().zip(&mut others);
        let [own, redis] = [(); 2].map(|()| {
            let (witness, other) = both.next().unwrap();
            witness.told(other)
        });
        if here == there {
            let first = own.iter().zip(&redis).position(|(own, redis)| own != redis);
            let last = &recent[recent.len().saturating_sub(8)..];
            let lengths = (own.len(), redis.len());
            let first = first.unwrap_or(lengths.0.min(lengths.1));
            let both = (own.get(first), redis.get(first));
            assert!(own == redis, "event {first} of {lengths:?} after {last:?} is {both:?}");
            events += own.len();
        } else {
            // Replies are compared elsewhere: both go on with the same keys.
            clients.iter_mut().for_each(|client| _ = client.ask("RESET"));
            clients.iter_mut().for_each(|client| _ = client.ask("FLUSHALL"));
        }
    }
    assert!(events > 1000, "{events}");
}

/// Values that one has dumped are restored by the other: numbers and compressed text, too.
#[test]
fn values_go_to_a_redis_server_and_back() {
    let Some(redis) = Redis::start() else { return };
    let server = server(|_| ());
    let mut clients = [Client::of(&server), Client::to(redis.address)];
    let texts = ["", "12", "-300", "70000", "5000000000", "hello"].map(str::to_owned);
    for value in texts.into_iter().chain(["abcdefg".repeat(1000), "x".repeat(40_000)]) {
        for from in 0..2 {
            clients.iter_mut().for_each(|client| _ = client.ask("FLUSHALL"));
            clients[from].send(&request(&[b"SET", b"k", value.as_bytes()]));
            assert_eq!(clients[from].reply(), "+OK\r\n");
            let dumped = clients[from].bytes_of(&[b"DUMP", b"k"]);
            clients[1 - from].send(&request(&[b"RESTORE", b"k", b"0", &dumped]));
            assert_eq!(clients[1 - from].reply(), "+OK\r\n", "{value:?}");
            assert_eq!(clients[1 - from].bytes_of(&[b"GET", b"k"]), value.as_bytes());
        }
    }
}
