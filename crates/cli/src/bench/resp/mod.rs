//! `tombolo bench resp`: requests by Redis' protocol over loopback, to a host's server, and to
//! Redis if it is installed.
//!
//! The same client puts the same load on one server after the other, in every round.

pub(super) mod client;
pub(super) mod servers;

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::Serialize;

use self::client::{Clients, Command, Load};
use self::servers::{Server, redis, tombolo, without};
use crate::cli::RespArgs;
use crate::output::{self, table};
use crate::stop::Stop;

/// The results of a server in one setting.
#[derive(Default)]
struct Runs {
    ops_per_s: Vec<f64>,
    cpu_ns: Vec<f64>,
}

/// The result of one setting.
#[derive(Serialize)]
struct Line {
    command: &'static str,
    pipeline: usize,
    ops_per_s: f64,
    /// The processors' time that the server took for an operation.
    cpu_ns_per_op: f64,
    redis_ops_per_s: Option<f64>,
    redis_cpu_ns_per_op: Option<f64>,
    /// Speed, as a multiple of Redis'.
    of_redis: Option<f64>,
    /// The same, per processor that the server kept busy.
    of_redis_per_core: Option<f64>,
}

#[derive(Serialize)]
struct Report {
    clients: usize,
    keys: u64,
    value_bytes: usize,
    rounds: u32,
    /// Why there is nothing to compare with.
    without_redis: Option<String>,
    lines: Vec<Line>,
}

pub(crate) fn run(args: &RespArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    let report = measure(args, &stop)?;
    output::print(&report, args.format, Report::text)
}

fn measure(args: &RespArgs, stop: &Stop) -> Result<Report> {
    let mut servers: Vec<Box<dyn Server>> = vec![Box::new(tombolo(args)?)];
    let without_redis = match redis(&args.redis) {
        Ok(server) => {
            servers.push(Box::new(server));
            None
        }
        Err(reason) => Some(format!("{reason:#}")),
    };
    let load = Load { clients: args.clients, keys: args.keys, value_bytes: args.value_bytes };
    let mut clients = Vec::new();
    for server in &servers {
        let mut connected = Clients::connect(server.address(), &load)?;
        connected.load()?;
        clients.push(connected);
    }
    let mut lines = Vec::new();
    for &pipeline in &args.pipeline {
        for command in [Command::Get, Command::Set] {
            let mut runs: Vec<Runs> = servers.iter().map(|_| Runs::default()).collect();
            for _ in 0..args.rounds {
                for ((server, clients), runs) in servers.iter().zip(&mut clients).zip(&mut runs) {
                    if stop.within(Duration::ZERO) {
                        bail!("stopped");
                    }
                    runs.measure(&**server, clients, command, pipeline, args.operations)?;
                }
            }
            lines.push(Line::new(command.name(), pipeline, runs));
        }
    }
    Ok(Report {
        clients: args.clients,
        keys: args.keys,
        value_bytes: args.value_bytes,
        rounds: args.rounds,
        without_redis,
        lines,
    })
}

impl Runs {
    fn measure(
        &mut self,
        server: &dyn Server,
        clients: &mut Clients,
        command: Command,
        pipeline: usize,
        operations: u64,
    ) -> Result<()> {
        let (busy, started) = (server.cpu_time()?, Instant::now());
        let done = clients.run(command, pipeline, operations)? as f64;
        let (took, busy) = (started.elapsed(), server.cpu_time()?.saturating_sub(busy));
        self.ops_per_s.push(done / took.as_secs_f64());
        self.cpu_ns.push(busy.as_nanos() as f64 / done);
        Ok(())
    }

    /// Operations per second, and the processors' time of one.
    fn medians(self) -> (f64, f64) {
        let median = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        (median(self.ops_per_s), median(self.cpu_ns))
    }
}

impl Line {
    fn new(command: &'static str, pipeline: usize, runs: Vec<Runs>) -> Self {
        let mut medians = runs.into_iter().map(Runs::medians);
        let (ops_per_s, cpu_ns_per_op) = medians.next().expect("tombolo is measured");
        let redis = medians.next();
        Self {
            command,
            pipeline,
            ops_per_s,
            cpu_ns_per_op,
            redis_ops_per_s: redis.map(|(ops, _)| ops),
            redis_cpu_ns_per_op: redis.map(|(_, cpu)| cpu),
            of_redis: redis.map(|(ops, _)| ops_per_s / ops),
            of_redis_per_core: redis.map(|(_, cpu)| cpu / cpu_ns_per_op),
        }
    }
}

impl Report {
    fn text(&self) -> String {
        let mut rows = table(&[
            "command",
            "pipeline",
            "ops/s",
            "CPU ns/op",
            "redis ops/s",
            "CPU ns/op",
            "of redis",
            "per core",
        ]);
        let cell = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        for line in &self.lines {
            rows.add_row([
                line.command.to_owned(),
                line.pipeline.to_string(),
                cell(Some(line.ops_per_s), 0),
                cell(Some(line.cpu_ns_per_op), 0),
                cell(line.redis_ops_per_s, 0),
                cell(line.redis_cpu_ns_per_op, 0),
                cell(line.of_redis, 2),
                cell(line.of_redis_per_core, 2),
            ]);
        }
        let Self { clients, keys, value_bytes, rounds, .. } = self;
        let without = without(self.without_redis.as_ref());
        format!(
            "{clients} connections of one thread, {keys} keys, values of {value_bytes} bytes; medians of \
             {rounds} rounds\n\n{rows}\n{without}"
        )
    }
}
