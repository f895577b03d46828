//! Running the command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use tempfile::TempDir;

pub(crate) fn tombolo(args: &[&str]) -> Command {
    tombolo_within(&[], args)
}

/// The command, started by another program: with these words in front of its own.
fn tombolo_within(by: &[&str], args: &[&str]) -> Command {
    let words = [by, &[env!("CARGO_BIN_EXE_tombolo")], args].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TOMBOLO_")) {
        command.env_remove(name);
    }
    command
}

pub(crate) fn output(args: &[&str]) -> Output {
    tombolo(args).output().unwrap()
}

/// The output of a command that succeeds.
pub(crate) fn printed(args: &[&str]) -> String {
    let output = output(args);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {complaints}");
    String::from_utf8(output.stdout).unwrap()
}

/// The complaint of a command that fails: one sentence, or the usage.
pub(crate) fn complaint(args: &[&str]) -> String {
    let output = output(args);
    assert!(!output.status.success(), "{args:?} succeeds");
    String::from_utf8(output.stderr).unwrap()
}

/// Whether this machine has a program. If not, it says that a test is skipped.
pub(crate) fn has_program(program: &str) -> bool {
    let is_there = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
    let is_there = is_there.unwrap().status.success();
    if !is_there {
        eprintln!("skipped: there is no {program}");
    }
    is_there
}

/// A folder in shared memory, if there is enough of it.
pub(crate) fn folder() -> TempDir {
    let shared = rustix::fs::statvfs("/dev/shm").map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    if shared > 2 << 30 { tempfile::tempdir_in("/dev/shm") } else { tempfile::tempdir() }.unwrap()
}

/// A process that is told to end when the test is over.
pub(crate) struct Running {
    child: Child,
    pub(crate) lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_within(&[], args)
    }

    /// Starts it by another program.
    pub(crate) fn start_within(by: &[&str], args: &[&str]) -> Self {
        let mut child = tombolo_within(by, args).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that contains `text`.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(text)).unwrap_or_else(|| panic!("no line with {text}"))
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Tells it to end until it has ended.
    pub(crate) fn stop_at_once(&mut self) {
        while matches!(self.child.try_wait(), Ok(None)) {
            self.signal("-TERM");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal("-TERM");
            let _ = self.child.wait();
        }
    }
}

/// Where a host has its page, as it says.
pub(crate) fn address_of_page(host: &mut Running) -> String {
    let line = host.line_with("/metrics");
    line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned()
}

/// The body of a page.
pub(crate) fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The sum of all samples of `metrics` whose names and labels begin so.
pub(crate) fn metric(metrics: &str, begin: &str) -> f64 {
    let lines = metrics.lines().filter(|line| line.starts_with(begin));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// A pod with some hosts that serve it.
pub(crate) struct Servers {
    pub(crate) hosts: Vec<(Running, SocketAddr)>,
    folder: TempDir,
}

impl Servers {
    pub(crate) fn start(hosts: usize, create: &[&str], serve: &[&str]) -> Self {
        let folder = folder();
        let spec = folder.path().join("pod").to_str().unwrap().to_owned();
        printed(&[&["pod", "create", &spec], create].concat());
        let serve = [&["serve", "--pod", &spec, "--listen", "127.0.0.1:0"], serve].concat();
        Self { hosts: (0..hosts).map(|_| serving(&serve)).collect(), folder }
    }

    /// Starts so many hosts in the place of those there were.
    pub(crate) fn restart(&mut self, hosts: usize) {
        let serve = ["serve", "--pod", &self.spec(), "--listen", "127.0.0.1:0"];
        self.hosts = (0..hosts).map(|_| serving(&serve)).collect();
    }

    /// Starts another host in the place of one that has ended.
    pub(crate) fn replace(&mut self, host: usize) {
        let serve = ["serve", "--pod", &self.spec(), "--listen", "127.0.0.1:0"];
        self.hosts[host] = serving(&serve);
    }

    /// The pod.
    pub(crate) fn spec(&self) -> String {
        self.folder.path().join("pod").to_str().unwrap().to_owned()
    }

    pub(crate) fn connect(&self, host: usize) -> redis::Connection {
        connect(self.hosts[host].1)
    }
}

/// A host that serves, and where.
fn serving(serve: &[&str]) -> (Running, SocketAddr) {
    let mut host = Running::start(serve);
    let line = host.line_with("listening on");
    let address = line.rsplit(' ').next().unwrap().parse().unwrap();
    (host, address)
}

pub(crate) fn connect(address: SocketAddr) -> redis::Connection {
    let client = redis::Client::open(format!("redis://{address}")).unwrap();
    client.get_connection().unwrap()
}
