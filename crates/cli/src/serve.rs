//! `tombolo serve`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use tombolo::OBJECTS;
use tombolo::Store;
use tombolo_experiments::Driver;
use tombolo_server::{Config, Server};

use crate::cli::{LoadArgs, ServeArgs, WorkloadArgs};
use crate::metrics;
use crate::served::Served;
use crate::stop::Stop;
use crate::workload::Values;

pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    let stop = Stop::on_signals()?;
    if args.with_parent {
        stop.with_parent()?;
    }
    let usual = Config::default();
    let config = Config {
        listen: args.listen.clone(),
        password: args.requirepass.clone(),
        workers: args.workers.map_or(usual.workers, usize::from),
        max_clients: args.max_clients,
    };
    // What is wrong with the address is said before anything is joined.
    config.address()?;
    let pod = tombolo_pod::open(&args.pod)?;
    pod.area_of(OBJECTS).with_context(|| {
        format!("{} is made for a page cache alone, which keeps nothing", args.pod)
    })?;
    let store = Arc::new(Store::join_pod(pod, args.local.options())?);
    let server = Arc::new(Server::start(config, Arc::new(Served(store.clone())))?);
    let seat = store.objects().seat();
    println!("host {}: listening on {}", seat.host(), server.local_addr());
    if let Some(address) = &args.metrics {
        let bound = metrics::serve(address, &store, &server)?;
        println!("host {}: metrics on http://{bound}/metrics", seat.host());
    }
    let loaded = with_load(&store, &args.load, || stop.wait());
    // Connections end before the pod is left: nobody may use it afterwards.
    drop(server);
    leave(store)?;
    loaded
}

fn leave(mut store: Arc<Store>) -> Result<()> {
    loop {
        match Arc::try_unwrap(store) {
            Ok(store) => return Ok(store.leave()?),
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
