//! The times of the code's own steps: those measured on this machine, less those that the simulated
//! one takes for the same without the steps. Operations are those of a benchmark. Each includes the
//! time to choose it, to make its key and its value, and to note how long it took.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use anyhow::{Context, Result};
use tombolo_experiments::{Driver, Load, Objects as Driven};
use tombolo_memory::{Backing, Mapped, Memory, MemorySpec, Window};
use tombolo_objects::{Objects, Options};
use tombolo_pod::{Layout, Mailbox, Pod};
use tombolo_sharing::plan_layout;
use tombolo_timing::{Profile, Simulation, Spec, TimedMemory};
use tombolo_workloads::Workload;

use super::{Entry, in_company, median};

const SCR: u64 = 1 << 20;
const LNR: u64 = 64 << 20;
const ROUNDS: usize = 9;
const OPERATIONS: u32 = 5000;
/// Objects of the benchmark: so few that a core's own caches hold them, and so many that it does
/// not know which comes next.
const RECORDS: u64 = 256;
/// Objects created and deleted at once: the log has to hold that.
const OBJECTS: u32 = 500;

/// Nanoseconds, with everything in the nearest cache.
#[derive(Clone, Copy, Debug)]
struct Times {
    read: f64,
    write: f64,
    /// An operation of a benchmark that reads, and of one that writes.
    driven: [f64; 2],
    /// Creating an object and deleting it again, for which it gets a record: three events.
    change: f64,
    /// Applying an event of another host.
    apply: f64,
    message: f64,
}

/// Steps that take nothing.
pub(super) const NONE: [Entry; 5] = [
    ("operation_ns", 0.0, ""),
    ("lock_ns", 0.0, ""),
    ("append_ns", 0.0, ""),
    ("apply_ns", 0.0, ""),
    ("message_ns", 0.0, ""),
];

pub(super) fn measure(mut profile: Profile) -> Result<[Entry; 5]> {
    let real = in_company(profile.pod.hosts, |_| on_this_machine())?;
    profile.pod.hosts = 2;
    let bare = in_virtual_time(profile)?;
    let step = |read: f64, write: f64| (read.max(0.0), (write - read).max(0.0));
    let (operation, lock) = step(real.read - bare.read, real.write - bare.write);
    let apply = (real.apply - bare.apply).max(0.0);
    let events = real.change - bare.change - 2.0 * operation - lock;
    let append = (events / 3.0 - apply).max(0.0);
    let driven = |kind: usize| real.driven[kind] - bare.driven[kind];
    let (operation, lock) = step(driven(0), driven(1));
    Ok([
        ("operation_ns", operation, "YCSB reads 256 objects of 1 KiB, but for its accesses"),
        ("lock_ns", lock, "the same for writing 1 KiB, but for that"),
        ("append_ns", append, "creating and deleting objects, but for that"),
        ("apply_ns", apply, "applying what another host has logged, but for its accesses"),
        (
            "message_ns",
            (real.message - bare.message).max(0.0),
            "a message and its answer, but for their accesses",
        ),
    ])
}

fn on_this_machine() -> Result<Times> {
    let region = Arc::new(Backing::open(&MemorySpec::anonymous(SCR + LNR))?.map(SCR + LNR)?);
    let window = |offset, bytes| Window::new(Arc::clone(&region), offset, bytes);
    let memory = Mapped::new(window(0, SCR), window(SCR, LNR));
    Pod::format(memory.clone(), &layout()?)?;
    let first = join(memory.clone())?;
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| join(memory.clone()));
        while !second.is_finished() {
            first.tick()?;
        }
        second.join().expect("joining does not panic")
    })?;
    times(&first, &second)
}

fn in_virtual_time(profile: Profile) -> Result<Times> {
    type Slot<T> = Rc<RefCell<Option<Result<T>>>>;
    let mut simulation = Simulation::new(Spec { profile, scr_bytes: SCR, lnr_bytes: LNR, seed: 1 });
    Pod::format(simulation.memory(0), &layout()?)?;
    let joined: [Slot<Objects<TimedMemory>>; 2] = Default::default();
    for (host, slot) in joined.iter().enumerate() {
        let (mine, other) = (Rc::clone(slot), Rc::clone(&joined[1]));
        simulation.spawn(host, 0, move |memory| {
            *mine.borrow_mut() = Some(join(memory.clone()));
            while other.borrow().is_none() {
                if let Some(Ok(objects)) = &*mine.borrow() {
                    let _ = objects.tick();
                }
                memory.sleep(Duration::from_micros(10));
            }
        });
    }
    simulation.run();
    simulation.takes_time(true);
    let [first, second] = joined.map(|slot| slot.take().context("a host has not joined")?);
    let (first, second) = (first?, second?);
    let outcome: Slot<Times> = Slot::default();
    let told = Rc::clone(&outcome);
    simulation.spawn(0, 0, move |_| *told.borrow_mut() = Some(times(&first, &second)));
    simulation.run();
    outcome.take().context("the measurement has not ended")?
}

fn layout() -> Result<Layout> {
    Ok(plan_layout(SCR, LNR, tombolo_sharing::Options::default())?)
}

fn join<M: Memory>(memory: M) -> Result<Objects<M>> {
    Ok(Objects::join(Pod::open(memory)?, Options::default())?)
}

/// The times of two hosts' handles, used by one thread.
fn times<M: Memory>(first: &Objects<M>, second: &Objects<M>) -> Result<Times> {
    let key = |number: u32| format!("object-{number:08}").into_bytes();
    let memory = first.memory();
    let each = |count: u32, body: &mut dyn FnMut() -> Result<()>| -> Result<f64> {
        let started = memory.uptime();
        body()?;
        Ok((memory.uptime() - started).as_nanos() as f64 / f64::from(count))
    };
    let mut driven_each = [0.0; 2];
    for (kind, reads) in [1.0, 0.0].into_iter().enumerate() {
        driven_each[kind] = driven(first, reads)?;
        // So that the log has room.
        second.object_count()?;
    }
    let hot = key(u32::MAX);
    first.create(&hot, &[0; 32])?;
    let mut value = Vec::new();
    let (mut read, mut write, mut change, mut apply) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        read.push(each(OPERATIONS, &mut || {
            (0..OPERATIONS).try_for_each(|_| first.read(&hot, &mut value).map(drop))?;
            Ok(())
        })?);
        write.push(each(OPERATIONS, &mut || {
            (0..OPERATIONS).try_for_each(|_| first.write(&hot, &[0; 32]).map(drop))?;
            Ok(())
        })?);
        change.push(each(OBJECTS, &mut || {
            for number in 0..OBJECTS {
                first.create(&key(number), &[0; 32])?;
            }
            for number in 0..OBJECTS {
                first.delete(&key(number))?;
            }
            Ok(())
        })?);
        apply.push(each(3 * OBJECTS, &mut || Ok(second.object_count().map(drop)?))?);
    }
    Ok(Times {
        read: median(read),
        write: median(write),
        driven: driven_each,
        change: median(change),
        apply: median(apply),
        message: message(first, second)?,
    })
}

/// The time of operations of a benchmark, of which so many read, and the others write, a few
/// objects.
fn driven<M: Memory>(objects: &Objects<M>, reads: f64) -> Result<f64> {
    let mut workload = Workload::stock('c')?;
    (workload.record_count, workload.insert_count) = (RECORDS, RECORDS);
    (workload.field_count, workload.field_length_bytes) = (1, 1024);
    (workload.proportions.read, workload.proportions.update) = (reads, 1.0 - reads);
    let (done, stopping) = (AtomicU64::new(0), AtomicBool::new(false));
    let driver = Driver {
        target: &Driven(objects),
        workload: &workload,
        seed: 1,
        host: 0,
        hosts: 1,
        verify: false,
        blank: false,
        until_full: false,
        done: &done,
        stopping: &stopping,
    };
    driver.load_share(0, Load::Create)?;
    let inserts = driver.inserts();
    let memory = objects.memory();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let operations = driver.operations(0, &inserts)?;
        let started = memory.uptime();
        driver.run_share(0, operations, OPERATIONS.into(), &inserts)?;
        rounds.push((memory.uptime() - started).as_nanos() as f64 / f64::from(OPERATIONS));
    }
    Ok(median(rounds))
}

fn message<M: Memory>(first: &Objects<M>, second: &Objects<M>) -> Result<f64> {
    let boxes = [first, second].map(|objects| {
        let host = objects.host();
        Mailbox::new(objects.area(), host.seat(), host.mail())
    });
    let payload = [0; tombolo_pod::PAYLOAD_BYTES];
    let memory = first.memory();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let started = memory.uptime();
        for _ in 0..OPERATIONS {
            let mut ticket =
                boxes[0].try_post(second.seat().host(), &payload).context("no slot is free")?;
            let request = boxes[1].next().context("the message has not come")?;
            boxes[1].answer(&request, 1);
            ticket.reply();
        }
        rounds.push((memory.uptime() - started).as_nanos() as f64 / f64::from(OPERATIONS));
    }
    Ok(median(rounds))
}
