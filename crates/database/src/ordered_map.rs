//! An ordered map in a host's own memory: a B+-tree whose nodes lie in one vector.
//!
//! Left out: nodes that are half empty are not joined; a node goes when it is empty.

use crate::ordered_key::OrderedKey as Key;

const FANOUT: usize = 64;
const NONE: u32 = u32::MAX;

/// Keys of `width` words, in order, and a value for each.
pub struct OrderedMap<V> {
    width: usize,
    nodes: Vec<Node<V>>,
    unused: Vec<u32>,
    root: u32,
    /// Nodes on the way from the root to a leaf.
    height: usize,
    count: usize,
}

struct Node<V> {
    keys: Vec<u64>,
    content: Content<V>,
}

enum Content<V> {
    Leaf {
        values: Vec<V>,
        before: u32,
        next: u32,
    },
    /// Child `n` has the keys from key `n` on. The first key counts as smaller than all.
    Inner {
        children: Vec<u32>,
    },
}

/// Where an entry is.
#[derive(Clone, Copy)]
struct At {
    leaf: u32,
    index: usize,
}

impl<V> Node<V> {
    fn leaf(before: u32, next: u32) -> Self {
        Self { keys: Vec::new(), content: Content::Leaf { values: Vec::new(), before, next } }
    }

    fn key(&self, index: usize, width: usize) -> &[u64] {
        &self.keys[index * width..][..width]
    }

    fn count(&self, width: usize) -> usize {
        self.keys.len() / width
    }

    /// How many keys are smaller than `key`, or not greater.
    fn rank(&self, key: &[u64], or_equal: bool) -> usize {
        let width = key.len();
        let (mut low, mut high) = (0, self.count(width));
        while low < high {
            let middle = (low + high) / 2;
            let before = match self.key(middle, width).cmp(key) {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => or_equal,
                std::cmp::Ordering::Greater => false,
            };
            if before { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn insert_key(&mut self, index: usize, key: &[u64]) {
        let at = index * key.len();
        self.keys.splice(at..at, key.iter().copied());
    }

    fn remove_key(&mut self, index: usize, width: usize) {
        self.keys.drain(index * width..(index + 1) * width);
    }
}

impl<V> OrderedMap<V> {
    /// An empty map of keys of `width` words.
    pub fn new(width: usize) -> Self {
        let nodes = vec![Node::leaf(NONE, NONE)];
        Self { width, nodes, unused: Vec::new(), root: 0, height: 1, count: 0 }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.count
    }

    /// How many nodes a search looks at.
    #[inline]
    pub fn height(&self) -> usize {
        self.height
    }

    /// The number of the node that has `key`, or would have it.
    pub fn leaf_number(&self, key: &Key) -> u32 {
        self.leaf_for(key.words(self.width))
    }

    /// The value of `key`.
    pub fn get(&self, key: &Key) -> Option<&V> {
        let words = key.words(self.width);
        let leaf = self.leaf_for(words);
        let node = &self.nodes[leaf as usize];
        let index = node.rank(words, false);
        let found = index < node.count(self.width) && node.key(index, self.width) == words;
        found.then(|| &self.values(leaf)[index])
    }

    /// The first `most` entries behind a key, or of all.
    pub fn page(&self, after: Option<&Key>, most: usize) -> Vec<(Key, V)>
    where
        V: Clone,
    {
        let first = Key::from_words(&[0]);
        let mut page = Vec::with_capacity(most);
        let mut next = match after {
            None => self.after(&first, true),
            Some(key) => self.after(key, false),
        };
        while let Some((key, value)) = next.filter(|_| page.len() < most) {
            page.push((key, value.clone()));
            next = self.after(&key, false);
        }
        page
    }

    /// The first entry behind `key`, or at it.
    pub fn after(&self, key: &Key, or_equal: bool) -> Option<(Key, &V)> {
        let words = key.words(self.width);
        let leaf = self.leaf_for(words);
        let index = self.nodes[leaf as usize].rank(words, !or_equal);
        if index < self.nodes[leaf as usize].count(self.width) {
            return Some(self.entry(At { leaf, index }));
        }
        let Content::Leaf { next, .. } = self.nodes[leaf as usize].content else { unreachable!() };
        (next != NONE).then(|| self.entry(At { leaf: next, index: 0 }))
    }

    /// The last entry before `key`, or at it.
    pub fn before(&self, key: &Key, or_equal: bool) -> Option<(Key, &V)> {
        let words = key.words(self.width);
        let leaf = self.leaf_for(words);
        let index = self.nodes[leaf as usize].rank(words, or_equal);
        if index > 0 {
            return Some(self.entry(At { leaf, index: index - 1 }));
        }
        let Content::Leaf { before, .. } = self.nodes[leaf as usize].content else {
            unreachable!()
        };
        (before != NONE).then(|| {
            let last = self.nodes[before as usize].count(self.width) - 1;
            self.entry(At { leaf: before, index: last })
        })
    }

    /// Adds an entry.
    ///
    /// # Panics
    /// If there is one with this key.
    pub fn insert(&mut self, key: &Key, value: V) {
        let words = key.words(self.width);
        let (leaf, path) = self.path_to(words);
        let index = self.nodes[leaf as usize].rank(words, false);
        let node = &mut self.nodes[leaf as usize];
        assert!(
            index == node.count(self.width) || node.key(index, self.width) != words,
            "a key is inserted twice"
        );
        node.insert_key(index, words);
        let Content::Leaf { values, .. } = &mut node.content else { unreachable!() };
        values.insert(index, value);
        self.count += 1;
        if self.nodes[leaf as usize].count(self.width) > FANOUT {
            self.split(leaf, path);
        }
    }

    /// Removes the entry with `key`.
    pub fn remove(&mut self, key: &Key) -> Option<V> {
        let words = key.words(self.width);
        let (leaf, path) = self.path_to(words);
        let index = self.nodes[leaf as usize].rank(words, false);
        let node = &mut self.nodes[leaf as usize];
        if index == node.count(self.width) || node.key(index, self.width) != words {
            return None;
        }
        node.remove_key(index, self.width);
        let Content::Leaf { values, .. } = &mut node.content else { unreachable!() };
        let value = values.remove(index);
        self.count -= 1;
        if self.nodes[leaf as usize].keys.is_empty() {
            self.drop_leaf(leaf, path);
        }
        Some(value)
    }

    fn entry(&self, at: At) -> (Key, &V) {
        let key = self.nodes[at.leaf as usize].key(at.index, self.width);
        (Key::from_words(key), &self.values(at.leaf)[at.index])
    }

    fn values(&self, leaf: u32) -> &[V] {
        match &self.nodes[leaf as usize].content {
            Content::Leaf { values, .. } => values,
            Content::Inner { .. } => unreachable!("a leaf"),
        }
    }

    /// The child of `node` that has `key`, if it has children.
    fn child(&self, node: u32, key: &[u64]) -> Option<usize> {
        match &self.nodes[node as usize].content {
            Content::Leaf { .. } => None,
            Content::Inner { .. } => Some(self.nodes[node as usize].rank(key, true).max(1) - 1),
        }
    }

    fn leaf_for(&self, key: &[u64]) -> u32 {
        let mut node = self.root;
        while let Some(index) = self.child(node, key) {
            node = self.children(node)[index];
        }
        node
    }

    /// The leaf for `key`, and the inner nodes on the way: which, and which of their children.
    fn path_to(&self, key: &[u64]) -> (u32, Vec<(u32, usize)>) {
        let (mut node, mut path) = (self.root, Vec::new());
        while let Some(index) = self.child(node, key) {
            path.push((node, index));
            node = self.children(node)[index];
        }
        (node, path)
    }

    fn children(&self, node: u32) -> &[u32] {
        match &self.nodes[node as usize].content {
            Content::Inner { children } => children,
            Content::Leaf { .. } => unreachable!("an inner node"),
        }
    }

    fn add(&mut self, node: Node<V>) -> u32 {
        match self.unused.pop() {
            Some(number) => {
                self.nodes[number as usize] = node;
                number
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// Gives the upper part of a node that is too full to a new one behind it: only the last entry
    /// if the node is the last one, since keys are often inserted in their order.
    fn split(&mut self, node: u32, mut path: Vec<(u32, usize)>) {
        let count = self.nodes[node as usize].count(self.width);
        let full = &mut self.nodes[node as usize];
        let is_last = matches!(full.content, Content::Leaf { next: NONE, .. });
        let keep = if is_last { count - 1 } else { count / 2 };
        let keys = full.keys.split_off(keep * self.width);
        let first = keys[..self.width].to_vec();
        let right = match &mut full.content {
            Content::Leaf { values, next, .. } => {
                let (values, next) = (values.split_off(keep), *next);
                Node { keys, content: Content::Leaf { values, before: node, next } }
            }
            Content::Inner { children } => {
                Node { keys, content: Content::Inner { children: children.split_off(keep) } }
            }
        };
        let right = self.add(right);
        self.link(node, right);
        match path.pop() {
            Some((parent, index)) => {
                let inner = &mut self.nodes[parent as usize];
                inner.insert_key(index + 1, &first);
                let Content::Inner { children } = &mut inner.content else { unreachable!() };
                children.insert(index + 1, right);
                if self.nodes[parent as usize].count(self.width) > FANOUT {
                    self.split(parent, path);
                }
            }
            None => {
                let keys = [vec![0; self.width], first].concat();
                let content = Content::Inner { children: vec![node, right] };
                self.root = self.add(Node { keys, content });
                self.height += 1;
            }
        }
    }

    /// Makes a new leaf the one behind `node`.
    fn link(&mut self, node: u32, right: u32) {
        let Content::Leaf { next: behind, .. } = self.nodes[right as usize].content else { return };
        if let Content::Leaf { next, .. } = &mut self.nodes[node as usize].content {
            *next = right;
        }
        self.set_before(behind, right);
    }

    fn set_before(&mut self, leaf: u32, to: u32) {
        if leaf == NONE {
            return;
        }
        if let Content::Leaf { before, .. } = &mut self.nodes[leaf as usize].content {
            *before = to;
        }
    }

    fn drop_leaf(&mut self, leaf: u32, path: Vec<(u32, usize)>) {
        if path.is_empty() {
            return;
        }
        let Content::Leaf { before, next, .. } = self.nodes[leaf as usize].content else { return };
        if before != NONE
            && let Content::Leaf { next: behind, .. } = &mut self.nodes[before as usize].content
        {
            *behind = next;
        }
        self.set_before(next, before);
        self.drop_child(leaf, path);
    }

    /// Frees a node without keys, and takes it from its parent.
    fn drop_child(&mut self, node: u32, mut path: Vec<(u32, usize)>) {
        self.unused.push(node);
        let Some((parent, index)) = path.pop() else {
            self.root = self.add(Node::leaf(NONE, NONE));
            self.height = 1;
            return;
        };
        let inner = &mut self.nodes[parent as usize];
        inner.remove_key(index, self.width);
        let Content::Inner { children } = &mut inner.content else { unreachable!() };
        children.remove(index);
        match children[..] {
            [] => self.drop_child(parent, path),
            [only] if path.is_empty() => {
                self.unused.push(parent);
                self.root = only;
                self.height -= 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(number: u16) -> Key {
        Key::new(&number.to_be_bytes(), 1)
    }

    proptest! {
        #[test]
        fn does_what_an_ordered_map_does(
            steps in prop::collection::vec((0..4u8, 0..600u16), 0..3000),
        ) {
            let (mut tree, mut model) = (OrderedMap::new(1), BTreeMap::new());
            for (what, number) in steps {
                let (at, entry) = (key(number), |(key, value): (&Key, &u16)| (*key, *value));
                let found = |found: Option<(Key, &u16)>| found.map(|(key, value)| (key, *value));
                match what {
                    0 | 1 if !model.contains_key(&at) => {
                        tree.insert(&at, number);
                        model.insert(at, number);
                    }
                    2 => prop_assert_eq!(tree.remove(&at), model.remove(&at)),
                    _ => {}
                }
                prop_assert_eq!(tree.get(&at), model.get(&at));
                prop_assert_eq!(found(tree.after(&at, true)), model.range(at..).next().map(entry));
                let (lower, upper) = (model.range(..at).next_back(), model.range(..=at).next_back());
                prop_assert_eq!(found(tree.before(&at, false)), lower.map(entry));
                prop_assert_eq!(found(tree.before(&at, true)), upper.map(entry));
                let behind = model.range(at..).find(|(key, _)| **key != at);
                prop_assert_eq!(found(tree.after(&at, false)), behind.map(entry));
                prop_assert_eq!(tree.len(), model.len());
            }
        }
    }

    #[test]
    fn keys_in_order_fill_leaves() {
        let mut tree = OrderedMap::new(1);
        (0..10_000).for_each(|number| tree.insert(&key(number), number));
        let leaves = tree.nodes.iter().filter(|node| matches!(node.content, Content::Leaf { .. }));
        assert!(leaves.count() <= 10_000 / FANOUT + 1);
        (0..10_000).for_each(|number| assert_eq!(tree.remove(&key(number)), Some(number)));
        assert!(tree.after(&key(0), true).is_none() && tree.nodes.len() - tree.unused.len() == 1);
    }
}
