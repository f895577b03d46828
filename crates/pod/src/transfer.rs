//! Handing a snapshot of an area's tenant from one host to a joining one, through the joiner's
//! window in LNR.
//!
//! The joiner asks in its own request word; whichever host sees it first answers. Pieces go one at
//! a time: the window is written by the giver only while it holds the request, and read by the
//! taker only after it was handed over.
//!
//! ```text
//! request word   state (8 bits) | giver (8) | last piece (1) | length of the piece (32)
//! IDLE -> WANTED (taker) -> GIVING (giver, by compare-and-swap) -> GIVEN (giver) -> TAKEN (taker)
//!                                                         -> GIVEN ... last GIVEN -> IDLE (taker)
//! ```
//!
//! ```text
//! message   frame: magic (8 bytes) | kind of the tenant (8) | version of its format (8) |
//!           area (8) | length of the snapshot (8); snapshot; checksum of all of it (4)
//! ```
//!
//! A host that waits for the other side gives up as soon as that is out of the pod, or dead: all
//! others may be waiting for either of them. A giver or taker that gives up leaves the word as it
//! is; the taker then asks anew. A giver that was given up on may still write into the window, and
//! say so in the word: what the taker gets then is that giver's message, which is as good if it is
//! not too old (the taker knows), or a mixture, and a checksum over the whole message tells.

use std::time::Duration;

use tombolo_memory::{Lines, LnrAddr, Memory, ScrAddr};

use crate::area::Area;
use crate::roster::request_word;
use crate::{Stay, sites};

/// How long one side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it waits at least between two looks whether the other is still there.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

const WANTED: u64 = 1;
const GIVING: u64 = 2;
const GIVEN: u64 = 3;
const TAKEN: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
struct TransferRequest {
    state: u64,
    giver: u8,
    last: bool,
    length: u32,
}

impl TransferRequest {
    fn from_word(word: u64) -> Self {
        Self {
            state: word >> 56,
            giver: (word >> 48) as u8,
            last: word & (1 << 40) != 0,
            length: word as u32,
        }
    }

    fn word(self) -> u64 {
        self.state << 56
            | u64::from(self.giver) << 48
            | u64::from(self.last) << 40
            | u64::from(self.length)
    }
}

fn window<M: Memory>(area: &Area<M>, taker: u8) -> (LnrAddr, u64) {
    let bytes = area.pod().layout().window_bytes;
    (area.pod().places().windows.plus(u64::from(taker) * bytes), bytes)
}

/// The beginning of a snapshot's frame.
const MAGIC: u64 = u64::from_le_bytes(*b"SNAPSHOT");

/// Bytes of a frame before its snapshot.
const FRAME_BYTES: usize = 40;

fn frame<M>(area: &Area<M>, length: usize) -> [u8; FRAME_BYTES] {
    let layout = area.layout();
    let kind = u64::from_le_bytes(layout.kind.0);
    let words = [MAGIC, kind, layout.version, area.number().into(), length as u64];
    let mut bytes = [0; FRAME_BYTES];
    bytes.chunks_mut(8).zip(words).for_each(|(at, word)| at.copy_from_slice(&word.to_le_bytes()));
    bytes
}

fn framed<M>(area: &Area<M>, snapshot: Vec<u8>) -> Vec<u8> {
    let mut message = frame(area, snapshot.len()).to_vec();
    message.extend(snapshot);
    message.extend(crc32c::crc32c(&message).to_le_bytes());
    message
}

/// The snapshot in a message, if it is whole and of this area's tenant.
fn unframed<M>(area: &Area<M>, mut message: Vec<u8>) -> Option<Vec<u8>> {
    let checksum = message.split_off(message.len().checked_sub(4)?);
    if crc32c::crc32c(&message).to_le_bytes() != *checksum {
        return None;
    }
    let snapshot = message.split_off(FRAME_BYTES.min(message.len()));
    (message == frame(area, snapshot.len())).then_some(snapshot)
}

/// The joining host's side.
pub struct Taker<'a, M> {
    area: &'a Area<M>,
    word: ScrAddr<u64>,
    window: LnrAddr,
    window_bytes: u64,
}

impl<'a, M: Memory> Taker<'a, M> {
    /// The side of `host`, which has enrolled in `area`.
    pub fn new(area: &'a Area<M>, host: u8) -> Self {
        let (window, window_bytes) = window(area, host);
        Self { area, word: request_word(area.places(), host), window, window_bytes }
    }

    /// Asks for the snapshot and receives it whole; `None` if no host answers in time, the one that
    /// does dies, or what arrives is damaged or no snapshot of this area.
    pub fn take(&self) -> Option<Vec<u8>> {
        unframed(self.area, self.take_pieces()?)
    }

    fn take_pieces(&self) -> Option<Vec<u8>> {
        let (memory, mut message) = (self.area.memory(), Vec::new());
        memory.store(
            self.word,
            TransferRequest { state: WANTED, giver: 0, last: false, length: 0 }.word(),
        );
        loop {
            let given = wait_for(
                memory,
                self.word,
                |request| request.state == GIVEN,
                |request| request.state != WANTED && !self.is_there(request.giver),
            )?;
            if u64::from(given.length) > self.window_bytes {
                return None;
            }
            let lines = Lines::covering(self.window, u64::from(given.length));
            memory.consume(sites::TRANSFER_INVALIDATE, |_| ((), Some(lines)));
            let start = message.len();
            message.resize(start + given.length as usize, 0);
            memory.read(self.window, &mut message[start..]);
            if given.last {
                memory.store(self.word, 0);
                return Some(message);
            }
            memory.store(self.word, TransferRequest { state: TAKEN, ..given }.word());
        }
    }

    /// Whether a giver can go on: only who is ready is one.
    fn is_there(&self, giver: u8) -> bool {
        let ended = || self.area.pod().has_ended(self.area.stay_of(giver));
        self.area.membership().is_ready(giver) && !ended()
    }
}

/// The answering host's side.
pub struct Giver<'a, M> {
    area: &'a Area<M>,
    taker: Stay,
    word: ScrAddr<u64>,
    window: LnrAddr,
    window_bytes: u64,
    host: u8,
}

impl<'a, M: Memory> Giver<'a, M> {
    /// `host` takes on the request of `taker`, if it has one that no host has taken on.
    pub fn answer(area: &'a Area<M>, host: u8, taker: u8) -> Option<Self> {
        let (memory, stay) = (area.memory(), area.stay_of(taker));
        let word = request_word(area.places(), taker);
        let found = memory.load(word);
        let request = TransferRequest::from_word(found);
        if request.state != WANTED {
            return None;
        }
        let giving = TransferRequest { state: GIVING, giver: host, ..request };
        memory.compare_exchange(sites::TRANSFER_ANSWER, word, found, giving.word()).ok()?;
        let (window, window_bytes) = window(area, taker);
        Some(Self { area, taker: stay, word, window, window_bytes, host })
    }

    /// Hands the snapshot over; whether the taker waited for all of it.
    pub fn give(&self, snapshot: Vec<u8>) -> bool {
        let message = framed(self.area, snapshot);
        let pieces = message.chunks(self.window_bytes as usize);
        let count = pieces.len();
        pieces.enumerate().all(|(index, piece)| {
            let state = if index == 0 { GIVING } else { TAKEN };
            self.hand_over(piece, state, index + 1 == count)
        })
    }

    fn hand_over(&self, piece: &[u8], when: u64, last: bool) -> bool {
        let ours = |request: TransferRequest| request.state == when && request.giver == self.host;
        let ended = || self.area.pod().has_ended(self.taker);
        let is_gone = |_| !self.area.is_member(self.taker) || ended();
        let memory = self.area.memory();
        if wait_for(memory, self.word, ours, is_gone).is_none() {
            return false;
        }
        memory.write(self.window, piece);
        let lines = Lines::covering(self.window, piece.len() as u64);
        let given =
            TransferRequest { state: GIVEN, giver: self.host, last, length: piece.len() as u32 };
        memory.publish(sites::TRANSFER_CLEAN, [lines], |memory| {
            memory.store(self.word, given.word());
        });
        true
    }
}

/// Waits for a request to be as wanted; `None` if that takes too long, or who is waited for is
/// gone.
fn wait_for<M: Memory>(
    memory: &M,
    word: ScrAddr<u64>,
    is_wanted: impl Fn(TransferRequest) -> bool,
    is_gone: impl Fn(TransferRequest) -> bool,
) -> Option<TransferRequest> {
    let started = memory.uptime();
    let mut looked = started;
    loop {
        let request = TransferRequest::from_word(memory.load(word));
        if is_wanted(request) {
            return Some(request);
        }
        let now = memory.uptime();
        if now.saturating_sub(started) > PATIENCE {
            return None;
        }
        if now.saturating_sub(looked) > BETWEEN_LOOKS {
            looked = now;
            if is_gone(request) {
                return None;
            }
        }
        memory.pause();
    }
}
