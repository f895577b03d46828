//! `tombolo up`.

mod status;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tombolo::{ObjectArea, PodSpec, format_size};

use self::status::{Display, Status};
use crate::children::{HostProcess, wait_for_all};
use crate::cli::{Sizes, UpArgs};
use crate::messages;
use crate::output;
use crate::place::Place;
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
    let sizes = Sizes {
        size: args.sizes.size.or(args.pod.is_none().then_some(DEFAULT_SIZE)),
        scr: args.sizes.scr.or(args.pod.is_none().then_some(DEFAULT_SCR)),
        ..args.sizes
    };
    for left in Place::left_behind("up") {
        let left = left.display();
        eprintln!(
            "tombolo: {left} is left of an earlier run that was killed; `tombolo pod remove {left}` removes it"
        );
    }
    let place = Place::new(args.pod.as_ref(), "up", sizes.total());
    let options = sizes.options_for(args.hosts);
    let areas = [options.area()];
    let pod =
        tombolo_sharing::create_planned(&place.spec, options.sizes(), &areas, &|scr, lnr| {
            messages::plan((scr, lnr), &areas, None)
        })?;
    output::say(format!(
        "pod {} in {}: {} for objects, {} coherent, {} coherence records\n",
        pod.identity().uuid,
        place.spec,
        format_size(pod.layout().lnr_bytes),
        format_size(pod.layout().scr_bytes),
        ObjectArea::first(&pod)?.geometry().records,
    ))?;
    let lnr_bytes = pod.layout().lnr_bytes;
    let start = |(number, &port)| Host::start(args, &place.spec, number, port, lnr_bytes);
    let mut hosts = ports.iter().enumerate().map(start).collect::<Result<Vec<_>>>()?;
    for host in &mut hosts {
        host.wait_until_ready(&stop)?;
    }
    output::say(format!(
        "{} hosts, each serves every key: redis-cli -p {}\n",
        hosts.len(),
        ports[0]
    ))?;
    if let Some(port) = args.metrics_port {
        output::say(format!("what they are doing: http://127.0.0.1:{port}/\n"))?;
    }
    let watched = watch(&mut hosts, args, &stop);
    let mut left: Vec<&mut HostProcess> =
        hosts.iter_mut().map(|host| &mut host.process).filter_map(still_running).collect();
    left.iter_mut().for_each(|process| process.ask_to_leave());
    let left = wait_for_all(left);
    drop(pod);
    watched?;
    left?;
    output::say(format!(
        "all hosts have left{}\n",
        if args.pod.is_none() { "; the pod is removed" } else { "" }
    ))?;
    Ok(())
}

/// One that has ended before has been told of.
fn still_running(process: &mut HostProcess) -> Option<&mut HostProcess> {
    process.is_running().then_some(process)
}

fn ports(args: &UpArgs) -> Result<Vec<u16>> {
    let last = args.port.checked_add(u16::from(args.hosts) - 1);
    let last = last.filter(|_| args.port > 0).with_context(|| {
        format!("--port {} leaves no ports for {} hosts; choose another", args.port, args.hosts)
    })?;
    Ok((args.port..=last).collect())
}

/// How long a host that has ended stays so: twice as long each time, unless it ran for long.
const BACK_OFF: Duration = Duration::from_secs(1);
const MOST_BACK_OFF: Duration = Duration::from_secs(30);

struct Host {
    number: usize,
    port: u16,
    words: Vec<String>,
    password: Option<String>,
    process: HostProcess,
    state: State,
    /// How long it will stay so if it ends.
    back_off: Duration,
}

#[derive(Clone, Copy)]
enum State {
    Starting {
        since: Instant,
    },
    /// It has said so on its first line.
    Ready {
        since: Instant,
    },
    /// It was killed, and may not have ended.
    Ending,
    Ended {
        until: Instant,
    },
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
        words.extend(args.local.words());
        words.extend(args.log.words());
        if let Some(first) = args.metrics_port {
            let port = u32::from(first) + number as u32;
            words.push(format!("--metrics=127.0.0.1:{port}"));
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
        let password = args.requirepass.clone();
        let process = process(number, port, &words, password.as_deref())?;
        let (state, back_off) = (State::Starting { since: Instant::now() }, BACK_OFF);
        Ok(Self { number, port, words, password, process, state, back_off })
    }

    /// Waits for its first line, without which there is nothing to be watched.
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
        self.state = State::Ready { since: Instant::now() };
        Ok(())
    }

    fn name(&self) -> String {
        format!("host {} (port {})", self.number, self.port)
    }

    /// Kills it if it lives and has given no answer for too long; what there is to be said of that.
    /// It is looked after like any that has ended, once it has: a process that is frozen may end
    /// later.
    fn end_silence(&mut self, silence: Duration, most: Duration) -> Option<String> {
        let silence = match self.state {
            State::Starting { since } if since.elapsed() > PATIENCE => since.elapsed(),
            State::Ready { .. } if silence > most => silence,
            _ => return None,
        };
        let killed = self.process.end_at_once();
        let done = killed.map_or_else(|error| format!("{error:#}"), |()| "it is killed".to_owned());
        self.state = State::Ending;
        Some(format!("{} has not answered for {} s; {done}", self.name(), silence.as_secs()))
    }

    /// Starts it again if it has ended, in its own time; what there is to be said of that.
    fn look_after(&mut self) -> Option<String> {
        let name = self.name();
        match self.state {
            State::Ended { until } if Instant::now() < until => None,
            State::Ended { .. } => {
                match process(self.number, self.port, &self.words, self.password.as_deref()) {
                    Ok(process) => {
                        self.process = process;
                        self.state = State::Starting { since: Instant::now() };
                        Some(format!("{name} is started again"))
                    }
                    Err(error) => Some(self.has_ended(&format!("{error:#}"))),
                }
            }
            // A host that the others have fenced is one that ends, too.
            State::Starting { .. } | State::Ready { .. } | State::Ending => {
                match self.process.line(Duration::ZERO) {
                    Err(error) => {
                        let long = matches!(self.state, State::Ready { since } if since.elapsed() > PATIENCE);
                        if long {
                            self.back_off = BACK_OFF;
                        }
                        Some(self.has_ended(&error.to_string()))
                    }
                    Ok(Some(_)) if matches!(self.state, State::Starting { .. }) => {
                        self.state = State::Ready { since: Instant::now() };
                        Some(format!("{name} serves again"))
                    }
                    Ok(_) => None,
                }
            }
        }
    }

    fn has_ended(&mut self, how: &str) -> String {
        let pause = self.back_off;
        self.state = State::Ended { until: Instant::now() + pause };
        self.back_off = (2 * pause).min(MOST_BACK_OFF);
        format!("{how}; the others go on, and it is started again in {} s", pause.as_secs())
    }
}

fn process(
    number: usize,
    port: u16,
    words: &[String],
    password: Option<&str>,
) -> Result<HostProcess> {
    HostProcess::start(format!("host {number} (port {port})"), words, password)
}

/// Shows how the hosts are doing, and looks after them, until it is time to stop.
fn watch(hosts: &mut [Host], args: &UpArgs, stop: &Stop) -> Result<()> {
    let started = Instant::now();
    let end = args.seconds.map(Duration::from_secs);
    let most_silence = Duration::from_secs(args.answer_within);
    let ports: Vec<u16> = hosts.iter().map(|host| host.port).collect();
    let mut status = Status::new(&ports, args.requirepass.clone());
    let display = Display::new();
    loop {
        let step = Duration::from_secs(1);
        let left = end.map_or(step, |end| end.saturating_sub(started.elapsed()));
        if left.is_zero() || stop.within(step.min(left)) {
            break;
        }
        for host in hosts.iter_mut() {
            let silence = status.silence(host.number);
            let events = [host.end_silence(silence, most_silence), host.look_after()];
            events.iter().flatten().for_each(|event| display.say(event));
        }
        let serves = |number: usize| matches!(hosts[number].state, State::Ready { .. });
        display.show(&format!(
            "{:.0} s: {}",
            started.elapsed().as_secs_f64(),
            status.next(serves)
        ))?;
    }
    display.end();
    output::say(format!(
        "{} operations in {:.1} s\n",
        status.operations(),
        started.elapsed().as_secs_f64()
    ))
}
