//! Two protocols as SDM's paper tells them, where [`SHARING`](super::SHARING) and
//! [`BACK_INVALIDATION`](super::BACK_INVALIDATION) take fewer steps.
//!
//! **SHA-CF** (section IV-B, figure 6) has a primitive to fetch a line, and one to invalidate it
//! before it is modified. A host that wants to change a line which it does not have needs both,
//! unless the line was with no other host:
//!
//! ```text
//! change a line that others have   H1 MemRd, node RdAny, others GO-S or GO-M, node Cmp-S,
//!                                  H1 MemInv, node CLFlush, others GO-I, node Cmp
//! ```
//!
//! **CXL 3.0** (section III-B) has the device invalidate a line at other hosts for each request, so
//! that the line is with one host at a time, as under INV-CF:
//!
//! | state | read | write | asked `BISnpInv` |
//! | --- | --- | --- | --- |
//! | I | `MemRd` → E | `MemRd` → M | `BIRspI` |
//! | E | | → M | `BIRspI`, → I |
//! | M | | | `MemWr`, `Cmp`, `BIRspI`, → I |

use super::{Access, Ask, Protocol, State, bi, inv, sha};
use crate::Message;

/// SHA-CF as the paper tells it: a host fetches a line before it has others' copies invalidated.
pub static SHARING_AS_PUBLISHED: Protocol = Protocol {
    name: "sha-literal",
    ask: fetch_first,
    snoop: sha::snoop,
    answer: sha::answer,
    grant: sha::grant,
};

/// CXL 3.0 as the paper tells it: each request invalidates the line at other hosts.
pub static BACK_INVALIDATION_AS_PUBLISHED: Protocol = Protocol {
    name: "bi-literal",
    ask: inv::ask,
    snoop: invalidate,
    answer: bi::answer,
    grant: inv::grant,
};

fn fetch_first(state: State, access: Access) -> Option<Ask> {
    match (state, access) {
        (State::Invalid, _) => Some(Ask::Read),
        (State::Shared, Access::Write) => Some(Ask::Upgrade),
        _ => None,
    }
}

fn invalidate(_: Ask) -> Message {
    Message::BiSnpInv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_with_one_host_under_back_invalidation() {
        let answer = (BACK_INVALIDATION_AS_PUBLISHED.answer)(
            (BACK_INVALIDATION_AS_PUBLISHED.snoop)(Ask::Own),
            State::Exclusive,
        );
        assert_eq!(answer.next, State::Invalid);
        assert!(!BACK_INVALIDATION_AS_PUBLISHED.shares());
    }
}
