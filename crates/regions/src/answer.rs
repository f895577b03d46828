//! A host gives up pages, because another one asks or changes their mode.

use tombolo_coherence::{Message, SHARING, State};

use crate::local::{Held, Local};
use crate::{Mode, Pages, Pod, Progress, Question, Subject};

/// A host gives up a page: its mapping first, then what it has written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Yield {
    page: usize,
    snoop: Message,
    /// The page is to be written back, and was mapped in this mode; then this is answered.
    writes_back: Option<(Mode, Message)>,
}

impl Yield {
    pub(crate) fn new(page: usize, snoop: Message) -> Self {
        Self { page, snoop, writes_back: None }
    }

    pub(crate) fn page(&self) -> usize {
        self.page
    }

    /// Takes a step. Returns the host's answer after the last one.
    pub(crate) fn step<B: Pages>(&mut self, here: &mut Local, back: &mut B) -> Option<Message> {
        if let Some((mode, message)) = self.writes_back {
            back.write_back(self.page, mode);
            return Some(message);
        }
        let Held { state, mode } = here.held(self.page);
        let answer = (SHARING.answer)(self.snoop, state);
        match answer.next {
            State::Invalid if state == State::Invalid => {}
            State::Invalid => back.invalidate(self.page..self.page + 1, mode),
            // A page that the host had alone and has not written is mapped to be read.
            _ if state == State::Modified => back.protect(self.page),
            _ => {}
        }
        let kept = if answer.next == State::Invalid { Mode::default() } else { mode };
        here.set(self.page, Held { state: answer.next, mode: kept });
        if state == State::Modified {
            self.writes_back = Some((mode, answer.message));
            return None;
        }
        Some(answer.message)
    }
}

/// A host answers a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answering {
    question: Question,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Yields(Yield),
    Unmaps,
    Answers(Message),
}

impl Answering {
    /// Begins to answer.
    pub fn new(question: Question) -> Self {
        let stage = match question.subject {
            Subject::Page(page) => Stage::Yields(Yield::new(page, question.snoop)),
            Subject::Direct(_) => Stage::Unmaps,
        };
        Self { question, stage }
    }

    /// The question that is answered.
    pub fn question(&self) -> &Question {
        &self.question
    }

    pub(crate) fn rename(&mut self, names: &[usize]) {
        self.question.rename(names);
    }

    /// Takes a step. It never waits.
    pub fn step<B: Pod + Pages>(&mut self, here: &mut Local, back: &mut B) -> Progress {
        match &mut self.stage {
            Stage::Yields(page) => {
                if let Some(message) = page.step(here, back) {
                    self.stage = Stage::Answers(message);
                }
            }
            Stage::Unmaps => {
                if let Subject::Direct(pages) = &self.question.subject {
                    back.invalidate(pages.clone(), Mode::Direct);
                }
                self.stage = Stage::Answers(Message::GoI);
            }
            Stage::Answers(message) => {
                back.answer(&self.question, *message);
                return Progress::Done;
            }
        }
        Progress::Goes
    }
}
