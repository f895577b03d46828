//! The shared index of a table's partition: a B+-tree in SCR that leads from keys to records.
//!
//! The home of the partition alone changes it, one thread at a time. All hosts read it, without
//! locks: a node has a version, which is odd while the node changes, and a reader that finds
//! another version afterwards begins again. (Tigon paper, section 3.4: the CXL index.)
//!
//! ```text
//! node   version | leaf (1) | count (9) | next leaf (27) | leaf before (27)
//!        keys | values, two a word
//! ```
//!
//! Invariants:
//! * An inner node's child has the keys from the child's key on; the first key counts as smaller
//!   than all.
//! * A reader reaches a node through a parent whose version it looks at again when it knows the
//!   node's.
//! * A node is used again only when no transaction can have a way to it ([`Cat::retire`]).

use tombolo_database::{MAX_KEY_WORDS, OrderedKey, TxError};
use tombolo_memory::{LINE_BYTES, Memory, ScrAddr, Work};

use crate::cat::{Cat, Retired};
use crate::sites;
use crate::usage::Usage;
use crate::variant::Victims;

const NUMBER_BITS: u32 = 27;
const NUMBER_MASK: u64 = (1 << NUMBER_BITS) - 1;
const COUNT: u32 = 2 * NUMBER_BITS;
const LEAF: u64 = 1 << 63;
const HEAD_WORDS: u64 = 2;

/// How nodes for keys of so many words are divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeShape {
    width: u64,
    pub(crate) bytes: u64,
    capacity: u64,
}

impl NodeShape {
    pub(crate) fn new(width: usize) -> Self {
        let bytes = if width <= 2 { 4 * LINE_BYTES } else { 8 * LINE_BYTES };
        let width = width as u64;
        // A value takes half a word.
        Self { width, bytes, capacity: (bytes / 8 - HEAD_WORDS) * 2 / (2 * width + 1) }
    }
}

/// A node: the number of its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    is_leaf: bool,
    count: u64,
    next: u64,
    before: u64,
}

impl Head {
    fn from_word(word: u64) -> Self {
        Self {
            is_leaf: word & LEAF != 0,
            count: word >> COUNT & 0x1ff,
            next: word & NUMBER_MASK,
            before: word >> NUMBER_BITS & NUMBER_MASK,
        }
    }

    fn word(self) -> u64 {
        let leaf = if self.is_leaf { LEAF } else { 0 };
        leaf | self.count << COUNT | self.before << NUMBER_BITS | self.next
    }
}

/// A node as a reader found it.
#[derive(Clone, Copy)]
struct Found {
    node: Node,
    version: u64,
    head: Head,
}

/// A record's address, as an index has it: in words of SCR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordAt(pub(crate) u32);

impl RecordAt {
    pub(crate) fn word(self) -> ScrAddr<u64> {
        ScrAddr::new(u64::from(self.0) * 8)
    }
}

/// Which neighbour of a key is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The first entry behind the key, or at it if `or_equal`.
    After { or_equal: bool },
    /// The last entry before the key, or at it if `or_equal`.
    Before { or_equal: bool },
}

/// An index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Index {
    root: ScrAddr<u64>,
    shape: NodeShape,
}

/// A node of a path from the root, and which of its children comes next.
type Step = (Node, u64);

impl Index {
    pub(crate) fn new(root: ScrAddr<u64>, width: usize) -> Self {
        Self { root, shape: NodeShape::new(width) }
    }

    pub(crate) fn root(&self) -> ScrAddr<u64> {
        self.root
    }

    /// The partition's list of shared rows by use, if there is one.
    pub(crate) fn usage<M: Memory>(&self, cat: &Cat<M>) -> Option<Usage> {
        let is_kept = cat.variant.victims == Victims::LeastRecentlyUsed;
        is_kept.then(|| Usage::at(self.root.element(1)))
    }

    /// Bytes of a node.
    pub(crate) fn node_bytes(&self) -> u64 {
        self.shape.bytes
    }

    /// How many nodes and how many entries there are. Only the partition's home may ask, while the
    /// index does not change.
    pub(crate) fn count<M: Memory>(&self, memory: &M) -> (u64, u64) {
        let root = memory.load(self.root);
        let mut open: Vec<Node> = (root != 0).then_some(Node(root)).into_iter().collect();
        let (mut nodes, mut entries) = (0, 0);
        while let Some(node) = open.pop() {
            nodes += 1;
            let head = self.head(memory, node);
            if head.is_leaf {
                entries += head.count;
            } else {
                let child = |index| Node(self.value(memory, node, index).into());
                open.extend((0..head.count).map(child));
            }
        }
        (nodes, entries)
    }

    /// The record of the row with `key`, if it is shared.
    pub(crate) fn get<M: Memory>(
        &self,
        cat: &Cat<M>,
        key: &OrderedKey,
    ) -> Result<Option<RecordAt>, TxError> {
        let found = self.seek(cat, key, Side::After { or_equal: true })?;
        Ok(found.filter(|(at, _)| at == key).map(|(_, record)| record))
    }

    /// The entry next to `key`.
    pub(crate) fn seek<M: Memory>(
        &self,
        cat: &Cat<M>,
        key: &OrderedKey,
        side: Side,
    ) -> Result<Option<(OrderedKey, RecordAt)>, TxError> {
        let mut round = 0;
        loop {
            if let Some(entry) = self.try_seek(cat, key, side) {
                return Ok(entry);
            }
            cat.homes.wait(&mut round)?;
        }
    }

    /// The same; `None` if a node has changed meanwhile.
    fn try_seek<M: Memory>(
        &self,
        cat: &Cat<M>,
        key: &OrderedKey,
        side: Side,
    ) -> Option<Option<(OrderedKey, RecordAt)>> {
        let memory = cat.memory();
        let Some(leaf) = self.find_leaf(memory, key)? else { return Some(None) };
        let (index, beside) = match side {
            Side::After { or_equal } => {
                let index = self.rank(memory, leaf, key, !or_equal);
                (Some(index).filter(|&index| index < leaf.head.count), leaf.head.next)
            }
            Side::Before { or_equal } => {
                (self.rank(memory, leaf, key, or_equal).checked_sub(1), leaf.head.before)
            }
        };
        if let Some(index) = index {
            let entry = self.entry(memory, leaf, index);
            return self.is_same(memory, leaf).then_some(Some(entry));
        }
        if beside == 0 {
            return self.is_same(memory, leaf).then_some(None);
        }
        let other = self.look(memory, Node(beside))?;
        if !self.is_same(memory, leaf) {
            return None;
        }
        let last = other.head.count.checked_sub(1)?;
        let index = if matches!(side, Side::After { .. }) { 0 } else { last };
        let entry = self.entry(memory, other, index);
        self.is_same(memory, other).then_some(Some(entry))
    }

    fn find_leaf<M: Memory>(&self, memory: &M, key: &OrderedKey) -> Option<Option<Found>> {
        let root = memory.load(self.root);
        if root == 0 {
            return Some(None);
        }
        let mut found = self.look(memory, Node(root))?;
        if !memory.check(sites::NODE_PARENT, memory.load(self.root) == root) {
            return None;
        }
        while !found.head.is_leaf {
            let index = self.rank(memory, found, key, true).max(1) - 1;
            let child = self.value(memory, found.node, index);
            if !self.is_same(memory, found) {
                return None;
            }
            let below = self.look(memory, Node(child.into()))?;
            let same = self.version(memory, found.node) == found.version;
            if !memory.check(sites::NODE_PARENT, same) {
                return None;
            }
            found = below;
        }
        Some(Some(found))
    }

    fn look<M: Memory>(&self, memory: &M, node: Node) -> Option<Found> {
        memory.works(Work::Node);
        let version = self.version(memory, node);
        if version % 2 == 1 && memory.keeps(sites::NODE_VERSION) {
            return None;
        }
        let head = Head::from_word(memory.load(self.head_at(node)));
        // A node that changes may be read as anything.
        let head = Head { count: head.count.min(self.shape.capacity), ..head };
        Some(Found { node, version, head })
    }

    fn is_same<M: Memory>(&self, memory: &M, found: Found) -> bool {
        let same = self.version(memory, found.node) == found.version;
        memory.check(sites::NODE_VERSION, same)
    }

    fn version<M: Memory>(&self, memory: &M, node: Node) -> u64 {
        memory.load(word_of(node))
    }

    fn head_at(&self, node: Node) -> ScrAddr<u64> {
        word_of(node).element(1)
    }

    fn key_at(&self, node: Node, index: u64) -> ScrAddr<u64> {
        word_of(node).element(HEAD_WORDS + index * self.shape.width)
    }

    fn value_at(&self, node: Node, index: u64) -> ScrAddr<u32> {
        let first = word_of(node).element(HEAD_WORDS + self.shape.capacity * self.shape.width);
        first.first::<u32>().element(index)
    }

    fn value<M: Memory>(&self, memory: &M, node: Node, index: u64) -> u32 {
        memory.load(self.value_at(node, index))
    }

    fn entry<M: Memory>(&self, memory: &M, found: Found, index: u64) -> (OrderedKey, RecordAt) {
        (self.key(memory, found.node, index), RecordAt(self.value(memory, found.node, index)))
    }

    fn key<M: Memory>(&self, memory: &M, node: Node, index: u64) -> OrderedKey {
        let mut words = [0; MAX_KEY_WORDS];
        let words = &mut words[..self.shape.width as usize];
        let first = self.key_at(node, index);
        (0..).zip(words.iter_mut()).for_each(|(at, word)| *word = memory.load(first.element(at)));
        OrderedKey::from_words(words)
    }

    /// How many keys of a node are smaller than `key`, or not greater.
    fn rank<M: Memory>(&self, memory: &M, found: Found, key: &OrderedKey, or_equal: bool) -> u64 {
        let (mut low, mut high) = (0, found.head.count);
        while low < high {
            let middle = (low + high) / 2;
            let before = match self.compare(memory, found.node, middle, key) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => or_equal,
                std::cmp::Ordering::Greater => false,
            };
            if before { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn compare<M: Memory>(
        &self,
        memory: &M,
        node: Node,
        index: u64,
        key: &OrderedKey,
    ) -> std::cmp::Ordering {
        let first = self.key_at(node, index);
        let words = key.words(self.shape.width as usize);
        let unequal = |(at, word): (u64, &u64)| {
            let order = memory.load(first.element(at)).cmp(word);
            order.is_ne().then_some(order)
        };
        (0..).zip(words).find_map(unequal).unwrap_or(std::cmp::Ordering::Equal)
    }

    /// Adds an entry. Only the partition's home, one thread at a time. Whether there was room in
    /// SCR.
    pub(crate) fn insert<M: Memory>(
        &self,
        cat: &Cat<M>,
        key: &OrderedKey,
        record: RecordAt,
    ) -> bool {
        let memory = cat.memory();
        let Some((leaf, path)) = self.path_to(memory, key) else {
            let Some(leaf) = self.reserve(cat, 1).and_then(|mut nodes| nodes.pop()) else {
                return false;
            };
            self.write(memory, leaf, true, &[(*key, record.0)], (0, 0));
            memory.store(self.root, leaf.0);
            return true;
        };
        let full = |node: &Node| self.head(memory, *node).count == self.shape.capacity;
        let mut splits = usize::from(full(&leaf));
        if splits > 0 {
            splits += path.iter().rev().take_while(|(node, _)| full(node)).count();
            let all = splits == path.len() + 1;
            splits += usize::from(all);
        }
        let Some(mut fresh) = self.reserve(cat, splits) else { return false };
        let found = Found { node: leaf, version: 0, head: self.head(memory, leaf) };
        let index = self.rank(memory, found, key, false);
        self.insert_at(memory, (leaf, index), path, (*key, record.0), &mut fresh);
        debug_assert!(fresh.is_empty());
        true
    }

    fn insert_at<M: Memory>(
        &self,
        memory: &M,
        (node, index): Step,
        mut path: Vec<Step>,
        entry: (OrderedKey, u32),
        fresh: &mut Vec<Node>,
    ) {
        let head = self.head(memory, node);
        if head.count < self.shape.capacity {
            self.change(memory, node, |this| this.shift_in(memory, node, index, entry));
            return;
        }
        let right = fresh.pop().expect("reserved before");
        let mut entries = self.entries(memory, node);
        entries.insert(index as usize, entry);
        let is_appended = head.is_leaf && head.next == 0 && index == head.count;
        let keep = if is_appended { entries.len() - 1 } else { entries.len() / 2 };
        let upper = entries.split_off(keep);
        self.write(memory, right, head.is_leaf, &upper, (head.next, node.0));
        // Until the parent leads to the new node, no reader gets through this one.
        self.begin(memory, node);
        let next = if head.is_leaf { right.0 } else { 0 };
        self.fill(memory, node, head.is_leaf, &entries, (next, head.before));
        if head.is_leaf && head.next != 0 {
            let behind = Node(head.next);
            self.change(memory, behind, |this| {
                let head = Head { before: right.0, ..this.head(memory, behind) };
                memory.store(this.head_at(behind), head.word());
            });
        }
        let above = (upper[0].0, right.0 as u32);
        match path.pop() {
            Some((parent, child)) => {
                self.insert_at(memory, (parent, child + 1), path, above, fresh);
            }
            None => {
                let root = fresh.pop().expect("reserved before");
                let first = (entries[0].0, node.0 as u32);
                self.write(memory, root, false, &[first, above], (0, 0));
                memory.store(self.root, root.0);
            }
        }
        self.end(memory, node);
    }

    /// Removes the entry with `key`, if there is one. Only the partition's home, one thread at a
    /// time.
    pub(crate) fn remove<M: Memory>(&self, cat: &Cat<M>, key: &OrderedKey) {
        let memory = cat.memory();
        let Some((leaf, path)) = self.path_to(memory, key) else { return };
        let found = Found { node: leaf, version: 0, head: self.head(memory, leaf) };
        let index = self.rank(memory, found, key, false);
        if index == found.head.count || self.key(memory, leaf, index) != *key {
            return;
        }
        if found.head.count > 1 {
            self.change(memory, leaf, |this| this.shift_out(memory, leaf, index));
            return;
        }
        // Readers that are at the leaf, or beside it, begin again.
        let Head { next, before, .. } = found.head;
        let beside: Vec<Node> = [before, next].into_iter().filter(|&n| n != 0).map(Node).collect();
        self.begin(memory, leaf);
        beside.iter().for_each(|&node| self.begin(memory, node));
        for &node in &beside {
            let mut head = self.head(memory, node);
            if head.next == leaf.0 {
                head.next = next;
            }
            if head.before == leaf.0 {
                head.before = before;
            }
            memory.store(self.head_at(node), head.word());
        }
        self.drop_child(cat, leaf, path);
        beside.iter().for_each(|&node| self.end(memory, node));
        self.end(memory, leaf);
    }

    /// Takes a node from its parent, and retires it.
    fn drop_child<M: Memory>(&self, cat: &Cat<M>, node: Node, mut path: Vec<Step>) {
        let memory = cat.memory();
        match path.pop() {
            None => memory.store(self.root, 0),
            Some((parent, index)) if self.head(memory, parent).count > 1 => {
                self.change(memory, parent, |this| this.shift_out(memory, parent, index));
                self.shrink_root(cat, parent, path.is_empty());
            }
            Some((parent, _)) => {
                self.begin(memory, parent);
                self.drop_child(cat, parent, path);
                self.end(memory, parent);
            }
        }
        self.retire(cat, node);
    }

    /// A root with one child gives way to it.
    fn shrink_root<M: Memory>(&self, cat: &Cat<M>, node: Node, is_root: bool) {
        let memory = cat.memory();
        if is_root && self.head(memory, node).count == 1 {
            let only = self.value(memory, node, 0);
            memory.store(self.root, only.into());
            // A reader that comes from the old root finds it changed.
            self.change(memory, node, |_| ());
            self.retire(cat, node);
        }
    }

    fn retire<M: Memory>(&self, cat: &Cat<M>, node: Node) {
        cat.retire(Retired::Scr { at: node.0 * LINE_BYTES, bytes: self.shape.bytes });
    }

    fn reserve<M: Memory>(&self, cat: &Cat<M>, count: usize) -> Option<Vec<Node>> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            match cat.reserve_scr(self.shape.bytes) {
                Some(at) => nodes.push(Node(at / LINE_BYTES)),
                None => {
                    for node in nodes {
                        cat.free_scr(node.0 * LINE_BYTES, self.shape.bytes);
                    }
                    return None;
                }
            }
        }
        Some(nodes)
    }

    fn path_to<M: Memory>(&self, memory: &M, key: &OrderedKey) -> Option<(Node, Vec<Step>)> {
        let root = memory.load(self.root);
        let (mut node, mut path) = (Node(root), Vec::new());
        if root == 0 {
            return None;
        }
        loop {
            let head = self.head(memory, node);
            if head.is_leaf {
                return Some((node, path));
            }
            let found = Found { node, version: 0, head };
            let index = self.rank(memory, found, key, true).max(1) - 1;
            path.push((node, index));
            node = Node(self.value(memory, node, index).into());
        }
    }

    fn head<M: Memory>(&self, memory: &M, node: Node) -> Head {
        Head::from_word(memory.load(self.head_at(node)))
    }

    fn entries<M: Memory>(&self, memory: &M, node: Node) -> Vec<(OrderedKey, u32)> {
        let count = self.head(memory, node).count;
        (0..count).map(|n| (self.key(memory, node, n), self.value(memory, node, n))).collect()
    }

    /// The node's version is odd from here on, until [`end`](Self::end).
    fn begin<M: Memory>(&self, memory: &M, node: Node) {
        let version = self.version(memory, node);
        memory.store(word_of(node), version.wrapping_add(1));
    }

    fn end<M: Memory>(&self, memory: &M, node: Node) {
        let version = self.version(memory, node);
        memory.store(word_of(node), version.wrapping_add(1));
    }

    fn change<M: Memory>(&self, memory: &M, node: Node, change: impl FnOnce(&Self)) {
        self.begin(memory, node);
        change(self);
        self.end(memory, node);
    }

    /// Writes a node that no reader can reach.
    fn write<M: Memory>(
        &self,
        memory: &M,
        node: Node,
        is_leaf: bool,
        entries: &[(OrderedKey, u32)],
        beside: (u64, u64),
    ) {
        // The cell may have been anything before.
        let version = self.version(memory, node);
        memory.store(word_of(node), (version | 1).wrapping_add(1));
        self.fill(memory, node, is_leaf, entries, beside);
    }

    fn fill<M: Memory>(
        &self,
        memory: &M,
        node: Node,
        is_leaf: bool,
        entries: &[(OrderedKey, u32)],
        (next, before): (u64, u64),
    ) {
        for (index, entry) in (0..).zip(entries) {
            self.put(memory, node, index, *entry);
        }
        let head = Head { is_leaf, count: entries.len() as u64, next, before };
        memory.store(self.head_at(node), head.word());
    }

    fn put<M: Memory>(&self, memory: &M, node: Node, index: u64, (key, value): (OrderedKey, u32)) {
        let first = self.key_at(node, index);
        for (at, &word) in (0..).zip(key.words(self.shape.width as usize)) {
            memory.store(first.element(at), word);
        }
        memory.store(self.value_at(node, index), value);
    }

    fn shift_in<M: Memory>(&self, memory: &M, node: Node, index: u64, entry: (OrderedKey, u32)) {
        let head = self.head(memory, node);
        for at in (index..head.count).rev() {
            let moved = (self.key(memory, node, at), self.value(memory, node, at));
            self.put(memory, node, at + 1, moved);
        }
        self.put(memory, node, index, entry);
        memory.store(self.head_at(node), Head { count: head.count + 1, ..head }.word());
    }

    fn shift_out<M: Memory>(&self, memory: &M, node: Node, index: u64) {
        let head = self.head(memory, node);
        for at in index + 1..head.count {
            let moved = (self.key(memory, node, at), self.value(memory, node, at));
            self.put(memory, node, at - 1, moved);
        }
        memory.store(self.head_at(node), Head { count: head.count - 1, ..head }.word());
    }
}

fn word_of(node: Node) -> ScrAddr<u64> {
    ScrAddr::new(node.0 * LINE_BYTES)
}
