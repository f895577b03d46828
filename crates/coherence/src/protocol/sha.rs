//! SHA-CF: hosts share lines that they read (SDM, section IV-B).
//!
//! | state | read | write | asked `RdAny` | asked `RdOwn` | asked `CLFlush` |
//! | --- | --- | --- | --- | --- | --- |
//! | I | `MemRd` → S or E | `MemRd` → M | `GO-I` | `GO-I` | `GO-I` |
//! | S | | `MemInv` → M | `GO-S` | `GO-I`, → I | `GO-I`, → I |
//! | E | | → M | `GO-S`, → S | `GO-I`, → I | `GO-I`, → I |
//! | M | | | `GO-M` with the line, → S | `GO-M` with the line, → I | `MemWr`, `Cmp`, `GO-I`, → I |
//!
//! ```text
//! fetch-exclusive            H1 MemRd, node RdOwn, others GO-I or GO-M, node Cmp-E
//! fetch-share                H2 MemRd, node RdAny, H1 GO-S or GO-M, node Cmp-S
//! invalidate-before-modify   H1 MemInv, node CLFlush, others GO-I, node Cmp
//! ```
//!
//! A `MemRd` says whether the line is to be changed, as in CXL, and that decides between `RdOwn`
//! and `RdAny`. So who changes a line that others have, and it has not, needs one transaction; in
//! the paper, where `RdOwn` is for lines that nobody has, two. Nobody knows that before it has
//! asked: a line that nobody has is asked for with `RdAny` when it is read, and granted alone.
//!
//! A host that has sent `MemInv` may lose the line before it is done. It is told `Cmp` all the
//! same, and asks for the line.

use super::{Access, Answer, Ask, Protocol, State};
use crate::Message;

/// SHA-CF.
pub static SHARING: Protocol = Protocol { name: "sha", ask, snoop, answer, grant };

pub(super) fn ask(state: State, access: Access) -> Option<Ask> {
    match (state, access) {
        (State::Invalid, Access::Read) => Some(Ask::Read),
        (State::Invalid, Access::Write) => Some(Ask::Own),
        (State::Shared, Access::Write) => Some(Ask::Upgrade),
        _ => None,
    }
}

pub(super) fn snoop(ask: Ask) -> Message {
    match ask {
        Ask::Read => Message::RdAny,
        Ask::Own => Message::RdOwn,
        Ask::Upgrade => Message::ClFlush,
    }
}

pub(super) fn answer(snoop: Message, state: State) -> Answer {
    let changed = state == State::Modified;
    let shows = snoop == Message::RdAny;
    let message = match state {
        State::Modified if snoop != Message::ClFlush => Message::GoM,
        State::Shared | State::Exclusive if shows => Message::GoS,
        _ => Message::GoI,
    };
    let keeps = shows && state != State::Invalid;
    Answer {
        writes_back: changed && message != Message::GoM,
        message,
        next: if keeps { State::Shared } else { State::Invalid },
    }
}

pub(super) fn grant(ask: Ask, shared: bool) -> (Message, State) {
    match ask {
        Ask::Upgrade => (Message::Cmp, State::Exclusive),
        Ask::Read if shared => (Message::CmpS, State::Shared),
        Ask::Read | Ask::Own => (Message::CmpE, State::Exclusive),
    }
}
