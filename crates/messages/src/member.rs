//! A host's part in the messages of a pod: a tenant of an area.

use std::sync::Arc;

use tombolo_host::{Host, Joining, Tenant};
use tombolo_memory::{FetchOp, HostMutex, Memory, Site};
use tombolo_pod::{Area, Enrolment, Kind};

use crate::layout::{KIND, MAX_TOPICS, Places, VERSION};
use crate::receive::Ears;
use crate::{MessageError, sites};

/// The mark of an area that was formatted.
const MARK: u64 = 0x6d65_7373_6167_6531;

/// A host that takes part in the messages of an area. Shared by the host's threads.
pub struct Messages<M: Memory> {
    host: Arc<Host<M>>,
    pub(crate) area: Area<M>,
    enrolment: Enrolment,
    pub(crate) places: Places,
    /// Up to where this host's messages are whole.
    pub(crate) end: HostMutex<M, u64>,
    pub(crate) ears: HostMutex<M, Ears>,
}

impl<M: Memory> Tenant<M> for Messages<M> {
    const KINDS: &'static [(Kind, u64)] = &[(KIND, VERSION)];
    type Options = ();
    type Error = MessageError;
    type Announced = Places;
    type Replica = Places;

    fn announce(joining: &Joining<M>, (): &()) -> Result<Places, MessageError> {
        let (parameters, area) = (&joining.area.layout().parameters, joining.area.places());
        Places::of_area(parameters, area).map_err(MessageError::Damaged)
    }

    fn open(joining: &Joining<M>, places: &Places, (): &()) -> Result<Places, MessageError> {
        let memory = joining.area.memory();
        if memory.load(places.mark()) != MARK {
            for host in 0..places.hosts {
                memory.store(places.begun(host), 0);
                memory.store(places.end(host), 0);
            }
            memory.store(places.mark(), MARK);
        }
        (0..MAX_TOPICS).for_each(|topic| memory.store(places.audience(topic), 0));
        joining.area.release_fenced();
        Ok(*places)
    }

    fn follow(_: &mut Joining<M>, places: &Places, (): &()) -> Result<Places, MessageError> {
        Ok(*places)
    }

    fn start(joining: &Joining<M>, places: Places, (): ()) -> Result<Self, MessageError> {
        let memory = joining.area.memory();
        // Where the last host in this seat has ended: its receivers go on from there.
        let end = memory.load(places.end(joining.enrolment.host()));
        Ok(Self {
            host: Arc::clone(&joining.host),
            area: joining.area.clone(),
            enrolment: joining.enrolment.clone(),
            places,
            end: HostMutex::<M, _>::new(end),
            ears: HostMutex::<M, _>::new(Ears::default()),
        })
    }
}

impl<M: Memory> Messages<M> {
    /// Takes part in the messages in `area` of the pod that `host` is in.
    ///
    /// # Errors
    /// As of [`Host::attach`].
    pub fn join(host: &Arc<Host<M>>, area: Area<M>) -> Result<Self, MessageError> {
        host.attach(area, ())
    }

    /// The memory that this host sees.
    pub fn memory(&self) -> &M {
        self.area.memory()
    }

    /// This host's number.
    pub fn number(&self) -> u8 {
        self.enrolment.host()
    }

    pub(crate) fn own_bit(&self) -> u64 {
        1 << self.number()
    }

    /// Clears up after hosts that have died: some ten times a second.
    pub fn tick(&self) {
        self.area.fence_ended();
        for host in self.area.membership().fenced() {
            let stay = self.area.stay_of(host);
            if self.area.is_gone(stay) && self.area.begin_cleanup(stay, self.number()) {
                self.leave_audience(host, sites::CLEAR_AUDIENCE);
                self.area.release(stay);
            }
        }
    }

    fn leave_audience(&self, host: u8, site: Site) {
        for topic in (0..MAX_TOPICS).filter(|_| self.memory().keeps(site)) {
            self.memory().fetch(site, self.places.audience(topic), FetchOp::And, !(1 << host));
        }
    }

    /// Leaves the area, as of [`Host::leave_area`]. No thread sends or receives any more.
    pub fn leave(&self) {
        let memory = self.memory();
        if !self.host.seat().holds(memory) {
            // A host that is taken for dead is so in each area.
            self.area.fence(self.enrolment.stay());
        }
        if !self.enrolment.holds(memory) {
            // Others clear up after this host.
            self.area.note_gone(self.enrolment.stay());
            return self.host.detached(&self.area);
        }
        self.leave_audience(self.number(), sites::LISTEN_END);
        self.host.leave_area(&self.area, &self.enrolment);
    }
}
