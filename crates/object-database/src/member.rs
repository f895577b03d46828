//! How hosts come to a database, and leave it.

use std::sync::Arc;

use tombolo_database::TxError;
use tombolo_database::hosts::limits::check_tables;
use tombolo_database::hosts::{AfterDeath, Homes, SetupError};
use tombolo_database::log::GroupCommit;
use tombolo_host::{Host, Joining, Tenant};
use tombolo_memory::Memory;
use tombolo_objects::Objects;
use tombolo_pod::{Area, Kind, PodError};
use tombolo_sharing::{Error, OBJECTS};

use crate::database::{ObjectDatabase, Options};
use crate::layout::{KIND, Places, VERSION};

/// Rows and leaves are in the pod, and markers tell what a dead host has committed.
pub(crate) const AFTER_DEATH: AfterDeath = AfterDeath::GoOn;

fn area<M: Memory>(host: &Host<M>, kind: Kind) -> Result<Area<M>, PodError> {
    let kinds = || host.pod().areas().map(|area| area.layout().kind.to_string()).collect();
    let area = host.pod().areas().find(|area| area.layout().kind == kind);
    area.ok_or_else(|| PodError::NoArea { kind, there: kinds() })
}

/// Deletes all objects. No host uses them.
///
/// They are those of hosts that have left, or died. The logs have what counts of them: rows of
/// transactions that no log has may be there, too.
fn clear<M: Memory>(objects: &Objects<M>) -> Result<(), Error> {
    let (mut cursor, mut keys) = (0, Vec::new());
    loop {
        cursor = objects.scan(cursor, |key| keys.push(key.to_vec()))?;
        keys.drain(..).try_for_each(|key| objects.delete(&key).map(drop))?;
        if cursor == 0 {
            return Ok(());
        }
    }
}

fn failed(error: Error) -> SetupError {
    match error {
        Error::Pod(error) => error.into(),
        error => SetupError::Unusable(error.to_string()),
    }
}

impl<M: Memory> ObjectDatabase<M> {
    /// Takes part in the database of the pod that `host` is in. Blocks until all its hosts have
    /// come, for up to 30 seconds. A host that comes later, instead of one that has died or left,
    /// does not wait.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn join(host: &Arc<Host<M>>, options: Options) -> Result<Self, SetupError> {
        let area_of_objects = area(host, OBJECTS)?;
        let setup = options.objects.clone().into();
        let objects = Objects::attach(host, area_of_objects, setup).map_err(failed)?;
        let mut db: Self = host.attach(area(host, KIND)?, (options, objects))?;
        db.is_late = db.homes.arrive(|| db.serve())?;
        if db.is_late {
            db.copy_replicated().inspect_err(|_| db.leave())?;
        }
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

    /// Does what other hosts wait for. Does not block.
    pub(crate) fn serve(&self) -> Result<(), TxError> {
        match self.objects.tick() {
            // The next call tries again.
            Err(Error::Busy { .. } | Error::Stalled { .. }) => Ok(()),
            ticked => ticked.map_err(|error| self.failed(&error)),
        }
    }

    /// Leaves the database. Nothing more may be done with it on this host.
    pub fn leave(&self) {
        // An error says that this host was fenced: then it is out already.
        let _ = self.objects.leave();
        self.homes.leave();
    }
}

impl<M: Memory> Tenant<M> for ObjectDatabase<M> {
    const KINDS: &'static [(Kind, u64)] = &[(KIND, VERSION)];
    type Options = (Options, Objects<M>);
    type Error = SetupError;
    type Announced = Places;
    type Replica = Places;

    fn announce(joining: &Joining<M>, (options, _): &Self::Options) -> Result<Places, SetupError> {
        let layout = joining.area.layout();
        let places = Places::of_area(&layout.parameters, joining.area.places());
        let places = places.map_err(SetupError::Unusable)?;
        check_tables(&options.tables, places.shape.tables).map_err(SetupError::Unusable)?;
        Ok(places)
    }

    fn open(
        joining: &Joining<M>,
        places: &Places,
        (options, objects): &Self::Options,
    ) -> Result<Places, SetupError> {
        joining.area.release_fenced();
        clear(objects).map_err(failed)?;
        places.format(joining.area.memory(), &options.tables, options.first_epoch);
        Ok(*places)
    }

    fn follow(
        joining: &mut Joining<M>,
        places: &Places,
        (options, _): &Self::Options,
    ) -> Result<Places, SetupError> {
        places.tables.expect(joining.area.memory(), &options.tables)?;
        Ok(*places)
    }

    fn start(
        joining: &Joining<M>,
        places: Places,
        (options, objects): Self::Options,
    ) -> Result<Self, SetupError> {
        let memory = joining.area.memory().clone();
        let homes = Homes::claim(joining, places.homes, AFTER_DEATH)?;
        let layout = places.shape.log();
        let group = GroupCommit::new(memory, layout, places.log, homes.own(), options.commit);
        Ok(Self::new(objects, homes, group, places.shape, options))
    }
}
