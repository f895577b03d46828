//! A host's back end in an explored state, and mistakes that can be planted there.

use std::ops::Range;

use tombolo_coherence::{Access, Hosts, Known, Message, State};

use super::Planted;
use super::world::{Cached, World};
use crate::{Answering, BlockMode, Mode, Pages, Pod, Progress, Question, Subject};

pub(super) struct Back<'a> {
    pub(super) world: &'a mut World,
    pub(super) host: usize,
    pub(super) planted: Option<Planted>,
    /// Pages were written back before.
    pub(super) copied: bool,
}

impl Back<'_> {
    fn plants(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    /// The answer that a host would give: the rest of its machine is run on a copy of the world.
    fn foresee(&self, host: usize, question: &Question) -> Option<Message> {
        let mut world = self.world.clone();
        let mut local = world.hosts[host].local.take()?;
        let mut answering = Answering::new(question.clone());
        let subject = world.subject(&question.subject);
        let mut back = Back { world: &mut world, host, planted: None, copied: false };
        while answering.step(&mut local, &mut back) != Progress::Done {}
        world.hosts[host].mail[subject].answer
    }

    /// A host writes back what it has of a page that it may still write.
    fn copy_early(&mut self, host: usize, question: &Question) {
        let Subject::Page(page) = question.subject else { return };
        let held = self.world.hosts[host].local.as_ref().map(|local| local.held(page));
        if let Some(held) = held.filter(|held| held.state == State::Modified) {
            Back { world: self.world, host, planted: None, copied: false }
                .write_back(page, held.mode);
        }
    }
}

impl Pod for Back<'_> {
    fn block(&mut self, block: usize) -> Option<BlockMode> {
        let block = &self.world.blocks[block];
        (!block.locked).then_some(block.mode)
    }

    fn lock_block(&mut self, block: usize) -> Option<(BlockMode, Hosts)> {
        let block = &mut self.world.blocks[block];
        let free = !std::mem::replace(&mut block.locked, true);
        free.then_some((block.mode, block.hosts))
    }

    fn unlock_block(&mut self, block: usize, mode: BlockMode, hosts: Hosts) {
        let block = &mut self.world.blocks[block];
        (block.locked, block.mode, block.hosts) = (false, mode, hosts);
    }

    fn is_idle(&mut self, page: usize) -> bool {
        let page = &self.world.pages[page];
        !page.locked && page.known.holders.is_empty()
    }

    fn lock_page(&mut self, page: usize) -> Option<Known> {
        let page = &mut self.world.pages[page];
        let free = !std::mem::replace(&mut page.locked, true);
        free.then_some(page.known)
    }

    fn unlock_page(&mut self, page: usize, known: Known) {
        let page = &mut self.world.pages[page];
        (page.locked, page.known) = (false, known);
    }

    fn ask(&mut self, host: usize, question: Question) {
        let subject = self.world.subject(&question.subject);
        if self.plants(Planted::CopyBeforeRevoke) {
            self.copy_early(host, &question);
        }
        let rash =
            self.plants(Planted::AnswerBeforeRevoke) || self.plants(Planted::HandOverDropped);
        let answer = if rash { self.foresee(host, &question) } else { None };
        let dropped = self.plants(Planted::HandOverDropped);
        let mail = &mut self.world.hosts[host].mail[subject];
        (mail.answer, mail.rash) = (answer, rash);
        if !dropped {
            mail.asked = Some(Answering::new(question));
        }
    }

    fn answered(&mut self, host: usize, question: &Question) -> Option<Message> {
        let subject = self.world.subject(&question.subject);
        self.world.hosts[host].mail[subject].answer.take()
    }

    fn answer(&mut self, question: &Question, answer: Message) {
        let subject = self.world.subject(&question.subject);
        let mail = &mut self.world.hosts[self.host].mail[subject];
        if !std::mem::take(&mut mail.rash) {
            mail.answer = Some(answer);
        }
    }
}

impl Pages for Back<'_> {
    fn map(&mut self, pages: Range<usize>, mode: Mode, access: Access) {
        let writable = access == Access::Write;
        for at in &mut self.world.hosts[self.host].pages[pages] {
            at.mapped = Some((mode, writable));
        }
    }

    fn protect(&mut self, page: usize) {
        let at = &mut self.world.hosts[self.host].pages[page];
        at.mapped = at.mapped.map(|(mode, _)| (mode, false));
    }

    fn invalidate(&mut self, pages: Range<usize>, mode: Mode) {
        for at in &mut self.world.hosts[self.host].pages[pages] {
            at.mapped = at.mapped.filter(|&(mapped, _)| mapped != mode);
        }
    }

    fn fetch(&mut self, page: usize, mode: Mode) {
        let skips = self.plants(Planted::InvalidateDropped);
        let far = &mut self.world.pages[page].last;
        let at = &mut self.world.hosts[self.host].pages[page];
        if !skips && let Cached::Dirty(last) = std::mem::take(&mut at.cached) {
            *far = last;
        }
        if mode == Mode::Replicated {
            at.replica = match at.cached {
                Cached::Nothing => *far,
                Cached::Clean(last) | Cached::Dirty(last) => last,
            };
        }
    }

    fn write_back(&mut self, page: usize, mode: Mode) {
        if self.copied {
            return;
        }
        let coherent = self.world.coherent;
        let stays = self.plants(Planted::CleanDropped);
        let at = &mut self.world.hosts[self.host].pages[page];
        let written = match (mode, at.cached) {
            (Mode::Replicated, _) => at.replica,
            (Mode::Owned, Cached::Dirty(last)) => last,
            _ => return,
        };
        if stays {
            at.cached = Cached::Dirty(written);
            return;
        }
        if !coherent {
            at.cached = Cached::Clean(written);
        }
        self.world.pages[page].last = written;
    }
}
