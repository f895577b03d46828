//! Pages that software keeps coherent, and blocks of them that change how they are kept.
//!
//! # Timing model
//! * The protocol is that of `tombolo_regions`. Each of its steps takes what a profile says: a
//!   fault on a page that is not mapped, taking a mapping away, copying a page, writing back or
//!   dropping its 64 lines. Taking a lock is an access to the pod's memory; releasing one is not
//!   waited for.
//! * A question is in the other host's hands after an access to the pod's memory, and so is the
//!   answer. A host's handler answers one question after the other; hosts that are asked work at
//!   the same time.
//! * A fault takes the page from other hosts after half of what a fault takes by itself, the lock,
//!   and the question: until then they go on with it. Later faults on the page wait until it is
//!   over. All that the core has under way is over before.
//! * A miss in a replicated page goes to the host's own memory, and one in an owned page to the
//!   memory node, without a question to anybody. A page that was copied is not in the caches.
//! * Changes of mode are made by a thread of the host that looks, beside its processors. Faults in
//!   the block wait for their end.

use std::ops::Range;

use tombolo_coherence::{Access, Hosts, Known, Message};
use tombolo_regions::{
    Answering, BlockMode, Change, Costs, Fault, Local, Mode, Pages as Mappings, Pod, Progress,
    Purse, Question, WEIGHT, Watch,
};
use tombolo_timing::{Bandwidth, HostCaches, Line, Pipe, Profile, Ps, Region, ps};

use crate::config::{LINE_BYTES, PAGE_BYTES};
use crate::pages::Pages;

/// Pages of a block.
pub const BLOCK_PAGES: usize = 64;
const LINES: u64 = PAGE_BYTES / LINE_BYTES;

/// How the mode of each block is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is this one.
    Static(Mode),
    /// It follows from what is seen of the block.
    Adaptive,
}

/// Memory whose blocks are kept coherent in one of several ways. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct AreasConfig {
    /// How modes are chosen.
    pub choice: Choice,
    /// The hardware keeps lines coherent: blocks may be direct.
    pub coherent: bool,
    /// Pages there are, the first one that of address 0.
    pub pages: usize,
    /// A host's own memory.
    pub near_ns: f64,
    /// The bandwidth of a host's own memory, in 10^9 bytes a second.
    pub near_gb_per_s: f64,
    /// Copying a page between the memory node and a host's own memory.
    pub copy_ns: f64,
    /// The times that changes of mappings take.
    pub paging: tombolo_timing::Paging,
    /// The times that writing back and dropping lines take.
    pub flush: tombolo_timing::Flush,
}

impl AreasConfig {
    /// As a profile says, of far memory that takes so long; nothing, if the profile does not say
    /// what mappings take.
    ///
    /// A copy takes as much longer from farther memory as the profile's tiers say.
    pub fn of(profile: &Profile, choice: Choice, pages: usize, far_ns: f64) -> Option<Self> {
        Some(Self {
            choice,
            coherent: true,
            pages,
            near_ns: profile.local.latency_ns,
            near_gb_per_s: profile.local.gb_per_s,
            copy_ns: copy_ns(profile, far_ns)?,
            paging: profile.paging?,
            flush: profile.flush,
        })
    }

    /// The modes that blocks may have.
    pub fn allowed(&self) -> &'static [Mode] {
        if self.coherent { &Mode::ALL } else { &Mode::ALL[1..] }
    }
}

/// The time that copying a page takes from memory that is so far. It lies on the line through the
/// nearest tier and the farthest one.
fn copy_ns(profile: &Profile, far_ns: f64) -> Option<f64> {
    let (first, last) = (profile.tier.first()?, profile.tier.last()?);
    let apart = last.line_ns - first.line_ns;
    let slope = if apart > 0.0 { (last.copy_ns - first.copy_ns) / apart } else { 0.0 };
    Some((first.copy_ns + slope * (far_ns - first.line_ns)).max(0.0))
}

/// Counts of the accesses to a page, whatever its mode.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageUse {
    /// Reads of its lines.
    pub reads: u64,
    /// Writes to its lines.
    pub writes: u64,
    /// Hosts that did so.
    pub hosts: Hosts,
    /// How often a host had a fault because another one had the page, or had written to it.
    pub hand_overs: u64,
}

/// Counts and times of all blocks and pages together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AreaCounts {
    pub(crate) faults: u64,
    pub(crate) upgrades: u64,
    pub(crate) hand_overs: u64,
    pub(crate) copies: u64,
    pub(crate) write_backs: u64,
    pub(crate) questions: u64,
    pub(crate) changes: u64,
    pub(crate) probes: u64,
    pub(crate) fault_time: Ps,
    pub(crate) change_time: Ps,
    /// Misses in pages of each mode.
    pub(crate) misses: [u64; Mode::ALL.len()],
}

struct Times {
    far: Ps,
    fault: Ps,
    upgrade: Ps,
    protect: Ps,
    invalidate: Ps,
    invalidate_more: Ps,
    map: Ps,
    copy: Ps,
    /// Dropping the lines of a page that was not written.
    drop: Ps,
    /// Writing back those of one that was.
    clean: Ps,
}

struct Block {
    mode: BlockMode,
    /// Hosts that map it directly.
    hosts: Hosts,
    /// Until when its mode changes.
    busy: Ps,
    watch: Watch,
}

#[derive(Clone, Copy, Default)]
struct Page {
    known: Known,
    busy: Ps,
    usage: PageUse,
}

/// The rights of a host to a page, as numbers.
const NONE: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;

/// The state of all blocks and pages, on all hosts.
pub(crate) struct Areas {
    choice: Choice,
    allowed: &'static [Mode],
    near: Ps,
    costs: Costs,
    purse: Purse,
    times: Times,
    /// By host.
    locals: Vec<Local>,
    rights: Vec<Vec<u8>>,
    memories: Vec<Pipe>,
    handlers: Vec<Pipe>,
    pages: Vec<Page>,
    blocks: Vec<Block>,
    pub(crate) counts: AreaCounts,
}

/// A host's handler works for so many nanoseconds a nanosecond.
const WORK: f64 = 1.0;

impl Areas {
    /// Blocks on so many hosts, whose far memory takes so long, and so much longer if hosts have to
    /// be asked.
    pub(crate) fn new(config: &AreasConfig, hosts: usize, far: Ps, snoop: Ps, seed: u64) -> Self {
        let AreasConfig { paging, flush, .. } = config;
        let lines = |first: f64, more: f64| ps(first + (LINES - 1) as f64 * more);
        let times = Times {
            far,
            fault: ps(paging.fault_ns),
            upgrade: ps(paging.upgrade_ns),
            protect: ps(paging.protect_ns),
            invalidate: ps(paging.invalidate_ns),
            invalidate_more: ps(paging.invalidate_more_ns),
            map: ps(paging.map_ns),
            copy: ps(config.copy_ns),
            drop: lines(flush.invalidate_ns, flush.invalidate_more_ns),
            clean: lines(flush.clean_ns, flush.clean_more_ns),
        };
        // A fault takes the lock, asks one host, which takes its mapping away and writes back.
        let asks = 3 * far + times.invalidate;
        let costs = Costs {
            far,
            near: ps(config.near_ns),
            snoop,
            owned: times.fault + asks + times.clean + times.drop,
            replicated: times.fault + asks + 2 * times.copy,
            map: times.fault + BLOCK_PAGES as Ps * times.map,
            map_page: times.fault + times.map,
            change: 3 * far + times.invalidate + BLOCK_PAGES as Ps * times.invalidate_more,
        };
        let mode = match config.choice {
            Choice::Static(mode) => mode,
            Choice::Adaptive => config.allowed()[0],
        };
        let bandwidth = |gb_per_s| Pipe::new(&Bandwidth { gb_per_s, curve: Vec::new() });
        let block = |number: usize| Block {
            mode: BlockMode::all(mode),
            hosts: Hosts::default(),
            busy: 0,
            watch: Watch::new(seed ^ (number as u64) << 32),
        };
        Self {
            choice: config.choice,
            allowed: config.allowed(),
            near: costs.near,
            costs,
            purse: Purse::default(),
            times,
            locals: (0..hosts).map(|host| Local::new(host, config.pages, BLOCK_PAGES)).collect(),
            rights: vec![vec![NONE; config.pages]; hosts],
            memories: (0..hosts).map(|_| bandwidth(config.near_gb_per_s)).collect(),
            handlers: (0..hosts).map(|_| bandwidth(WORK)).collect(),
            pages: vec![Page::default(); config.pages],
            blocks: (0..config.pages.div_ceil(BLOCK_PAGES)).map(block).collect(),
            counts: AreaCounts::default(),
        }
    }

    /// A host accesses a line of a page; whether it may.
    #[inline]
    pub(crate) fn access(&mut self, host: usize, page: usize, write: bool) -> bool {
        let usage = &mut self.pages[page].usage;
        *(if write { &mut usage.writes } else { &mut usage.reads }) += 1;
        usage.hosts.insert(host);
        self.may(host, page, write)
    }

    /// Whether a host may access a page.
    #[inline]
    pub(crate) fn may(&self, host: usize, page: usize, write: bool) -> bool {
        self.rights[host][page] >= if write { WRITE } else { READ }
    }

    /// When a fault that wants to begin at `now` has the lock of its page.
    pub(crate) fn free(&self, page: usize, now: Ps) -> Ps {
        self.pages[page].busy.max(self.blocks[page / BLOCK_PAGES].busy).max(now)
    }

    /// From now on a fault has the page's lock; when it takes the page from other hosts.
    pub(crate) fn begin(&mut self, page: usize, now: Ps) -> Ps {
        let Times { fault, far, invalidate, .. } = self.times;
        let takes = now + fault / 2 + 2 * far + invalidate;
        self.pages[page].busy = takes;
        takes
    }

    /// The fault that began then goes on.
    pub(crate) fn go_on(&mut self, page: usize, began: Ps) {
        self.pages[page].busy = began;
    }

    /// How a page that a host may access is kept.
    #[inline]
    pub(crate) fn mode(&self, page: usize) -> Mode {
        self.blocks[page / BLOCK_PAGES].mode.of(page)
    }

    /// A host's caches have missed in a page, while so many misses of the core were under way. The
    /// memory node may have asked others.
    #[inline]
    pub(crate) fn missed(&mut self, host: usize, page: usize, under_way: usize, snooped: bool) {
        let mode = self.mode(page);
        self.counts.misses[mode as usize] += 1;
        let cost = if mode == Mode::Replicated { self.costs.near } else { self.costs.far };
        let weight = WEIGHT / (1 + under_way as u64);
        let watch = &mut self.blocks[page / BLOCK_PAGES].watch;
        watch.missed(page % BLOCK_PAGES, host, weight, cost, snooped);
    }

    /// How long a host's own memory takes for a line.
    #[inline]
    pub(crate) fn near(&mut self, host: usize, now: Ps) -> Ps {
        self.near + self.memories[host].pass(now, LINE_BYTES)
    }

    /// Counts of the accesses to each page, in the order of the pages.
    pub(crate) fn usage(&self) -> impl Iterator<Item = &PageUse> {
        self.pages.iter().map(|page| &page.usage)
    }

    /// The modes of blocks that were accessed, in their order.
    pub(crate) fn used_blocks(&self) -> impl Iterator<Item = Mode> {
        let used = self.pages.chunks(BLOCK_PAGES).zip(&self.blocks);
        let used = used.filter(|(pages, _)| pages.iter().any(|page| !page.usage.hosts.is_empty()));
        used.map(|(_, block)| block.mode.mode)
    }
}

/// The parts of the machine that a step of the protocol uses.
pub(crate) struct Parts<'a, const WORDS: usize> {
    pub(crate) areas: &'a mut Areas,
    pub(crate) caches: &'a mut [HostCaches],
    pub(crate) lines: &'a mut Pages<WORDS>,
    pub(crate) node: &'a mut Pipe,
}

/// A host's back end: each call takes time.
struct Back<'a, 'b, const WORDS: usize> {
    parts: &'b mut Parts<'a, WORDS>,
    host: usize,
    now: Ps,
    /// Questions of this host, and when they arrive.
    asked: Vec<(usize, Question, Ps)>,
    /// Answers to it, and when they arrive.
    answers: Vec<(usize, Message, Ps)>,
    /// The answer of this host.
    says: Option<Message>,
}

/// Steps of a machine, at most: a change takes some for each page.
const MOST_STEPS: usize = 64 * BLOCK_PAGES;

impl<'a, const WORDS: usize> Parts<'a, WORDS> {
    /// A host gets the right to access a page, from `now` on; when it has it.
    pub(crate) fn fault(&mut self, host: usize, page: usize, access: Access, now: Ps) -> Ps {
        let mode = self.areas.blocks[page / BLOCK_PAGES].mode;
        let upgrade = self.areas.rights[host][page] == READ;
        let counts = &mut self.areas.counts;
        *(if upgrade { &mut counts.upgrades } else { &mut counts.faults }) += 1;
        let before = *counts;
        let mut fault = Fault::new(page, access);
        let over = self.run(host, now, |local, back| fault.step(local, back));
        let counts = self.areas.counts;
        let handed = u64::from(counts.questions > before.questions);
        let written = counts.write_backs > before.write_backs;
        self.areas.counts.hand_overs += handed;
        self.areas.pages[page].usage.hand_overs += handed;
        self.areas.counts.fault_time += over - now;
        if mode.of(page) != Mode::Direct {
            self.areas.blocks[page / BLOCK_PAGES].watch.faulted(
                page,
                host,
                written,
                mode,
                over - now,
            );
        }
        over
    }

    /// Looks at the block of a page, if it is time to, and changes its mode if that pays.
    pub(crate) fn look(&mut self, host: usize, page: usize, now: Ps) {
        let number = page / BLOCK_PAGES;
        let Areas { choice, allowed, costs, blocks, purse, pages, .. } = &mut *self.areas;
        let block = &mut blocks[number];
        if *choice != Choice::Adaptive || now < block.busy || !block.watch.is_due(costs) {
            return;
        }
        let first = number * BLOCK_PAGES;
        let users = pages[first..].iter().take(BLOCK_PAGES).map(|page| page.usage.hosts.count());
        let about = (first, users.map(u64::from).sum());
        let Some(to) = block.watch.look(block.mode, allowed, about, costs, purse) else { return };
        let probe = to.mode == block.mode.mode;
        let counts = &mut self.areas.counts;
        *(if probe { &mut counts.probes } else { &mut counts.changes }) += 1;
        let mut change = Change::new(number, to);
        let over = self.run(host, now, |local, back| change.step(local, back));
        self.areas.counts.change_time += over - now;
    }

    /// A machine's steps, from `now` on; when the last one is done.
    fn run(
        &mut self,
        host: usize,
        now: Ps,
        mut step: impl FnMut(&mut Local, &mut Back<'a, '_, WORDS>) -> Progress,
    ) -> Ps {
        let mut local = std::mem::replace(&mut self.areas.locals[host], Local::new(host, 0, 1));
        let (asked, answers) = (Vec::new(), Vec::new());
        let mut back = Back { parts: self, host, now, asked, answers, says: None };
        for _ in 0..MOST_STEPS {
            match step(&mut local, &mut back) {
                Progress::Goes => {}
                Progress::Waits => back.have_answers(),
                Progress::Done => {
                    let over = back.now;
                    self.areas.locals[host] = local;
                    return over;
                }
            }
        }
        unreachable!("locks are free and hosts answer: nothing waits for long");
    }
}

impl<'a, const WORDS: usize> Back<'a, '_, WORDS> {
    fn times(&self) -> &Times {
        &self.parts.areas.times
    }

    /// Hosts that were asked answer, each at its own time.
    fn have_answers(&mut self) {
        for (host, question, arrives) in std::mem::take(&mut self.asked) {
            let mut answering = Answering::new(question);
            let mut says = None;
            let over = self.parts.run(host, arrives, |local, back| {
                let progress = answering.step(local, back);
                says = says.or(back.says);
                progress
            });
            let far = self.times().far;
            let work = (over - arrives) / 1000;
            let waits = self.parts.areas.handlers[host].pass(arrives, work);
            self.answers.extend(says.map(|message| (host, message, over + waits + far)));
        }
    }

    /// Drops the lines of a page from the caches of this host; how many it had changed.
    fn drop_lines(&mut self, page: usize) -> u64 {
        let first = page as u64 * LINES;
        let place = self.parts.lines.find(page as u64);
        let mut dirty = 0;
        for line in first..first + LINES {
            let dropped = self.parts.caches[self.host].drop_line(Line::new(Region::Scr, line));
            dirty += u64::from(dropped == Some(true));
            if let (Some(place), true) = (place, dropped.is_some()) {
                self.parts.lines.line(place, line).holders.remove(self.host);
            }
        }
        dirty
    }

    /// So many bytes go to the memory node or come from there.
    fn pass(&mut self, bytes: u64) {
        self.now += self.parts.node.pass(self.now, bytes);
    }
}

impl<const WORDS: usize> Pod for Back<'_, '_, WORDS> {
    fn block(&mut self, block: usize) -> Option<BlockMode> {
        let block = &self.parts.areas.blocks[block];
        // The word seldom changes, and is in the host's caches.
        self.now = self.now.max(block.busy);
        Some(block.mode)
    }

    fn lock_block(&mut self, block: usize) -> Option<(BlockMode, Hosts)> {
        let block = &self.parts.areas.blocks[block];
        self.now = self.now.max(block.busy) + self.parts.areas.times.far;
        Some((block.mode, block.hosts))
    }

    fn unlock_block(&mut self, block: usize, mode: BlockMode, hosts: Hosts) {
        let block = &mut self.parts.areas.blocks[block];
        (block.mode, block.hosts, block.busy) = (mode, hosts, self.now);
    }

    fn is_idle(&mut self, page: usize) -> bool {
        // Four pages' words are in a line, and several lines are under way at once.
        self.now += self.times().far / 16;
        self.parts.areas.pages[page].known.holders.is_empty()
    }

    fn lock_page(&mut self, page: usize) -> Option<Known> {
        let page = &self.parts.areas.pages[page];
        self.now = self.now.max(page.busy) + self.parts.areas.times.far;
        Some(page.known)
    }

    fn unlock_page(&mut self, page: usize, known: Known) {
        let page = &mut self.parts.areas.pages[page];
        (page.known, page.busy) = (known, self.now);
    }

    fn ask(&mut self, host: usize, question: Question) {
        self.parts.areas.counts.questions += 1;
        let arrives = self.now + self.times().far;
        self.asked.push((host, question, arrives));
    }

    fn answered(&mut self, host: usize, _: &Question) -> Option<Message> {
        let found = self.answers.iter().position(|&(from, ..)| from == host)?;
        let (_, message, arrives) = self.answers.swap_remove(found);
        self.now = self.now.max(arrives);
        Some(message)
    }

    fn answer(&mut self, _: &Question, answer: Message) {
        self.says = Some(answer);
    }
}

impl<const WORDS: usize> Mappings for Back<'_, '_, WORDS> {
    fn map(&mut self, pages: Range<usize>, mode: Mode, access: Access) {
        let Times { fault, upgrade, map, .. } = *self.times();
        let rights = &mut self.parts.areas.rights[self.host];
        self.now += match mode {
            Mode::Direct => fault + map * pages.len() as Ps,
            _ if rights[pages.start] == READ => upgrade,
            _ => fault,
        };
        rights[pages].fill(if access == Access::Write { WRITE } else { READ });
    }

    fn protect(&mut self, page: usize) {
        self.now += self.times().protect;
        self.parts.areas.rights[self.host][page] = READ;
    }

    fn invalidate(&mut self, pages: Range<usize>, mode: Mode) {
        let Times { invalidate, invalidate_more, .. } = *self.times();
        self.now += invalidate + invalidate_more * (pages.len() as Ps - 1);
        for page in pages {
            let mapped = self.parts.areas.rights[self.host][page] != NONE;
            // A probe in the range is mapped otherwise, and was taken away before.
            if mapped {
                let dirty = self.drop_lines(page);
                if mode != Mode::Replicated {
                    self.pass(dirty * LINE_BYTES);
                }
            }
            self.parts.areas.rights[self.host][page] = NONE;
        }
    }

    fn fetch(&mut self, _: usize, mode: Mode) {
        let Times { copy, drop, .. } = *self.times();
        self.now += drop;
        if mode == Mode::Replicated {
            self.parts.areas.counts.copies += 1;
            self.pass(PAGE_BYTES);
            self.now += copy;
        }
    }

    fn write_back(&mut self, page: usize, mode: Mode) {
        let Times { copy, clean, .. } = *self.times();
        self.parts.areas.counts.write_backs += 1;
        if mode == Mode::Replicated {
            self.parts.areas.counts.copies += 1;
            self.pass(PAGE_BYTES);
            self.now += copy;
            return;
        }
        // Lines that the host may still read stay in its caches.
        let first = page as u64 * LINES;
        let caches = &mut self.parts.caches[self.host];
        let dirty = (first..first + LINES)
            .filter(|&line| caches.clean(Line::new(Region::Scr, line)))
            .count();
        self.now += clean;
        self.pass(dirty as u64 * LINE_BYTES);
    }
}
