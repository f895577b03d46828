//! How hosts come to a database, and leave it.

use std::sync::Arc;

use tombolo_database::TxError;
use tombolo_database::hosts::limits::check_tables;
use tombolo_database::hosts::{Homes, SetupError};
use tombolo_database::log::GroupCommit;
use tombolo_host::{Host, Joining, Tenant};
use tombolo_memory::Memory;
use tombolo_objects::Objects;
use tombolo_pod::{Area, Kind, PodError};
use tombolo_sharing::{Error, OBJECTS};

use crate::database::{ObjectDatabase, Options};
use crate::failure::of_objects;
use crate::layout::{KIND, Places, VERSION};

fn area<M: Memory>(host: &Host<M>, kind: Kind) -> Result<Area<M>, PodError> {
    let kinds = || host.pod().areas().map(|area| area.layout().kind.to_string()).collect();
    let area = host.pod().areas().find(|area| area.layout().kind == kind);
    area.ok_or_else(|| PodError::NoArea { kind, there: kinds() })
}

fn failed(error: Error) -> SetupError {
    match error {
        Error::Pod(error) => error.into(),
        error => SetupError::Unusable(error.to_string()),
    }
}

impl<M: Memory> ObjectDatabase<M> {
    /// Takes part in the database of the pod that `host` is in. Blocks until all its hosts have
    /// come, for up to 30 seconds.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn join(host: &Arc<Host<M>>, options: Options) -> Result<Self, SetupError> {
        let area_of_objects = area(host, OBJECTS)?;
        let setup = options.objects.clone().into();
        let objects = Objects::attach(host, area_of_objects, setup).map_err(failed)?;
        let db: Self = host.attach(area(host, KIND)?, (options, objects))?;
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

    /// Does what other hosts wait for. Does not block.
    pub(crate) fn serve(&self) -> Result<(), TxError> {
        self.objects.tick().map_err(|error| of_objects(self.homes.host().seat().host(), &error))
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
        (options, _): &Self::Options,
    ) -> Result<Places, SetupError> {
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
        let (memory, homes) = (joining.area.memory().clone(), Homes::claim(joining, places.homes)?);
        let layout = places.shape.log();
        let group = GroupCommit::new(memory, layout, places.log, homes.own(), options.commit);
        Ok(Self::new(objects, homes, group, places.shape, options))
    }
}
