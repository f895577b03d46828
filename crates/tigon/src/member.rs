//! How hosts come to a database, and leave it.
//!
//! All hosts come before the first transaction. A host that has come first takes the next home.
//! When a host has died, no transaction goes on: what its partitions held is in the logs. (Tigon
//! paper, section 2.)

use std::sync::Arc;
use std::time::Duration;

use tombolo_database::TxError;
use tombolo_database::log::GroupCommit;
use tombolo_host::{Host, Joining, Tenant};
use tombolo_memory::{FetchOp, Memory};
use tombolo_pod::{Area, Kind, Leave, PodError};

use crate::cat::Cat;
use crate::layout::{KIND, Places, VERSION};
use crate::sites;
use crate::tigon::{Options, Tigon};

/// How long hosts wait for each other.
const MEETING_TIMEOUT: Duration = Duration::from_secs(30);

/// Why a host does not come to a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The pod, or its area.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// The database cannot be used like this.
    #[error("the database cannot be used: {0}")]
    Unusable(String),
    /// Hosts are missing.
    #[error(
        "{come} of the database's {homes} hosts have come within {waited_ms} ms; start the others"
    )]
    Missing {
        /// How many have come.
        come: u64,
        /// How many there are to be.
        homes: u8,
        /// How long they were waited for.
        waited_ms: u64,
    },
    /// A transaction's error.
    #[error(transparent)]
    Tx(#[from] TxError),
}

impl<M: Memory> Tigon<M> {
    /// Takes part in the database in `area` of the pod that `host` is in. Blocks until all its
    /// hosts have come, for up to 30 seconds.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn join(host: &Arc<Host<M>>, area: Area<M>, options: Options) -> Result<Self, SetupError> {
        let db: Self = host.attach(area, options)?;
        match db.meet(1) {
            Ok(()) => Ok(db),
            Err(error) => {
                db.enrolment.give_up(db.memory());
                Err(error)
            }
        }
    }

    /// Waits until all hosts have called this for the `round`-th time; the first is
    /// [`join`](Self::join)'s. Answers other hosts meanwhile.
    ///
    /// # Errors
    /// [`SetupError::Missing`] after 30 seconds; that a host has died.
    pub fn meet(&self, round: u64) -> Result<(), SetupError> {
        let (memory, places) = (self.memory(), self.cat.places());
        let homes = places.shape.homes;
        memory.fetch(sites::HOME_COUNT, places.arrivals, FetchOp::Add, 1);
        let (started, mut waits) = (memory.uptime(), 0);
        loop {
            let come = memory.load(places.arrivals);
            if come >= round * u64::from(homes) {
                return Ok(());
            }
            let waited = memory.uptime().saturating_sub(started);
            if waited > MEETING_TIMEOUT {
                let come = come.saturating_sub((round - 1) * u64::from(homes));
                let waited_ms = waited.as_millis() as u64;
                return Err(SetupError::Missing { come, homes, waited_ms });
            }
            self.serve()?;
            self.cat.wait(&mut waits)?;
        }
    }

    /// Leaves the database. Transactions of other hosts that need this one's rows fail from now on.
    ///
    /// # Errors
    /// None that would keep it from leaving; that a host has died.
    pub fn leave(self) -> Result<(), SetupError> {
        let memory = self.memory();
        loop {
            match self.enrolment.leave(memory, true) {
                Leave::Left => break,
                Leave::Wait => memory.pause(),
                Leave::Close => {
                    self.enrolment.closed(memory);
                    break;
                }
            }
        }
        self.host.detached(&self.area);
        Ok(())
    }
}

impl<M: Memory> Tenant<M> for Tigon<M> {
    const KINDS: &'static [(Kind, u64)] = &[(KIND, VERSION)];
    type Options = Options;
    type Error = SetupError;
    type Announced = Places;
    type Replica = Places;

    fn announce(joining: &Joining<M>, options: &Options) -> Result<Places, SetupError> {
        let layout = joining.area.layout();
        let places = Places::of_area(&layout.parameters, joining.area.places());
        let places = places.map_err(SetupError::Unusable)?;
        places.check_tables(&options.tables).map_err(SetupError::Unusable)?;
        Ok(places)
    }

    fn open(
        joining: &Joining<M>,
        places: &Places,
        options: &Options,
    ) -> Result<Places, SetupError> {
        places.format(joining.area.memory(), &options.tables, options.first_epoch);
        Ok(*places)
    }

    fn follow(
        joining: &mut Joining<M>,
        places: &Places,
        options: &Options,
    ) -> Result<Places, SetupError> {
        if places.has_tables(joining.area.memory(), &options.tables) {
            return Ok(*places);
        }
        Err(SetupError::Unusable("its other hosts have other tables".to_owned()))
    }

    fn start(joining: &Joining<M>, places: Places, options: Options) -> Result<Self, SetupError> {
        let Joining { host, area, enrolment } = joining;
        let memory = area.memory();
        let stay = u64::from(enrolment.stay().number) << 8 | u64::from(enrolment.host());
        let free = |&home: &u8| {
            let at = places.home(home);
            memory.compare_exchange(sites::HOME_CLAIM, at, 0, stay).is_ok()
        };
        let Some(home) = (0..places.shape.homes).find(free) else {
            let homes = places.shape.homes;
            return Err(SetupError::Unusable(format!("its {homes} hosts are all there")));
        };
        let (layout, log) = (places.shape.log(), places.log);
        let group = GroupCommit::new(memory.clone(), layout, log, home, options.commit);
        let cat = Cat::new(area, host, places, home, group);
        Ok(Self::new(area.clone(), Arc::clone(host), enrolment.clone(), cat, options))
    }
}
