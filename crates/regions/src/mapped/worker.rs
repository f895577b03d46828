//! A process's part in the regions of a pod, and the thread that serves its pages.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use tombolo_host::Host;
use tombolo_memory::Mapped;
use tombolo_memory::paging::SharedPages;
use tombolo_pod::{PodError, PodSpec, open};

use super::region::SharedRegion;
use super::view::MappedView;
use crate::{BlockMode, BlockStats, KIND, Keeper, Mode, RegionEntry, RegionError, RegionHost};

/// For so long after its last work the thread looks for more without a pause.
const AWAKE: Duration = Duration::from_micros(100);
/// For so long it sleeps little.
const DROWSY: Duration = Duration::from_millis(20);
const NAP: Duration = Duration::from_micros(50);
const SLEEP: Duration = Duration::from_millis(1);

/// Commands to the thread that serves this host's pages.
pub(super) enum Command {
    /// Serve a region. The answer says whether the pod's own pages can be mapped.
    Open { entry: RegionEntry, pages: Arc<SharedPages>, done: Sender<bool> },
    /// Give a region back.
    Close { region: u64, done: Sender<()> },
    /// Give blocks another mode.
    Change { region: u64, blocks: Vec<usize>, to: BlockMode, done: Sender<()> },
}

pub(super) struct Inner {
    pub(super) host: RegionHost<Mapped>,
    commands: Mutex<Vec<Command>>,
    stops: AtomicBool,
    fenced: AtomicBool,
}

/// A process's part in the regions of a pod. Dropping it leaves the pod; regions that are still
/// open stay usable until they are dropped.
pub struct Regions {
    shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
    worker: Thread,
}

impl Regions {
    /// Joins the pod that `spec` names. Blocks for up to 30 seconds while a seat will soon be free.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn join(spec: &PodSpec) -> Result<Self, RegionError> {
        let host = Host::join(open(spec)?)?;
        let Some(area) = host.pod().areas().find(|area| area.layout().kind == KIND) else {
            let there = host.pod().areas().map(|area| area.layout().kind.to_string()).collect();
            host.leave();
            return Err(PodError::NoArea { kind: KIND, there }.into());
        };
        let host = RegionHost::join(&host, area)?;
        let inner = Arc::new(Inner {
            host,
            commands: Mutex::default(),
            stops: AtomicBool::new(false),
            fenced: AtomicBool::new(false),
        });
        let served = Arc::clone(&inner);
        let thread = thread::Builder::new().name("regions".to_owned()).spawn(move || {
            // Threads that wait for pages would wait for ever.
            if catch_unwind(AssertUnwindSafe(|| serve(&served))).is_err() {
                std::process::abort();
            }
        });
        let thread =
            thread.map_err(|reason| RegionError::Os { doing: "start a thread", reason })?;
        let worker = thread.thread().clone();
        Ok(Self { shared: Arc::new(Shared { inner, thread: Some(thread), worker }) })
    }

    /// Makes a region of so many bytes, all zeros. Blocks while it writes them.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn create(&self, name: &str, bytes: u64, mode: Mode) -> Result<(), RegionError> {
        self.shared.inner.host.create(name, bytes, mode)
    }

    /// Opens a region: maps it, and takes part in keeping it coherent.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn open(&self, name: &str) -> Result<SharedRegion, RegionError> {
        let entry = self.shared.inner.host.begin_use(name)?;
        SharedRegion::open(Arc::clone(&self.shared), entry.clone())
            .inspect_err(|_| self.shared.inner.host.end_use(entry.extent.region))
    }

    /// Removes a region.
    ///
    /// # Errors
    /// [`RegionError::Missing`]; [`RegionError::InUse`].
    pub fn remove(&self, name: &str) -> Result<(), RegionError> {
        self.shared.inner.host.remove(name)
    }

    /// All regions.
    pub fn list(&self) -> Vec<RegionEntry> {
        self.shared.inner.host.regions()
    }

    /// The mode and the counts of each block of a region, by all hosts.
    ///
    /// # Errors
    /// [`RegionError::Missing`].
    pub fn blocks(&self, name: &str) -> Result<Vec<BlockStats>, RegionError> {
        let missing = || RegionError::Missing(name.to_owned());
        let entry = self.list().into_iter().find(|entry| entry.name == name).ok_or_else(missing)?;
        Ok(self.shared.inner.host.blocks(&entry))
    }

    /// This host's number in the pod.
    pub fn host(&self) -> u8 {
        self.shared.inner.host.number()
    }
}

impl Shared {
    pub(super) fn ask(&self, command: Command) {
        let mut commands = self.inner.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.push(command);
        drop(commands);
        self.worker.unpark();
    }

    /// Waits for an answer of the thread for as long as it runs and this host counts.
    pub(super) fn answer<R>(
        &self,
        doing: &'static str,
        answers: &Receiver<R>,
    ) -> Result<R, RegionError> {
        const PATIENCE: Duration = Duration::from_secs(60);
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if let Ok(answer) = answers.recv_timeout(Duration::from_millis(10)) {
                return Ok(answer);
            }
            if self.inner.fenced.load(Ordering::Acquire) {
                return Err(RegionError::Fenced);
            }
        }
        let host = self.inner.host.number();
        Err(RegionError::Stalled { doing, seconds: PATIENCE.as_secs(), host })
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.inner.fenced.load(Ordering::Acquire)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.inner.stops.store(true, Ordering::Release);
        self.worker.unpark();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Commands that the thread has begun and not answered yet.
enum Owed {
    Closing(u64, Sender<()>),
    Changing(u64, Sender<()>),
}

fn serve(inner: &Inner) {
    let mut keeper: Keeper<'_, Mapped, MappedView> = inner.host.keeper();
    let mut owed: Vec<Owed> = Vec::new();
    let mut worked = Instant::now();
    loop {
        let commands = {
            let mut commands = inner.commands.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *commands)
        };
        let mut busy = !commands.is_empty();
        commands.into_iter().for_each(|command| begin(inner, &mut keeper, &mut owed, command));
        if inner.fenced.load(Ordering::Acquire) {
            keeper.give_up();
        } else if keeper.is_fenced() {
            keeper.give_up();
            inner.host.note_gone();
            inner.fenced.store(true, Ordering::Release);
        } else {
            busy |= keeper.turn();
        }
        owed.retain(|owed| !is_done(inner, &keeper, owed));
        if inner.stops.load(Ordering::Acquire) && owed.is_empty() {
            break;
        }
        rest(busy, &mut worked);
    }
    drop(keeper);
    inner.host.leave();
}

fn begin(
    inner: &Inner,
    keeper: &mut Keeper<'_, Mapped, MappedView>,
    owed: &mut Vec<Owed>,
    command: Command,
) {
    match command {
        Command::Open { entry, pages, done } => {
            let block_pages = inner.host.places().block_pages();
            let view = MappedView::new(pages, block_pages, thread::current());
            let can_share = view.can_share();
            keeper.open(entry.extent, view);
            let _ = done.send(can_share);
        }
        Command::Close { region, done } => {
            keeper.close(region);
            owed.push(Owed::Closing(region, done));
        }
        Command::Change { region, blocks, to, done } => {
            blocks.into_iter().for_each(|block| keeper.change(region, block, to));
            owed.push(Owed::Changing(region, done));
        }
    }
}

/// Whether what was asked is done; then the answer is sent.
fn is_done(inner: &Inner, keeper: &Keeper<'_, Mapped, MappedView>, owed: &Owed) -> bool {
    let fenced = inner.fenced.load(Ordering::Acquire);
    match owed {
        Owed::Closing(region, done) => {
            let closed = fenced || !keeper.is_open(*region);
            if closed {
                inner.host.end_use(*region);
                let _ = done.send(());
            }
            closed
        }
        Owed::Changing(region, done) => {
            let changed = fenced || !keeper.is_changing(*region);
            if changed {
                let _ = done.send(());
            }
            changed
        }
    }
}

/// Lets others have the processor, and sleeps when there has been nothing to do for a while.
fn rest(busy: bool, worked: &mut Instant) {
    if busy {
        *worked = Instant::now();
        return;
    }
    match worked.elapsed() {
        idle if idle < AWAKE => thread::yield_now(),
        idle if idle < DROWSY => thread::park_timeout(NAP),
        _ => thread::park_timeout(SLEEP),
    }
}

/// A channel for one answer.
pub(super) fn answers<R>() -> (Sender<R>, Receiver<R>) {
    channel()
}
