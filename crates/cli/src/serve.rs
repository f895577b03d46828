//! `tombolo serve`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tombolo::{OBJECTS, Store, StoreError as KvError};
use tombolo_experiments::Driver;
use tombolo_server::{Config, Server};
use tracing::level_filters::LevelFilter;
use tracing::{error, info, warn};

use crate::cli::{LoadArgs, ServeArgs, WorkloadArgs};
use crate::messages::Wire;
use crate::open_files::clients_within_limit;
use crate::operation::{Operation, Serving, Watch, sole};
use crate::output::{self, FENCED};
use crate::qualify::unqualified;
use crate::served::Served;
use crate::stop::Stop;
use crate::workload::Values;

/// How often a host looks whether it is still in the pod.
const LOOK: Duration = Duration::from_millis(100);

/// How long a host that was fenced tries to join again: its old seat may be the only one.
const REJOIN_PATIENCE: Duration = Duration::from_secs(60);

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
    // An error of the address is told before anything is joined.
    config.address()?;
    let operation = Operation::start(&args.log, LevelFilter::INFO, args.metrics.as_deref())?;
    config.max_clients = max_clients(args.max_clients);
    let mut store = join(args)?;
    if let Some(said) = unqualified(&args.pod, store.objects().pod()) {
        warn!("{said}");
    }
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
    let pod = tombolo_pod::open(&args.pod.clone().trusted(args.trust_me))?;
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
    let wire = Wire::join(&store)?.map(Arc::new);
    let store = Arc::new(store);
    let served =
        Served { store: store.clone(), wire: wire.clone(), tally: operation.tally.clone() };
    let server = Arc::new(Server::start(config.clone(), Arc::new(served))?);
    // If it begins anew, clients find it where it was.
    config.listen = server.local_addr().to_string();
    let seat = store.objects().seat().clone();
    output::say(format!("host {}: listening on {}\n", seat.host(), server.local_addr()))?;
    if let Some(pages) = &operation.pages {
        let (store, server) = (Arc::downgrade(&store), Arc::downgrade(&server));
        let tally = operation.tally.clone();
        pages.watch(move || {
            let (store, server) = (store.upgrade()?, server.upgrade()?);
            Some(Box::new(Serving { store, server, tally: tally.clone() }))
        });
        output::say(format!(
            "host {}: metrics on http://{}/metrics\n",
            seat.host(),
            pages.address()
        ))?;
    }
    operation.manager.ready();
    let is_in = || seat.holds(store.objects().memory());
    let subject =
        Serving { store: store.clone(), server: server.clone(), tally: operation.tally.clone() };
    let mut watch = Watch::new(&subject, &operation.tally, &operation.observed);
    let loaded = with_load(&store, &args.load, || {
        while is_in() && !stop.within(LOOK) {
            watch.look(&subject, &operation.manager);
        }
    });
    drop(subject);
    operation.manager.stopping();
    let fenced = !is_in();
    // Connections end before the pod is left: nobody may use it afterwards.
    drop(server);
    wire.iter().for_each(|wire| wire.leave());
    drop(wire);
    match sole(store).leave() {
        Err(KvError::Objects(error)) if error.is_fenced() => {}
        left => left?,
    }
    if fenced {
        return Ok(End::Fenced { host: seat.host() });
    }
    loaded.map(|()| End::Told)
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
