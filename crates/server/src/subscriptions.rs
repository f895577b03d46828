//! Which clients of this host subscribe to what, and the delivery of messages to them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;

use crate::clients::Client;
use crate::glob;
use crate::outbox::{Push, Taken};
use crate::reply::Reply;

/// A kind of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    Pattern,
    /// A channel of a cluster's shard: this host has all shards.
    Shard,
}

/// How many kinds there are.
pub(crate) const KINDS: usize = 3;

type Subscribers = BTreeMap<u64, Arc<Client>>;

/// The clients that subscribe, by what they subscribe to.
#[derive(Default)]
pub(crate) struct Subscriptions {
    tables: RwLock<[HashMap<Bytes, Subscribers>; KINDS]>,
}

impl Subscriptions {
    fn read(&self) -> RwLockReadGuard<'_, [HashMap<Bytes, Subscribers>; KINDS]> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, [HashMap<Bytes, Subscribers>; KINDS]> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.read().iter().all(HashMap::is_empty)
    }

    pub(crate) fn add(&self, kind: Kind, name: &Bytes, client: &Arc<Client>) {
        let mut tables = self.write();
        let subscribers = tables[kind as usize].entry(name.clone()).or_default();
        subscribers.insert(client.id, client.clone());
        client.subscribed()[kind as usize].insert(name.clone());
    }

    pub(crate) fn remove(&self, kind: Kind, name: &Bytes, client: &Client) {
        let mut tables = self.write();
        remove(&mut tables[kind as usize], name, client);
        client.subscribed()[kind as usize].remove(name);
    }

    /// A client subscribes to nothing any more.
    pub(crate) fn forget(&self, client: &Client) {
        let subscribed = std::mem::take(&mut *client.subscribed());
        if subscribed.iter().all(BTreeSet::is_empty) {
            return;
        }
        let mut tables = self.write();
        for (table, names) in tables.iter_mut().zip(subscribed) {
            names.iter().for_each(|name| remove(table, name, client));
        }
    }

    /// Delivers a message to clients of this host; how many times it was delivered.
    pub(crate) fn deliver(&self, kind: Kind, channel: &[u8], payload: &[u8]) -> i64 {
        let tables = self.read();
        let [channel_text, payload_text] = [channel, payload].map(Reply::bulk);
        let mut delivered = 0;
        if let Some(subscribers) = tables[kind as usize].get(channel) {
            let title = if kind == Kind::Shard { "smessage" } else { "message" };
            let items = vec![Reply::bulk(title), channel_text.clone(), payload_text.clone()];
            delivered += send(subscribers, &Push::new(items));
        }
        if kind == Kind::Channel {
            for (pattern, subscribers) in &tables[Kind::Pattern as usize] {
                if glob::matches(pattern, channel) {
                    let title = Reply::bulk("pmessage");
                    let (pattern, channel) = (Reply::bulk(pattern), channel_text.clone());
                    let items = vec![title, pattern, channel, payload_text.clone()];
                    delivered += send(subscribers, &Push::new(items));
                }
            }
        }
        delivered
    }

    /// How many times a message would be delivered to clients of this host.
    pub(crate) fn receivers(&self, kind: Kind, channel: &[u8]) -> i64 {
        let tables = self.read();
        let own = tables[kind as usize].get(channel).map_or(0, BTreeMap::len);
        let patterns = tables[Kind::Pattern as usize].iter();
        let matching = patterns
            .filter(|(pattern, _)| kind == Kind::Channel && glob::matches(pattern, channel));
        (own + matching.map(|(_, subscribers)| subscribers.len()).sum::<usize>()) as i64
    }

    /// Ends the connections of all clients that subscribe: they have missed messages.
    pub(crate) fn cut_all(&self) {
        let tables = self.read();
        tables.iter().flat_map(HashMap::values).flatten().for_each(|(_, client)| client.kill());
    }

    /// The names with subscribers that `pattern` matches.
    pub(crate) fn names(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Bytes> {
        let tables = self.read();
        let matches = |name: &&Bytes| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        tables[kind as usize].keys().filter(matches).cloned().collect()
    }

    /// How many clients subscribe to `name`.
    pub(crate) fn count(&self, kind: Kind, name: &[u8]) -> usize {
        self.read()[kind as usize].get(name).map_or(0, BTreeMap::len)
    }

    /// To how many names of a kind clients subscribe.
    pub(crate) fn name_count(&self, kind: Kind) -> usize {
        self.read()[kind as usize].len()
    }
}

fn remove(table: &mut HashMap<Bytes, Subscribers>, name: &Bytes, client: &Client) {
    if let Some(subscribers) = table.get_mut(name) {
        subscribers.remove(&client.id);
        if subscribers.is_empty() {
            table.remove(name);
        }
    }
}

fn send(subscribers: &Subscribers, push: &Push) -> i64 {
    for client in subscribers.values() {
        if client.outbox.add(push) == Taken::TooSlow {
            client.kill();
        }
    }
    subscribers.len() as i64
}
