//! The thread of a host that serves touches, answers others, and changes modes.

use std::time::Duration;

use tombolo_coherence::{Access, Hosts, Message};
use tombolo_host::Host;
use tombolo_memory::Memory;
use tombolo_pod::{Mailbox, Request};

use super::back::{Asked, Back, Extent, Touched, View, decode};
use super::sweep::Sweep;
use super::table::{Count, Table};
use crate::answer::Yield;
use crate::sites;
use crate::{
    Answering, BlockMode, Change, Fault, Local, Mode, Pages, Pod, Progress, Question, Subject,
};

/// Steps of a machine before others have their turn.
const MOST_STEPS: usize = 256;
/// Requests that are answered before touches have their turn.
const MOST_REQUESTS: usize = 64;
/// A page that was mapped stays for so long, so that the thread that waited for it gets on.
const HOLD: Duration = Duration::from_micros(50);
/// How long a host waits at least between two looks whether others are alive.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
/// How long a host may give no sign of life that others wait for. A host whose process has ended is
/// known to be gone at once.
const SILENCE: Duration = Duration::from_secs(5);

/// A region that this host uses.
struct Opened<V> {
    extent: Extent,
    local: Local,
    view: V,
    faults: Vec<Fault>,
    changes: Vec<Change>,
    /// The region is being closed: so far its pages up to this one were given back.
    leaves: Option<usize>,
    /// When each page was last mapped for a thread that waited.
    mapped: Vec<Duration>,
}

/// A question that this host answers a little later.
struct Held {
    request: Request,
    region: u64,
    question: Question,
    since: Duration,
}

/// A host's part in the regions of an area. One thread owns it, and calls [`turn`](Self::turn)
/// again and again.
pub struct Keeper<'m, M: Memory, V> {
    table: &'m Table<M>,
    host: &'m Host<M>,
    mailbox: &'m Mailbox<M>,
    asked: Vec<Asked<'m, M>>,
    opened: Vec<Opened<V>>,
    held: Vec<Held>,
    sweeps: Vec<Sweep>,
    in_way: Vec<u8>,
    touches: Vec<Touched>,
    /// When this host last looked whether others are alive.
    looked: Duration,
}

impl<'m, M: Memory, V: View> Keeper<'m, M, V> {
    pub(super) fn new(table: &'m Table<M>, host: &'m Host<M>, mailbox: &'m Mailbox<M>) -> Self {
        Self {
            table,
            host,
            mailbox,
            asked: Vec::new(),
            opened: Vec::new(),
            held: Vec::new(),
            sweeps: Vec::new(),
            in_way: Vec::new(),
            touches: Vec::new(),
            looked: Duration::ZERO,
        }
    }

    /// This host uses a region from now on, whose pages it maps by `view`.
    pub fn open(&mut self, extent: Extent, view: V) {
        let pages = extent.pages as usize;
        let block_pages = self.table.places.shape.block_pages as usize;
        let local = Local::new(self.table.stay.host.into(), pages, block_pages);
        let mapped = vec![Duration::ZERO; pages];
        let (faults, changes) = (Vec::new(), Vec::new());
        self.opened.push(Opened { extent, local, view, faults, changes, leaves: None, mapped });
    }

    /// Begins to give back what this host has of a region. It is closed when
    /// [`is_open`](Self::is_open) denies it; no thread may touch it meanwhile.
    pub fn close(&mut self, region: u64) {
        let is_it = |opened: &&mut Opened<V>| opened.extent.region == region;
        if let Some(opened) = self.opened.iter_mut().find(is_it) {
            opened.leaves.get_or_insert(0);
        }
    }

    /// Whether this host uses a region, or has not given all of it back.
    pub fn is_open(&self, region: u64) -> bool {
        self.opened.iter().any(|opened| opened.extent.region == region)
    }

    /// Begins to give a block of a region another mode.
    pub fn change(&mut self, region: u64, block: usize, to: BlockMode) {
        let is_it = |opened: &&mut Opened<V>| opened.extent.region == region;
        if let Some(opened) = self.opened.iter_mut().find(is_it) {
            opened.changes.push(Change::new(block, to));
        }
    }

    /// Whether a change of a region is under way that this host has begun.
    pub fn is_changing(&self, region: u64) -> bool {
        let mut opened = self.opened.iter();
        opened.any(|opened| opened.extent.region == region && !opened.changes.is_empty())
    }

    /// Does what there is to do; whether there was anything.
    pub fn turn(&mut self) -> bool {
        let mut busy = self.answer_all();
        for place in 0..self.opened.len() {
            busy |= self.serve(place);
        }
        let gone_back = |opened: &Opened<V>| {
            opened.leaves.is_none_or(|page| page < opened.extent.pages as usize)
                || !opened.faults.is_empty()
                || !opened.changes.is_empty()
        };
        self.opened.retain(gone_back);
        self.look_around() || busy
    }

    /// Whether others have fenced this host: then nothing that it does counts.
    pub fn is_fenced(&self) -> bool {
        !self.table.area.is_member(self.table.stay)
    }

    /// Takes all pages from this host's processors for good: it was fenced. Later touches are
    /// errors, as long as this is called again and again.
    pub fn give_up(&mut self) {
        for opened in &mut self.opened {
            let pages = opened.extent.pages as usize;
            let kept = (0..pages).filter_map(|page| Some((page, opened.local.mode_of(page)?)));
            for (page, mode) in kept.collect::<Vec<_>>() {
                opened.view.unmap(page..page + 1, mode);
                self.touches.push(Touched { page, writes: false });
            }
            opened.view.unmap(0..pages, Mode::Direct);
            opened.local = opened.local.emptied();
            opened.view.touched(&mut self.touches);
            self.touches.extend(
                opened.faults.drain(..).map(|fault| Touched { page: fault.page(), writes: false }),
            );
            self.touches.drain(..).for_each(|touch| opened.view.lose(touch.page));
        }
    }

    fn answer_all(&mut self) -> bool {
        let mut busy = false;
        for held in std::mem::take(&mut self.held) {
            busy |= self.answer_or_hold(held);
        }
        for _ in 0..MOST_REQUESTS {
            let Some(request) = self.mailbox.next() else { break };
            busy = true;
            match decode(&request) {
                Some((region, question)) => {
                    let since = self.table.memory().uptime();
                    self.answer_or_hold(Held { request, region, question, since });
                }
                None => _ = self.mailbox.answer(&request, Message::GoI as u64),
            }
        }
        busy
    }

    /// Answers, or keeps the question while a thread has just got its page; whether it was
    /// answered.
    fn answer_or_hold(&mut self, held: Held) -> bool {
        let place = self.opened.iter().position(|opened| opened.extent.region == held.region);
        let Some(place) = place else {
            // This host has never used the region, or has given all of it back.
            self.mailbox.answer(&held.request, Message::GoI as u64);
            return true;
        };
        let opened = &self.opened[place];
        let is_within = match &held.question.subject {
            Subject::Page(page) => *page < opened.mapped.len(),
            Subject::Direct(pages) => pages.end <= opened.mapped.len(),
        };
        if !is_within {
            self.mailbox.answer(&held.request, Message::GoI as u64);
            return true;
        }
        if let Subject::Page(page) = held.question.subject {
            let now = self.table.memory().uptime();
            let (mapped, waited) = (opened.mapped[page], now.saturating_sub(held.since));
            if now.saturating_sub(mapped) < HOLD && waited < HOLD {
                self.held.push(held);
                return false;
            }
        }
        let mut answering = Answering::new(held.question);
        let says = self.with_back(place, |local, back| {
            while answering.step(local, back) != Progress::Done {}
            back.says
        });
        let says = says.unwrap_or(Message::GoI);
        self.mailbox.answer(&held.request, says as u64);
        true
    }

    fn with_back<R>(
        &mut self,
        place: usize,
        run: impl FnOnce(&mut Local, &mut Back<'_, 'm, M, V>) -> R,
    ) -> R {
        let opened = &mut self.opened[place];
        let mut back = Back {
            table: self.table,
            mailbox: self.mailbox,
            extent: opened.extent,
            view: &mut opened.view,
            asked: &mut self.asked,
            in_way: &mut self.in_way,
            says: None,
            handed: false,
        };
        run(&mut opened.local, &mut back)
    }

    /// Touches, changes, and pages to be given back of a region.
    fn serve(&mut self, place: usize) -> bool {
        let opened = &mut self.opened[place];
        opened.view.touched(&mut self.touches);
        for touch in self.touches.drain(..) {
            let is_known = opened.faults.iter().any(|fault| fault.page() == touch.page);
            let is_open = opened.leaves.is_none();
            // The thread tries again when the page is mapped, whatever it is mapped for. No thread
            // waits for a page of a region that is being closed.
            if is_open && !is_known && touch.page < opened.mapped.len() {
                let access = if touch.writes { Access::Write } else { Access::Read };
                opened.faults.push(Fault::new(touch.page, access));
            }
        }
        let mut busy = false;
        for mut fault in std::mem::take(&mut self.opened[place].faults) {
            let done = self.with_back(place, |local, back| {
                let done = steps(|| fault.step(local, back));
                if done == Progress::Done {
                    back.count(fault.page());
                }
                done
            });
            busy |= done != Progress::Waits;
            if done == Progress::Done {
                self.opened[place].mapped[fault.page()] = self.table.memory().uptime();
            } else {
                self.opened[place].faults.push(fault);
            }
        }
        // A host changes one block of a region after the other.
        if let Some(mut change) = self.opened[place].changes.first().cloned() {
            let done = self.with_back(place, |local, back| steps(|| change.step(local, back)));
            busy |= done != Progress::Waits;
            let opened = &mut self.opened[place];
            if done == Progress::Done {
                let blocks = opened.extent.first / self.table.places.shape.block_pages;
                self.table.count(blocks + change.block() as u64, Count::Changes);
                opened.changes.remove(0);
            } else {
                opened.changes[0] = change;
            }
        }
        busy | self.leave(place)
    }

    /// Gives back the next pages of a region that is being closed.
    fn leave(&mut self, place: usize) -> bool {
        let Opened { faults, changes, .. } = &self.opened[place];
        let is_busy = !faults.is_empty() || !changes.is_empty();
        let Some(mut page) = self.opened[place].leaves.filter(|_| !is_busy) else { return false };
        let (first, pages) = (page, self.opened[place].extent.pages as usize);
        if !self.table.memory().keeps(sites::LEAVE_PAGES) {
            page = pages;
        }
        self.with_back(place, |local, back| {
            while page < pages && give_back(page, local, back) {
                page += 1;
            }
        });
        self.opened[place].leaves = Some(page);
        page > first
    }

    /// Looks after hosts that are in the way, or were fenced.
    fn look_around(&mut self) -> bool {
        self.in_way.sort_unstable();
        self.in_way.dedup();
        let area = &self.table.area;
        for host in self.in_way.drain(..) {
            self.host.fence_if_dead(area, host, SILENCE);
        }
        let now = self.table.memory().uptime();
        if now.saturating_sub(self.looked) >= BETWEEN_LOOKS {
            self.looked = now;
            self.host.beat();
            area.fence_ended();
            for host in area.membership().fenced() {
                let stay = area.stay_of(host);
                let is_ours = self.sweeps.iter().any(|sweep| sweep.stay() == stay);
                let may = !is_ours && area.is_gone(stay);
                if may && area.begin_cleanup(stay, self.table.stay.host) {
                    self.sweeps.push(Sweep::new(stay));
                }
            }
        }
        let mut busy = false;
        for mut sweep in std::mem::take(&mut self.sweeps) {
            match sweep.step(self.table) {
                Progress::Done => _ = area.release(sweep.stay()),
                progress => {
                    busy |= progress == Progress::Goes;
                    self.sweeps.push(sweep);
                }
            }
        }
        busy
    }
}

impl<M: Memory, V> Drop for Keeper<'_, M, V> {
    /// Lets other hosts clear up where this one has not come to the end.
    fn drop(&mut self) {
        for sweep in &self.sweeps {
            self.table.area.yield_cleanup(sweep.stay(), self.table.stay.host);
        }
    }
}

/// Takes steps until the machine waits or is done, or others have their turn.
fn steps(mut step: impl FnMut() -> Progress) -> Progress {
    let mut first = true;
    for _ in 0..MOST_STEPS {
        match step() {
            Progress::Goes => first = false,
            Progress::Waits if first => return Progress::Waits,
            Progress::Waits => return Progress::Goes,
            Progress::Done => return Progress::Done,
        }
    }
    Progress::Goes
}

/// A host gives a page back, and its block's direct mapping with the block's first page; whether
/// the locks for that were free.
fn give_back<M: Memory, V: View>(
    page: usize,
    local: &mut Local,
    back: &mut Back<'_, '_, M, V>,
) -> bool {
    let block = local.block_of(page);
    let pages = local.pages_of(block);
    let own = Hosts::one(local.host());
    if page == pages.start {
        let Some((mode, hosts)) = back.lock_block(block) else { return false };
        if hosts.has(local.host()) {
            back.invalidate(pages, Mode::Direct);
        }
        back.unlock_block(block, mode, hosts.without(own));
    }
    if local.mode_of(page).is_none() {
        return true;
    }
    let Some(mut known) = back.lock_page(page) else { return false };
    let mut gives = Yield::new(page, Message::ClFlush);
    while gives.step(local, back).is_none() {}
    known.holders = known.holders.without(own);
    back.unlock_page(page, known);
    true
}
