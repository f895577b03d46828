//! Ways of sharing, as the figures compare them.

use std::time::Duration;

use tombolo_baselines::{HcMetaOptions, Pace};
use tombolo_objects::{Locks, Options};

use crate::lab::Sharing;

/// The owners of the published prototype: a thread of each host serves one request after the other, and
/// sleeps for `usleep(10)` if there is none, which on Linux takes the 50 µs of timer slack longer. What a
/// request takes there is calibrated on figure 8: churn takes 44 µs where nobody waits for anybody.
const PUBLISHED: Pace = Pace {
    delay: Duration::ZERO,
    service: Duration::from_micros(6),
    sleep: Duration::from_micros(60),
};

/// What a host's own memory has for copies at full scale; the paper does not say.
const COPIES_BYTES: f64 = 1e9;

/// A way of sharing objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Megalon,
    /// With copies of popular objects in each host's own memory.
    MegalonCopies,
    /// With objects that one host alone uses in its own memory.
    MegalonPartition,
    AllLog,
    HcMeta,
    HcMetaLocal,
    /// With as much SCR as it needs.
    HcMetaUnlimited,
}

/// Who answers how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    /// As fast as they can.
    Fair,
    /// As those of the published prototype.
    Published,
}

impl Owners {
    /// Both, in the order in which they are measured.
    pub(crate) const ALL: [Self; 2] = [Self::Fair, Self::Published];

    pub(crate) fn pace(self) -> Pace {
        match self {
            Self::Fair => Pace::default(),
            Self::Published => PUBLISHED,
        }
    }

    /// How what is compared with them is told apart.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair owners",
            Self::Published => "published owners",
        }
    }
}

impl Scheme {
    /// What its curve is called, under owners that answer so fast.
    pub(crate) fn curve(self, owners: Owners) -> String {
        match owners {
            Owners::Fair => self.name().to_owned(),
            Owners::Published => format!("{}, {}", self.name(), owners.name()),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Megalon => "megalon",
            Self::MegalonCopies => "megalon with copies",
            Self::MegalonPartition => "megalon with partitions",
            Self::AllLog => "alllog",
            Self::HcMeta => "hcmeta",
            Self::HcMetaLocal => "hcmeta-local",
            Self::HcMetaUnlimited => "hcmeta-unlimited",
        }
    }

    /// What is measured of it: it makes no difference where nobody is asked for entries.
    pub(crate) fn owners(self) -> &'static [Owners] {
        match self {
            Self::HcMeta | Self::HcMetaLocal => &Owners::ALL,
            _ => &[Owners::Fair],
        }
    }

    /// How hosts take part, where everything has `share` of its full size.
    pub(crate) fn sharing(self, share: f64, hosts: u32, key_bytes: u64) -> Sharing {
        let megalon = |options: Options| Sharing::Megalon(options);
        match self {
            Self::Megalon => megalon(Options::default()),
            Self::MegalonCopies => {
                let copies_bytes = (COPIES_BYTES * share) as u64;
                megalon(Options { copies_bytes, ..Options::default() })
            }
            Self::MegalonPartition => {
                megalon(Options { home_bytes: 1 << 40, ..Options::default() })
            }
            Self::AllLog => megalon(Options { locks: Locks::Log, ..Options::default() }),
            Self::HcMeta | Self::HcMetaLocal | Self::HcMetaUnlimited => {
                Sharing::HcMeta(HcMetaOptions {
                    hosts: hosts as u8,
                    key_bytes,
                    local: self == Self::HcMetaLocal,
                    ..HcMetaOptions::default()
                })
            }
        }
    }
}
