//! `tombolo up`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use tombolo::{PodSpec, format_size};

use crate::children::HostProcess;
use crate::cli::{Sizes, UpArgs};
use crate::output::table;
use crate::stop::Stop;

const DEFAULT_SIZE: u64 = 1 << 30;
const DEFAULT_SCR: u64 = 64 << 20;

/// Records of the load, at most; each takes about 1300 bytes of LNR.
const LOAD_RECORDS: u64 = 100_000;
const LOAD_RECORD_BYTES: u64 = 1300;

/// How long hosts may take to join.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &UpArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let ports = ports(args)?;
    let place = Place::new(args.pod.as_ref(), "up");
    let sizes = Sizes {
        size: args.sizes.size.or(args.pod.is_none().then_some(DEFAULT_SIZE)),
        scr: args.sizes.scr.or(args.pod.is_none().then_some(DEFAULT_SCR)),
        records: args.sizes.records,
    };
    let pod = tombolo_pod::create(&place.spec, sizes.options(false))?;
    println!(
        "pod {} in {}: {} for objects, {} coherent, {} coherence records",
        pod.identity().uuid,
        place.spec,
        format_size(pod.geometry().lnr_bytes),
        format_size(pod.geometry().scr_bytes),
        pod.geometry().records,
    );
    let lnr_bytes = pod.geometry().lnr_bytes;
    let mut hosts = Vec::new();
    for (number, &port) in ports.iter().enumerate() {
        hosts.push(Host::start(args, &place.spec, number, port, lnr_bytes)?);
    }
    for host in &mut hosts {
        host.wait_until_ready(&stop)?;
    }
    println!("{} hosts, each serves every key: redis-cli -p {}", hosts.len(), ports[0]);
    let outcome = watch(&mut hosts, args, &stop);
    hosts.iter().for_each(|host| host.process.ask_to_leave());
    let all_well =
        hosts.iter_mut().map(|host| host.process.wait()).fold(true, |all, well| all & well);
    drop(pod);
    outcome?;
    if !all_well {
        bail!("a host did not leave in order; see above");
    }
    println!("all hosts have left{}", if args.pod.is_none() { "; the pod is removed" } else { "" });
    Ok(())
}

fn ports(args: &UpArgs) -> Result<Vec<u16>> {
    let last = args.port.checked_add(u16::from(args.hosts) - 1);
    let last = last.filter(|_| args.port > 0).with_context(|| {
        format!("--port {} leaves no ports for {} hosts; choose another", args.port, args.hosts)
    })?;
    Ok((args.port..=last).collect())
}

/// Where a pod is for as long as a command runs. A file that nobody asked for is removed again.
pub(crate) struct Place {
    pub(crate) spec: PodSpec,
    remove: Option<PathBuf>,
}

impl Place {
    pub(crate) fn new(given: Option<&PodSpec>, what: &str) -> Self {
        if let Some(spec) = given {
            return Self { spec: spec.clone(), remove: None };
        }
        let shared = PathBuf::from("/dev/shm");
        let folder = if shared.is_dir() { shared } else { std::env::temp_dir() };
        let path = folder.join(format!("tombolo-{what}-{}", std::process::id()));
        Self { spec: PodSpec::path(&path), remove: Some(path) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(path) = &self.remove {
            let _ = std::fs::remove_file(path);
        }
    }
}

struct Host {
    process: HostProcess,
    port: u16,
    before: Option<(Instant, Figures)>,
}

impl Host {
    fn start(
        args: &UpArgs,
        pod: &PodSpec,
        number: usize,
        port: u16,
        lnr_bytes: u64,
    ) -> Result<Self> {
        let mut words: Vec<String> = vec![
            "serve".into(),
            "--with-parent".into(),
            format!("--pod={pod}"),
            format!("--listen=127.0.0.1:{port}"),
            "--workers=2".into(),
        ];
        if let Some(password) = &args.requirepass {
            words.push(format!("--requirepass={password}"));
        }
        if let Some(load) = &args.load {
            let records = LOAD_RECORDS.min(lnr_bytes / 2 / LOAD_RECORD_BYTES).max(1);
            words.extend([
                format!("--load={load}"),
                format!("--load-records={records}"),
                format!("--load-host={number}"),
                format!("--load-hosts={}", args.hosts),
            ]);
        }
        let process = HostProcess::start(format!("host {number} (port {port})"), &words)?;
        Ok(Self { process, port, before: None })
    }

    /// It says so on its first line.
    fn wait_until_ready(&mut self, stop: &Stop) -> Result<()> {
        let started = Instant::now();
        while self.process.line(Duration::from_millis(20))?.is_none() {
            if stop.within(Duration::ZERO) {
                bail!("stopped before all hosts were ready");
            }
            if started.elapsed() > PATIENCE {
                bail!("the host at port {} does not start", self.port);
            }
        }
        Ok(())
    }

    fn figures(&self, password: Option<&str>) -> Result<Figures> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        Figures::ask(stream, password)
    }
}

/// What a host says of itself.
struct Figures(HashMap<String, u64>);

impl Figures {
    fn ask(mut stream: TcpStream, password: Option<&str>) -> Result<Self> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        if let Some(password) = password {
            let length = password.len();
            write!(stream, "*2\r\n$4\r\nAUTH\r\n${length}\r\n{password}\r\n")?;
            reader.read_line(&mut line)?;
        }
        write!(stream, "INFO Tombolo Stats\r\n")?;
        line.clear();
        reader.read_line(&mut line)?;
        let length: u64 = line.trim().trim_start_matches('$').parse().context("no INFO")?;
        let mut text = String::new();
        reader.take(length).read_to_string(&mut text)?;
        let pair = |line: &str| {
            let (name, value) = line.trim().split_once(':')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Ok(Self(text.lines().filter_map(pair).collect()))
    }

    fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    fn operations(&self) -> u64 {
        ["reads", "writes", "creates", "deletes"].iter().map(|name| self.get(name)).sum()
    }
}

/// Shows how the hosts are doing until it is time to stop.
fn watch(hosts: &mut [Host], args: &UpArgs, stop: &Stop) -> Result<()> {
    let started = Instant::now();
    let end = args.seconds.map(Duration::from_secs);
    let display = Display::new();
    let mut before = 0;
    for host in hosts.iter_mut() {
        host.before = Some((Instant::now(), host.figures(args.requirepass.as_deref())?));
    }
    loop {
        let step = Duration::from_secs(1);
        let left = end.map_or(step, |end| end.saturating_sub(started.elapsed()));
        if left.is_zero() || stop.within(step.min(left)) {
            break;
        }
        for host in hosts.iter_mut() {
            if !host.process.is_running() {
                bail!("the host at port {} has died; its last words are above", host.port);
            }
        }
        let (text, operations) = status(hosts, args.requirepass.as_deref(), started.elapsed())?;
        display.show(&text);
        before = operations;
    }
    display.end();
    println!("{before} operations in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// A table of what all hosts say, and the operations they have done in all.
fn status(hosts: &mut [Host], password: Option<&str>, up: Duration) -> Result<(String, u64)> {
    let mut rows =
        table(&["host", "port", "ops/s", "commands/s", "objects", "records", "churn/s", "log lag"]);
    let (mut total, mut all_per_s) = (0, 0);
    let mut memory = String::new();
    for (number, host) in hosts.iter_mut().enumerate() {
        let now = Instant::now();
        let figures = host.figures(password)?;
        let per_s = |value: fn(&Figures) -> u64| {
            let Some((then, before)) = &host.before else { return 0 };
            let seconds = now.duration_since(*then).as_secs_f64().max(1e-3);
            (value(&figures).saturating_sub(value(before)) as f64 / seconds) as u64
        };
        let operations_per_s = per_s(Figures::operations);
        rows.add_row([
            number.to_string(),
            host.port.to_string(),
            operations_per_s.to_string(),
            per_s(|f| f.get("total_commands_processed")).to_string(),
            figures.get("objects").to_string(),
            format!("{} of {}", figures.get("records_used"), figures.get("records")),
            per_s(|f| f.get("churn")).to_string(),
            figures.get("log_lag").to_string(),
        ]);
        total += figures.operations();
        all_per_s += operations_per_s;
        memory = format!(
            "{} of {} used",
            format_size(figures.get("lnr_used_bytes")),
            format_size(figures.get("lnr_bytes"))
        );
        host.before = Some((now, figures));
    }
    let mut text = String::new();
    let _ = write!(text, "{rows}\n{:.0} s: {all_per_s} ops/s in all, {memory}", up.as_secs_f64());
    Ok((text, total))
}

/// A place on the terminal that is written again and again, or lines one after the other if there is
/// no terminal.
struct Display(Option<ProgressBar>);

impl Display {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{msg}").expect("the template is sound");
            ProgressBar::new_spinner().with_style(style)
        });
        Self(bar)
    }

    fn show(&self, text: &str) {
        match &self.0 {
            Some(bar) => bar.set_message(text.to_owned()),
            None => println!("{text}"),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.abandon();
        }
    }
}
