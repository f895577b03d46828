//! Bringing a tenant up in an area, and where its replica comes from.

use std::sync::Arc;

use tombolo_memory::Memory;
use tombolo_pod::{Area, Enrolment, Kind, PodError, Taker};

use crate::Host;

/// How often a joining host asks for a snapshot.
const ATTEMPTS: usize = 3;

/// A host that has enrolled in an area, and is not ready there yet.
pub struct Joining<M: Memory> {
    /// The host.
    pub host: Arc<Host<M>>,
    /// The area.
    pub area: Area<M>,
    /// The host's part in it.
    pub enrolment: Enrolment,
}

/// The tenant of an area, as one host runs it.
///
/// A tenant is [announced](Self::announce) first: from then on the area's log keeps what this host
/// has not applied. It is [opened](Self::open) from what lies in the area if no living host takes
/// part in it, and [follows](Self::follow) the others otherwise.
pub trait Tenant<M: Memory>: Sized {
    /// The kinds of areas that it can live in, and the version of their format that it reads.
    const KINDS: &'static [(Kind, u64)];
    /// How a host takes part.
    type Options;
    /// The errors of its operations.
    type Error: From<PodError>;
    /// From where on the area's log is kept for this host.
    type Announced;
    /// A host's replica of the area before it runs the tenant.
    type Replica;

    /// Tells the area's log from where on this host needs it.
    ///
    /// # Errors
    /// If the area cannot be used like this.
    fn announce(
        joining: &Joining<M>,
        options: &Self::Options,
    ) -> Result<Self::Announced, Self::Error>;

    /// Puts the area in order, in which no living host takes part, and reads from it what there is.
    ///
    /// # Errors
    /// If it cannot be put in order: it stays as it is.
    fn open(
        joining: &Joining<M>,
        announced: &Self::Announced,
        options: &Self::Options,
    ) -> Result<Self::Replica, Self::Error>;

    /// Takes part in what living hosts have opened: for most tenants, from a
    /// [snapshot](Joining::from_others) of one of them.
    ///
    /// # Errors
    /// If no host hands over what this one needs, or the area is used in another way.
    fn follow(
        joining: &mut Joining<M>,
        announced: &Self::Announced,
        options: &Self::Options,
    ) -> Result<Self::Replica, Self::Error>;

    /// Runs the tenant. The host is not ready in the area yet.
    ///
    /// # Errors
    /// If the area is damaged.
    fn start(
        joining: &Joining<M>,
        replica: Self::Replica,
        options: Self::Options,
    ) -> Result<Self, Self::Error>;
}

impl<M: Memory> Host<M> {
    /// Brings a tenant up in `area`, in which this host is ready then. Blocks until the area is
    /// opened, or another host has handed its snapshot over, for 30 seconds and more if those are
    /// slow.
    ///
    /// # Errors
    /// [`PodError::NoArea`] or [`PodError::AreaVersion`] if the tenant cannot live there; as of
    /// [`Area::enrol`]; the tenant's own.
    pub fn attach<T: Tenant<M>>(
        self: &Arc<Self>,
        area: Area<M>,
        options: T::Options,
    ) -> Result<T, T::Error> {
        check_kind::<M, T>(&area)?;
        let (enrolment, first) = area.enrol(self.seat())?;
        let mut joining = Joining { host: Arc::clone(self), area, enrolment };
        let tenant = joining.bring_up::<T>(first, options).and_then(|tenant| {
            joining.enrolment.ready(self.memory())?;
            Ok(tenant)
        });
        match &tenant {
            Ok(_) => self.attached(&joining.area),
            Err(_) => joining.give_up(),
        }
        tenant
    }
}

impl<M: Memory> Joining<M> {
    fn bring_up<T: Tenant<M>>(&mut self, first: bool, options: T::Options) -> Result<T, T::Error> {
        let announced = T::announce(self, &options)?;
        let replica = if first {
            T::open(self, &announced, &options)?
        } else {
            T::follow(self, &announced, &options)?
        };
        T::start(self, replica, options)
    }

    /// The replica that `adopt` makes of another host's snapshot; `adopt` returns `None` if the
    /// snapshot is damaged, or too old. If all hosts that had a replica have died, `open` opens the
    /// area anew. `None` if no host answers. Blocks for up to 15 seconds.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn from_others<R, E>(
        &mut self,
        open: impl Fn(&Self) -> Result<R, E>,
        adopt: impl Fn(&Self, &[u8]) -> Option<R>,
    ) -> Result<Option<R>, E> {
        for _ in 0..ATTEMPTS {
            self.area.fence_ended();
            if self.enrolment.opens_anew(self.area.memory()) {
                return open(self).map(Some);
            }
            let current = |_: &Vec<u8>| !self.enrolment.is_overtaken(self.area.memory());
            let taken = {
                let _alone = self.host.window.lock();
                Taker::new(&self.area, self.host.seat().host()).take()
            };
            let snapshot = taken.filter(current);
            if let Some(replica) = snapshot.and_then(|bytes| adopt(self, &bytes)) {
                return Ok(Some(replica));
            }
        }
        Ok(None)
    }

    fn give_up(&self) {
        let memory = self.area.memory();
        self.enrolment.give_up(memory);
        memory.gives_all();
        self.area.note_gone(self.enrolment.stay());
    }
}

fn check_kind<M: Memory, T: Tenant<M>>(area: &Area<M>) -> Result<(), PodError> {
    let (kind, found) = (area.layout().kind, area.layout().version);
    match T::KINDS.iter().find(|(known, _)| *known == kind) {
        Some(&(_, expected)) if found != expected => {
            Err(PodError::AreaVersion { kind, found, expected })
        }
        Some(_) => Ok(()),
        None => {
            let wanted = T::KINDS.first().map_or(kind, |&(wanted, _)| wanted);
            Err(PodError::NoArea { kind: wanted, there: vec![kind.to_string()] })
        }
    }
}
