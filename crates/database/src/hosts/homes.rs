//! The hosts of a database, which come before the first transaction. When one dies, the others
//! stop or go on, as their engine can.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo_host::{HOST_TIMEOUT, Host, Joining};
use tombolo_memory::{FetchOp, HostMutex, Memory, ScrAddr};
use tombolo_pod::{Area, Enrolment, Stay};

use super::SetupError;
use crate::{TxError, sites};

/// How long hosts wait for each other.
const MEETING_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a thread waits between two looks at the other hosts.
const ROUNDS_BETWEEN_LOOKS: u32 = 64;

/// Words of a line that are in use.
const WORDS: u64 = 5;

/// The consequence of a host's death for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterDeath {
    /// All hosts stop, and the database is recovered from its logs as they are.
    Stop,
    /// All hosts stop, but first they write out the dead host's log buffers.
    DrainAndStop,
    /// The others [clean up](Homes::clean_up) after it, and go on. Its home is free then. But if it
    /// dies before all rows are loaded, all hosts stop.
    GoOn,
}

impl AfterDeath {
    /// Whether the others go on.
    pub fn goes_on(self) -> bool {
        self == Self::GoOn
    }

    /// Whether the others write out the dead host's log buffers.
    pub fn drains(self) -> bool {
        self != Self::Stop
    }
}

/// Where the words about hosts lie: a line for each.
#[derive(Clone, Copy, Debug)]
pub struct HomePlaces {
    /// How many homes there are.
    pub count: u8,
    /// 0, or a host that has died, plus 1.
    pub failed: ScrAddr<u64>,
}

/// The word of a home that a stay has.
fn home_word(stay: Stay) -> u64 {
    u64::from(stay.number) << 8 | u64::from(stay.host)
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

    /// Whether all hosts have come, to the first meeting.
    pub fn have_all_come<M: Memory>(&self, memory: &M) -> bool {
        memory.load(self.arrivals()) >= u64::from(self.count)
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
        let stay = home_word(enrolment.stay());
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
    after_death: AfterDeath,
    own: u8,
    /// Which host is looked at next.
    turn: AtomicU64,
    /// Held by the thread that cleans up after dead hosts.
    cleaning: HostMutex<M, ()>,
}

impl<M: Memory> Homes<M> {
    /// Takes the first home that is free for the host that is joining.
    ///
    /// # Errors
    /// [`SetupError::Unusable`] if all hosts are there.
    pub fn claim(
        joining: &Joining<M>,
        places: HomePlaces,
        after_death: AfterDeath,
    ) -> Result<Self, SetupError> {
        let Joining { host, area, enrolment } = joining;
        let Some(own) = places.claim(area.memory(), enrolment) else {
            let all = format!("its {} hosts are all there", places.count);
            return Err(SetupError::Unusable(all));
        };
        let (area, host) = (area.clone(), Arc::clone(host));
        let (enrolment, turn) = (enrolment.clone(), AtomicU64::new(0));
        let cleaning = HostMutex::<M, _>::new(());
        Ok(Self { area, host, enrolment, places, after_death, own, turn, cleaning })
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

    /// Whether the others go on when a host dies.
    pub(super) fn goes_on(&self) -> bool {
        self.after_death.goes_on()
    }

    /// The host that has a home.
    pub fn host_of(&self, home: u8) -> Option<u8> {
        self.stay_of(home).map(|stay| stay.host)
    }

    fn stay_of(&self, home: u8) -> Option<Stay> {
        let word = self.memory().load(self.places.home(home));
        (word != 0).then_some(Stay { host: word as u8, number: (word >> 8) as u32 })
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

    /// Looks whether a host has died, which is fenced then.
    ///
    /// # Errors
    /// That one has, and all hosts stop.
    pub fn look(&self) -> Result<(), TxError> {
        self.check()?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let other = (turn % u64::from(self.count())) as u8;
        if let Some(host) = self.host_of(other) {
            self.host.fence_if_dead(&self.area, host, HOST_TIMEOUT);
        }
        match self.area.membership().fenced().next() {
            Some(dead) if !self.after_death.goes_on() => Err(self.stop(dead)),
            _ => self.check(),
        }
    }

    /// Has all hosts stop, since `dead` has died.
    fn stop(&self, dead: u8) -> TxError {
        self.memory().store(self.places.failed, u64::from(dead) + 1);
        TxError::HostDied { host: dead }
    }

    /// Whether the database goes on, as far as is known: one load.
    ///
    /// # Errors
    /// That a host of the database has died, and all hosts stop.
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

    /// The homes whose hosts take part in the database now, a bit each.
    pub(super) fn are_there(&self) -> u64 {
        let there = (0..self.count()).filter(|&home| self.is_there(home));
        there.fold(0, |homes, home| homes | 1 << home)
    }

    /// The homes whose rows this host has to read where each host reads those at home there, a bit
    /// each: its own, and for the first host those that have none.
    pub fn stands_for(&self) -> u64 {
        let there = self.are_there();
        let own = 1 << self.own;
        let is_first = there & (own - 1) == 0;
        if self.after_death.goes_on() && is_first { !there | own } else { own }
    }

    /// Goes on without hosts that have died. For each, `settle` puts in order what it has left: its
    /// log, and what its engine has; `false` if it is too early for that. Once the host is known to
    /// be gone, too, its home is free. One host at a time does this.
    ///
    /// # Errors
    /// The first of `settle`.
    pub fn clean_up<E>(
        &self,
        mut settle: impl FnMut(u8, Stay) -> Result<bool, E>,
    ) -> Result<(), E> {
        let Some(_alone) = self.cleaning.try_lock() else { return Ok(()) };
        if !self.goes_on() || !self.enrolment.holds(self.memory()) {
            return Ok(());
        }
        let fenced = self.area.membership();
        let mut fenced = fenced.fenced().filter(|&host| host != self.enrolment.host());
        fenced.try_for_each(|host| self.clean_up_after(self.area.stay_of(host), &mut settle))
    }

    fn clean_up_after<E>(
        &self,
        stay: Stay,
        settle: &mut impl FnMut(u8, Stay) -> Result<bool, E>,
    ) -> Result<(), E> {
        if !self.area.begin_cleanup(stay, self.enrolment.host()) {
            // The host that is at it may have died at it.
            self.area.fence_ended();
            return Ok(());
        }
        let mut homes = (0..self.count()).filter(|&home| self.stay_of(home) == Some(stay));
        let settled = homes.try_fold(true, |all, home| Ok(settle(home, stay)? && all));
        if matches!(settled, Ok(true)) && self.area.is_gone(stay) {
            for home in (0..self.count()).filter(|&home| self.stay_of(home) == Some(stay)) {
                self.give_up_checkpoint_of(home);
                self.vacate(home);
            }
            self.area.release(stay);
        }
        self.area.yield_cleanup(stay, self.enrolment.host());
        settled.map(drop)
    }

    /// No host has this home any more.
    fn vacate(&self, home: u8) {
        self.memory().store(self.places.home(home), 0);
    }

    /// Lets others see that this host lives, and looks whether they do. To be called every
    /// millisecond.
    ///
    /// # Errors
    /// That a host has died and all stop, or that this one is taken for dead.
    pub fn beat(&self) -> Result<(), TxError> {
        self.host.beat();
        self.look()?;
        if self.enrolment.holds(self.memory()) {
            return Ok(());
        }
        let host = self.enrolment.host();
        match self.after_death.goes_on() {
            true => Err(TxError::Fenced { host }),
            false => Err(TxError::HostDied { host }),
        }
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
            self.check_all_there(round)?;
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

    /// No host that others wait for has died, even if it was cleaned up after since.
    fn check_all_there(&self, round: u64) -> Result<(), TxError> {
        let free = (0..self.count()).find(|&home| self.host_of(home).is_none());
        let fenced = self.area.membership().fenced().next();
        match fenced.or(free.filter(|_| round > 1)) {
            Some(dead) => Err(self.stop(dead)),
            None => Ok(()),
        }
    }

    /// Waits until all hosts have come, as [`meet`](Self::meet) does for the first time. If that
    /// fails, this host gives up its join. A host that comes later, in the home of one that has
    /// died or left, waits for none: then `true`.
    ///
    /// # Errors
    /// As of [`meet`](Self::meet).
    pub fn arrive(&self, serve: impl FnMut() -> Result<(), TxError>) -> Result<bool, SetupError> {
        let is_late = self.places.have_all_come(self.memory());
        let come = if is_late { self.check().map_err(Into::into) } else { self.meet(1, serve) };
        come.inspect_err(|_| self.enrolment.give_up(self.memory()))?;
        Ok(is_late)
    }

    /// Leaves the database, as of [`Host::leave_area`]. Nothing more may be done with it on this
    /// host. Its home is free then, if the others go on without it.
    pub fn leave(&self) {
        let has_home = self.stay_of(self.own) == Some(self.enrolment.stay());
        if self.after_death.goes_on() && has_home {
            self.vacate(self.own);
        }
        self.host.leave_area(&self.area, &self.enrolment);
    }
}
