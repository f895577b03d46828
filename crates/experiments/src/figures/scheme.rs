//! Ways of sharing, as the figures compare them.

use std::time::Duration;

use tombolo_baselines::{HcMetaOptions, Pace, Victims};
use tombolo_objects::{Locks, Options};
use tombolo_timing::Profile;

use crate::lab::Sharing;

/// The owners of the published prototype: a thread of each host serves one request after the other,
/// and sleeps for `usleep(10)` if there is none, which on Linux takes the 50 µs of timer slack
/// longer. What a request takes there is calibrated on figure 8: churn takes 44 µs where nobody
/// waits for anybody.
const PUBLISHED_PACE: Pace = Pace {
    delay: Duration::ZERO,
    service: Duration::from_micros(6),
    sleep: Duration::from_micros(60),
};

/// The time by which applying an event takes longer in the published prototype of MEGALON than it
/// takes of ours: calibrated on figure 8, too, where churn takes 5.4 µs.
const PUBLISHED_APPLY_NS: f64 = 3650.0;

/// Bytes of an entry of the published prototype, and of ours, with keys of 24 bytes: in 200 MB it
/// has room for a twelfth of 50 M objects (section 6.3).
const PUBLISHED_ENTRY_BYTES: u64 = 48;
const OUR_ENTRY_BYTES: u64 = 36;

/// The room for copies in a host's own memory at full scale; the paper does not say.
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

/// Whose a scheme is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edition {
    /// As good as we can make it.
    Ours,
    /// Like the published prototype, as far as that is known.
    Published,
}

impl Edition {
    pub(crate) const ALL: [Self; 2] = [Self::Ours, Self::Published];

    /// How fast owners of objects answer.
    fn pace(self) -> Pace {
        match self {
            Self::Ours => Pace::default(),
            Self::Published => PUBLISHED_PACE,
        }
    }

    /// Which object owners take an entry from: those of the published prototype draw ten, and take
    /// the one that was written least.
    fn victims(self) -> Victims {
        match self {
            Self::Ours => Victims::NotUsed,
            Self::Published => Victims::LeastWritten,
        }
    }

    /// Bytes of an entry besides those of ours.
    fn more_entry_bytes(self) -> u64 {
        match self {
            Self::Ours => 0,
            Self::Published => PUBLISHED_ENTRY_BYTES - OUR_ENTRY_BYTES,
        }
    }

    /// How what is compared with it is told apart.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Published => "as published",
        }
    }
}

impl Scheme {
    /// The name of the curve of an edition.
    pub(crate) fn curve(self, edition: Edition) -> String {
        match edition {
            Edition::Ours => self.name().to_owned(),
            Edition::Published => format!("{}, {}", self.name(), edition.name()),
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

    /// The editions in which it is measured, wherever it is.
    pub(crate) fn editions(self) -> &'static [Edition] {
        if self.waits_for_owners() { &Edition::ALL } else { &[Edition::Ours] }
    }

    /// Whether operations wait until threads that own objects answer.
    pub(crate) fn waits_for_owners(self) -> bool {
        matches!(self, Self::HcMeta | Self::HcMetaLocal)
    }

    /// Whether what objects have follows from which of them were used last; those that are moved
    /// home have to be used again and again.
    pub(crate) fn depends_on_last_uses(self) -> bool {
        self != Self::MegalonPartition
    }

    /// The machine for an edition: what its code's own steps take differs.
    pub(crate) fn profile(self, edition: Edition, mut profile: Profile) -> Profile {
        if self == Self::Megalon && edition == Edition::Published {
            profile.steps.apply_ns += PUBLISHED_APPLY_NS;
        }
        profile
    }

    /// Bytes of an entry in each host's index besides those of ours: the published one has the key
    /// there.
    pub(crate) fn more_index_bytes(self, edition: Edition, key_bytes: u64) -> u64 {
        let published = self == Self::Megalon && edition == Edition::Published;
        if published { key_bytes } else { 0 }
    }

    /// How hosts take part, where everything has `share` of its full size.
    pub(crate) fn sharing(
        self,
        edition: Edition,
        share: f64,
        hosts: u32,
        key_bytes: u64,
    ) -> Sharing {
        let megalon = |options: Options| Sharing::Megalon(options);
        match self {
            Self::Megalon => megalon(Options::default()),
            Self::MegalonCopies => {
                let copies_bytes = (COPIES_BYTES * share) as u64;
                megalon(Options { copies_bytes, ..Options::default() })
            }
            Self::MegalonPartition => {
                megalon(Options { partition_bytes: 1 << 40, ..Options::default() })
            }
            Self::AllLog => megalon(Options { locks: Locks::Log, ..Options::default() }),
            Self::HcMeta | Self::HcMetaLocal | Self::HcMetaUnlimited => {
                Sharing::HcMeta(HcMetaOptions {
                    hosts: hosts as u8,
                    key_bytes: key_bytes + edition.more_entry_bytes(),
                    pace: edition.pace(),
                    victims: edition.victims(),
                    local: self == Self::HcMetaLocal,
                    ..HcMetaOptions::default()
                })
            }
        }
    }
}
