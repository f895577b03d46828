//! Programs as they are, under `tombolo tier run`: they say what they say without. A program that
//! this machine lacks is said, and its test passes.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::tombolo::{Running, complaint, connect, has_program, output, printed, tombolo};
use crate::up::ports;

/// A generous limit for what takes seconds.
const LIMIT: Duration = Duration::from_secs(120);

/// As the tests of this workspace have built it.
fn library() -> PathBuf {
    let mut folder = std::env::current_exe().unwrap();
    folder.pop();
    folder.join("libtombolo_preload.so")
}

/// Options of `tier run` for a program with so much fast memory.
fn tiers<'a>(library: &'a str, fast: &'a str, program: &[&'a str]) -> Vec<&'a str> {
    [&["tier", "run", "--library", library, "--fast", fast, "--"], program].concat()
}

/// Whether pages move on this machine, and the program is there; a line says why not.
fn can_run(program: &str) -> bool {
    if let Err(reason) = tombolo_tiering::probe() {
        eprintln!("skipped: {reason}");
        return false;
    }
    has_program(program)
}

/// Runs a program with tiers and without: both say the same. Returns it.
fn same(fast: &str, program: &[&str]) -> String {
    let plain = Command::new(program[0]).args(&program[1..]).output().unwrap();
    let library = library();
    let tiered = output(&tiers(library.to_str().unwrap(), fast, program));
    for output in [&plain, &tiered] {
        assert!(output.status.success(), "{program:?}: {}", words(&output.stderr));
    }
    assert_eq!(words(&tiered.stdout), words(&plain.stdout));
    let said = words(&tiered.stderr);
    assert!(!said.contains("without tiers"), "{said}");
    words(&plain.stdout)
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn rows(process: u32) -> Option<Value> {
    let shown = output(&["tier", "stat", &process.to_string(), "--format", "json"]);
    shown.status.success().then(|| serde_json::from_slice(&shown.stdout).unwrap())
}

/// The counters of a process, once one of them is not zero.
fn rows_with(process: u32, name: &str) -> Value {
    let start = Instant::now();
    loop {
        match rows(process) {
            Some(rows) if rows[name].as_u64() > Some(0) => return rows,
            found => assert!(start.elapsed() < LIMIT, "there is no {name}: {found:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn check_says_what_hinders_and_its_exit_code_agrees() {
    let found = output(&["tier", "check", "--format", "json"]);
    let rows: Vec<Value> = serde_json::from_slice(&found.stdout).unwrap();
    let severity = |row: &Value| row["severity"].as_str().unwrap().to_owned();
    let is_hindered = rows.iter().any(|row| severity(row) == "obstacle");
    assert_eq!(found.status.code(), Some(if is_hindered { 3 } else { 0 }), "{rows:?}");
    let topics: Vec<_> = rows.iter().map(|row| row["topic"].as_str().unwrap()).collect();
    assert!(topics.contains(&"kernel") && topics.contains(&"nodes"), "{topics:?}");
    let table = words(&output(&["tier", "check"]).stdout);
    assert!(rows.iter().all(|row| table.contains(&severity(row))), "{table}");
}

#[test]
fn stat_of_a_process_without_tiers_says_what_to_do() {
    let said = complaint(&["tier", "stat", "4294967295"]);
    assert!(said.contains("start it by tombolo tier run"), "{said}");
}

const SLEEPER: &str = "
import time
area = bytearray(64 << 20)
for at in range(0, len(area), 4096):
    area[at] = 1
end = time.monotonic() + 600
while time.monotonic() < end:
    sum(area[::4096])
";

#[test]
fn stat_shows_counters_as_a_table_as_json_and_until_the_process_ends() {
    if !can_run("python3") {
        return;
    }
    let library = library();
    let program = ["python3", "-c", SLEEPER];
    let mut sleeper = Running::start(&tiers(library.to_str().unwrap(), "8MiB", &program));
    // The command becomes the program.
    let process = sleeper.id();
    let found = rows_with(process, "promotions");
    assert!(found["served pages"].as_u64() >= Some(16384), "{found}");
    assert!(found["near pages"].as_u64() <= found["near pages at most"].as_u64(), "{found}");
    let table = printed(&["tier", "stat", &process.to_string()]);
    assert!(table.contains("demotions by remap") && table.contains("hint faults"), "{table}");
    let watch = ["tier", "stat", &process.to_string(), "--watch", "1"];
    let mut watching = Running::start(&watch);
    watching.line_with("promotions");
    watching.line_with("promotions");
    sleeper.stop_at_once();
    assert!(watching.end().success());
}

const SQL: &str = "
pragma cache_size = -60000;
create table t(a integer primary key, b text, c integer);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
insert into t select i, hex(i * 2654435761) || 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', (i * 7919) % 100003
from n;
create index ti on t(c);
update t set b = b || 'y' where c % 7 = 0;
delete from t where c % 11 = 3;
vacuum;
select count(*), sum(c), sum(length(b)) from t;
pragma integrity_check;
";

#[test]
fn sqlite_keeps_its_database_whole() {
    if !can_run("sqlite3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("database");
    let said = |program: &[&str]| {
        let _ = fs::remove_file(&file);
        let output = tombolo(program).output().unwrap();
        assert!(output.status.success(), "{}", words(&output.stderr));
        words(&output.stdout)
    };
    let (file, library) = (file.to_str().unwrap(), library());
    let tiered = said(&tiers(library.to_str().unwrap(), "8MiB", &["sqlite3", file, SQL]));
    assert!(tiered.ends_with("ok\n"), "{tiered}");
    // Without tiers the file is whole, too.
    let check = Command::new("sqlite3").args([file, "pragma integrity_check"]).output().unwrap();
    assert_eq!(words(&check.stdout), "ok\n");
    let plain = Command::new("sqlite3").args([":memory:", SQL]).output().unwrap();
    assert_eq!(tiered, words(&plain.stdout));
}

/// Fills arrays, sorts and multiplies them, and has threads write into them.
const NUMPY: &str = "
import numpy, threading, zlib
random = numpy.random.default_rng(1)
areas = [random.integers(0, 1 << 62, 2_000_000) for _ in range(4)]
def work(area, number):
    for turn in range(12):
        area ^= numpy.roll(area, turn * 4099 + number)
        area[:: 513].sort()
threads = [threading.Thread(target=work, args=(area, number)) for number, area in enumerate(areas)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
matrix = numpy.arange(640_000).reshape(800, 800) % 97
product = matrix @ matrix % 1009
print([zlib.crc32(area.tobytes()) for area in areas], int(product.sum()))
";

#[test]
fn numpy_computes_the_same() {
    let has_numpy = |python: &&&str| {
        let found = Command::new(python).args(["-c", "import numpy"]).output();
        found.is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].iter().find(has_numpy) else {
        return eprintln!("skipped: there is no Python with numpy");
    };
    if can_run(python) {
        same("16MiB", &[python, "-c", NUMPY]);
    }
}

/// Tables of arrays that are thrown away and kept, with collections in between, on some threads.
const JAVA: &str = r#"
import java.util.*;
public class Churn {
    static long work(long seed) {
        Random random = new Random(seed);
        Map<Integer, int[]> kept = new HashMap<>();
        for (int round = 0; round < 20_000; round++) {
            int[] fresh = new int[64 + random.nextInt(512)];
            for (int at = 0; at < fresh.length; at++) fresh[at] = at * round;
            kept.put(random.nextInt(6_000), fresh);
            if (round % 5_000 == 0) System.gc();
        }
        long sum = 0;
        for (Map.Entry<Integer, int[]> entry : new TreeMap<>(kept).entrySet())
            for (int value : entry.getValue()) sum = sum * 31 + value + entry.getKey();
        return sum;
    }
    public static void main(String[] arguments) throws Exception {
        long[] sums = new long[3];
        Thread[] threads = new Thread[3];
        for (int number = 0; number < 3; number++) {
            int mine = number;
            threads[number] = new Thread(() -> sums[mine] = work(mine + 1));
            threads[number].start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println(Arrays.toString(sums));
    }
}
"#;

#[test]
fn a_jvm_computes_the_same_with_each_collector() {
    if !can_run("java") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("Churn.java");
    fs::write(&file, JAVA).unwrap();
    for collector in ["-XX:+UseSerialGC", "-XX:+UseG1GC"] {
        let program = ["java", "-Xms96m", "-Xmx96m", collector, file.to_str().unwrap()];
        same("16MiB", &program);
    }
}

/// A Redis server on a port of its own, which ends with this.
struct Redis {
    server: Child,
    connection: redis::Connection,
    port: u16,
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn redis_server(folder: &Path, has_tiers: bool) -> Redis {
    let port = ports(1);
    let (text, library) = (port.to_string(), library());
    let folder = folder.to_str().unwrap();
    let program = ["redis-server", "--port", &text, "--dir", folder, "--save", ""];
    let mut command = if has_tiers {
        tombolo(&tiers(library.to_str().unwrap(), "16MiB", &program))
    } else {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]);
        command
    };
    let server = command.stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < LIMIT, "the server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut connection = connect(([127, 0, 0, 1], port).into());
    // It listens while it loads what was saved.
    while redis::cmd("PING").query::<String>(&mut connection).is_err() {
        assert!(start.elapsed() < LIMIT, "the server does not come to its end of loading");
        std::thread::sleep(Duration::from_millis(20));
    }
    Redis { server, connection, port }
}

impl Redis {
    fn ask<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        words[1..].iter().for_each(|word| {
            command.arg(word);
        });
        command.query(&mut self.connection).unwrap()
    }

    /// Saves in a child, and waits until it has.
    fn save(&mut self) {
        let _: String = self.ask(&["BGSAVE"]);
        let start = Instant::now();
        loop {
            let info: String = self.ask(&["INFO", "persistence"]);
            if info.contains("rdb_bgsave_in_progress:0") {
                assert!(info.contains("rdb_last_bgsave_status:ok"), "{info}");
                return;
            }
            assert!(start.elapsed() < LIMIT, "{info}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn check(&mut self, values: usize) {
        for key in 0..values {
            let found: String = self.ask(&["GET", &format!("ours:{key}")]);
            assert!(found == value(key), "the value of key {key}");
        }
    }
}

fn value(key: usize) -> String {
    format!("{key:08}").repeat(250)
}

/// A benchmark runs beside it all; values of other keys are verified, as they are in the file that
/// a child has saved.
#[test]
fn redis_keeps_its_values_and_saves_them() {
    const VALUES: usize = 12_000;
    if !can_run("redis-server") || !can_run("redis-benchmark") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut redis = redis_server(folder.path(), true);
    for key in 0..VALUES {
        let _: String = redis.ask(&["SET", &format!("ours:{key}"), &value(key)]);
    }
    let port = redis.port.to_string();
    let load = ["-p", &port, "-q", "-n", "60000", "-r", "20000", "-d", "300", "-P", "8"];
    let mut load = Command::new("redis-benchmark")
        .args(load)
        .args(["-t", "set,get,incr,lpush,hset"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..3 {
        redis.check(VALUES);
        redis.save();
    }
    assert!(load.wait().unwrap().success());
    let rows = rows_with(redis.server.id(), "promotions");
    assert!(rows["hint faults"].as_u64() > Some(0), "{rows}");
    redis.check(VALUES);
    redis.save();
    drop(redis);
    // The saved file, read by a server without tiers.
    let mut plain = redis_server(folder.path(), false);
    plain.check(VALUES);
}

/// A program into which nothing can be loaded runs as it would without, and one line says why.
fn is_left_alone(program: &Path, why: &str) {
    let library = library();
    let program = [program.to_str().unwrap(), "fine"];
    let found = output(&tiers(library.to_str().unwrap(), "8MiB", &program));
    let said = words(&found.stderr);
    assert!(found.status.success() && found.stdout == b"fine\n", "{said}");
    assert!(said.contains("runs without tiers") && said.contains(why), "{said}");
    assert!(!said.contains("LD_PRELOAD"), "{said}");
}

#[test]
fn a_static_program_is_left_alone() {
    const SOURCE: &str = "#include <stdio.h>\nint main(int n, char **v) { puts(v[n - 1]); }\n";
    if !can_run("cc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("say.c"), folder.path().join("say"));
    fs::write(&source, SOURCE).unwrap();
    let built = Command::new("cc").args(["-static", "-o"]).args([&program, &source]).output();
    let built = built.unwrap();
    if !built.status.success() {
        return eprintln!("skipped: cc links nothing statically: {}", words(&built.stderr));
    }
    is_left_alone(&program, "linked statically");
}

#[test]
fn a_program_of_another_user_is_left_alone() {
    const SOMEBODY: u32 = 65534;
    if !can_run("echo") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("say");
    fs::copy("/bin/echo", &program).unwrap();
    if let Err(reason) = chown(&program, Some(SOMEBODY), None) {
        return eprintln!("skipped: files cannot be given away: {reason}");
    }
    fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    is_left_alone(&program, "rights of another user");
}

#[test]
fn without_its_library_nothing_runs_and_the_error_says_how_to_build_it() {
    let said =
        complaint(&["tier", "run", "--library", "/none/libtombolo_preload.so", "--", "true"]);
    assert!(said.contains("/none/libtombolo_preload.so"), "{said}");
    // The command where nothing is installed beside it.
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("bin").join("tombolo");
    fs::create_dir(folder.path().join("bin")).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_tombolo"), &alone).unwrap();
    let run = || Command::new(&alone).args(["tier", "run", "--", "echo", "ran"]).output().unwrap();
    let found = run();
    assert!(!found.status.success() && found.stdout.is_empty());
    let said = words(&found.stderr);
    assert!(said.contains("cargo build --release -p tombolo-preload"), "{said}");
    // Installed in lib beside the folder of the command, as in lib beside the command.
    for place in ["lib", "bin/lib", "bin"] {
        let place = folder.path().join(place);
        let _ = fs::create_dir(&place);
        let copy = place.join("libtombolo_preload.so");
        fs::copy(library(), &copy).unwrap();
        let found = run();
        assert_eq!(found.stdout, b"ran\n", "{}: {}", place.display(), words(&found.stderr));
        fs::remove_file(copy).unwrap();
    }
}
