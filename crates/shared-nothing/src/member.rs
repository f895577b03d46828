//! How hosts come to a database, and leave it.

use std::sync::Arc;

use tombolo_database::TxError;
use tombolo_database::log::GroupCommit;
use tombolo_host::{Host, Joining, Tenant};
use tombolo_memory::Memory;
use tombolo_pod::{Area, Kind, PodError};

use crate::engine::{Options, SharedNothing};
use crate::homes::Homes;
use crate::layout::{Places, VERSION};
use crate::protocol::Protocol;

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

impl<M: Memory, P: Protocol> SharedNothing<M, P> {
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
                db.homes.enrolment.give_up(db.memory());
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
        self.homes.meet(round, || self.serve())
    }

    /// Leaves the database. Transactions of other hosts that need this one's rows fail from now on.
    pub fn leave(self) {
        self.homes.leave();
    }
}

impl<M: Memory, P: Protocol> Tenant<M> for SharedNothing<M, P> {
    const KINDS: &'static [(Kind, u64)] = &[(P::KIND, VERSION)];
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
        let Some(own) = places.homes.claim(memory, enrolment) else {
            let homes = places.shape.homes;
            return Err(SetupError::Unusable(format!("its {homes} hosts are all there")));
        };
        let (layout, log) = (places.shape.log(), places.log);
        let group = GroupCommit::new(memory.clone(), layout, log, own, options.commit);
        let (area, host) = (area.clone(), Arc::clone(host));
        let homes = Homes::new(area, host, enrolment.clone(), places.homes, own);
        Ok(Self::new(homes, places, group, options))
    }
}
