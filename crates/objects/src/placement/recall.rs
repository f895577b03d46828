//! Asking another host to bring an object back, and being asked.
//!
//! ```text
//! request   hash (4 bytes) | generation (4) | slot (8)
//! answer    1: it is back, or was not here; 0: it is in use, ask again
//! ```
//!
//! The host that is asked answers when it ticks, and between its own operations if nothing is in
//! the way: neither the object's lock nor a full log.

use std::time::Duration;

use tombolo_memory::Memory;
use tombolo_pod::{PAYLOAD_BYTES, Reply, Request};

use crate::storage::index::Entry;
use crate::{Error, Objects, sites};

/// How long a host waits for another to bring an object back.
const PATIENCE: Duration = Duration::from_secs(5);

const BACK: u64 = 1;

const IN_USE: u64 = 0;

/// Requests that are answered in a tick.
const IN_TICK: usize = 64;

impl<M: Memory> Objects<M> {
    /// Brings back the object with this entry, which is in the memory of `host`: the entry may have
    /// changed then.
    pub(crate) fn recall(&self, host: u8, entry: Entry) -> Result<(), Error> {
        if host == self.enrolment.host() {
            self.move_out_if_idle(entry)
        } else {
            self.request_recall(host, entry)
        }
    }

    /// Has another host bring back the object with this entry; returns once the entry has changed,
    /// as far as this replica knows.
    fn request_recall(&self, host: u8, entry: Entry) -> Result<(), Error> {
        let memory = self.memory();
        let started = memory.uptime();
        while self.is_still_away(entry)? {
            self.ask(host, entry)?;
            let waited = memory.uptime().saturating_sub(started);
            if waited > PATIENCE {
                return Err(Error::Unanswered { host, waited_ms: waited.as_millis() as u64 });
            }
            self.obstructed(host, entry);
            self.meanwhile()?;
        }
        Ok(())
    }

    /// Asks once, and waits for the answer.
    fn ask(&self, host: u8, entry: Entry) -> Result<(), Error> {
        let memory = self.memory();
        let Some(mut ticket) = self.partition.mailbox.try_post(host, &encode(entry)) else {
            return Ok(());
        };
        let started = memory.uptime();
        while ticket.reply() == Reply::Waiting
            && memory.uptime().saturating_sub(started) <= PATIENCE
            && self.is_still_away(entry)?
        {
            self.obstructed(host, entry);
            self.meanwhile()?;
        }
        Ok(())
    }

    /// While this thread waits for another host, that may wait for this one.
    fn meanwhile(&self) -> Result<(), Error> {
        if self.memory().keeps(sites::PARTITION_ANSWER_MEANWHILE) {
            self.answer_requests()?;
        }
        self.sync_others()?;
        self.memory().pause();
        Ok(())
    }

    fn is_still_away(&self, entry: Entry) -> Result<bool, Error> {
        self.sync(entry.hash)?;
        let found = self.state(entry.hash).index.find_slot(self.memory(), entry.hash, entry.slot);
        Ok(found.is_some_and(|found| found.entry == entry))
    }

    /// Answers all requests there are.
    pub(crate) fn answer_in_tick(&self) -> Result<(), Error> {
        if self.partition.is_open() { self.answer_requests() } else { Ok(()) }
    }

    fn answer_requests(&self) -> Result<(), Error> {
        for _ in 0..IN_TICK {
            let Some(request) = self.partition.mailbox.next() else { return Ok(()) };
            self.answer(&request)?;
        }
        Ok(())
    }

    /// Answers a request.
    pub(crate) fn answer(&self, request: &Request) -> Result<(), Error> {
        let answered = self.bring_back(request);
        let answer = if matches!(answered, Ok(true)) { BACK } else { IN_USE };
        self.partition.mailbox.answer(request, answer);
        answered.map(drop)
    }

    /// Brings the object back that a request is about; `false` if it is in use.
    fn bring_back(&self, request: &Request) -> Result<bool, Error> {
        let Some((hash, generation, slot)) = decode(&request.payload) else { return Ok(true) };
        let Some(entry) = self.partition.entry(slot) else { return Ok(true) };
        let Some(mut hold) = entry.try_lock_arc() else { return Ok(false) };
        if hold.here.is_some_and(|here| here.generation == generation) {
            let paid = hold.accesses > PAYS;
            if !self.move_out(slot, &mut hold)? {
                return Ok(false);
            }
            self.profiles.recalled(hash, paid);
        }
        Ok(true)
    }
}

/// An object that was accessed so often while it was in the partition had better come again.
const PAYS: u64 = 64;

fn encode(entry: Entry) -> [u8; PAYLOAD_BYTES] {
    let mut payload = [0; PAYLOAD_BYTES];
    payload[..4].copy_from_slice(&entry.hash.to_le_bytes());
    payload[4..8].copy_from_slice(&entry.generation.to_le_bytes());
    payload[8..16].copy_from_slice(&entry.slot.to_le_bytes());
    payload
}

fn decode(payload: &[u8; PAYLOAD_BYTES]) -> Option<(u32, u32, u64)> {
    let (hash, rest) = payload.split_first_chunk()?;
    let (generation, rest) = rest.split_first_chunk()?;
    let slot = rest.first_chunk()?;
    Some((u32::from_le_bytes(*hash), u32::from_le_bytes(*generation), u64::from_le_bytes(*slot)))
}
