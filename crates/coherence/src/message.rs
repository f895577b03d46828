//! The messages of the CXL specification that protocols consist of (SDM, table I; BI: CXL 3.0).

/// A message between a host and the memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Message {
    /// Host: a line, please.
    MemRd,
    /// Host: here is a line to be written.
    MemWr,
    /// Host: let nobody else have the line.
    MemInv,
    /// Host: the line may be read from the node's memory.
    MemRdFwd,
    /// Node: done.
    Cmp,
    /// Node: the line, for this host alone.
    CmpE,
    /// Node: the line, which others may have, too.
    CmpS,
    /// Node: give the line up.
    RdOwn,
    /// Node: show the line.
    RdAny,
    /// Node: drop the line.
    ClFlush,
    /// Host: it does not have the line, or not any more.
    GoI,
    /// Host: it has the line, as others may.
    GoS,
    /// Host: it had changed the line, and here it is.
    GoM,
    /// Node: show the line.
    BiSnpData,
    /// Node: drop the line.
    BiSnpInv,
    /// Host: it does not have the line, or not any more.
    BiRspI,
    /// Host: it has the line, as others may.
    BiRspS,
    /// Host: a page of remote memory, please (SDM, section IV-C).
    Ralloc,
    /// Host: the page is not needed any more.
    Rfree,
    /// Host: where is this page?
    Rwalk,
}

/// The channel that a message travels on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// `CXL.mem`: reads and writes.
    Mem,
    /// `CXL.cache`: messages among caches.
    Cache,
    /// `CXL.io`: messages for the device.
    Io,
}

impl Message {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::MemRd,
        Self::MemWr,
        Self::MemInv,
        Self::MemRdFwd,
        Self::Cmp,
        Self::CmpE,
        Self::CmpS,
        Self::RdOwn,
        Self::RdAny,
        Self::ClFlush,
        Self::GoI,
        Self::GoS,
        Self::GoM,
        Self::BiSnpData,
        Self::BiSnpInv,
        Self::BiRspI,
        Self::BiRspS,
        Self::Ralloc,
        Self::Rfree,
        Self::Rwalk,
    ];

    /// Its name in the specification, or in SDM's paper.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MemRd => "MemRd",
            Self::MemWr => "MemWr",
            Self::MemInv => "MemInv",
            Self::MemRdFwd => "MemRdFwd",
            Self::Cmp => "Cmp",
            Self::CmpE => "Cmp-E",
            Self::CmpS => "Cmp-S",
            Self::RdOwn => "RdOwn",
            Self::RdAny => "RdAny",
            Self::ClFlush => "CLFlush",
            Self::GoI => "GO-I",
            Self::GoS => "GO-S",
            Self::GoM => "GO-M",
            Self::BiSnpData => "BISnpData",
            Self::BiSnpInv => "BISnpInv",
            Self::BiRspI => "BIRspI",
            Self::BiRspS => "BIRspS",
            Self::Ralloc => "ralloc",
            Self::Rfree => "rfree",
            Self::Rwalk => "rwalk",
        }
    }

    /// The channel that it travels on. Back-invalidations are `CXL.mem`'s own.
    pub const fn channel(self) -> Channel {
        match self {
            Self::RdOwn | Self::RdAny | Self::ClFlush | Self::GoI | Self::GoS | Self::GoM => {
                Channel::Cache
            }
            Self::Ralloc | Self::Rfree | Self::Rwalk => Channel::Io,
            _ => Channel::Mem,
        }
    }

    /// The messages that may answer it; none, if it is an answer.
    pub const fn answers(self) -> &'static [Self] {
        match self {
            Self::MemRd => &[Self::CmpE, Self::CmpS],
            Self::MemWr | Self::MemInv | Self::Ralloc | Self::Rfree | Self::Rwalk => &[Self::Cmp],
            Self::RdOwn => &[Self::GoI, Self::GoM, Self::MemRdFwd],
            Self::RdAny => &[Self::GoI, Self::GoS, Self::GoM],
            Self::ClFlush => &[Self::GoI],
            Self::BiSnpData => &[Self::BiRspI, Self::BiRspS],
            Self::BiSnpInv => &[Self::BiRspI],
            _ => &[],
        }
    }

    /// Whether, as an answer to `snoop`, it says that the host keeps the line.
    pub const fn keeps(self, snoop: Self) -> bool {
        matches!((self, snoop), (Self::GoS | Self::BiRspS, _) | (Self::GoM, Self::RdAny))
    }

    /// Whether it asks a host about a line.
    pub const fn is_snoop(self) -> bool {
        matches!(self, Self::RdOwn | Self::RdAny | Self::ClFlush | Self::BiSnpData | Self::BiSnpInv)
    }

    /// Whether it brings the line.
    pub const fn carries_data(self) -> bool {
        matches!(self, Self::MemWr | Self::CmpE | Self::CmpS | Self::GoM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_a_request_or_the_answer_to_one() {
        for (number, message) in Message::ALL.into_iter().enumerate() {
            assert_eq!(message as usize, number);
            let asked = Message::ALL.iter().any(|request| request.answers().contains(&message));
            assert_eq!(asked, message.answers().is_empty(), "{}", message.name());
        }
    }
}
