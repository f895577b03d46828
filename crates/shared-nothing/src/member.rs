//! How hosts come to a database, and leave it.

use std::sync::Arc;

use tombolo_database::hosts::{AfterDeath, Homes, SetupError};
use tombolo_database::log::GroupCommit;
use tombolo_host::{Host, Joining, Tenant};
use tombolo_memory::Memory;
use tombolo_pod::{Area, Kind};

use crate::engine::{Options, SharedNothing};
use crate::layout::{Places, VERSION};
use crate::protocol::Protocol;

/// To write out a dead host's buffers would pass the epochs of prepared branches.
pub(crate) const AFTER_DEATH: AfterDeath = AfterDeath::Stop;

impl<M: Memory, P: Protocol> SharedNothing<M, P> {
    /// Takes part in the database in `area` of the pod that `host` is in. Blocks until all its
    /// hosts have come, for up to 30 seconds.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn join(host: &Arc<Host<M>>, area: Area<M>, options: Options) -> Result<Self, SetupError> {
        let db: Self = host.attach(area, options)?;
        db.homes.arrive(|| db.serve())?;
        Ok(db)
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
        places.tables.expect(joining.area.memory(), &options.tables)?;
        Ok(*places)
    }

    fn start(joining: &Joining<M>, places: Places, options: Options) -> Result<Self, SetupError> {
        let memory = joining.area.memory().clone();
        let homes = Homes::claim(joining, places.homes, AFTER_DEATH)?;
        let (layout, log) = (places.shape.log(), places.log);
        let group = GroupCommit::new(memory, layout, log, homes.own(), options.commit);
        Ok(Self::new(homes, places, group, options))
    }
}
