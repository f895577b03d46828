//! The storage that a host's log is written to, in virtual time.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use tombolo_database::log::Storage;
use tombolo_memory::Memory;
use tombolo_timing::{Storage as Device, TimedMemory};

/// Files of which only the names and sizes are kept. An append goes to memory at once; a sync takes
/// as long as the device needs for what was appended before, and for making that durable.
pub(super) struct TimedStorage {
    memory: TimedMemory,
    device: Device,
    files: RefCell<BTreeSet<String>>,
    /// Bytes that were appended, and not synchronised yet.
    unsynced: Cell<u64>,
}

impl TimedStorage {
    pub(super) fn new(memory: TimedMemory, device: Device) -> Self {
        Self { memory, device, files: RefCell::default(), unsynced: Cell::new(0) }
    }
}

impl Storage for TimedStorage {
    fn create(&self, file: &str) -> io::Result<()> {
        match self.files.borrow_mut().insert(file.to_owned()) {
            true => Ok(()),
            false => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    fn append(&self, _: &str, bytes: &[u8]) -> io::Result<()> {
        self.unsynced.set(self.unsynced.get() + bytes.len() as u64);
        Ok(())
    }

    fn sync(&self, _: &str) -> io::Result<()> {
        let writing = self.unsynced.take() as f64 / self.device.mb_per_s;
        let micros = writing + self.device.sync_us;
        self.memory.sleep(Duration::from_secs_f64(micros / 1e6));
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.borrow().iter().cloned().collect())
    }

    /// No content is kept: databases in virtual time are not recovered.
    fn read(&self, _: &str) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove(&self, file: &str) -> io::Result<()> {
        self.files.borrow_mut().remove(file);
        Ok(())
    }
}
