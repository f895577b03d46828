//! Handing a large message from one host to a joining one, through the joiner's window in LNR.
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
//! Who waits for the other side gives up as soon as that is out of the pod, or dead: all others may be waiting
//! for either of them. A giver or taker that gives up leaves the word as it is; the taker then asks anew. A giver that
//! was given up on may still write into the window, and say so in the word: what the taker gets then is
//! that giver's message, which is as good if it is not too old (whoever asked knows), or a mixture, and
//! a checksum over the whole message tells.

use std::time::Duration;

use tombolo_memory::{Lines, LnrAddr, Memory, ScrAddr};

use crate::geometry::Geometry;
use crate::membership::{Seat, request_word};
use crate::{Pod, Stay, sites};

/// How long one side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it waits at least between two looks whether the other is still there.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

const WANTED: u64 = 1;
const GIVING: u64 = 2;
const GIVEN: u64 = 3;
const TAKEN: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Request {
    state: u64,
    giver: u8,
    last: bool,
    length: u32,
}

impl Request {
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

fn window(geometry: &Geometry, taker: u8) -> LnrAddr {
    geometry.areas().windows.plus(u64::from(taker) * geometry.window_bytes)
}

/// The joining host's side.
pub struct Taker<'a, M> {
    pod: &'a Pod<M>,
    word: ScrAddr<u64>,
    window: LnrAddr,
    window_bytes: u64,
}

impl<'a, M: Memory> Taker<'a, M> {
    /// The side of the host in `seat`.
    pub fn new(pod: &'a Pod<M>, seat: &Seat) -> Self {
        let geometry = pod.geometry();
        Self {
            pod,
            word: request_word(&geometry.areas(), seat.host()),
            window: window(geometry, seat.host()),
            window_bytes: geometry.window_bytes,
        }
    }

    /// Asks for the message and receives it whole; `None` if nobody answers in time, who does dies, or it arrived
    /// damaged.
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut message = self.take_pieces()?;
        let checksum = message.split_off(message.len().checked_sub(4)?);
        (crc32c::crc32c(&message).to_le_bytes() == *checksum).then_some(message)
    }

    fn take_pieces(&self) -> Option<Vec<u8>> {
        let (memory, mut message) = (self.pod.memory(), Vec::new());
        memory.store(self.word, Request { state: WANTED, giver: 0, last: false, length: 0 }.word());
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
            memory.store(self.word, Request { state: TAKEN, ..given }.word());
        }
    }

    /// Whether a giver can go on: only who is ready is one.
    fn is_there(&self, giver: u8) -> bool {
        let ended = || self.pod.has_ended(self.pod.stay_of(giver));
        self.pod.membership().is_ready(giver) && !ended()
    }
}

/// The answering host's side.
pub struct Giver<'a, M> {
    pod: &'a Pod<M>,
    taker: Stay,
    word: ScrAddr<u64>,
    window: LnrAddr,
    window_bytes: u64,
    host: u8,
}

impl<'a, M: Memory> Giver<'a, M> {
    /// Takes on the request of `taker`, if it has one that nobody has taken on.
    pub fn answer(pod: &'a Pod<M>, seat: &Seat, taker: u8) -> Option<Self> {
        let (memory, geometry) = (pod.memory(), pod.geometry());
        let stay = pod.stay_of(taker);
        let word = request_word(&geometry.areas(), taker);
        let found = memory.load(word);
        let request = Request::from_word(found);
        if request.state != WANTED {
            return None;
        }
        let giving = Request { state: GIVING, giver: seat.host(), ..request };
        memory.compare_exchange(sites::TRANSFER_ANSWER, word, found, giving.word()).ok()?;
        Some(Self {
            pod,
            taker: stay,
            word,
            window: window(geometry, taker),
            window_bytes: geometry.window_bytes,
            host: seat.host(),
        })
    }

    /// Hands the message over; whether the taker waited for all of it.
    pub fn give(&self, mut message: Vec<u8>) -> bool {
        message.extend(crc32c::crc32c(&message).to_le_bytes());
        let pieces = message.chunks(self.window_bytes as usize);
        let count = pieces.len();
        pieces.enumerate().all(|(index, piece)| {
            let state = if index == 0 { GIVING } else { TAKEN };
            self.hand_over(piece, state, index + 1 == count)
        })
    }

    fn hand_over(&self, piece: &[u8], when: u64, last: bool) -> bool {
        let ours = |request: Request| request.state == when && request.giver == self.host;
        let is_gone = |_| !self.pod.is_seated(self.taker) || self.pod.has_ended(self.taker);
        let memory = self.pod.memory();
        if wait_for(memory, self.word, ours, is_gone).is_none() {
            return false;
        }
        memory.write(self.window, piece);
        let lines = Lines::covering(self.window, piece.len() as u64);
        let given = Request { state: GIVEN, giver: self.host, last, length: piece.len() as u32 };
        memory.publish(sites::TRANSFER_CLEAN, [lines], |memory| {
            memory.store(self.word, given.word());
        });
        true
    }
}

/// Waits for a request to be as wanted; `None` if that takes too long, or who is waited for is gone.
fn wait_for<M: Memory>(
    memory: &M,
    word: ScrAddr<u64>,
    is_wanted: impl Fn(Request) -> bool,
    is_gone: impl Fn(Request) -> bool,
) -> Option<Request> {
    let started = memory.uptime();
    let mut looked = started;
    loop {
        let request = Request::from_word(memory.load(word));
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
