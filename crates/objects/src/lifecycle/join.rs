//! Coming: where a host's replica comes from.
//!
//! The first host to attach to an area in which no living host takes part rebuilds the index from
//! the objects' headers in LNR ([`open`](crate::lifecycle::open)); all records are free then. A
//! host that joins others gets a copy of one of their replicas, as of a position that the log still
//! reaches back to.

use std::sync::Arc;

use tombolo_host::{Host, Joining, Tenant};
use tombolo_log::Replica;
use tombolo_memory::Memory;
use tombolo_pod::{Area, Kind, Pod};
use tombolo_sharing::{AREA_VERSION, OBJECTS, ObjectArea, PAGES, Scheme};

use crate::host::Options;
use crate::lifecycle::rebuild::rebuild;
use crate::lifecycle::salvage::CrashRecovery;
use crate::lifecycle::unblock::unblock;
use crate::replica::Shard;
use crate::replica::snapshot::{Built, Replicas, adopt};
use crate::storage::poison::survive;
use crate::{Error, Objects, sites};

/// How a host takes part in an area, with what takes care of what dead hosts had left dirty there.
pub struct Setup<M: Memory> {
    /// How it takes part.
    pub options: Options,
    /// In an area for pages: what takes care of what all hosts had left dirty when they died.
    pub recovery: Option<Arc<dyn CrashRecovery<M>>>,
}

impl<M: Memory> From<Options> for Setup<M> {
    fn from(options: Options) -> Self {
        Self { options, recovery: None }
    }
}

impl<M: Memory> Objects<M> {
    /// Joins a pod, and the first area for objects in it; if there is none, that for pages.
    ///
    /// # Errors
    /// [`Error::Pod`] if there is no seat; [`Error::NobodyAnswers`] if no host hands over its
    /// replica; [`Error::Damaged`].
    pub fn join(pod: Pod<M>, options: Options) -> Result<Self, Error> {
        <Self as Scheme>::join(pod, options)
    }

    /// Takes part in an area for objects or pages of the pod that `host` is in: besides other
    /// tenants of that host.
    ///
    /// # Errors
    /// As of [`join`](Self::join), and those of the recovery.
    pub fn attach(host: &Arc<Host<M>>, area: Area<M>, setup: Setup<M>) -> Result<Self, Error> {
        survive(&ObjectArea::new(area.clone())?);
        host.attach(area, setup)
    }
}

impl<M: Memory> Tenant<M> for Objects<M> {
    const KINDS: &'static [(Kind, u64)] = &[(OBJECTS, AREA_VERSION), (PAGES, AREA_VERSION)];
    type Options = Setup<M>;
    type Error = Error;
    /// A position in each shard of the log.
    type Announced = Vec<u64>;
    type Replica = Replicas<M>;

    fn announce(joining: &Joining<M>, _: &Setup<M>) -> Result<Vec<u64>, Error> {
        let Joining { area, enrolment, .. } = joining;
        let shards = area.layout().shards();
        let announced = shards.map(|shard| Shard::<M>::announce(area, enrolment, shard)).collect();
        if ObjectArea::new(area.clone())?.is_under_other_scheme()
            && area.memory().keeps(sites::OPEN_OTHER)
        {
            return Err(Error::Setup(
                "its hosts share objects under HCMeta, or did so when they died, and then what they knew is gone with them: create it anew"
                    .to_owned(),
            ));
        }
        Ok(announced)
    }

    fn open(
        joining: &Joining<M>,
        announced: &Vec<u64>,
        setup: &Setup<M>,
    ) -> Result<Replicas<M>, Error> {
        let (area, empty) = empty(joining, announced, &setup.options)?;
        rebuild(empty, &area, &joining.enrolment, setup.recovery.as_deref())
    }

    fn follow(
        joining: &mut Joining<M>,
        announced: &Vec<u64>,
        setup: &Setup<M>,
    ) -> Result<Replicas<M>, Error> {
        let adopt = |joining: &Joining<M>, snapshot: &[u8]| {
            let (_, empty) = empty(joining, announced, &setup.options).ok()?;
            adopt(empty, snapshot)
        };
        let open = |joining: &Joining<M>| Self::open(joining, announced, setup);
        let replicas = joining.from_others(open, adopt)?;
        replicas.ok_or_else(|| Error::NobodyAnswers { hosts: joining.area.membership().count() })
    }

    fn start(joining: &Joining<M>, built: Replicas<M>, setup: Setup<M>) -> Result<Self, Error> {
        let Joining { area, enrolment, .. } = joining;
        let replica = |(shard, built): (u8, Built<M>)| {
            let Built { state, writer, position, fences } = built;
            Replica::new(area.clone(), enrolment, shard, (position, fences), state, writer)
        };
        let replicas = area.layout().shards().zip(built.shards).map(replica).collect();
        let objects = Self::with_shards(joining, replicas, built.records, setup.options, unblock)?;
        objects.intents.clear_all();
        objects.sync_all()?;
        Ok(objects)
    }
}

/// Replicas of an empty area whose log ends at these positions.
fn empty<M: Memory>(
    joining: &Joining<M>,
    announced: &[u64],
    options: &Options,
) -> Result<(ObjectArea<M>, Replicas<M>), Error> {
    let area = ObjectArea::new(joining.area.clone())?;
    let &Options { index, known_owners, .. } = options;
    let replicas = Replicas::empty(&area, joining.enrolment.host(), index, known_owners, announced);
    Ok((area, replicas))
}
