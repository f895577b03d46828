//! A question to several hosts, and their answers.

use tombolo_coherence::Hosts;

use crate::words::renamed;
use crate::{Pod, Question};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Collect {
    question: Question,
    /// Hosts that have not answered yet.
    waits: Hosts,
    /// Hosts that keep the page.
    pub(crate) keep: Hosts,
}

impl Collect {
    /// Asks hosts.
    pub(crate) fn new(question: Question, hosts: Hosts, back: &mut impl Pod) -> Self {
        hosts.iter().for_each(|host| back.ask(host, question.clone()));
        Self { question, waits: hosts, keep: Hosts::default() }
    }

    pub(crate) fn rename(&mut self, names: &[usize]) {
        self.question.rename(names);
        self.waits = renamed(self.waits, names);
        self.keep = renamed(self.keep, names);
    }

    /// Whether all have answered.
    pub(crate) fn is_over(&self) -> bool {
        self.waits.is_empty()
    }

    /// Takes the answers that are there; whether there were any.
    pub(crate) fn step(&mut self, back: &mut impl Pod) -> bool {
        let before = self.waits;
        for host in before.iter() {
            if let Some(answer) = back.answered(host, &self.question) {
                self.waits.remove(host);
                if answer.keeps(self.question.snoop) {
                    self.keep.insert(host);
                }
            }
        }
        self.waits != before
    }
}
