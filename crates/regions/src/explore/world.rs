//! A state, and what may be wrong with it.

use std::hash::{Hash, Hasher};

use tombolo_coherence::{Access, Hosts, Known, Message};

use super::back::Back;
use super::{Limits, Planted, Rules, Step};
use crate::words::renamed;
use crate::{Answering, BlockMode, Change, Fault, Local, Mode, Progress, Subject};

/// A host's cached copy of a page of the pod's memory: whether it has the last write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Cached {
    #[default]
    Nothing,
    Clean(bool),
    Dirty(bool),
}

/// A page at a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct AtHost {
    /// In which mode processors may access it, and whether they may write.
    pub(super) mapped: Option<(Mode, bool)>,
    /// Whether the replica is what was written last.
    pub(super) replica: bool,
    pub(super) cached: Cached,
    pub(super) fault: Option<Fault>,
}

/// A question at a host, about a page or a block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Mail {
    pub(super) asked: Option<Answering>,
    pub(super) answer: Option<Message>,
    /// The answer has been sent already, which is a mistake.
    pub(super) rash: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AHost {
    pub(super) local: Option<Local>,
    pub(super) pages: Vec<AtHost>,
    /// By page, then by block.
    pub(super) mail: Vec<Mail>,
    pub(super) change: Option<Change>,
}

/// A page's words, and the pod's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct APage {
    pub(super) locked: bool,
    pub(super) known: Known,
    /// Whether the pod's memory holds what was written last.
    pub(super) last: bool,
}

/// A block's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ABlock {
    pub(super) locked: bool,
    pub(super) mode: BlockMode,
    pub(super) hosts: Hosts,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) coherent: bool,
    pub(super) hosts: Vec<AHost>,
    pub(super) pages: Vec<APage>,
    pub(super) blocks: Vec<ABlock>,
}

impl AHost {
    /// A replica that is not mapped, nor about to be written back, is nothing: states that differ
    /// by such replicas are one.
    fn forget(&mut self) {
        let yields = self.change.is_some() || self.mail.iter().any(|mail| mail.asked.is_some());
        for at in
            self.pages.iter_mut().filter(|at| !yields && at.fault.is_none() && at.mapped.is_none())
        {
            at.replica = false;
        }
    }
}

impl World {
    pub(super) fn new(limits: Limits) -> Self {
        let Limits { hosts, pages, block_pages, coherent, .. } = limits;
        let blocks = pages.div_ceil(block_pages);
        let mode = BlockMode::all(if coherent { Mode::Direct } else { Mode::Owned });
        let host = |host| AHost {
            local: Some(Local::new(host, pages, block_pages)),
            pages: vec![AtHost::default(); pages],
            mail: vec![Mail::default(); pages + blocks],
            change: None,
        };
        Self {
            coherent,
            hosts: (0..hosts).map(host).collect(),
            pages: vec![APage { locked: false, known: Known::default(), last: true }; pages],
            blocks: vec![ABlock { locked: false, mode, hosts: Hosts::default() }; blocks],
        }
    }

    /// No machine is at work.
    pub(super) fn rests(&self) -> bool {
        self.hosts.iter().all(|host| {
            host.change.is_none()
                && host.pages.iter().all(|page| page.fault.is_none())
                && host.mail.iter().all(|mail| mail.asked.is_none())
        })
    }

    /// Where a step leads; nothing, if it cannot be taken or changes nothing.
    pub(super) fn take(&self, step: Step, rules: &Rules) -> Option<Self> {
        if !self.may_take(step) {
            return None;
        }
        let mut next = self.clone();
        match step {
            Step::Access(host, page, access) => next.access(host, page, access, rules),
            Step::Begin(host, block, to) => next.begin(host, block, to, rules),
            Step::Evict(host, page) => next.evict(host, page),
            Step::Prefetch(host, page) => next.prefetch(host, page),
            Step::Fault(host, page) => next.step_fault(host, page, rules),
            Step::Change(host) => next.step_change(host, rules),
            Step::Answer(host, subject) => next.step_answer(host, subject, rules),
        }?;
        next.hosts.iter_mut().for_each(AHost::forget);
        Some(next)
    }

    /// Whether a step may be possible, as far as that can be told at a glance.
    fn may_take(&self, step: Step) -> bool {
        match step {
            Step::Access(..) => true,
            Step::Begin(host, ..) => self.hosts[host].change.is_none(),
            Step::Evict(host, page) => self.hosts[host].pages[page].cached != Cached::Nothing,
            Step::Prefetch(host, page) => self.hosts[host].pages[page].cached == Cached::Nothing,
            Step::Fault(host, page) => self.hosts[host].pages[page].fault.is_some(),
            Step::Change(host) => self.hosts[host].change.is_some(),
            Step::Answer(host, subject) => self.hosts[host].mail[subject].asked.is_some(),
        }
    }

    fn access(&mut self, host: usize, page: usize, access: Access, rules: &Rules) -> Option<()> {
        let writes = access == Access::Write;
        let here = &mut self.hosts[host];
        match here.pages[page].mapped {
            Some((mode, writable)) if writable || !writes => {
                // Reading changes nothing: `Prefetch` fills the caches.
                writes.then(|| self.written(host, page, mode))
            }
            _ => {
                let busy = |at: &AtHost| at.fault.is_some();
                let waits = rules.limits.in_order && here.pages.iter().any(busy);
                if waits || busy(&here.pages[page]) {
                    return None;
                }
                here.pages[page].fault = Some(Fault::new(page, access));
                Some(())
            }
        }
    }

    /// A host writes to a page: every other copy is an old one.
    fn written(&mut self, host: usize, page: usize, mode: Mode) {
        for other in &mut self.hosts {
            let at = &mut other.pages[page];
            at.replica = false;
            at.cached = match at.cached {
                Cached::Nothing => Cached::Nothing,
                Cached::Clean(_) => Cached::Clean(false),
                Cached::Dirty(_) => Cached::Dirty(false),
            };
        }
        self.pages[page].last = false;
        let at = &mut self.hosts[host].pages[page];
        match mode {
            Mode::Replicated => at.replica = true,
            Mode::Owned if !self.coherent => at.cached = Cached::Dirty(true),
            Mode::Owned | Mode::Direct => self.pages[page].last = true,
        }
    }

    fn begin(&mut self, host: usize, block: usize, to: BlockMode, rules: &Rules) -> Option<()> {
        let under_way = self.hosts.iter().filter(|host| host.change.is_some()).count();
        let idle = self.hosts[host].change.is_none() && under_way < rules.limits.changes;
        // A change to the mode that there is changes nothing.
        if !idle || self.blocks[block].mode == to {
            return None;
        }
        self.hosts[host].change = Some(Change::new(block, to));
        Some(())
    }

    fn evict(&mut self, host: usize, page: usize) -> Option<()> {
        match std::mem::take(&mut self.hosts[host].pages[page].cached) {
            Cached::Nothing => return None,
            Cached::Clean(_) => {}
            Cached::Dirty(last) => self.pages[page].last = last,
        }
        Some(())
    }

    fn prefetch(&mut self, host: usize, page: usize) -> Option<()> {
        let cached = &mut self.hosts[host].pages[page].cached;
        (*cached == Cached::Nothing).then(|| *cached = Cached::Clean(self.pages[page].last))
    }

    /// A machine of a host takes a step. Its own part is taken out of the world meanwhile.
    fn with_back(
        &mut self,
        host: usize,
        rules: &Rules,
        step: impl FnOnce(&mut Local, &mut Back<'_>) -> Progress,
    ) -> Option<bool> {
        let mut local = self.hosts[host].local.take()?;
        let progress = step(
            &mut local,
            &mut Back { world: self, host, planted: rules.planted, copied: false },
        );
        self.hosts[host].local = Some(local);
        match progress {
            Progress::Waits => None,
            Progress::Goes => Some(false),
            Progress::Done => Some(true),
        }
    }

    fn step_fault(&mut self, host: usize, page: usize, rules: &Rules) -> Option<()> {
        let mut fault = self.hosts[host].pages[page].fault.take()?;
        let over = self.with_back(host, rules, |local, back| fault.step(local, back))?;
        self.hosts[host].pages[page].fault = (!over).then_some(fault);
        Some(())
    }

    fn step_change(&mut self, host: usize, rules: &Rules) -> Option<()> {
        let mut change = self.hosts[host].change.take()?;
        let before = self.blocks[change.block()].locked;
        let over = self.with_back(host, rules, |local, back| change.step(local, back))?;
        let block = &mut self.blocks[change.block()];
        if rules.planted == Some(Planted::PublishEarly) && block.locked && !before {
            (block.mode, block.locked) = (change.to(), false);
        }
        self.hosts[host].change = (!over).then_some(change);
        Some(())
    }

    fn step_answer(&mut self, host: usize, subject: usize, rules: &Rules) -> Option<()> {
        let mut answering = self.hosts[host].mail[subject].asked.take()?;
        let over = self.with_back(host, rules, |local, back| {
            back.copied = back.planted == Some(Planted::CopyBeforeRevoke);
            answering.step(local, back)
        })?;
        self.hosts[host].mail[subject].asked = (!over).then_some(answering);
        Some(())
    }

    /// Where the mail about a subject lies.
    pub(super) fn subject(&self, subject: &Subject) -> usize {
        let local = self.hosts.iter().find_map(|host| host.local.as_ref());
        match subject {
            Subject::Page(page) => *page,
            Subject::Direct(pages) => {
                self.pages.len() + local.map_or(0, |local| local.block_of(pages.start))
            }
        }
    }

    /// Whether what a host would read is what was written last.
    fn reads_last(&self, host: usize, page: usize, mode: Mode) -> bool {
        let at = &self.hosts[host].pages[page];
        match (mode, at.cached) {
            (Mode::Replicated, _) => at.replica,
            (Mode::Direct, _) | (Mode::Owned, Cached::Nothing) => self.pages[page].last,
            (Mode::Owned, Cached::Clean(last) | Cached::Dirty(last)) => last,
        }
    }

    /// The first violation in this state, as a clause.
    pub(super) fn wrong(&self) -> Option<String> {
        for page in 0..self.pages.len() {
            let mapped: Vec<(usize, Mode, bool)> = (0..self.hosts.len())
                .filter_map(|host| {
                    let (mode, write) = self.hosts[host].pages[page].mapped?;
                    Some((host, mode, write))
                })
                .collect();
            let direct = mapped.iter().filter(|(_, mode, _)| *mode == Mode::Direct).count();
            let alone = mapped.iter().any(|&(_, mode, write)| mode != Mode::Direct && write);
            if mapped.len() > 1 && (alone || (direct > 0 && direct < mapped.len())) {
                return Some(format!(
                    "hosts map page {page}, with the right to write, as {mapped:?}"
                ));
            }
            let old = mapped.iter().find(|&&(host, mode, _)| !self.reads_last(host, page, mode));
            if let Some((host, ..)) = old {
                return Some(format!("host {host} reads page {page} as it was before a write"));
            }
        }
        None
    }

    /// The state by the names of hosts that come first, and how many states differ by names only.
    pub(super) fn canonical(&self, rules: &Rules) -> (Box<[u8]>, usize) {
        let written = |world: &Self| {
            let mut bytes = Bytes(Vec::with_capacity(128));
            world.hash(&mut bytes);
            bytes.0
        };
        let mut all: Vec<Vec<u8>> =
            rules.names.iter().map(|names| written(&self.renamed(names))).collect();
        all.sort_unstable();
        all.dedup();
        let alike = all.len();
        (all.swap_remove(0).into_boxed_slice(), alike)
    }

    /// The same, after each host has become the one that `names` says.
    fn renamed(&self, names: &[usize]) -> Self {
        let mut next = self.clone();
        for (host, &name) in self.hosts.iter().zip(names) {
            let mut host = host.clone();
            if let Some(local) = &mut host.local {
                local.rename(names);
            }
            host.pages
                .iter_mut()
                .filter_map(|at| at.fault.as_mut())
                .for_each(|fault| fault.rename(names));
            host.mail
                .iter_mut()
                .filter_map(|mail| mail.asked.as_mut())
                .for_each(|asked| asked.rename(names));
            host.change.iter_mut().for_each(|change| change.rename(names));
            next.hosts[name] = host;
        }
        next.pages
            .iter_mut()
            .for_each(|page| page.known.holders = renamed(page.known.holders, names));
        next.blocks.iter_mut().for_each(|block| block.hosts = renamed(block.hosts, names));
        next
    }

    pub(super) fn describe(&self, step: Step) -> String {
        match step {
            Step::Access(host, page, access) => {
                let verb = if access == Access::Read { "reads" } else { "writes" };
                format!("host {host} {verb} page {page}")
            }
            Step::Begin(host, block, to) => {
                let probe =
                    to.probe.map(|page| format!(", page {page} replicated")).unwrap_or_default();
                format!("host {host} begins to make block {block} {}{probe}", to.mode.name())
            }
            Step::Fault(host, page) => {
                format!(
                    "host {host}, fault on page {page}: {:?}",
                    self.hosts[host].pages[page].fault
                )
            }
            Step::Change(host) => format!("host {host}, change: {:?}", self.hosts[host].change),
            Step::Answer(host, subject) => {
                format!("host {host}, question: {:?}", self.hosts[host].mail[subject].asked)
            }
            Step::Evict(host, page) => format!("host {host} evicts lines of page {page}"),
            Step::Prefetch(host, page) => format!("host {host} prefetches lines of page {page}"),
        }
    }
}

/// Writes a state down, so that different states are different bytes: all numbers in it are small.
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn write_u64(&mut self, number: u64) {
        assert!(number < 256, "{number} is not small");
        self.0.push(number as u8);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        unreachable!("nobody asks for a hash")
    }
}
