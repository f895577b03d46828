//! Markers: how far the log of a worker counts, as its last transaction says.
//!
//! A transaction's record is in the log's buffer before the commit, and counts after it. A host may
//! die in between. So each transaction also writes an object of its worker, the marker: the
//! position behind its record. Hosts that are left read it, and know whether the record counts.
//!
//! A marker is the session of the log, 8 bytes, and the position.

use tombolo_database::TxError;
use tombolo_database::log::LogPosition;
use tombolo_memory::Memory;
use tombolo_pod::Stay;
use tombolo_sharing::Error;

use crate::database::ObjectDatabase;
use crate::{names, sites};

impl<M: Memory> ObjectDatabase<M> {
    /// The marker of a transaction whose record is before `position`.
    pub(crate) fn marker(&self, position: LogPosition) -> Vec<u8> {
        [self.group.session().to_le_bytes(), position.0.to_le_bytes()].concat()
    }

    /// Puts in order what a host has left that was fenced: its transactions that have committed
    /// count in its log, and there are no others. `false` if it is too early for that.
    ///
    /// # Errors
    /// That this host was fenced, too.
    pub fn settle(&self, home: u8, stay: Stay) -> Result<bool, TxError> {
        match self.try_settle(home, stay) {
            // Something that the host had locked is being put in order.
            Err(Error::Busy { .. } | Error::Stalled { .. }) => Ok(false),
            settled => settled.map_err(|error| self.failed(&error)),
        }
    }

    fn try_settle(&self, home: u8, stay: Stay) -> Result<bool, Error> {
        // A tick of the objects sees to that.
        if !self.memory().check(sites::SETTLE_OUT, self.objects.is_out(stay)) {
            return Ok(false);
        }
        for worker in 0..self.group.layout().workers {
            if let Some(position) = self.marked(home, worker)? {
                self.group.settle(home, worker, position);
            }
        }
        Ok(true)
    }

    /// The position that a worker's marker says.
    fn marked(&self, home: u8, worker: u16) -> Result<Option<LogPosition>, Error> {
        let mut marker = Vec::new();
        self.objects.read(&names::of_marker(home, worker), &mut marker)?;
        let Some((session, position)) = marker.split_first_chunk() else { return Ok(None) };
        let position = position.first_chunk().map(|bytes| LogPosition(u64::from_le_bytes(*bytes)));
        let is_ours = u64::from_le_bytes(*session) == self.group.session();
        Ok(position.filter(|_| is_ours && self.memory().keeps(sites::SETTLE_MARKER)))
    }
}
