//! CXL 3.0's back-invalidations: the device has hosts drop a line, or hand it back, on a channel of
//! their own.
//!
//! | state | read | write | asked `BISnpData` | asked `BISnpInv` |
//! | --- | --- | --- | --- | --- |
//! | I | `MemRd` → S or E | `MemRd` → M | `BIRspI` | `BIRspI` |
//! | S | | `MemInv` → M | `BIRspS` | `BIRspI`, → I |
//! | E | | → M | `BIRspS`, → S | `BIRspI`, → I |
//! | M | | | `MemWr`, `Cmp`, `BIRspS`, → S | `MemWr`, `Cmp`, `BIRspI`, → I |
//!
//! ```text
//! read a changed line    H2 MemRd, node BISnpData, H1 MemWr, node Cmp, H1 BIRspS, node Cmp-S
//! change a shared line   H1 MemInv, node BISnpInv, others BIRspI, node Cmp
//! ```

use super::{Answer, Ask, Protocol, State, sha};
use crate::Message;

/// CXL 3.0's back-invalidation.
pub static BACK_INVALIDATION: Protocol =
    Protocol { name: "bi", ask: sha::ask, snoop, answer, grant: sha::grant };

pub(super) fn snoop(ask: Ask) -> Message {
    match ask {
        Ask::Read => Message::BiSnpData,
        Ask::Own | Ask::Upgrade => Message::BiSnpInv,
    }
}

pub(super) fn answer(snoop: Message, state: State) -> Answer {
    let keeps = snoop == Message::BiSnpData && state != State::Invalid;
    Answer {
        writes_back: state == State::Modified,
        message: if keeps { Message::BiRspS } else { Message::BiRspI },
        next: if keeps { State::Shared } else { State::Invalid },
    }
}
