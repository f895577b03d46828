//! How a heap is set up.

use std::fmt;
use std::str::FromStr;

use tombolo_placement::Costs;

/// Which pages move without being asked to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// None: the program says where pages are to be.
    #[default]
    None,
    /// As TPP: a page is promoted at its second hint fault, while the program waits. No shadow.
    Tpp,
    /// As NOMAD: at its second hint fault a page is queued, and promoted while the program goes on.
    /// Its shadow is kept.
    Nomad,
    /// As NOMAD, for pages whose touches pay for the move.
    BreakEven,
}

impl Policy {
    /// All of them, with their names.
    pub const ALL: [(Self, &str); 4] = [
        (Self::None, "none"),
        (Self::Tpp, "tpp"),
        (Self::Nomad, "nomad"),
        (Self::BreakEven, "break-even"),
    ];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(policy, _)| policy == self);
        f.write_str(found.map_or("", |(_, name)| name))
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(policy, _)| *policy).ok_or_else(|| {
            format!("{text} is no policy; name one of none, tpp, nomad and break-even")
        })
    }
}

/// How a heap is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The NUMA node of the near tier.
    pub near_node: u32,
    /// The NUMA node of the far tier; the near one, where the machine has only one.
    pub far_node: u32,
    /// Bytes of near memory that filled pages may take.
    pub near_bytes: usize,
    /// Which pages move without being asked to.
    pub policy: Policy,
    /// The costs of accesses and moves, in nanoseconds, for [`Policy::BreakEven`].
    pub costs: Costs,
    /// Accesses that one hint fault stands for, for [`Policy::BreakEven`].
    pub accesses_per_fault: u32,
    /// Far pages that are parked in a second: each costs its next touch a hint fault.
    pub parked_per_second: u32,
    /// Shadows at most, in bytes.
    pub shadow_bytes: usize,
    /// Below so many bytes of available memory, shadows are given up.
    pub low_memory_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            near_node: 0,
            far_node: 0,
            near_bytes: usize::MAX,
            policy: Policy::None,
            costs: Costs { far: 250, near: 100, bring: 6_000, give_back: 3_000 },
            accesses_per_fault: 64,
            parked_per_second: 1_000,
            shadow_bytes: usize::MAX,
            low_memory_bytes: 64 << 20,
        }
    }
}

impl Options {
    /// The environment variable with the options of a program that is started with tiers.
    pub const VARIABLE: &str = "TOMBOLO_TIER";

    /// Whether both tiers are of one node: mechanisms work, and nothing becomes faster.
    pub fn is_one_node(&self) -> bool {
        self.near_node == self.far_node
    }
}

/// Node of the near tier, node of the far one, near bytes, policy: as a program is told them.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { near_node, far_node, near_bytes, policy, .. } = self;
        write!(f, "{near_node} {far_node} {near_bytes} {policy}")
    }
}

impl FromStr for Options {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{}={text} is not as tombolo tier run sets it", Self::VARIABLE);
        let fields: Vec<&str> = text.split(' ').collect();
        let [near, far, bytes, policy] = fields[..] else { return Err(wrong()) };
        Ok(Self {
            near_node: near.parse().map_err(|_| wrong())?,
            far_node: far.parse().map_err(|_| wrong())?,
            near_bytes: bytes.parse().map_err(|_| wrong())?,
            policy: policy.parse()?,
            ..Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_go_from_one_program_to_the_other() {
        for (policy, _) in Policy::ALL {
            let options =
                Options { far_node: 3, near_bytes: 1 << 30, policy, ..Options::default() };
            let read: Options = options.to_string().parse().unwrap();
            assert_eq!(read.to_string(), options.to_string());
            assert_eq!(read.policy, policy);
        }
        assert!("0 1 x none".parse::<Options>().unwrap_err().contains("tombolo tier run"));
    }
}
