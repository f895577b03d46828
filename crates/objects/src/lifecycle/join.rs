//! Coming and going: where a host's replica comes from.
//!
//! The first host to join a pod in which nobody is rebuilds the index from the objects' headers in LNR
//! ([`open`](crate::lifecycle::open)); all records are free then. A host that joins others gets a copy of one of their replicas, as of a
//! position that the log still reaches back to.

use tombolo_log::Replica;
use tombolo_memory::Memory;
use tombolo_pod::{Pod, Seat, Stay, Taker, fence_ended};

use crate::host::Options;
use crate::lifecycle::rebuild::rebuild;
use crate::lifecycle::salvage::CrashRecovery;
use crate::lifecycle::unblock::unblock;
use crate::replica::Shard;
use crate::replica::snapshot::{Built, Replicas, adopt};
use crate::storage::poison::survive;
use crate::{Error, Objects, sites};

/// How often a joining host asks for a replica.
const ATTEMPTS: usize = 3;

impl<M: Memory> Objects<M> {
    /// Joins a pod.
    ///
    /// # Errors
    /// [`Error::Pod`] if there is no seat; [`Error::NobodyAnswers`] if no host hands over its
    /// replica; [`Error::Damaged`].
    pub fn join(pod: Pod<M>, options: Options) -> Result<Self, Error> {
        Self::join_with(pod, options, None)
    }

    /// Joins a pod for a page cache. If all who were in it have died, `recovery` takes care of what they had left dirty.
    ///
    /// # Errors
    /// As of [`join`](Self::join), and those of `recovery`.
    pub fn join_with_recovery(
        pod: Pod<M>,
        options: Options,
        recovery: &dyn CrashRecovery<M>,
    ) -> Result<Self, Error> {
        Self::join_with(pod, options, Some(recovery))
    }

    fn join_with(
        pod: Pod<M>,
        options: Options,
        recovery: Option<&dyn CrashRecovery<M>>,
    ) -> Result<Self, Error> {
        survive(&pod);
        let (mut seat, first) = pod.join()?;
        // From here on the log keeps what this host has not applied.
        let shards = pod.geometry().shards();
        let announced: Vec<u64> =
            shards.clone().map(|shard| Shard::<M>::announce(&pod, &seat, shard)).collect();
        let built = Self::build(&pod, &mut seat, &options, first, &announced, recovery);
        let joined = built.and_then(|built| {
            let replica = |(shard, built): (u8, Built<M>)| {
                let Built { state, writer, position, fences } = built;
                Replica::new(pod.clone(), &seat, shard, (position, fences), state, writer)
            };
            let replicas = shards.zip(built.shards).map(replica).collect();
            let (pod, seat) = (pod.clone(), seat.clone());
            let objects = Self::with_shards(pod, replicas, built.records, seat, options, unblock)?;
            objects.intents.clear_all();
            objects.sync_all()?;
            Ok(objects)
        });
        let joined = joined.and_then(|objects| {
            seat.ready(pod.memory())?;
            Ok(objects)
        });
        if joined.is_err() {
            seat.give_up(pod.memory());
            pod.memory().gives_all();
            pod.note_gone(Stay { host: seat.host(), number: seat.incarnation() });
        }
        joined
    }

    fn build(
        pod: &Pod<M>,
        seat: &mut Seat,
        options: &Options,
        first: bool,
        announced: &[u64],
        recovery: Option<&dyn CrashRecovery<M>>,
    ) -> Result<Replicas<M>, Error> {
        if pod.is_under_other_scheme() && pod.memory().keeps(sites::OPEN_OTHER) {
            return Err(Error::Setup(
                "its hosts share objects under HCMeta, or did so when they died, and then what they knew is gone with them: create it anew"
                    .to_owned(),
            ));
        }
        let (host, &Options { index, known_owners, .. }) = (seat.host(), options);
        let empty = || Replicas::empty(pod, host, index, known_owners, announced);
        if first {
            return rebuild(empty(), pod, seat, recovery);
        }
        for _ in 0..ATTEMPTS {
            // Those who could have helped may have died.
            fence_ended(pod, pod.membership());
            if seat.opens_anew(pod.memory()) {
                return rebuild(empty(), pod, seat, recovery);
            }
            let snapshot =
                Taker::new(pod, seat).take().filter(|_| !seat.is_overtaken(pod.memory()));
            if let Some(built) = snapshot.and_then(|bytes| adopt(empty(), &bytes)) {
                return Ok(built);
            }
        }
        Err(Error::NobodyAnswers { hosts: pod.membership().count() })
    }
}
