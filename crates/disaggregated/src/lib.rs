//! Beside the floors: compute nodes whose data lie in memory nodes (SDM).
//!
//! A [`System`] runs the threads of a program, or the records of a trace, in virtual time. A miss
//! in the caches of a host's processors goes to its system agent. The agent has a cache for remote
//! lines, knows where pages are, and has to be permitted to use them. It gets other lines from the
//! memory node, by the messages of a [`Protocol`].
//!
//! # Timing model
//! * A thread has a core of its own, on which an instruction takes a nanosecond, which counts as a
//!   cycle.
//! * A core goes on while reads are under way, as far as its reorder buffer reaches, or until
//!   something depends on what was read last (`Processor::depends`: it says where to read next).
//!   Then all that comes next waits. Writes wait in a store buffer, in their order. Each line that
//!   the core's first cache waits for takes a miss buffer, and serves the core's other reads of it.
//!   Atomic accesses and barriers wait for all that is under way. Branches are taken to be
//!   foreseen. With a [window](Buffers) of one, a core waits for each read. A trace does not say
//!   what depends on what: each of its records is waited for.
//! * Accesses have their effects in the order in which cores begin them.
//! * Caches hold tags; a host's last one is the system agent's and includes the others.
//! * A message takes the network's latency, half of it to the backplane. A snoop and its answer
//!   take it twice, a line that has to be written back first twice more. All hosts that are asked
//!   answer at once.
//! * A line is in one transaction at a time; a memory node sends and receives so many bytes a
//!   second.
//! * A core that wants a line which is on its way to its host waits for it, and asks for nothing: a
//!   read is served by that answer, even if the line is asked back at once; a write, if the line is
//!   still there then.
//! * Pages are of 4 KiB. The first touch allocates a page (`ralloc`); all are freed at the end
//!   (`rfree`).
//! * **Translation** has two levels, of different owners. A core knows some pages' places in what
//!   its host takes for memory, and for others looks into the host's tables. A request or a
//!   question for permission that leaves the host is first translated into the memory node's terms.
//!   A table in the host's own memory does so, and if the page is not there, asking does (`rwalk`).
//! * **Permission** is for a host and a page, to read or to write. The backplane has the flags, and
//!   fetches each one once. A request is checked on its way to the memory node; for a line that the
//!   system agent has, and no processor cache, the backplane is asked. With **speculation** nobody
//!   waits for the answer, as long as the replay buffer has room: the access is over when the
//!   answer is there.
//! * A denied access closes the session: of a program, all threads, which may wait for each other;
//!   of a trace, the thread. Without speculation the access is not made. With it, it is rolled
//!   back, and no host has seen it. The program itself neither reads nor writes there.
//!
//! Left out: other uses of the host's own memory, instructions' fetches, prefetching, work of a
//! core behind an access that waits for another, the time of the directory and of the tables at the
//! host, the topology of the network.

mod ahead;
mod areas;
mod config;
mod fills;
mod machine;
mod pages;
mod replay;
mod results;
mod system;
mod translations;
mod window;

pub use areas::{AreasConfig, BLOCK_PAGES, Choice, PageUse};
pub use config::{Buffers, Config, ConfigError, MOST_HOSTS, Protocol};
pub use results::{AreaSummary, Equations, Summary, Traffic};
pub use system::{Body, Core, System};
