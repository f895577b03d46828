//! One host of `tombolo region run`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, set_hook};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tombolo_memory::paging::PageSpace;
use tombolo_programs::{Access, Bytes, Parameters, Processor, Program};
use tombolo_regions::{Mode, RegionError, Regions, SharedRegion};

use super::RegionWorkerArgs;
use crate::children::tell;

/// A message of a host to the process that started it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Event {
    /// Its thread has ended, after so long; the first host has checked the result.
    Done { seconds: f64, problem: Option<String> },
    /// It cannot go on.
    Failed { what: String },
}

/// Runs a thread whose values lie in a region.
#[derive(Clone)]
pub(super) struct RegionProcessor {
    region: Rc<RegionMemory>,
    hosts: u64,
}

/// A region, at the addresses of a program.
struct RegionMemory(SharedRegion);

impl RegionMemory {
    fn space(&self) -> &PageSpace {
        self.0.bytes()
    }
}

impl Bytes for RegionMemory {
    fn read(&self, address: u64, into: &mut [u8]) {
        let (space, at) = (self.space(), address as usize);
        match into.len() {
            4 if at.is_multiple_of(4) => {
                into.copy_from_slice(&space.load::<u32>(at).to_le_bytes());
            }
            8 if at.is_multiple_of(8) => {
                into.copy_from_slice(&space.load::<u64>(at).to_le_bytes());
            }
            _ => space.read(at, into),
        }
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        let (space, at) = (self.space(), address as usize);
        if let (Ok(word), true) = (bytes.try_into(), at.is_multiple_of(8)) {
            space.store(at, u64::from_le_bytes(word));
        } else if let (Ok(word), true) = (bytes.try_into(), at.is_multiple_of(4)) {
            space.store(at, u32::from_le_bytes(word));
        } else {
            space.write(at, bytes);
        }
    }

    fn compare_exchange(
        &self,
        address: u64,
        bytes: usize,
        current: u64,
        new: u64,
    ) -> Result<(), u64> {
        let (space, at) = (self.space(), address as usize);
        let done = match bytes {
            1 => space.compare_exchange(at, current as u8, new as u8).map_err(u64::from).err(),
            2 => space.compare_exchange(at, current as u16, new as u16).map_err(u64::from).err(),
            4 => space.compare_exchange(at, current as u32, new as u32).map_err(u64::from).err(),
            _ => space.compare_exchange(at, current, new).err(),
        };
        done.map_or(Ok(()), Err)
    }
}

impl Processor for RegionProcessor {
    fn access(&self, _: u64, _: u32, _: Access) {}

    fn bytes(&self) -> Option<&dyn Bytes> {
        Some(&*self.region)
    }

    fn works(&self, _: u64) {}

    fn barrier(&self) {
        if let Err(error) = self.region.0.meet(self.hosts) {
            panic_any(Stopped(error.to_string()));
        }
    }
}

/// The program cannot go on.
struct Stopped(String);

/// Runs the program's thread.
pub(crate) fn run(args: &RegionWorkerArgs) -> Result<()> {
    // The reason for an early end is told to the process that started this one.
    set_hook(Box::new(|_| {}));
    let event = match catch_unwind(AssertUnwindSafe(|| work(args))) {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => Event::Failed { what: format!("{error:#}") },
        Err(panic) => Event::Failed { what: reason(&*panic) },
    };
    tell(&event)
}

fn reason(panic: &(dyn Any + Send)) -> String {
    let text = |text: &&str| (*text).to_owned();
    panic
        .downcast_ref::<Stopped>()
        .map(|stopped| stopped.0.clone())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .or_else(|| panic.downcast_ref::<&str>().map(text))
        .unwrap_or_else(|| "the program panicked".to_owned())
}

fn work(args: &RegionWorkerArgs) -> Result<Event> {
    let parameters = parameters(args.scale, args.rounds, args.seed);
    let program: Program<RegionProcessor> =
        Program::new(args.program, &parameters, args.hosts.into())?;
    let regions = Regions::join(&args.spec)?;
    let region = Rc::new(RegionMemory(regions.open(&args.name)?));
    let hosts = args.hosts.into();
    if args.thread == 0 {
        program.write_to(&*region);
    }
    region.0.meet(hosts)?;
    let started = Instant::now();
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        let switching = args.switch.map(|pause| {
            let (shared, stops) = (&region.0, &stops);
            let is_coherent = args.coherent;
            let pause = Duration::from_millis(pause);
            scope.spawn(move || switch(shared, is_coherent, pause, stops))
        });
        let processor = RegionProcessor { region: Rc::clone(&region), hosts };
        let ran = catch_unwind(AssertUnwindSafe(|| program.thread(args.thread.into())(processor)));
        stops.store(true, Ordering::Release);
        let switched = switching.map(|thread| thread.join().expect("it does not panic"));
        if let Err(panic) = ran {
            std::panic::resume_unwind(panic);
        }
        switched.unwrap_or(Ok(()))
    })?;
    region.0.meet(hosts)?;
    let seconds = started.elapsed().as_secs_f64();
    let problem = (args.thread == 0).then(|| {
        program.read_from(&*region);
        program.verify().err().map(|wrong| wrong.to_string())
    });
    region.0.meet(hosts)?;
    Ok(Event::Done { seconds, problem: problem.flatten() })
}

/// A program's input. All other parameters are the defaults.
pub(super) fn parameters(scale: u32, rounds: u32, seed: u64) -> Parameters {
    Parameters { scale: Some(scale), rounds: Some(rounds), seed, ..Parameters::default() }
}

/// Gives all blocks another mode again and again.
fn switch(
    region: &SharedRegion,
    is_coherent: bool,
    pause: Duration,
    stops: &AtomicBool,
) -> Result<(), RegionError> {
    let allowed = Mode::ALL.into_iter().filter(|&mode| is_coherent || mode != Mode::Direct);
    for mode in allowed.cycle() {
        thread::sleep(pause);
        if stops.load(Ordering::Acquire) {
            return Ok(());
        }
        region.set_mode(0..region.len(), mode)?;
    }
    Ok(())
}
