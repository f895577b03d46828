//! What the index keeps of an object, and how that is told in few bits.

use crate::event::{Generation, KeyHash, SlotLine};

/// What the index knows about an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) hash: KeyHash,
    pub(crate) generation: Generation,
    pub(crate) slot: SlotLine,
    pub(crate) sharing: Sharing,
}

/// How an object is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// It is in its slot, and has no record.
    Read,
    /// It is in its slot, and has this record.
    Record(u32),
    /// It is in the memory of this host.
    Home(u8),
    /// Its value is lost: this host died, or was fenced, while it had the only whole copy.
    Lost(u8),
}

/// The highest values of the 28 bits for a record stand for hosts; 0 for neither.
const LAST: u32 = (1 << 28) - 1;
const HOMES: u32 = LAST - u8::MAX as u32;
const LAST_LOST: u32 = HOMES - 2;
pub(super) const LOST: u32 = LAST_LOST - u8::MAX as u32;

impl Sharing {
    /// In 28 bits.
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Read => 0,
            Self::Record(record) => record + 1,
            Self::Home(host) => LAST - u32::from(host),
            Self::Lost(host) => LAST_LOST - u32::from(host),
        }
    }

    /// What [`code`](Self::code) encodes.
    pub(crate) fn decode(code: u32) -> Self {
        match code {
            0 => Self::Read,
            HOMES.. => Self::Home((LAST - code) as u8),
            LOST..=LAST_LOST => Self::Lost((LAST_LOST - code) as u8),
            _ => Self::Record(code - 1),
        }
    }
}

impl Entry {
    /// An object that is in its slot, and has no record.
    pub(crate) fn read_shared(hash: KeyHash, generation: Generation, slot: SlotLine) -> Self {
        Self { hash, generation, slot, sharing: Sharing::Read }
    }

    /// The same object, shared like this.
    pub(crate) fn shared(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// Whether its value is there, for all to read.
    pub(crate) fn is_in_its_slot(&self) -> bool {
        matches!(self.sharing, Sharing::Read | Sharing::Record(_))
    }

    #[inline(always)]
    pub(crate) fn record(&self) -> Option<u32> {
        match self.sharing {
            Sharing::Record(record) => Some(record),
            _ => None,
        }
    }

    /// The host in whose memory the object is, if it is not in its slot.
    #[inline(always)]
    pub(crate) fn home(&self) -> Option<u8> {
        match self.sharing {
            Sharing::Home(host) => Some(host),
            _ => None,
        }
    }

    /// The host with which its value was lost.
    #[inline(always)]
    pub(crate) fn lost(&self) -> Option<u8> {
        match self.sharing {
            Sharing::Lost(host) => Some(host),
            _ => None,
        }
    }
}
