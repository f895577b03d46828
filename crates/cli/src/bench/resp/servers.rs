//! The servers that are measured, each a process.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tombolo_sharing::{CreateOptions, create};

use crate::children::HostProcess;
use crate::cli::RespArgs;
use crate::place::Place;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// LNR, besides what values take.
const SPARE_LNR: u64 = 64 << 20;

/// A server that is running.
pub(crate) trait Server {
    fn address(&self) -> SocketAddr;

    /// Its process.
    fn id(&self) -> u32;

    /// How long its threads have been running on processors.
    fn cpu_time(&self) -> Result<Duration> {
        let folder = format!("/proc/{}/task", self.id());
        let mut sum = 0;
        for thread in std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))? {
            // A thread may have ended meanwhile.
            let Ok(text) = std::fs::read_to_string(thread?.path().join("schedstat")) else {
                continue;
            };
            sum += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(Duration::from_nanos(sum))
    }
}

/// A host of a pod of its own.
pub(super) struct Tombolo {
    process: HostProcess,
    address: SocketAddr,
    _place: Place,
}

pub(super) fn tombolo(args: &RespArgs) -> Result<Tombolo> {
    let lnr = args.keys * (args.value_bytes as u64 + 192) * 5 / 4 + SPARE_LNR;
    let place = Place::new(None, "resp", lnr);
    create(&place.spec, CreateOptions::sized(lnr.next_multiple_of(1 << 20)))?;
    let mut words = vec![
        "serve".to_owned(),
        format!("--pod={}", place.spec),
        "--listen=127.0.0.1:0".to_owned(),
        "--with-parent".to_owned(),
    ];
    words.extend(args.workers.map(|workers| format!("--workers={workers}")));
    let mut process = HostProcess::start("the server".to_owned(), &words, None)?;
    let line = process.line(PATIENCE)?.context("the server does not start")?;
    let address = line.rsplit(' ').next().and_then(|address| address.parse().ok());
    let address = address.with_context(|| format!("the server says {line:?}"))?;
    Ok(Tombolo { process, address, _place: place })
}

impl Server for Tombolo {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn id(&self) -> u32 {
        self.process.id()
    }
}

/// The sentence of a report if there was no Redis.
pub(crate) fn without(reason: Option<&String>) -> String {
    reason.map_or_else(String::new, |reason| format!("\nwithout Redis: {reason}\n"))
}

/// A Redis that keeps nothing.
pub(crate) struct Redis {
    child: Child,
    address: SocketAddr,
}

pub(crate) fn redis(program: &str) -> Result<Redis> {
    // Free now, and hardly anybody's by the time it is wanted.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let port = address.port().to_string();
    let child = Command::new(program)
        .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {program}; install it, or name it by --redis"))?;
    let redis = Redis { child, address };
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        if Instant::now() > deadline {
            bail!("{program} does not listen on {address}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(redis)
}

impl Server for Redis {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
