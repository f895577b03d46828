//! `tombolo qualify`, and the writer that dies for it.

use clap::Args;
use tombolo::PodSpec;
use tombolo_qualify::host_number;

use crate::output::Format;

pub(super) const QUALIFY: &str = "\
Find out what hosts can do with a memory that they share.

Start it on each host, with a name of its own and the same memory. Hosts find each other through the memory, by \
lines that they write back and invalidate; nothing else has to work. Then each pair of hosts tries whether lines \
that are written back arrive, whole and in order; whether hosts have stale lines; whether words are coherent; \
whether atomic operations and plain stores of 8 to 64 bits are lost; which instructions write back; and whether \
a line outlives its writer.

The verdict is one of these:
  coherent with atomics         a pod works here
  coherent without atomics      hosts lose each other's changes of words
  incoherent, write-back works  hosts have stale words; only lines that are written back arrive
  unfit: ...                    no pod can be here

The verdict is kept in the memory, and in each pod that is created there. `pod create`, `serve` and `mount` refuse \
memory that does not allow what they need, unless told --trust-me.

A pod loses nothing by it: 60 lines at the start of LNR are kept for this. Memory without a pod is changed in its \
first 4 KiB, behind the first 256 bytes. A file that does not exist is created by host a.";

pub(super) const QUALIFY_EXAMPLES: &str = "\
Examples:
  tombolo qualify /dev/dax0.0 --host a
  tombolo qualify /dev/dax0.0 --host b
  tombolo qualify /dev/shm/trial --pair
  tombolo qualify /dev/dax0.0 --host c --hosts 3 --format json

Hosts a and b are on two machines. With --pair they are two processes of this one.

Exit code 3 if the memory is unfit.";

fn host(text: &str) -> Result<usize, String> {
    host_number(text).ok_or_else(|| format!("{text:?} is no host: they are called a to h"))
}

#[derive(Debug, Args)]
pub(crate) struct QualifyArgs {
    /// The memory: /dev/dax0.0, a file, or SCR+LNR; each may have ,offset= ,size=.
    pub(crate) spec: PodSpec,
    /// Which host this is, a to h. Each host has another name, the first one is a.
    #[arg(long, value_name = "NAME", value_parser = host, required_unless_present = "pair")]
    pub(crate) host: Option<usize>,
    /// How many hosts there are.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=8))]
    pub(crate) hosts: u8,
    /// Start both hosts on this machine, for a trial.
    #[arg(long, conflicts_with_all = ["host", "hosts"])]
    pub(crate) pair: bool,
    /// How many seconds to wait for the other hosts.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) within: u64,
    /// How the result is written.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
pub(crate) struct DyingWriterArgs {
    /// The memory.
    pub(crate) spec: PodSpec,
    /// The line to write.
    pub(crate) line: u64,
    /// Its bytes, in hexadecimal.
    pub(crate) bytes: String,
}
