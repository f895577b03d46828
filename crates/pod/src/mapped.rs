//! Pods in mapped memory: where they are, how they are made and found.
//!
//! A process that has a pod open holds the lock of its files, shared; one that creates a pod holds
//! it alone. So no process creates over a pod that hosts of this machine use, and two that create
//! at once do not mix their bytes. One that opens a pod alone knows that hosts which still have
//! seats are gone.

use std::fmt;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tombolo_memory::{Backing, Mapped, MemoryError, MemorySpec, Room, Source, Window, format_size};

use crate::layout::{HEAD_BYTES, Stretch};
use crate::seats::SeatState;
use crate::superblock::{self, SUPERBLOCK_BYTES};
use crate::{Layout, Pod, PodError, Qualification, tried};

/// How long to wait for a pod that somebody else is creating.
const PATIENCE: Duration = Duration::from_secs(30);

/// SCR of a new pod that is not told otherwise.
const DEFAULT_SCR_BYTES: u64 = 64 << 20;

/// SCR ends, and LNR starts, at a multiple of this.
const SPLIT_BYTES: u64 = 4096;

/// Names a pod's memory: one memory spec, which holds SCR and behind it LNR, or two, `SCR+LNR`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodSpec {
    /// The memory that SCR is in.
    pub scr: MemorySpec,
    /// The memory that LNR is in, if it is another.
    pub lnr: Option<MemorySpec>,
    /// Use it even if it is [known](crate::Qualification) not to do what a pod needs.
    pub trusted: bool,
}

impl PodSpec {
    /// A pod in one file or device.
    pub fn path(path: impl Into<PathBuf>) -> Self {
        MemorySpec::path(path).into()
    }

    /// The same, to be used even if the memory is known not to do what a pod needs.
    #[must_use]
    pub fn trusted(self, trusted: bool) -> Self {
        Self { trusted, ..self }
    }

    /// Whether hosts of other machines may have this memory, as far as that is known.
    ///
    /// # Errors
    /// [`PodError::Memory`] if it cannot be looked at.
    pub fn is_between_machines(&self) -> Result<bool, PodError> {
        let backings = self.memories().map(Backing::open).collect::<Result<Vec<_>, _>>()?;
        Ok(backings.iter().any(|backing| !backing.is_local()))
    }

    /// Refuses memory that is known not to do what a pod needs.
    fn check_qualified(&self, found: Option<&Qualification>) -> Result<(), PodError> {
        match found {
            Some(&Qualification { verdict, .. })
                if !self.trusted && !verdict.allows_hardware_scr() =>
            {
                Err(PodError::NotAllowed { spec: self.to_string(), verdict })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn memories(&self) -> impl Iterator<Item = &MemorySpec> {
        [&self.scr].into_iter().chain(&self.lnr)
    }
}

impl From<MemorySpec> for PodSpec {
    fn from(scr: MemorySpec) -> Self {
        Self { scr, lnr: None, trusted: false }
    }
}

impl FromStr for PodSpec {
    type Err = PodError;

    fn from_str(text: &str) -> Result<Self, PodError> {
        let (scr, lnr) = match text.split_once('+') {
            Some((scr, lnr)) => (scr.parse()?, Some(lnr.parse()?)),
            None => (text.parse()?, None),
        };
        let spec = Self { scr, lnr, trusted: false };
        if spec
            .lnr
            .as_ref()
            .is_some_and(|lnr| lnr.source == spec.scr.source && lnr.source != Source::Anonymous)
        {
            let reason = "SCR and LNR are the same; name it once, to have both in it".to_owned();
            return Err(PodError::Spec { spec: text.to_owned(), reason });
        }
        Ok(spec)
    }
}

impl fmt::Display for PodSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.scr)?;
        self.lnr.iter().try_for_each(|lnr| write!(f, "+{lnr}"))
    }
}

/// How much memory a new pod is to take.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// Bytes of SCR; if not given, all of a memory that is for SCR alone, else 64 MiB or a quarter.
    pub scr_bytes: Option<u64>,
    /// Bytes of LNR; if not given, all there are.
    pub lnr_bytes: Option<u64>,
    /// Overwrite what is there.
    pub force: bool,
    /// Create it even if there is less room than it may come to take. A host that finds no more
    /// room then is told so as if the pod were full.
    pub sparse: bool,
}

/// Plans a layout for so many bytes of SCR and of LNR.
pub type Plan<'a> = &'a dyn Fn(u64, u64) -> Result<Layout, PodError>;

/// Creates an empty pod.
///
/// # Errors
/// [`PodError::Exists`] or [`PodError::Occupied`] unless forced; [`PodError::InUse`] even so;
/// [`PodError::TooSmall`], [`PodError::Memory`]. What was there before is still there, and files
/// that were not there are gone again.
pub fn create(spec: &PodSpec, sizes: Sizes, plan: Plan<'_>) -> Result<Pod<Mapped>, PodError> {
    let (mut backings, mut there) = (Vec::new(), Vec::new());
    // Dropped first: files are removed while they are still locked.
    let mut made = MadeFiles::default();
    for memory in spec.memories() {
        let (backing, is_new) = Backing::open_or_create(memory)?;
        if !backing.try_lock_exclusive()? || backing.is_removed()? {
            return Err(PodError::InUse { spec: spec.to_string() });
        }
        if is_new {
            made.0.extend(backing.file_path().map(PathBuf::from));
        } else {
            there.push(backings.len());
        }
        backings.push(backing);
    }
    let qualification = qualification(&backings)?;
    for &number in there.iter().filter(|_| !sizes.force) {
        refuse_to_overwrite(spec, &backings[number], qualification.is_some())?;
    }
    spec.check_qualified(qualification.as_ref())?;
    let layout = layout(&backings, Backing::natural_bytes, sizes, plan)?;
    reserve(&mut backings, &layout, if sizes.sparse { Room::Unchecked } else { Room::Checked })?;
    let pod = Pod::format(map(&backings, &layout)?, &layout)?;
    qualification.inspect(|found| found.keep(pod.memory()));
    // Now that there is a pod, hosts may come.
    for backing in &backings {
        backing.try_lock_shared()?;
    }
    made.0.clear();
    Ok(pod)
}

/// The layout that [`create`] would give a pod, without changing anything.
///
/// # Errors
/// As of [`create`], but for what only shows when room is taken.
pub fn plan(spec: &PodSpec, sizes: Sizes, plan: Plan<'_>) -> Result<Layout, PodError> {
    let memories: Vec<&MemorySpec> = spec.memories().collect();
    let mut there = Vec::new();
    for memory in &memories {
        if let Some(backing) = existing(memory)? {
            if !backing.try_lock_exclusive()? {
                return Err(PodError::InUse { spec: spec.to_string() });
            }
            there.push(backing);
        }
    }
    let all = there.len() == memories.len();
    let known = if all { qualification(&there)? } else { None };
    for backing in there.iter().filter(|_| !sizes.force) {
        refuse_to_overwrite(spec, backing, known.is_some())?;
    }
    spec.check_qualified(known.as_ref())?;
    let natural = |memory: &&MemorySpec| match (existing(memory)?, memory.bytes) {
        (Some(backing), _) => backing.natural_bytes(),
        (None, Some(bytes)) => Ok(bytes),
        (None, None) => Err(MemoryError::NoSize { path: memory.to_string() }),
    };
    layout(&memories, natural, sizes, plan)
}

/// The memory that `spec` names, if it is there.
fn existing(spec: &MemorySpec) -> Result<Option<Backing>, MemoryError> {
    match Backing::open(spec) {
        Err(MemoryError::Os { reason, .. }) if reason.kind() == ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}

/// Opens a pod, for a host to join.
///
/// # Errors
/// Errors of the pod or the memory: see [`PodError`].
pub fn open(spec: &PodSpec) -> Result<Pod<Mapped>, PodError> {
    let backings = spec.memories().map(Backing::open).collect::<Result<Vec<_>, _>>()?;
    let alone = lock_alone_or_shared(spec, &backings[0])?;
    if alone && backings[0].is_local() {
        note_all_gone(&attach(&backings)?);
    }
    // There is a moment without a lock in which somebody may create another pod; so only what is
    // found from here on counts.
    backings.iter().try_for_each(|backing| lock_shared(spec, backing))?;
    let pod = attach(&backings)?;
    spec.check_qualified(pod.qualification().as_ref())?;
    Ok(pod)
}

/// Opens a pod to look at it, whether it was closed well or not. It takes no right to write, and
/// memory is mapped for reading: whatever would change the pod ends the process by a signal.
///
/// # Errors
/// As of [`open`].
pub fn inspect(spec: &PodSpec) -> Result<Pod<Mapped>, PodError> {
    attach_beside(spec, Backing::open_to_look)
}

/// Opens a pod to change what it says of its hosts, whether it was closed well or not. Nobody may
/// join through this.
///
/// # Errors
/// As of [`open`].
pub fn administer(spec: &PodSpec) -> Result<Pod<Mapped>, PodError> {
    attach_beside(spec, Backing::open)
}

/// The pod, beside those that have it open.
fn attach_beside(
    spec: &PodSpec,
    open: impl Fn(&MemorySpec) -> Result<Backing, MemoryError>,
) -> Result<Pod<Mapped>, PodError> {
    let backings = spec.memories().map(open).collect::<Result<Vec<_>, _>>()?;
    backings.iter().try_for_each(|backing| lock_shared(spec, backing))?;
    attach(&backings)
}

/// Files that were made for a pod, and are removed if that comes to nothing.
#[derive(Default)]
struct MadeFiles(Vec<PathBuf>);

impl Drop for MadeFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            // The error that is on its way to the caller matters more than one here.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Refuses memory that holds something; nothing but a record of it, if it was `tried`.
fn refuse_to_overwrite(spec: &PodSpec, backing: &Backing, tried: bool) -> Result<(), PodError> {
    let bytes = backing.bytes()?.min(SUPERBLOCK_BYTES);
    if bytes == 0 {
        return Ok(());
    }
    let memory = map_start(backing, bytes)?;
    let is_blank = superblock::is_blank(&memory);
    match superblock::uuid(&memory) {
        Some(uuid) => Err(PodError::Exists { spec: spec.to_string(), uuid }),
        // A device is never empty, but it may be blank.
        None if backing.file_path().is_none() && is_blank => Ok(()),
        None if is_blank && tried => Ok(()),
        None => Err(PodError::Occupied { path: backing.name() }),
    }
}

/// The record on memory in which a pod is about to be created, or replaced.
fn qualification(backings: &[Backing]) -> Result<Option<Qualification>, PodError> {
    if let Ok(pod) = attach(backings) {
        return Ok(pod.qualification());
    }
    let of_lnr = backings.last().expect("a pod spec names one memory or two");
    tried::record(of_lnr)
}

/// The layout in one memory or two, whose own sizes `natural` tells.
fn layout<T>(
    memories: &[T],
    natural: impl Fn(&T) -> Result<u64, MemoryError>,
    sizes: Sizes,
    plan: Plan<'_>,
) -> Result<Layout, PodError> {
    let (scr, lnr) = match (memories, sizes.scr_bytes, sizes.lnr_bytes) {
        ([_], Some(scr), Some(lnr)) => (scr, lnr),
        ([_], None, Some(lnr)) => (DEFAULT_SCR_BYTES.min(lnr / 4), lnr),
        ([both], scr, None) => {
            let total = natural(both)?;
            let scr = scr.unwrap_or(DEFAULT_SCR_BYTES.min(total / 4));
            let lnr = total.checked_sub(scr.next_multiple_of(SPLIT_BYTES)).ok_or_else(|| {
                let (scr, total) = (format_size(scr), format_size(total));
                PodError::TooSmall(format!("SCR of {scr} leaves no room in {total}"))
            })?;
            (scr, lnr)
        }
        ([of_scr, of_lnr], scr, lnr) => {
            (scr.map_or_else(|| natural(of_scr), Ok)?, lnr.map_or_else(|| natural(of_lnr), Ok)?)
        }
        _ => unreachable!("a pod spec names one memory or two"),
    };
    plan(scr.next_multiple_of(SPLIT_BYTES), lnr)
}

/// Takes room for all but what tenants populate when they need it.
fn reserve(backings: &mut [Backing], layout: &Layout, room: Room) -> Result<(), PodError> {
    let shares = shares(layout, backings.len());
    let lnr_start = if backings.len() == 1 { layout.scr_bytes } else { 0 };
    let later = |part: Stretch| lnr_start + part.start..lnr_start + part.end();
    let later: Vec<Range<u64>> = layout.on_demand().map(later).collect();
    let last = backings.len() - 1;
    for (number, (backing, bytes)) in backings.iter_mut().zip(shares).enumerate() {
        backing.reserve_but(bytes, if number == last { &later } else { &[] }, room)?;
    }
    Ok(())
}

/// How many bytes of each of its `memories` a pod takes.
fn shares(layout: &Layout, memories: usize) -> Vec<u64> {
    match memories {
        1 => vec![layout.scr_bytes + layout.lnr_bytes],
        _ => vec![layout.scr_bytes, layout.lnr_bytes],
    }
}

fn map(backings: &[Backing], layout: &Layout) -> Result<Mapped, PodError> {
    let regions = backings
        .iter()
        .zip(shares(layout, backings.len()))
        .map(|(backing, bytes)| Ok(Arc::new(backing.map(bytes)?)))
        .collect::<Result<Vec<_>, PodError>>()?;
    let scr = Window::new(regions[0].clone(), 0, layout.scr_bytes);
    let lnr = match &regions[..] {
        [both] => Window::new(both.clone(), layout.scr_bytes, layout.lnr_bytes),
        [_, lnr, ..] => Window::new(lnr.clone(), 0, layout.lnr_bytes),
        [] => unreachable!("a pod spec names one memory or two"),
    };
    let names: Vec<String> = backings.iter().map(|backing| backing.spec().to_string()).collect();
    Ok(Mapped::new(scr, lnr).with_locks_of(&backings[0], &names.join("+")))
}

/// The pod in `backings`, mapped as its superblock says.
pub(crate) fn attach(backings: &[Backing]) -> Result<Pod<Mapped>, PodError> {
    let bytes = backings[0].bytes()?.min(HEAD_BYTES);
    if bytes == 0 {
        return Err(PodError::NotAPod);
    }
    let layout = Pod::peek(&map_start(&backings[0], bytes)?)?;
    Pod::open(map(backings, &layout)?)
}

/// The first bytes of a memory, as SCR.
fn map_start(backing: &Backing, bytes: u64) -> Result<Mapped, PodError> {
    let region = Arc::new(backing.map(bytes)?);
    let nothing = Window::new(region.clone(), 0, 0);
    Ok(Mapped::new(Window::new(region, 0, bytes), nothing))
}

/// Nobody has the memory of this machine open, so nobody is at anything, whatever the pod says.
/// That includes hosts that died before they had said which processes they are.
fn note_all_gone(pod: &Pod<Mapped>) {
    for stay in pod.stays_in(SeatState::Seated).chain(pod.stays_in(SeatState::Fenced)) {
        pod.fence(stay);
        pod.note_gone(stay);
    }
}

/// Whether nobody else has it open.
fn lock_alone_or_shared(spec: &PodSpec, backing: &Backing) -> Result<bool, PodError> {
    with_patience(spec, || {
        if backing.try_lock_exclusive()? {
            return Ok(Some(true));
        }
        Ok(backing.try_lock_shared()?.then_some(false))
    })
}

pub(crate) fn lock_shared(spec: &PodSpec, backing: &Backing) -> Result<(), PodError> {
    with_patience(spec, || Ok(backing.try_lock_shared()?.then_some(())))
}

fn with_patience<T>(
    spec: &PodSpec,
    attempt: impl Fn() -> Result<Option<T>, PodError>,
) -> Result<T, PodError> {
    let started = Instant::now();
    loop {
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        let waited = started.elapsed();
        if waited > PATIENCE {
            let waited_ms = waited.as_millis() as u64;
            return Err(PodError::BeingCreated { spec: spec.to_string(), waited_ms });
        }
        thread::sleep(Duration::from_millis(2));
    }
}
