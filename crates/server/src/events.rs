//! Keyspace events: what happens to keys, told in channels (`notify-keyspace-events`).
//!
//! The host of the client that subscribes says which events are told. The others tell it of all
//! that their clients do, for as long as it listens; so the setting need be made at one host alone.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::database::{Deadline, Effect, Note, original};
use crate::subscriptions::{Kind, Subscriptions};

/// A class of events, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    Generic = b'g',
    String = b'$',
    Expired = b'x',
    Evicted = b'e',
}

impl Class {
    fn of(letter: u8) -> Option<Self> {
        let all = [Self::Generic, Self::String, Self::Expired, Self::Evicted];
        all.into_iter().find(|&class| class as u8 == letter)
    }
}

/// Letters of classes that `A` stands for, in the order in which they are shown: some are of
/// values that there are not.
const CLASSES: &[u8] = b"g$lshzxetd";
/// Letters of the kinds of channels.
const KEYSPACE: u8 = b'K';
const KEYEVENT: u8 = b'E';

/// Which events are told, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chosen(u32);

impl Chosen {
    /// The choice that letters stand for; `None` if one of them is unknown.
    pub(crate) fn parse(letters: &[u8]) -> Option<Self> {
        letters.iter().try_fold(Self(0), |chosen, &letter| match letter {
            b'A' => Some(CLASSES.iter().fold(chosen, |chosen, &class| chosen.with(class))),
            KEYSPACE | KEYEVENT => Some(chosen.with(letter)),
            class if CLASSES.contains(&class) => Some(chosen.with(class)),
            _ => None,
        })
    }

    fn bit(letter: u8) -> u32 {
        let all = CLASSES.iter().chain(&[KEYSPACE, KEYEVENT]);
        1 << all.take_while(|&&other| other != letter).count()
    }

    fn with(self, letter: u8) -> Self {
        Self(self.0 | Self::bit(letter))
    }

    fn has(self, letter: u8) -> bool {
        self.0 & Self::bit(letter) != 0
    }

    /// Whether there are channels for events, and events for them.
    fn is_something(self) -> bool {
        let classes = CLASSES.iter().any(|&class| self.has(class));
        classes && (self.has(KEYSPACE) || self.has(KEYEVENT))
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if CLASSES.iter().all(|&class| self.has(class)) {
            f.write_str("A")?;
        } else {
            let classes = CLASSES.iter().filter(|&&class| self.has(class));
            classes.into_iter().try_for_each(|&class| write!(f, "{}", char::from(class)))?;
        }
        let kinds = [KEYSPACE, KEYEVENT].into_iter().filter(|&kind| self.has(kind));
        kinds.into_iter().try_for_each(|kind| write!(f, "{}", char::from(kind)))
    }
}

/// The choice of this host.
#[derive(Debug, Default)]
pub(crate) struct Events(AtomicU32);

impl Events {
    pub(crate) fn chosen(&self) -> Chosen {
        Chosen(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn choose(&self, chosen: Chosen) {
        self.0.store(chosen.0, Ordering::Relaxed);
    }

    pub(crate) fn are_told(&self) -> bool {
        self.chosen().is_something()
    }
}

/// Something that has happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    pub(crate) class: Class,
    pub(crate) name: &'a str,
    /// The key as the store has it.
    pub(crate) stored: &'a [u8],
}

impl<'a> Event<'a> {
    /// Tells clients of this host, in the channels that it has `chosen`.
    pub(crate) fn tell(&self, chosen: Chosen, subscriptions: &Subscriptions) {
        if !chosen.has(self.class as u8) {
            return;
        }
        let (database, key) = original(self.stored);
        if chosen.has(KEYSPACE) {
            let channel = [format!("__keyspace@{database}__:").as_bytes(), key].concat();
            subscriptions.deliver(Kind::Channel, &channel, self.name.as_bytes());
        }
        if chosen.has(KEYEVENT) {
            let channel = format!("__keyevent@{database}__:{}", self.name);
            subscriptions.deliver(Kind::Channel, channel.as_bytes(), key);
        }
    }

    /// As it is sent to other hosts.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let head = [self.class as u8, self.name.len() as u8];
        [&head[..], self.name.as_bytes(), self.stored].concat()
    }

    pub(crate) fn decode(message: &'a [u8]) -> Option<Self> {
        let (&[class, length], rest) = message.split_first_chunk()?;
        let (name, stored) = rest.split_at_checked(length.into())?;
        Some(Self { class: Class::of(class)?, name: std::str::from_utf8(name).ok()?, stored })
    }
}

/// The events of a note that a command has left, in their order.
pub(crate) fn of_note<'a>(command: &str, note: &'a Note) -> impl Iterator<Item = Event<'a>> {
    let change = match note.effect {
        Effect::Put(_) => of_put(command),
        Effect::Removed => Some((Class::Generic, of_removal(command))),
        Effect::Kept(_) => None,
    };
    let deadline = match note.effect {
        Effect::Put(deadline) if sets_deadline(command) => deadline,
        Effect::Kept(deadline) => deadline,
        Effect::Put(_) | Effect::Removed => Deadline::AsBefore,
    };
    let deadline = match deadline {
        Deadline::Set => Some("expire"),
        // A new value lasts, and nobody is told that it does.
        Deadline::Gone if command != "set" => Some("persist"),
        Deadline::Gone | Deadline::AsBefore => None,
    };
    let deadline = deadline.map(|name| (Class::Generic, name));
    let event = |(class, name)| Event { class, name, stored: &note.stored };
    change.into_iter().chain(deadline).map(event)
}

fn of_put(command: &str) -> Option<(Class, &'static str)> {
    Some(match command {
        "append" => (Class::String, "append"),
        "bitfield" | "setbit" => (Class::String, "setbit"),
        "copy" => (Class::Generic, "copy_to"),
        "decr" | "decrby" | "incr" | "incrby" => (Class::String, "incrby"),
        "getex" => return None,
        "incrbyfloat" => (Class::String, "incrbyfloat"),
        "move" => (Class::Generic, "move_to"),
        "rename" | "renamenx" => (Class::Generic, "rename_to"),
        "restore" => (Class::Generic, "restore"),
        "setrange" => (Class::String, "setrange"),
        _ => (Class::String, "set"),
    })
}

fn of_removal(command: &str) -> &'static str {
    match command {
        "move" => "move_from",
        "rename" | "renamenx" => "rename_from",
        _ => "del",
    }
}

fn sets_deadline(command: &str) -> bool {
    ["getex", "psetex", "set", "setex"].contains(&command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_shown_as_redis_does() {
        let shown = |letters: &[u8]| Chosen::parse(letters).map(|chosen| chosen.to_string());
        assert_eq!(shown(b"").as_deref(), Some(""));
        assert_eq!(shown(b"KEA").as_deref(), Some("AKE"));
        assert_eq!(shown(b"xE$g").as_deref(), Some("g$xE"));
        assert_eq!(shown(b"KEy"), None);
        let told = |letters| Chosen::parse(letters).is_some_and(Chosen::is_something);
        assert!(told(b"K$") && !told(b"KE") && !told(b"A"));
    }

    #[test]
    fn an_event_is_read_as_it_was_sent() {
        let event = Event { class: Class::Expired, name: "expired", stored: b"key" };
        assert_eq!(Event::decode(&event.encode()), Some(event));
        assert_eq!(Event::decode(b"x\x08short"), None);
        assert_eq!(Event::decode(b"x"), None);
    }

    #[test]
    fn a_command_and_its_effect_make_events() {
        let names = |command: &str, effect| -> Vec<&'static str> {
            let note = Note { stored: b"key".to_vec(), effect };
            let names = of_note(command, &note).map(|event| event.name.to_owned());
            names.map(|name| &*name.leak()).collect()
        };
        assert_eq!(names("set", Effect::Put(Deadline::Set)), ["set", "expire"]);
        assert_eq!(names("set", Effect::Put(Deadline::Gone)), ["set"]);
        assert_eq!(names("getex", Effect::Put(Deadline::Gone)), ["persist"]);
        assert_eq!(names("incr", Effect::Put(Deadline::AsBefore)), ["incrby"]);
        assert_eq!(names("copy", Effect::Put(Deadline::Set)), ["copy_to"]);
        assert_eq!(names("renamenx", Effect::Removed), ["rename_from"]);
        assert_eq!(names("expire", Effect::Removed), ["del"]);
        assert_eq!(names("persist", Effect::Kept(Deadline::Gone)), ["persist"]);
    }
}
