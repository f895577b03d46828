//! Several lines at once.
//!
//! The effect of a step on a line depends on that line alone. So a state of several lines is a
//! state of each, by its number, and what they share: the order in which messages of different
//! lines are under way to a host, and a processor that wants one line at a time. Such a state is
//! one word.
//!
//! Lines share channels only, which rules out steps: seen from one line, the steps of several are
//! steps that one alone may do, too. So the checks of each state of one line hold here, and
//! messages come to an end since those of each line do. One check is left: lines must not keep each
//! other waiting for ever.
//!
//! States that differ by nothing but the names of hosts and lines are visited once: the smallest of
//! their words.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use super::automaton::{Automaton, HOSTS, Kind, permutations};
use super::{Explored, Limits, Violation};

/// Lines there may be.
const LINES: usize = 4;

/// A state of all lines.
#[derive(Clone, Copy, Default)]
struct Pair {
    lines: [u32; LINES],
    /// By host, the lines whose messages are under way to it, from the lowest bits on.
    orders: [u32; HOSTS],
}

/// Words that are as good as random once they are multiplied.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("states are words");
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(word ^ word >> 29) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// How states of several lines become words.
pub(super) struct Product<'a> {
    automaton: &'a Automaton,
    limits: Limits,
    /// Bits of a state's number, and of a line's.
    bits: (u32, u32),
    /// By state of a line, the smallest that it becomes when hosts change places, and which changes
    /// do that.
    smallest: Vec<(u32, Vec<u8>)>,
    line_orders: Vec<Vec<usize>>,
}

impl<'a> Product<'a> {
    /// Nothing, if states do not fit into words.
    pub(super) fn new(automaton: &'a Automaton, limits: Limits) -> Option<Self> {
        let bits_of = |count: usize| usize::BITS - (count - 1).leading_zeros();
        let bits = (bits_of(automaton.seen.len()), bits_of(limits.lines));
        let letters = || automaton.seen.iter().map(|seen| seen.letters.map(u32::from));
        let most = letters().map(|letters| letters.iter().sum::<u32>()).max()?;
        let longest = letters().flatten().max()?;
        let lines = limits.lines as u32;
        let fits = lines * (bits.0 + most * bits.1) <= u64::BITS
            && lines * longest * bits.1 < u32::BITS
            && automaton.symmetries.len() <= 256;
        let smallest = |state: usize| {
            let images = || automaton.symmetries.iter().map(|(_, images)| images[state]);
            let least = images().min().unwrap_or(state as u32);
            let reach = images().enumerate().filter(|&(_, image)| image == least);
            (least, reach.map(|(number, _)| number as u8).collect())
        };
        fits.then(|| Self {
            automaton,
            limits,
            bits,
            smallest: (0..automaton.seen.len()).map(smallest).collect(),
            line_orders: permutations(limits.lines).collect(),
        })
    }

    /// Visits all states.
    pub(super) fn explore(&self) -> Result<Explored, Box<Violation>> {
        let group = self.automaton.symmetries.len() * self.line_orders.len();
        let mut seen: HashSet<u64, BuildHasherDefault<WordHasher>> = HashSet::default();
        let (start, alike) = self.smallest_word(&Pair::default());
        seen.insert(start);
        let mut explored = Explored { states: group / alike, visited: 1, steps: 0, whole: true };
        let mut open = vec![start];
        while let Some(word) = open.pop() {
            if explored.visited >= self.limits.states {
                return Ok(Explored { whole: false, ..explored });
            }
            let pair = self.unpack(word);
            let mut quiet = true;
            self.steps(&pair, |kind, next| {
                explored.steps += 1;
                quiet &= matches!(kind, Kind::Want(_) | Kind::Eviction);
                let (word, alike) = self.smallest_word(&next);
                if seen.insert(word) {
                    explored.states += group / alike;
                    explored.visited += 1;
                    open.push(word);
                }
            });
            if quiet && self.wanting(&pair) != 0 {
                let what = "somebody waits, and no message is under way".to_owned();
                return Err(Box::new(Violation { what, steps: Vec::new() }));
            }
        }
        Ok(explored)
    }

    fn lines(&self) -> std::ops::Range<usize> {
        0..self.limits.lines
    }

    /// A bit per host whose processor waits for a line.
    fn wanting(&self, pair: &Pair) -> u8 {
        let wanting = |line: usize| self.automaton.seen[pair.lines[line] as usize].wanting;
        self.lines().map(wanting).fold(0, |all, one| all | one)
    }

    fn steps(&self, pair: &Pair, mut visit: impl FnMut(Kind, Pair)) {
        let busy = if self.limits.in_order { self.wanting(pair) } else { 0 };
        let line_bits = self.bits.1;
        let mut before = [0; HOSTS];
        (0..self.automaton.hosts).for_each(|host| before[host] = self.under_way(pair, host));
        for line in self.lines() {
            let from = pair.lines[line] as usize;
            for &(kind, to) in self.automaton.steps(from) {
                let mut next = *pair;
                let mut under_way = before;
                match kind {
                    Kind::Want(host) if busy & 1 << host != 0 => continue,
                    Kind::Arrival(host) => {
                        let order = &mut next.orders[usize::from(host)];
                        if *order & ((1 << line_bits) - 1) != line as u32 {
                            continue;
                        }
                        *order >>= line_bits;
                        under_way[usize::from(host)] -= 1;
                    }
                    _ => {}
                }
                next.lines[line] = to;
                for (host, &already) in under_way.iter().enumerate().take(self.automaton.hosts) {
                    for place in already..self.under_way(&next, host) {
                        next.orders[host] |= (line as u32) << (place * line_bits);
                    }
                }
                visit(kind, next);
            }
        }
    }

    /// The smallest word of those that differ from this by the names of hosts and lines, and in how
    /// many ways it becomes that.
    fn smallest_word(&self, pair: &Pair) -> (u64, usize) {
        let least = |line: usize| self.smallest[pair.lines[line] as usize].0;
        let (mut found, mut ways) = (u64::MAX, 0);
        for order in &self.line_orders {
            // Smallest states first; so it is the first one whose hosts decide.
            let mut lines = [0; LINES];
            self.lines().for_each(|line| lines[order[line]] = line);
            if !lines[..self.limits.lines].is_sorted_by_key(|&line| least(line)) {
                continue;
            }
            for &number in &self.smallest[pair.lines[lines[0]] as usize].1 {
                let word = self.pack(&self.renamed(pair, usize::from(number), order));
                match word.cmp(&found) {
                    std::cmp::Ordering::Less => (found, ways) = (word, 1),
                    std::cmp::Ordering::Equal => ways += 1,
                    std::cmp::Ordering::Greater => {}
                }
            }
        }
        (found, ways)
    }

    fn renamed(&self, pair: &Pair, symmetry: usize, order: &[usize]) -> Pair {
        let (places, images) = &self.automaton.symmetries[symmetry];
        let mut renamed = Pair::default();
        for line in self.lines() {
            renamed.lines[order[line]] = images[pair.lines[line] as usize];
        }
        let (line_bits, nothing_moves) = (self.bits.1, order.is_sorted());
        for (host, &place) in places.iter().enumerate() {
            let mut left = pair.orders[host];
            if nothing_moves {
                renamed.orders[place] = left;
                continue;
            }
            for number in 0..self.under_way(pair, host) {
                let line = left & ((1 << line_bits) - 1);
                left >>= line_bits;
                renamed.orders[place] |= (order[line as usize] as u32) << (number * line_bits);
            }
        }
        renamed
    }

    /// Messages under way to a host.
    fn under_way(&self, pair: &Pair, host: usize) -> u32 {
        let of = |line| u32::from(self.automaton.seen[pair.lines[line] as usize].letters[host]);
        self.lines().map(of).sum()
    }

    fn pack(&self, pair: &Pair) -> u64 {
        let (mut word, mut at) = (0, 0);
        for line in self.lines() {
            word |= u64::from(pair.lines[line]) << at;
            at += self.bits.0;
        }
        for host in 0..self.automaton.hosts {
            let bits = self.under_way(pair, host) * self.bits.1;
            if bits > 0 {
                word |= u64::from(pair.orders[host]) << at;
                at += bits;
            }
        }
        word
    }

    fn unpack(&self, mut word: u64) -> Pair {
        let mut pair = Pair::default();
        let mut take = |bits: u32| {
            let taken = word & ((1 << bits) - 1);
            word >>= bits;
            taken as u32
        };
        for line in self.lines() {
            pair.lines[line] = take(self.bits.0);
        }
        for host in 0..self.automaton.hosts {
            let bits = self.under_way(&pair, host) * self.bits.1;
            pair.orders[host] = take(bits);
        }
        pair
    }
}
