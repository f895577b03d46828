//! The hosts of a database, which come before the first transaction, and go on as long as all are
//! there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo_host::{HOST_TIMEOUT, Host, Joining};
use tombolo_memory::{FetchOp, Memory, ScrAddr};
use tombolo_pod::{Area, Enrolment};

use super::SetupError;
use crate::{TxError, sites};

/// How long hosts wait for each other.
const MEETING_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a thread waits between two looks at the other hosts.
const ROUNDS_BETWEEN_LOOKS: u32 = 64;

/// Words of a line that are in use.
const WORDS: u64 = 5;

/// Where the words about hosts lie: a line for each.
#[derive(Clone, Copy, Debug)]
pub struct HomePlaces {
    /// How many homes there are.
    pub count: u8,
    /// 0, or a host that has died, plus 1.
    pub failed: ScrAddr<u64>,
}

impl HomePlaces {
    /// Lines of SCR for so many homes.
    pub const fn lines(count: u8) -> u64 {
        2 + count as u64
    }

    /// How many hosts have come, to how many meetings.
    fn arrivals(&self) -> ScrAddr<u64> {
        self.failed.line(1)
    }

    /// The word that says which host has a home: its number (8 bits), and that of its stay.
    pub(super) fn home(&self, home: u8) -> ScrAddr<u64> {
        self.failed.line(2 + u64::from(home))
    }

    /// No host has come. No other host uses the words meanwhile.
    pub fn format<M: Memory>(&self, memory: &M) {
        let lines = (0..Self::lines(self.count)).map(|line| self.failed.line(line));
        let words = lines.flat_map(|line| (0..WORDS).map(move |word| line.element(word)));
        words.for_each(|word| memory.store(word, 0));
    }

    /// Takes the first home that is free, if there is one.
    fn claim<M: Memory>(&self, memory: &M, enrolment: &Enrolment) -> Option<u8> {
        let stay = u64::from(enrolment.stay().number) << 8 | u64::from(enrolment.host());
        let free = |&home: &u8| {
            memory.compare_exchange(sites::HOME_CLAIM, self.home(home), 0, stay).is_ok()
        };
        (0..self.count).find(free)
    }
}

/// The homes of a database, as one of its hosts sees them. Shared by the host's threads.
pub struct Homes<M: Memory> {
    area: Area<M>,
    host: Arc<Host<M>>,
    enrolment: Enrolment,
    places: HomePlaces,
    own: u8,
    /// Which host is looked at next.
    turn: AtomicU64,
}

impl<M: Memory> Homes<M> {
    /// Takes the first home that is free for the host that is joining.
    ///
    /// # Errors
    /// [`SetupError::Unusable`] if all hosts are there.
    pub fn claim(joining: &Joining<M>, places: HomePlaces) -> Result<Self, SetupError> {
        let Joining { host, area, enrolment } = joining;
        let Some(own) = places.claim(area.memory(), enrolment) else {
            let all = format!("its {} hosts are all there", places.count);
            return Err(SetupError::Unusable(all));
        };
        let (area, host) = (area.clone(), Arc::clone(host));
        let (enrolment, turn) = (enrolment.clone(), AtomicU64::new(0));
        Ok(Self { area, host, enrolment, places, own, turn })
    }

    pub(super) fn places(&self) -> &HomePlaces {
        &self.places
    }

    /// The area that the database lies in.
    pub fn area(&self) -> &Area<M> {
        &self.area
    }

    /// This host.
    pub fn host(&self) -> &Arc<Host<M>> {
        &self.host
    }

    /// The number of this host's home.
    pub fn own(&self) -> u8 {
        self.own
    }

    /// The memory that the database lies in.
    pub fn memory(&self) -> &M {
        self.area.memory()
    }

    /// How many homes there are.
    pub fn count(&self) -> u8 {
        self.places.count
    }

    /// The host that has a home.
    pub fn host_of(&self, home: u8) -> Option<u8> {
        let word = self.memory().load(self.places.home(home));
        (word != 0).then_some(word as u8)
    }

    /// Called in every round of a loop that waits for another host.
    ///
    /// # Errors
    /// That a host of the database has died.
    #[track_caller]
    pub fn wait(&self, round: &mut u32) -> Result<(), TxError> {
        *round += 1;
        if round.is_multiple_of(ROUNDS_BETWEEN_LOOKS) {
            self.look()?;
        }
        self.memory().pause();
        Ok(())
    }

    /// Looks whether a host has died.
    ///
    /// # Errors
    /// That one has: then all transactions end.
    pub fn look(&self) -> Result<(), TxError> {
        self.check()?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let other = (turn % u64::from(self.count())) as u8;
        if let Some(host) = self.host_of(other) {
            self.host.fence_if_dead(&self.area, host, HOST_TIMEOUT);
        }
        if let Some(dead) = self.area.membership().fenced().next() {
            self.memory().store(self.places.failed, u64::from(dead) + 1);
        }
        self.check()
    }

    /// Whether all hosts live, as far as is known: one load.
    ///
    /// # Errors
    /// That a host of the database has died.
    pub fn check(&self) -> Result<(), TxError> {
        match self.memory().load(self.places.failed) {
            0 => Ok(()),
            dead => Err(TxError::HostDied { host: (dead - 1) as u8 }),
        }
    }

    /// The homes of hosts that are fenced: they are taken for dead.
    pub fn dead(&self) -> impl Iterator<Item = u8> {
        let fenced: Vec<u8> = self.area.membership().fenced().collect();
        let is_dead = move |host: Option<u8>| host.is_some_and(|host| fenced.contains(&host));
        (0..self.count()).filter(move |&home| is_dead(self.host_of(home)))
    }

    /// Whether the host of a home takes part in the database now.
    pub fn is_there(&self, home: u8) -> bool {
        let host = self.host_of(home);
        host.is_some_and(|host| self.area.membership().hosts().any(|other| other == host))
    }

    /// Lets others see that this host lives, and looks whether they do. To be called every
    /// millisecond.
    ///
    /// # Errors
    /// That a host has died, or that this one is taken for dead.
    pub fn beat(&self) -> Result<(), TxError> {
        self.host.beat();
        self.look()?;
        if self.enrolment.holds(self.memory()) {
            return Ok(());
        }
        Err(TxError::HostDied { host: self.enrolment.host() })
    }

    /// Waits until all hosts have called this for the `round`-th time. Calls `serve` meanwhile.
    /// Blocks for up to 30 seconds.
    ///
    /// # Errors
    /// [`SetupError::Missing`]; that a host has died.
    pub fn meet(
        &self,
        round: u64,
        mut serve: impl FnMut() -> Result<(), TxError>,
    ) -> Result<(), SetupError> {
        let (memory, arrivals) = (self.memory(), self.places.arrivals());
        memory.fetch(sites::HOME_COUNT, arrivals, FetchOp::Add, 1);
        let (started, mut waits, homes) = (memory.uptime(), 0, u64::from(self.count()));
        loop {
            let come = memory.load(arrivals);
            if come >= round * homes {
                return Ok(());
            }
            let waited = memory.uptime().saturating_sub(started);
            if waited > MEETING_TIMEOUT {
                let come = come.saturating_sub((round - 1) * homes);
                let waited_ms = waited.as_millis() as u64;
                return Err(SetupError::Missing { come, homes: self.count(), waited_ms });
            }
            serve()?;
            self.wait(&mut waits)?;
        }
    }

    /// Waits until all hosts have come, as [`meet`](Self::meet) does for the first time. If that
    /// fails, this host gives up its join.
    ///
    /// # Errors
    /// As of [`meet`](Self::meet).
    pub fn arrive(&self, serve: impl FnMut() -> Result<(), TxError>) -> Result<(), SetupError> {
        self.meet(1, serve).inspect_err(|_| self.enrolment.give_up(self.memory()))
    }

    /// Leaves the database, as of [`Host::leave_area`]. Nothing more may be done with it on this
    /// host.
    pub fn leave(&self) {
        self.host.leave_area(&self.area, &self.enrolment);
    }
}
