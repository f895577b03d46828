//! INV-CF: a line is in one host's caches at a time (SDM, section III-B).
//!
//! | state | read | write | asked `RdOwn` |
//! | --- | --- | --- | --- |
//! | I | `MemRd` → E | `MemRd` → M | `GO-I` |
//! | E | | → M | `MemRdFwd`, → I |
//! | M | | | `MemWr`, `Cmp`, `MemRdFwd`, → I |
//!
//! ```text
//! fetch-clean   H2 MemRd, node RdOwn, H1 MemRdFwd, node Cmp-E
//! fetch-dirty   H2 MemRd, node RdOwn, H1 MemWr, node Cmp, H1 MemRdFwd, node Cmp-E
//! ```

use super::{Access, Answer, Ask, Protocol, State};
use crate::Message;

/// INV-CF.
pub static INVALIDATING: Protocol = Protocol { name: "inv", ask, snoop, answer, grant };

pub(super) fn ask(state: State, _: Access) -> Option<Ask> {
    (state == State::Invalid).then_some(Ask::Own)
}

pub(super) fn snoop(_: Ask) -> Message {
    Message::RdOwn
}

pub(super) fn answer(_: Message, state: State) -> Answer {
    let had_it = state != State::Invalid;
    Answer {
        writes_back: state == State::Modified,
        message: if had_it { Message::MemRdFwd } else { Message::GoI },
        next: State::Invalid,
    }
}

pub(super) fn grant(_: Ask, _: bool) -> (Message, State) {
    (Message::CmpE, State::Exclusive)
}
