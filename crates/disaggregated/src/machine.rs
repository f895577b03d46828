//! The steps of an access: caches, translation, permission, the protocol's messages, and the memory
//! node.

use tombolo_coherence::{Access, Ask, Holders, Hosts, Message, Node, Protocol, State, Transaction};
use tombolo_programs::{Access as Kind, Record};
use tombolo_regions::Mode;
use tombolo_timing::{
    Access as Cached, Bandwidth, Found, HostCaches, Key, Line, Note, Pipe, Place, Ps, Region, ps,
};

use crate::areas::{Areas, Parts};
use crate::config::{Config, ConfigError, LINE_BYTES, PAGE_BYTES};
use crate::fills::Fills;
use crate::pages::Pages;
use crate::replay::Replay;
use crate::results::{Primitive, Results};
use crate::translations::Translations;
use crate::window::Window;

/// A thread, which has a core of its own.
struct Thread {
    host: usize,
    core: usize,
    /// When its next instruction begins.
    clock: Ps,
    window: Window,
    /// The page it has used last, and its place.
    page: (u64, usize),
    /// When its fault has begun, until that has taken the page from other hosts.
    fault: Option<Ps>,
    /// Its session is over: it has tried what it may not do.
    isolated: bool,
}

struct Times {
    network: Ps,
    memory: Ps,
    levels: Vec<Ps>,
    tlb_miss: Ps,
    translation: Ps,
    page_levels: u64,
    directory: Ps,
    dma: Ps,
}

/// A system in virtual time.
pub(crate) struct Machine<const WORDS: usize> {
    protocol: &'static Protocol,
    coherence: Node,
    caches_data: bool,
    speculates: bool,
    asks_always: bool,
    times: Times,
    interleave_lines: u64,
    threads: Vec<Thread>,
    hosts: Vec<HostCaches>,
    /// By thread.
    tlbs: Vec<Translations>,
    /// By host.
    translations: Vec<Translations>,
    fills: Vec<Fills>,
    replays: Vec<Replay>,
    /// The link of each memory node.
    nodes: Vec<Pipe>,
    pages: Pages<WORDS>,
    /// How pages are kept coherent, if not all by the protocol of lines.
    areas: Option<Areas>,
    results: Results,
}

/// The outcome of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// It is not permitted; the thread does nothing any more.
    Isolated,
}

/// An access as it leaves a host's processor caches.
#[derive(Clone, Copy)]
struct Request {
    thread: usize,
    line: Line,
    place: usize,
    kind: Kind,
    /// When the core wants it.
    begins: Ps,
    /// When the core knows the page's place.
    now: Ps,
}

/// The expected facts of a record before it is done. It may be otherwise then, except for the place
/// of a page, which stays where it is: this decides what is fetched, and nothing else.
#[derive(Clone, Copy, Default)]
pub(crate) struct Foreseen<const WORDS: usize> {
    host: usize,
    /// The first one that it accesses.
    line: Line,
    /// Its page's place.
    pub(crate) place: Option<usize>,
    /// Where the line is that has to go for it, if the host does not have it.
    goes: Option<Place>,
    /// These may have it.
    holders: Hosts<WORDS>,
}

/// The caches of the hosts, as far as a line is concerned.
struct Others<'a> {
    hosts: &'a mut [HostCaches],
    key: Key,
    /// Where the host that was asked last has the line.
    found: Option<Place>,
}

impl Holders for Others<'_> {
    fn state(&mut self, host: usize) -> State {
        let found = self.hosts[host].find(self.key);
        self.found = found.map(|(place, _)| place);
        found.map_or(State::Invalid, |(_, state)| state)
    }

    fn settle(&mut self, host: usize, state: State) {
        if let Some(place) = self.found.take() {
            self.hosts[host].settle_at(place, self.key, state);
        }
    }
}

impl<const WORDS: usize> Machine<WORDS> {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        config.check(Hosts::<WORDS>::MOST)?;
        let bandwidth = Bandwidth { gb_per_s: config.node_gb_per_s, curve: Vec::new() };
        let cores = config.threads.div_ceil(config.hosts);
        let core_to_core = ps(config.core_to_core_ns);
        let tables = |count, entries| (0..count).map(|_| Translations::new(entries)).collect();
        let host = |_| HostCaches::new(&config.caches, cores, core_to_core);
        let host_of = |thread: usize| thread * config.hosts / config.threads;
        let thread = |number: usize| Thread {
            host: host_of(number),
            core: (0..number).rev().take_while(|&other| host_of(other) == host_of(number)).count(),
            clock: 0,
            window: Window::new(config.buffers),
            page: (u64::MAX, 0),
            fault: None,
            isolated: false,
        };
        let areas = config.areas.as_ref().map(|areas| {
            let far = 2 * ps(config.network_ns) + ps(config.memory_ns);
            let snoop = 2 * ps(config.network_ns);
            Areas::new(areas, config.hosts, far, snoop, config.seed)
        });
        Ok(Self {
            areas,
            protocol: config.protocol.tables(),
            coherence: Node::new(config.protocol.tables(), config.filter, config.hosts),
            caches_data: config.protocol != crate::Protocol::Uncached,
            speculates: config.protocol.speculates(),
            asks_always: config.asks_always,
            times: Times {
                network: ps(config.network_ns),
                memory: ps(config.memory_ns),
                levels: config.caches.iter().map(|cache| ps(cache.latency_ns)).collect(),
                tlb_miss: ps(config.tlb_miss_ns),
                translation: ps(config.translation_ns),
                page_levels: config.page_levels.into(),
                directory: ps(config.directory_ns),
                dma: ps(config.dma_ns),
            },
            interleave_lines: (config.interleave_bytes / LINE_BYTES).max(1),
            threads: (0..config.threads).map(thread).collect(),
            hosts: (0..config.hosts).map(host).collect(),
            tlbs: tables(config.threads, config.tlb_entries),
            translations: tables(config.hosts, config.translations),
            fills: (0..config.hosts).map(|_| Fills::default()).collect(),
            replays: (0..config.hosts).map(|_| Replay::new(config.replay_entries)).collect(),
            nodes: (0..config.nodes).map(|_| Pipe::new(&bandwidth)).collect(),
            pages: Pages::new(config),
            results: Results::new(config),
        })
    }

    pub(crate) fn clock(&self, thread: usize) -> Ps {
        self.threads[thread].clock
    }

    /// A thread that has waited goes on at `now`.
    pub(crate) fn wake(&mut self, thread: usize, now: Ps) {
        self.threads[thread].clock = now;
    }

    /// A thread does what touches no memory: an instruction a nanosecond.
    #[inline]
    pub(crate) fn works(&mut self, thread: usize, instructions: u64) {
        let Thread { clock, window, .. } = &mut self.threads[thread];
        *clock = window.works(*clock, instructions);
        self.results.instructions += instructions;
    }

    /// A thread comes to an access, which is so many instructions; when that can begin.
    #[inline]
    pub(crate) fn begin(&mut self, thread: usize, kind: Kind, instructions: u64) -> Ps {
        let Thread { clock, window, .. } = &mut self.threads[thread];
        *clock = window.begin(*clock, kind);
        self.results.instructions += instructions;
        *clock
    }

    /// The thread's next step depends on the value that it has read last.
    #[inline]
    pub(crate) fn depends(&mut self, thread: usize) {
        let Thread { clock, window, .. } = &mut self.threads[thread];
        *clock = window.depends(*clock);
    }

    /// A thread waits until all is through that it has under way.
    pub(crate) fn drain(&mut self, thread: usize) {
        let Thread { clock, window, .. } = &mut self.threads[thread];
        *clock = window.drain(*clock);
    }

    /// A thread reads or writes bytes at an address, now that it has come to that. The place of the
    /// first line's page may be known.
    #[inline]
    pub(crate) fn access(
        &mut self,
        thread: usize,
        (address, bytes): (u64, u32),
        kind: Kind,
        mut place: Option<usize>,
    ) -> Outcome {
        let first = address / LINE_BYTES;
        let last = address.saturating_add(u64::from(bytes).max(1) - 1) / LINE_BYTES;
        for line in first..last + 1 {
            if self.access_line(thread, line, kind, place.take()) == Outcome::Isolated {
                return Outcome::Isolated;
            }
        }
        Outcome::Done
    }

    #[inline]
    fn access_line(
        &mut self,
        thread: usize,
        number: u64,
        kind: Kind,
        place: Option<usize>,
    ) -> Outcome {
        let page = number * LINE_BYTES / PAGE_BYTES;
        let (place, walk) = self.place(thread, page, place);
        if self.areas.is_some() {
            self.enter(thread, page as usize, kind);
        }
        let Thread { host, core, clock, isolated, ref window, .. } = self.threads[thread];
        if isolated {
            return Outcome::Isolated;
        }
        self.pages.line(place, number).touch(host);
        let line = Line::new(Region::Scr, number);
        self.results.accesses += 1;
        let now = clock + walk;
        let mut request = Request { thread, line, place, kind, begins: clock, now };
        let asked = window.arrives(number, now);
        if let Some(arrives) = asked.filter(|_| !kind.writes()) {
            // That answer serves this one, too, and the time it takes is counted there.
            let nearest = self.times.levels[0];
            self.results.served(&self.times.levels, nearest);
            self.retire(&request, (now + nearest).max(arrives), walk + nearest);
            return Outcome::Done;
        }
        if !self.caches_data {
            return self.access_uncached(&request);
        }
        let agent = self.times.levels[self.times.levels.len() - 1];
        match self.hosts[host].access(core, Key::of(line), kind.writes()) {
            Cached::Served(takes) if takes < agent && !self.asks_always => {
                self.results.served(&self.times.levels, takes);
                self.retire(&request, (now + takes).max(asked.unwrap_or(0)), walk + takes);
                Outcome::Done
            }
            cached => {
                request.now = now.max(asked.unwrap_or(0));
                self.beyond(request, cached)
            }
        }
    }

    /// An access is through, as far as the thread is concerned; and took so long until it was over.
    #[inline]
    fn retire(&mut self, request: &Request, through: Ps, takes: Ps) {
        let Request { thread, line, kind, begins, .. } = *request;
        let Thread { clock, window, .. } = &mut self.threads[thread];
        *clock = window.end(begins, kind, through);
        let missed = through > *clock && through - begins > self.times.levels[0];
        if missed && window.arrives(line.number(), begins).is_none() {
            window.misses(line.number(), through);
        }
        self.results.waited += takes;
    }

    /// A thread does what a record of a trace says, and waits for it. The place of the first line's
    /// page may be known.
    #[inline]
    pub(crate) fn replay(&mut self, record: &Record, place: Option<usize>) {
        let Record { thread, address, bytes, write, instructions } = *record;
        let (thread, instructions) = (thread as usize, u64::from(instructions));
        self.works(thread, instructions.saturating_sub(1));
        let access = if write { Kind::Update } else { Kind::Read };
        self.begin(thread, access, instructions.min(1));
        self.access(thread, (address, bytes), access, place);
        self.depends(thread);
    }

    /// A record will be done, and what it looks up first is fetched.
    #[inline]
    pub(crate) fn foresee(&self, record: &Record, seen: &mut Foreseen<WORDS>) {
        let number = record.address / LINE_BYTES;
        let line = Line::new(Region::Scr, number);
        let Thread { host, core, .. } = self.threads[record.thread as usize];
        self.hosts[host].foresee_one(core, line);
        let place = self.pages.find(record.address / PAGE_BYTES);
        if let Some(place) = place {
            self.pages.foresee(place, number);
            self.tlbs[record.thread as usize].foresee(place);
        }
        *seen = Foreseen { host, line, place, goes: None, holders: Hosts::default() };
    }

    /// The next step, when what the first one has looked up is there: does the host have the line,
    /// and if not, who does?
    #[inline]
    pub(crate) fn foresee_miss(&self, seen: &mut Foreseen<WORDS>) {
        let Foreseen { host, line, place, .. } = *seen;
        let (found, here) = self.hosts[host].foresee_note(line);
        if let (false, Some(place)) = (here, place) {
            seen.goes = Some(found);
            seen.holders = self.pages.holders(place, line.number());
            self.translations[host].foresee(place);
            seen.holders.iter().for_each(|other| self.hosts[other].foresee_snoop(line));
        }
    }

    /// The next step: which hosts have the line that has to go, and what do holders of this one
    /// note?
    #[inline]
    pub(crate) fn foresee_notes(&self, seen: &Foreseen<WORDS>) {
        if let Some(goes) = seen.goes {
            self.hosts[seen.host].foresee_cores(goes);
            seen.holders.iter().for_each(|other| _ = self.hosts[other].foresee_note(seen.line));
        }
    }

    /// The last step: which of their cores have it?
    #[inline]
    pub(crate) fn foresee_cores(&self, seen: &Foreseen<WORDS>) {
        for other in seen.holders.iter() {
            let (place, _) = self.hosts[other].foresee_note(seen.line);
            self.hosts[other].foresee_cores(place);
        }
    }

    /// Where a page is, which may be known, and how long its thread takes to find out.
    #[inline]
    fn place(&mut self, thread: usize, page: u64, known: Option<usize>) -> (usize, Ps) {
        let (last, place) = self.threads[thread].page;
        if last == page {
            return (place, 0);
        }
        let (place, new) = known.map_or_else(|| self.pages.place(page), |place| (place, false));
        self.threads[thread].page = (page, place);
        if new && self.areas.is_none() {
            self.allocate(thread);
        }
        if self.tlbs[thread].knows(place) {
            return (place, 0);
        }
        self.results.tlb_misses += 1;
        (place, self.times.tlb_miss)
    }

    /// A page is allocated by the backplane, for the host that touches it first, which waits for
    /// that.
    fn allocate(&mut self, thread: usize) {
        self.results.messages.add(Message::Ralloc, 1);
        self.results.messages.add(Message::Cmp, 1);
        let takes = self.times.network + self.times.memory;
        self.threads[thread].clock += takes;
        self.results.waited += takes;
    }

    /// All pages are freed. Nobody waits for that.
    pub(crate) fn free_all(&mut self) {
        self.results.messages.add(Message::Rfree, self.pages.count());
        self.results.messages.add(Message::Cmp, self.pages.count());
    }

    /// A thread calls this before it accesses an address. It may have to wait until the returned
    /// time, and to call again; `None` if it may go ahead.
    #[inline]
    pub(crate) fn wait(&mut self, thread: usize, address: u64, kind: Kind) -> Option<Ps> {
        let page = (address / PAGE_BYTES) as usize;
        let areas = self.areas.as_ref()?;
        if areas.may(self.threads[thread].host, page, kind.writes()) {
            self.threads[thread].fault = None;
            return None;
        }
        self.wait_for(thread, page, kind)
    }

    /// The same, of a page that has to be brought.
    fn wait_for(&mut self, thread: usize, page: usize, kind: Kind) -> Option<Ps> {
        let areas = self.areas.as_mut()?;
        let Thread { clock, window, fault, .. } = &mut self.threads[thread];
        if let Some(began) = fault.take() {
            areas.go_on(page, began);
            self.fault(thread, page, kind, began);
            return None;
        }
        let wants = *clock;
        let drained = window.drain(wants);
        let free = areas.free(page, drained);
        *clock = if free > drained {
            // The fault that has the lock goes on first.
            free + 1
        } else {
            *fault = Some(drained);
            areas.begin(page, drained)
        };
        self.results.waited += *clock - wants;
        Some(*clock)
    }

    /// A thread is about to access a page, and has a fault if its host may not yet.
    fn enter(&mut self, thread: usize, page: usize, kind: Kind) {
        let Some(areas) = &mut self.areas else { return };
        let Thread { host, clock, .. } = self.threads[thread];
        if !areas.access(host, page, kind.writes()) {
            self.fault(thread, page, kind, clock);
        }
    }

    /// A fault of a thread, which began then.
    fn fault(&mut self, thread: usize, page: usize, kind: Kind, began: Ps) {
        let Some(areas) = &mut self.areas else { return };
        let Thread { host, clock, window, .. } = &mut self.threads[thread];
        let first = page as u64 * PAGE_BYTES / LINE_BYTES;
        let node = (first / self.interleave_lines) as usize % self.nodes.len();
        let (caches, lines) = (&mut self.hosts[..], &mut self.pages);
        let mut parts = Parts { areas, caches, lines, node: &mut self.nodes[node] };
        let access = if kind.writes() { Access::Write } else { Access::Read };
        let over = parts.fault(*host, page, access, window.drain(began)).max(*clock);
        self.results.waited += over - *clock;
        *clock = over;
    }

    /// The same as [`beyond`](Self::beyond), where hosts' mappings say what they may do.
    fn beyond_in_area(&mut self, request: Request, cached: Cached) -> Outcome {
        let Request { thread, line, kind, begins, now, .. } = request;
        let host = self.threads[thread].host;
        let page = (line.number() * LINE_BYTES / PAGE_BYTES) as usize;
        let arrives = self.fills[host].arrives(line.number(), now);
        let joins = arrives.is_some() && !kind.writes();
        let on_its_way = arrives.unwrap_or(0).saturating_sub(now);
        let agent = self.times.levels[self.times.levels.len() - 1];
        let takes = match cached {
            Cached::Served(takes) => {
                self.results.served(&self.times.levels, takes);
                takes.max(on_its_way)
            }
            _ if joins => {
                self.results.joined += 1;
                agent.max(on_its_way)
            }
            cached => on_its_way + self.miss(request, page, cached, now + on_its_way),
        };
        self.retire(&request, now + takes, now + takes - begins);
        Outcome::Done
    }

    /// A host's caches miss in a page, which is kept in one way or another.
    fn miss(&mut self, request: Request, page: usize, cached: Cached, start: Ps) -> Ps {
        let Request { thread, line, kind, now, .. } = request;
        let Thread { host, core, ref window, .. } = self.threads[thread];
        let under_way = window.under_way(now);
        let has = if let Cached::NotAlone(found) = cached { Some(found) } else { None };
        let mode = self.areas.as_ref().map_or(Mode::Direct, |areas| areas.mode(page));
        let (takes, snooped) = if mode == Mode::Direct {
            self.fetch(request, has, start)
        } else {
            let key = Key::of(line);
            let gone = match has {
                // From when the page was direct.
                Some(found) => {
                    self.hosts[host].changes_alone(core, key, found);
                    None
                }
                None => self.hosts[host].fill(core, key, kind.writes(), true),
            };
            self.evicted(gone);
            (self.bring(host, line, mode, start), false)
        };
        let Some(areas) = &mut self.areas else { return takes };
        areas.missed(host, page, under_way, snooped);
        let node = (line.number() / self.interleave_lines) as usize % self.nodes.len();
        let (caches, lines) = (&mut self.hosts[..], &mut self.pages);
        Parts { areas, caches, lines, node: &mut self.nodes[node] }.look(host, page, now);
        takes
    }

    /// How long a line of a page takes that no other host may change.
    fn bring(&mut self, host: usize, line: Line, mode: Mode, start: Ps) -> Ps {
        let takes = match (mode, &mut self.areas) {
            (Mode::Replicated, Some(areas)) => areas.near(host, start),
            _ => {
                let Times { network, memory, .. } = self.times;
                let node = (line.number() / self.interleave_lines) as usize % self.nodes.len();
                2 * network + memory + self.nodes[node].pass(start + network, LINE_BYTES)
            }
        };
        self.fills[host].add(line.number(), start + takes, start);
        takes
    }

    /// An access that processor caches cannot serve, or not unasked.
    fn beyond(&mut self, request: Request, cached: Cached) -> Outcome {
        if self.areas.is_some() {
            return self.beyond_in_area(request, cached);
        }
        let Request { thread, place, kind, begins, now, .. } = request;
        let write = kind.writes();
        let host = self.threads[thread].host;
        // A request or a question that leaves the host has to be translated first.
        let leaves = now + self.translate(host, place);
        let check = self.times.network + self.fetch_flag(host, place);
        let permitted = self.pages.page(place).permits(host, write);
        if !permitted && !self.speculates {
            self.isolate(&request, leaves + check);
            return Outcome::Isolated;
        }
        let arrives = self.fills[host].arrives(request.line.number(), now);
        let joins = arrives.is_some() && !write;
        let here = joins || matches!(cached, Cached::Served(_));
        let ready = if self.speculates && here { now } else { leaves };
        let start = if self.speculates { self.replays[host].room(ready) } else { ready };
        let on_its_way = arrives.unwrap_or(0).saturating_sub(start);
        let finds = if here {
            let agent = self.times.levels[self.times.levels.len() - 1];
            let takes = if let Cached::Served(takes) = cached { takes } else { agent };
            self.results.served(&self.times.levels, takes);
            self.results.joined += u64::from(joins);
            takes.max(on_its_way)
        } else {
            let has = if let Cached::NotAlone(found) = cached { Some(found) } else { None };
            on_its_way + self.fetch(request, has, start + on_its_way).0
        };
        // A request to the memory node is checked on its way, for all who wait for its answer. A
        // line that is here waits for an answer of its own.
        let waits = match (self.speculates, here) {
            (true, _) => finds,
            (false, true) if joins => finds,
            (false, true) => finds + check,
            (false, false) => finds + check - self.times.network,
        };
        let through = start + waits;
        let retires = through.max(start.max(leaves) + check);
        if self.speculates {
            self.replays[host].add(retires);
        }
        if !permitted {
            self.roll_back(&request);
            self.isolate(&request, retires);
            return Outcome::Isolated;
        }
        self.retire(&request, through, retires - begins);
        Outcome::Done
    }

    /// The time in which a host learns where a page is in the memory nodes.
    fn translate(&mut self, host: usize, place: usize) -> Ps {
        let found = self.times.translation;
        if self.translations[host].knows(place) {
            return found;
        }
        self.results.walks += 1;
        self.results.messages.add(Message::Rwalk, 1);
        self.results.messages.add(Message::Cmp, 1);
        let Times { network, memory, page_levels, .. } = self.times;
        // To the backplane and back, and between them to the memory node for each table.
        found + network + page_levels * (network + memory)
    }

    /// The time in which the backplane learns whether a host may use a page.
    fn fetch_flag(&mut self, host: usize, place: usize) -> Ps {
        let page = self.pages.page(place);
        if page.flagged.has(host) {
            return 0;
        }
        page.flagged.insert(host);
        self.results.flags += 1;
        self.times.network + self.times.memory
    }

    /// An access of a system that caches no data goes to the memory node, and is checked on its
    /// way.
    fn access_uncached(&mut self, request: &Request) -> Outcome {
        let Request { thread, line, place, kind, begins, now } = *request;
        let (host, write) = (self.threads[thread].host, kind.writes());
        let leaves = now + self.translate(host, place);
        let flag = self.fetch_flag(host, place);
        let Times { network, memory, .. } = self.times;
        if !self.pages.page(place).permits(host, write) {
            self.isolate(request, leaves + network + flag);
            return Outcome::Isolated;
        }
        let arrives = leaves + flag + network;
        let node = (line.number() / self.interleave_lines) as usize % self.nodes.len();
        let queued = self.nodes[node].pass(arrives, LINE_BYTES);
        self.results.queued += queued;
        let (asked, answered, primitive) = if write {
            (Message::MemWr, Message::Cmp, Primitive::RemoteWrite)
        } else {
            (Message::MemRd, Message::CmpE, Primitive::RemoteRead)
        };
        self.results.messages.add(asked, 1);
        self.results.messages.add(answered, 1);
        self.results.primitive(primitive, 2, 2);
        let through = arrives + queued + memory + network;
        self.retire(request, through, through - begins);
        Outcome::Done
    }

    /// Gets a line from its memory node, or the right to change one that the host has; how long
    /// that takes from `start` on, and whether others were asked.
    fn fetch(&mut self, request: Request, has: Option<Found>, start: Ps) -> (Ps, bool) {
        let access = if request.kind.writes() { Access::Write } else { Access::Read };
        let state = if has.is_some() { State::Shared } else { State::Invalid };
        let ask = self.coherence.ask(state, access).unwrap_or(Ask::Own);
        let (takes, done) = self.transact(&request, ask, has, start);
        if access == Access::Read || done.granted != State::Shared {
            return (takes, done.snooped);
        }
        // The line was fetched first, and others have it, too.
        let Thread { host, core, .. } = self.threads[request.thread];
        match self.hosts[host].access(core, Key::of(request.line), true) {
            Cached::NotAlone(found) => {
                let (more, _) = self.transact(&request, Ask::Upgrade, Some(found), start + takes);
                (takes + more, true)
            }
            _ => (takes, done.snooped),
        }
    }

    /// One transaction with the memory node; how long it takes from `start` on.
    fn transact(
        &mut self,
        request: &Request,
        ask: Ask,
        has: Option<Found>,
        start: Ps,
    ) -> (Ps, Transaction<WORDS>) {
        let Request { thread, line, place, kind, .. } = *request;
        let Thread { host, core, .. } = self.threads[thread];
        let entry = *self.pages.line(place, line.number());
        let key = Key::of(line);
        let mut others = Others { hosts: &mut self.hosts, key, found: None };
        let counts = &mut self.results.messages;
        let done = self.coherence.transact(ask, host, entry.known(), &mut others, counts);
        let modifies = kind.writes() && done.granted != State::Shared;
        // A host that may not write asks again before it does.
        let alone = done.granted != State::Shared
            && (modifies || self.pages.page(place).permits(host, true));
        let gone = match (ask, has) {
            (Ask::Upgrade, Some(found)) => {
                self.hosts[host].changes_alone(core, key, found);
                None
            }
            _ => self.hosts[host].fill(core, key, modifies, alone),
        };
        self.evicted(gone);
        let hops = 2 + if done.snooped { 2 } else { 0 } + if done.wrote_back { 2 } else { 0 };
        self.results.primitive(Primitive::of(self.protocol, ask, &done), hops, done.sent);
        let Times { network, memory, directory, dma, .. } = self.times;
        let reads = ask != Ask::Upgrade;
        let accesses = u64::from(reads) + u64::from(done.wrote_back);
        let lookup = if done.snooped { directory } else { 0 };
        let brings = if done.wrote_back || done.forwarded { dma } else { 0 };
        let arrives = start + network;
        let node = (line.number() / self.interleave_lines) as usize % self.nodes.len();
        let begins = arrives.max(entry.busy);
        let begins = begins + self.nodes[node].pass(begins, done.sent * LINE_BYTES);
        let ends = begins + (hops - 2) * network + accesses * memory + lookup + brings;
        self.results.queued += begins - arrives;
        let entry = self.pages.line(place, line.number());
        entry.busy = ends;
        entry.set_known(done.known);
        self.fills[host].add(line.number(), ends + network, request.now);
        (ends + network - start, done)
    }

    /// A line had to leave a host's caches.
    fn evicted(&mut self, gone: Option<Note>) {
        if gone.is_some_and(|note| note.dirty()) {
            self.results.messages.write_back(1);
            self.results.write_backs += 1;
        }
    }

    /// An access turns out not to be permitted: written bytes are as they were before, and read
    /// ones are not there any more.
    fn roll_back(&mut self, request: &Request) {
        let Request { thread, line, place, .. } = *request;
        let host = self.threads[thread].host;
        self.hosts[host].drop_line(line);
        self.pages.line(place, line.number()).holders.remove(host);
        self.results.mispeculations += 1;
    }

    /// The session of a program is over, which had so many threads left.
    pub(crate) fn isolate_all(&mut self, threads: usize) {
        self.results.isolated = threads as u64;
    }

    /// A thread is told at `when` that it may not do what it has tried.
    fn isolate(&mut self, request: &Request, when: Ps) {
        let thread = &mut self.threads[request.thread];
        thread.clock = when;
        thread.isolated = true;
        self.results.waited += when - request.begins;
        self.results.isolated += 1;
    }

    pub(crate) fn areas(&self) -> Option<&Areas> {
        self.areas.as_ref()
    }

    pub(crate) fn results(&self) -> Results {
        let clock = self.threads.iter().map(|thread| thread.clock).max().unwrap_or(0);
        self.results.clone().finished(clock, &self.pages)
    }
}
