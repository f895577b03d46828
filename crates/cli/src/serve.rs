//! `tombolo serve`.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tombolo::{OBJECTS, Store, StoreError as KvError};
use tombolo_experiments::Driver;
use tombolo_server::{Config, Server};
use tracing::level_filters::LevelFilter;
use tracing::{error, info, warn};

use crate::cli::{LoadArgs, ServeArgs, WorkloadArgs};
use crate::open_files::clients_within_limit;
use crate::operation::{Journal, Observed, Pages, ServiceManager, Watch};
use crate::output::{self, FENCED};
use crate::served::{Served, Tally};
use crate::stop::Stop;
use crate::workload::Values;

/// How often a host looks whether it is still in the pod.
const LOOK: Duration = Duration::from_millis(100);

/// How long a host that was fenced tries to join again: its old seat may be the only one.
const REJOIN_PATIENCE: Duration = Duration::from_secs(60);

/// The monitoring of this process, across all stays that it has in the pod.
struct Operation {
    tally: Arc<Tally>,
    observed: Arc<Mutex<Observed>>,
    pages: Option<Pages>,
    manager: ServiceManager,
}

impl Operation {
    fn start(args: &ServeArgs) -> Result<Self> {
        let level = args.log.log_level.unwrap_or(LevelFilter::INFO);
        let journal = Journal::start(level, args.log.log_format);
        let (tally, observed) = Default::default();
        let pages = args.metrics.as_deref();
        let pages =
            pages.map(|address| Pages::serve(address, &observed, &tally, &journal)).transpose()?;
        Ok(Self { tally, observed, pages, manager: ServiceManager::of_environment() })
    }
}

/// Why a host serves no longer.
enum End {
    Told,
    Fenced { host: u8 },
}

pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode> {
    let stop = Stop::on_signals()?;
    if args.with_parent {
        stop.with_parent()?;
    }
    let usual = Config::default();
    let mut config = Config {
        listen: args.listen.clone(),
        password: args.requirepass.clone(),
        workers: args.workers.map_or(usual.workers, usize::from),
        max_clients: args.max_clients,
        reply_bytes: usual.reply_bytes,
        request_bytes: usual.request_bytes,
    };
    // What is wrong with the address is said before anything is joined.
    config.address()?;
    let operation = Operation::start(args)?;
    config.max_clients = max_clients(args.max_clients);
    let mut store = join(args)?;
    loop {
        let host = match serve(args, &mut config, &operation, store, &stop)? {
            End::Told => return Ok(ExitCode::SUCCESS),
            End::Fenced { host } => host,
        };
        error!(
            host = u64::from(host),
            rejoin = args.rejoin,
            "this host was fenced: it gave no sign of life, or an operator said so, and the others go on without it; its clients are disconnected"
        );
        if !args.rejoin {
            return Ok(ExitCode::from(FENCED));
        }
        store = match join_again(args, &stop)? {
            Some(store) => store,
            None => return Ok(ExitCode::SUCCESS),
        };
    }
}

/// As many of so many clients as files may be open.
fn max_clients(wanted: usize) -> usize {
    let most = clients_within_limit(wanted);
    if most < wanted {
        warn!(
            clients = most,
            max_clients = wanted,
            "the limit of open files leaves room for fewer clients: raise the hard limit (ulimit -Hn, LimitNOFILE), or ask for fewer with --max-clients"
        );
    } else {
        info!(max_clients = wanted, "the limit of open files suffices");
    }
    most
}

fn join(args: &ServeArgs) -> Result<Store> {
    let pod = tombolo_pod::open(&args.pod)?;
    pod.area_of(OBJECTS).with_context(|| {
        format!("{} is made for a page cache alone, which keeps nothing", args.pod)
    })?;
    Ok(Store::join_pod(pod, args.local.options())?)
}

/// Joins after this host was fenced; `None` if it is told to stop before it could.
fn join_again(args: &ServeArgs, stop: &Stop) -> Result<Option<Store>> {
    let (started, mut pause) = (Instant::now(), LOOK);
    loop {
        match join(args) {
            Ok(store) => return Ok(Some(store)),
            Err(error) if started.elapsed() > REJOIN_PATIENCE => return Err(error),
            Err(_) if stop.within(pause) => return Ok(None),
            Err(_) => pause = (2 * pause).min(Duration::from_secs(2)),
        }
    }
}

/// Serves until this host is told to stop, or finds that it was fenced, and leaves the pod.
fn serve(
    args: &ServeArgs,
    config: &mut Config,
    operation: &Operation,
    store: Store,
    stop: &Stop,
) -> Result<End> {
    let store = Arc::new(store);
    let served = Served { store: store.clone(), tally: operation.tally.clone() };
    let server = Arc::new(Server::start(config.clone(), Arc::new(served))?);
    // If it begins anew, clients find it where it was.
    config.listen = server.local_addr().to_string();
    let seat = store.objects().seat().clone();
    output::say(format!("host {}: listening on {}\n", seat.host(), server.local_addr()))?;
    if let Some(pages) = &operation.pages {
        pages.watch(&store, &server);
        output::say(format!(
            "host {}: metrics on http://{}/metrics\n",
            seat.host(),
            pages.address()
        ))?;
    }
    operation.manager.ready();
    let is_in = || seat.holds(store.objects().memory());
    let mut watch = Watch::new(&store, &operation.tally, &operation.observed);
    let loaded = with_load(&store, &args.load, || {
        while is_in() && !stop.within(LOOK) {
            watch.look(&store, &server, &operation.manager);
        }
    });
    operation.manager.stopping();
    let fenced = !is_in();
    // Connections end before the pod is left: nobody may use it afterwards.
    drop(server);
    match leave(store) {
        Err(KvError::Objects(error)) if error.is_fenced() => {}
        left => left?,
    }
    if fenced {
        return Ok(End::Fenced { host: seat.host() });
    }
    loaded.map(|()| End::Told)
}

fn leave(mut store: Arc<Store>) -> Result<(), KvError> {
    loop {
        match Arc::try_unwrap(store) {
            Ok(store) => return store.leave(),
            // Somebody is just looking at the metrics.
            Err(shared) => store = shared,
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs `body` while a load is on the host, if one is wanted.
fn with_load(store: &Store, args: &LoadArgs, body: impl FnOnce()) -> Result<()> {
    let Some(letter) = args.load else {
        body();
        return Ok(());
    };
    let properties = [
        format!("recordcount={}", args.load_records),
        format!("threadcount={}", args.load_hosts),
        "operationcount=0".to_owned(),
    ];
    let workload = WorkloadArgs {
        files: vec![letter.to_string()],
        properties: properties.to_vec(),
        seed: 42,
        verify: true,
    };
    let (done, stopping) = (AtomicU64::new(0), AtomicBool::new(false));
    let parsed = workload.workload()?;
    let driver = Driver {
        target: &Values(store),
        workload: &parsed,
        seed: workload.seed,
        host: args.load_host,
        hosts: args.load_hosts,
        verify: workload.verify,
        blank: false,
        until_full: true,
        done: &done,
        stopping: &stopping,
    };
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            driver.load()?;
            wait_for_all(store, args.load_records, &stopping)?;
            driver.run().map(|_| ())
        });
        body();
        stopping.store(true, Ordering::Relaxed);
        running.join().expect("the load does not panic")
    })
    .context("the load failed")
}

/// Waits until every host has loaded its share.
fn wait_for_all(store: &Store, records: u64, stopping: &AtomicBool) -> Result<()> {
    while store.key_count()? < records && !stopping.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
