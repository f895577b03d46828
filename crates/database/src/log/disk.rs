//! A simulated disk with a volatile cache.
//!
//! **Fault model.** A loss of power keeps what was synchronised. Of what was appended since, each
//! unit of 512 bytes is there, or is zeros, and the file ends anywhere. A file whose name was never
//! synchronised may be gone. The disk may be full: then a part of what was to be appended is there.
//! Synchronising may fail: then what was appended since the last success may be lost at once.
//!
//! Left out: units that are written in part, damage at rest; tests damage bytes themselves.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Storage;

/// Bytes that a disk writes whole.
pub(crate) const UNIT: usize = 512;

#[derive(Clone, Default)]
struct File {
    bytes: Vec<u8>,
    /// How many of them survive.
    durable: usize,
    /// Whether its name survives.
    named: bool,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, File>,
    /// Bytes that there is room for.
    room: Option<u64>,
    fails_to_sync: bool,
    syncs: u64,
}

/// A disk in this process' memory, which can lose what was not synchronised.
#[derive(Default)]
pub struct SimulatedDisk(Mutex<State>);

impl SimulatedDisk {
    /// An empty disk with room for everything.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on there is room for so many more bytes; without end for `None`.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.state().room = bytes;
    }

    /// From here on synchronising fails, or does not.
    pub fn fail_to_sync(&self, fails: bool) {
        self.state().fails_to_sync = fails;
    }

    /// How often a file was synchronised.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// The disk as it may be after a loss of power now; `random` decides.
    pub fn after_power_loss(&self, mut random: impl FnMut() -> u64) -> Self {
        let state = self.state();
        let files = state.files.iter().filter_map(|(name, file)| {
            let kept = file.named || random().is_multiple_of(2);
            kept.then(|| (name.clone(), file.after_power_loss(&mut random)))
        });
        Self::of(files.collect())
    }

    /// The same files with what was synchronised, and nothing else.
    pub fn synchronised(&self) -> Self {
        let state = self.state();
        let named = state.files.iter().filter(|(_, file)| file.named);
        Self::of(named.map(|(name, file)| (name.clone(), file.cut(file.durable))).collect())
    }

    fn of(files: BTreeMap<String, File>) -> Self {
        Self(Mutex::new(State { files, ..State::default() }))
    }

    /// Changes what a file holds, which is durable afterwards.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn change(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let file = state.files.get_mut(file).expect("there is such a file");
        change(&mut file.bytes);
        (file.durable, file.named) = (file.bytes.len(), true);
    }
}

impl File {
    fn cut(&self, bytes: usize) -> Self {
        Self { bytes: self.bytes[..bytes].to_vec(), durable: bytes, named: true }
    }

    fn after_power_loss(&self, random: &mut impl FnMut() -> u64) -> Self {
        let doubtful = self.bytes.len() - self.durable;
        let mut after = self.cut(self.durable + random() as usize % (doubtful + 1));
        let first = self.durable / UNIT * UNIT;
        for unit in (first..after.bytes.len()).step_by(UNIT) {
            if random().is_multiple_of(3) {
                let (start, end) = (unit.max(self.durable), (unit + UNIT).min(after.bytes.len()));
                after.bytes[start..end].fill(0);
            }
        }
        after.durable = after.bytes.len();
        after
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Storage for SimulatedDisk {
    fn create(&self, file: &str) -> io::Result<()> {
        let mut state = self.state();
        if state.files.contains_key(file) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.files.insert(file.to_owned(), File::default());
        Ok(())
    }

    fn append(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let room = state.room.unwrap_or(u64::MAX);
        let fits = bytes.len().min(room.try_into().unwrap_or(usize::MAX));
        state.room = state.room.map(|room| room - fits as u64);
        let file = state.files.get_mut(file).ok_or_else(missing)?;
        file.bytes.extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&self, file: &str) -> io::Result<()> {
        let mut state = self.state();
        if state.fails_to_sync {
            return Err(io::Error::other("the simulated disk fails"));
        }
        state.syncs += 1;
        let file = state.files.get_mut(file).ok_or_else(missing)?;
        (file.durable, file.named) = (file.bytes.len(), true);
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().files.keys().cloned().collect())
    }

    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        self.state().files.get(file).map(|file| file.bytes.clone()).ok_or_else(missing)
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        self.state().files.remove(file).map(|_| ()).ok_or_else(missing)
    }
}
