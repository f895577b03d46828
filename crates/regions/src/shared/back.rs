//! A host's back end of the protocol in a pod: words in SCR, mail, and its own mappings.

use std::ops::Range;

use tombolo_coherence::{Access, Hosts, Known, Message};
use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_pod::{Mailbox, PAYLOAD_BYTES, Reply, Request, Stay, Ticket};

use super::table::{Count, Table};
use crate::sites;
use crate::{BlockMode, Mode, Pages, Pod, Question, Subject};

/// A thread of this host waits for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The page.
    pub page: usize,
    /// Whether it wants to write.
    pub writes: bool,
}

/// A host's mappings of the pages of a region, and its replicas.
///
/// A call that takes rights away returns when no processor of the host has them any more.
pub trait View {
    /// Processors may read these pages, and write them if `writes`, where their mode says. Threads
    /// that wait for them go on.
    fn map(&mut self, pages: Range<usize>, mode: Mode, writes: bool);

    /// Processors may only read a page.
    fn protect(&mut self, page: usize);

    /// Processors may not access these pages, as far as they are mapped in such a mode.
    fn unmap(&mut self, pages: Range<usize>, mode: Mode);

    /// A touch of this page is an error from now on.
    fn lose(&mut self, page: usize);

    /// Copies a page's replica out.
    fn read_replica(&mut self, page: usize, into: &mut [u8]);

    /// Copies bytes into a page's replica.
    fn write_replica(&mut self, page: usize, bytes: &[u8]);

    /// Appends touches that wait.
    fn touched(&mut self, touches: &mut Vec<Touched>);
}

/// Where a region lies in its area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its number in the directory.
    pub region: u64,
    /// The area's page that is its first, a multiple of a block's pages.
    pub first: u64,
    /// How many pages it has.
    pub pages: u64,
}

/// A question that another host was asked, and its answer if that has come.
pub(super) struct Asked<'m, M: Memory> {
    host: usize,
    region: u64,
    question: Question,
    /// Nothing, as long as all slots for requests are in use.
    ticket: Option<Ticket<'m, M>>,
}

/// The back end by which a host does the steps of the protocol, for one region.
pub(super) struct Back<'a, 'm, M: Memory, V> {
    pub(super) table: &'m Table<M>,
    pub(super) mailbox: &'m Mailbox<M>,
    pub(super) extent: Extent,
    pub(super) view: &'a mut V,
    pub(super) asked: &'a mut Vec<Asked<'m, M>>,
    /// Hosts that this one waits for.
    pub(super) in_way: &'a mut Vec<u8>,
    /// This host's answer to the question that it is at, once a step has given one.
    pub(super) says: Option<Message>,
    /// Hosts gave up a page for this one.
    pub(super) handed: bool,
}

impl<M: Memory, V: View> Back<'_, '_, M, V> {
    /// The number of a page in its area.
    fn page(&self, page: usize) -> u64 {
        self.extent.first + page as u64
    }

    fn block_of_area(&self, block: usize) -> u64 {
        self.extent.first / self.table.places.shape.block_pages + block as u64
    }

    /// The same mode, with the probe's number in its region.
    fn of_region(&self, mode: BlockMode) -> BlockMode {
        let first = self.extent.first as usize;
        BlockMode { probe: mode.probe.map(|page| page.wrapping_sub(first)), ..mode }
    }

    fn of_area(&self, mode: BlockMode) -> BlockMode {
        let first = self.extent.first as usize;
        BlockMode { probe: mode.probe.map(|page| page + first), ..mode }
    }

    /// The host of a stay is in the way, if there is one.
    fn waits_for(&mut self, stay: Option<u32>) {
        let Some(number) = stay else { return };
        let hosts = 0..self.table.places_hosts();
        self.in_way.extend(hosts.filter(|&host| self.table.area.stay_of(host).number == number));
    }

    /// The answer to what was asked, and whether there is none to come.
    fn reply(&mut self, place: usize) -> Option<Message> {
        let asked = &mut self.asked[place];
        if asked.ticket.is_none() {
            let payload = encode(asked.region, &asked.question);
            asked.ticket = self.mailbox.try_post(asked.host as u8, &payload);
        }
        let ticket = asked.ticket.as_mut()?;
        match ticket.reply() {
            Reply::Answered(code) => Message::ALL.get(code as usize).copied(),
            Reply::Waiting => {
                self.in_way.push(asked.host as u8);
                None
            }
            Reply::Gone => {
                let stay = Stay { host: asked.host as u8, number: ticket.incarnation() };
                let (area, memory) = (&self.table.area, self.table.memory());
                let may_act = area.is_fenced(stay) && !area.is_gone(stay);
                if !memory.check(sites::AWAIT_GONE, !may_act) {
                    self.in_way.push(stay.host);
                    return None;
                }
                if let Subject::Page(page) = asked.question.subject {
                    self.table.lose_if_written(self.extent.first + page as u64, stay);
                }
                Some(Message::GoI)
            }
        }
    }
}

impl<M: Memory> Table<M> {
    fn places_hosts(&self) -> u8 {
        self.area.places().host_count
    }
}

impl<M: Memory, V: View> Pod for Back<'_, '_, M, V> {
    fn block(&mut self, block: usize) -> Option<BlockMode> {
        let block = self.block_of_area(block);
        let mode = self.table.block(block);
        if mode.is_none() {
            self.waits_for(self.table.block_locker(block));
        }
        mode.map(|mode| self.of_region(mode))
    }

    fn lock_block(&mut self, block: usize) -> Option<(BlockMode, Hosts)> {
        let block = self.block_of_area(block);
        let locked = self.table.lock_block(block);
        if locked.is_none() {
            self.waits_for(self.table.block_locker(block));
        }
        locked.map(|(mode, hosts)| (self.of_region(mode), hosts))
    }

    fn unlock_block(&mut self, block: usize, mode: BlockMode, hosts: Hosts) {
        self.table.unlock_block(self.block_of_area(block), self.of_area(mode), hosts);
    }

    fn is_idle(&mut self, page: usize) -> bool {
        self.table.is_idle(self.page(page))
    }

    fn lock_page(&mut self, page: usize) -> Option<Known> {
        let page = self.page(page);
        let known = self.table.lock_page(page);
        if known.is_none() {
            self.waits_for(self.table.locker(page));
        }
        known
    }

    fn unlock_page(&mut self, page: usize, known: Known) {
        self.table.unlock_page(self.page(page), known);
    }

    fn ask(&mut self, host: usize, question: Question) {
        if !self.table.memory().keeps(sites::AWAIT_ANSWER) {
            return;
        }
        self.handed = true;
        let region = self.extent.region;
        self.asked.push(Asked { host, region, question, ticket: None });
        let _ = self.reply(self.asked.len() - 1).is_some();
    }

    fn answered(&mut self, host: usize, question: &Question) -> Option<Message> {
        let region = self.extent.region;
        let is_it = |asked: &Asked<'_, M>| {
            asked.host == host && asked.region == region && asked.question == *question
        };
        let Some(place) = self.asked.iter().position(is_it) else {
            // The step that asks was left out.
            return Some(Message::GoI);
        };
        let answer = self.reply(place)?;
        self.asked.swap_remove(place);
        Some(answer)
    }

    fn answer(&mut self, _: &Question, answer: Message) {
        self.says = Some(answer);
    }
}

impl<M: Memory, V: View> Pages for Back<'_, '_, M, V> {
    fn map(&mut self, pages: Range<usize>, mode: Mode, access: Access) {
        let writes = access == Access::Write;
        if mode == Mode::Direct {
            let lost = |page: &usize| self.table.is_lost(self.extent.first + *page as u64);
            let mut start = pages.start;
            for page in pages.clone().filter(lost).chain([pages.end]).collect::<Vec<_>>() {
                if start < page {
                    self.view.map(start..page, mode, writes);
                }
                if page < pages.end {
                    self.view.lose(page);
                }
                start = page + 1;
            }
            return;
        }
        for page in pages {
            let number = self.page(page);
            if self.table.is_lost(number) {
                self.view.lose(page);
                continue;
            }
            if writes {
                self.table.note_writer(number);
                if mode == Mode::Owned {
                    self.table.memory().takes(self.table.places.lines(number));
                }
            }
            self.view.map(page..page + 1, mode, writes);
        }
    }

    fn protect(&mut self, page: usize) {
        if self.table.memory().keeps(sites::PROTECT) {
            self.view.protect(page);
        }
    }

    fn invalidate(&mut self, pages: Range<usize>, mode: Mode) {
        if self.table.memory().keeps(sites::REVOKE) {
            self.view.unmap(pages, mode);
        }
    }

    fn fetch(&mut self, page: usize, mode: Mode) {
        let (memory, places) = (self.table.memory(), &self.table.places);
        let number = self.page(page);
        memory.consume(sites::FETCH_INVALIDATE, |_| ((), Some(places.lines(number))));
        if mode == Mode::Replicated {
            let mut bytes = vec![0; places.shape.page_bytes as usize];
            memory.read(places.address(number), &mut bytes);
            self.view.write_replica(page, &bytes);
        }
    }

    fn write_back(&mut self, page: usize, mode: Mode) {
        let (memory, places) = (self.table.memory(), &self.table.places);
        let number = self.page(page);
        let lines = places.lines(number);
        if mode == Mode::Replicated {
            let mut bytes = vec![0; places.shape.page_bytes as usize];
            self.view.read_replica(page, &mut bytes);
            memory.takes(lines);
            memory.write(places.address(number), &bytes);
        }
        memory.publish(sites::WRITE_BACK_CLEAN, [lines], |memory| {
            memory.gives(lines, lines.count() * LINE_BYTES);
            self.table.forget_writer(number);
        });
    }
}

impl<M: Memory, V> Back<'_, '_, M, V> {
    /// Counts a fault, and a hand-over if hosts were asked.
    pub(super) fn count(&self, page: usize) {
        let block = (self.extent.first + page as u64) / self.table.places.shape.block_pages;
        self.table.count(block, Count::Faults);
        if self.handed {
            self.table.count(block, Count::HandOvers);
        }
    }
}

/// A question as mail: region, kind and snoop, and the pages.
fn encode(region: u64, question: &Question) -> [u8; PAYLOAD_BYTES] {
    let (kind, pages) = match &question.subject {
        Subject::Page(page) => (0, *page..page + 1),
        Subject::Direct(pages) => (1, pages.clone()),
    };
    let numbers = [region, kind, question.snoop as u64, pages.start as u64, pages.end as u64];
    let mut payload = [0; PAYLOAD_BYTES];
    for (bytes, number) in payload.chunks_exact_mut(8).zip(numbers) {
        bytes.copy_from_slice(&number.to_le_bytes());
    }
    payload
}

/// The region that a request is about, and what it asks; nothing, if it is none.
pub(super) fn decode(request: &Request) -> Option<(u64, Question)> {
    let (words, _) = request.payload.as_chunks::<8>();
    let [region, kind, snoop, start, end, ..] = *words else { return None };
    let [region, kind, snoop, start, end] =
        [region, kind, snoop, start, end].map(u64::from_le_bytes);
    let snoop = Message::ALL.get(usize::try_from(snoop).ok()?).copied().filter(|m| m.is_snoop())?;
    let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
    let subject = match kind {
        0 if end == start.checked_add(1)? => Subject::Page(start),
        1 if start <= end => Subject::Direct(start..end),
        _ => return None,
    };
    Some((region, Question { asker: request.from.into(), subject, snoop }))
}
