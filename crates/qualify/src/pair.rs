//! Two hosts that try the memory together, part by part, in the same order.

use tombolo_memory::Memory;

use crate::evidence::Evidence;
use crate::meeting::{DATA, MESSAGE_LINES, Meeting};
use crate::{Error, LineBytes, Options, RECORD, meeting};

/// Lines that pairs try, behind the messages and before the record.
pub(crate) const TRIED: u64 = MESSAGE_LINES;

/// How many there are.
pub(crate) const TRIED_COUNT: u64 = RECORD - TRIED;

/// A part of what a pair tries.
struct Part {
    name: &'static str,
    run: Run,
}

/// Runs a part; it is told its name.
enum Run {
    OnlyStored,
    WrittenBack,
    Words,
    Atomics,
    Stores,
    Order,
    Ways,
    Death,
    Clocks,
    Times,
    Costs,
}

const PARTS: [Part; 11] = [
    Part { name: "lines that are only stored", run: Run::OnlyStored },
    Part { name: "lines that are written back", run: Run::WrittenBack },
    Part { name: "words", run: Run::Words },
    Part { name: "atomic operations", run: Run::Atomics },
    Part { name: "plain stores", run: Run::Stores },
    Part { name: "the order of two lines", run: Run::Order },
    Part { name: "ways to write back", run: Run::Ways },
    Part { name: "the death of a writer", run: Run::Death },
    Part { name: "clocks", run: Run::Clocks },
    Part { name: "round trips", run: Run::Times },
    Part { name: "what steps take", run: Run::Costs },
];

/// This host and another one.
pub(crate) struct Pair<'a, 'm, M> {
    pub(crate) memory: &'m M,
    pub(crate) meeting: &'a mut Meeting<'m, M>,
    pub(crate) options: &'a Options<'a, M>,
    /// The other host.
    pub(crate) peer: usize,
    /// Whether this host has the smaller number.
    pub(crate) is_first: bool,
}

impl<M: Memory> Pair<'_, '_, M> {
    /// The evidence of both. Times and costs are the first host's.
    ///
    /// # Errors
    /// [`Error::Silent`].
    pub(crate) fn run(mut self) -> Result<Evidence, Error> {
        let mut found = Evidence::default();
        for (number, Part { name, run }) in (1..).zip(&PARTS) {
            (self.options.progress)(name, number, PARTS.len());
            match run {
                Run::OnlyStored => self.only_stored(name, &mut found)?,
                Run::WrittenBack => self.written_back(name, &mut found)?,
                Run::Words => self.words(name, &mut found)?,
                Run::Atomics => self.atomics(name, &mut found)?,
                Run::Stores => self.stores(name, &mut found)?,
                Run::Order => self.order(name, &mut found)?,
                Run::Ways => self.ways(name, &mut found)?,
                Run::Death => self.death(name, &mut found)?,
                Run::Clocks => self.clocks(name, &mut found)?,
                Run::Times => self.times(name, &mut found)?,
                Run::Costs => self.costs(name, &mut found)?,
            }
        }
        Ok(found)
    }

    /// Waits until the other host is here, too.
    pub(crate) fn sync(&mut self, name: &'static str) -> Result<(), Error> {
        self.tell(name, [0; DATA]).map(|_| ())
    }

    /// Tells the other host something; returns what it tells.
    pub(crate) fn tell(
        &mut self,
        name: &'static str,
        data: [u64; DATA],
    ) -> Result<[u64; DATA], Error> {
        self.meeting.exchange(self.peer, name, data)
    }

    /// The sums of what both hosts have counted.
    pub(crate) fn sums(
        &mut self,
        name: &'static str,
        own: [u64; DATA],
    ) -> Result<[u64; DATA], Error> {
        let other = self.tell(name, own)?;
        Ok(std::array::from_fn(|at| own[at].saturating_add(other[at])))
    }

    /// A line that no other number in this session, and no other session, has.
    pub(crate) fn stamp(&self, number: u64) -> LineBytes {
        let base = self.meeting.session().wrapping_add(number.wrapping_mul(0x0123_4567_89ab_cdf1));
        meeting::bytes_of(&std::array::from_fn(|word| {
            (base ^ word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }))
    }
}
