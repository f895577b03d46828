//! A process's place in a pod.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tombolo_memory::{HostMutex, Memory};
use tombolo_pod::{Area, Enrolment, Giver, Leave, MailSlots, Pod, PodError, Seat, Stay, Watch};

/// Much longer than a host that is alive takes for a tick, and short for a host that waits for it.
pub const HOST_TIMEOUT: Duration = Duration::from_millis(150);

/// How long the last host waits for those that are joining.
const JOINING_PATIENCE: Duration = Duration::from_secs(10);

/// How long a thread waits at least between two looks at the host that is in its way.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// One host in a pod. Shared by its tenants and their threads.
pub struct Host<M: Memory> {
    pod: Pod<M>,
    seat: Seat,
    watch: Watch,
    mail: Arc<MailSlots<M>>,
    /// When a thread last looked at a host that is in its way, in nanoseconds.
    looked: AtomicU64,
    /// The areas whose tenants are attached, a bit each.
    attached: AtomicU64,
    /// Held by the thread that gets a snapshot: a host has one window for them.
    pub(crate) window: HostMutex<M, ()>,
}

impl<M: Memory> Host<M> {
    /// Takes a seat in a pod. Blocks for up to 30 seconds while one will soon be free.
    ///
    /// # Errors
    /// As of [`Pod::join`].
    pub fn join(pod: Pod<M>) -> Result<Arc<Self>, PodError> {
        let seat = pod.join()?;
        Ok(Arc::new(Self {
            watch: Watch::new(&pod),
            mail: MailSlots::new(&pod, &seat),
            looked: AtomicU64::new(0),
            attached: AtomicU64::new(0),
            window: HostMutex::<M, _>::new(()),
            seat,
            pod,
        }))
    }

    /// The pod.
    pub fn pod(&self) -> &Pod<M> {
        &self.pod
    }

    /// The memory this host sees.
    pub fn memory(&self) -> &M {
        self.pod.memory()
    }

    /// This host's place in the pod.
    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// This host's stay.
    pub fn stay(&self) -> Stay {
        self.seat.stay()
    }

    /// The slots for requests to other hosts, which all tenants share.
    pub fn mail(&self) -> Arc<MailSlots<M>> {
        Arc::clone(&self.mail)
    }

    /// Lets others see that this host is alive: about every millisecond, by any tenant.
    pub fn beat(&self) {
        self.seat.beat(self.memory());
    }

    /// Host `by` is in the way of this one in `area`: fences it if it is dead, or has given no sign
    /// of life for as long as `timeout` says. Its stay, if it is fenced now.
    pub fn fence_if_dead(&self, area: &Area<M>, by: u8, timeout: Duration) -> Option<Stay> {
        if by == self.seat.host() || !self.is_time_to_look() {
            return None;
        }
        let (stay, pod) = (area.stay_of(by), &self.pod);
        let out = || !pod.is_seated(stay) || pod.has_ended(stay);
        if area.is_member(stay) && (out() || self.watch.is_silent(pod, stay, timeout)) {
            area.fence(stay);
        }
        area.is_fenced(stay).then_some(stay)
    }

    /// Whether it is some time since a thread of this host last looked whether others are alive.
    /// The thread that finds so beats.
    pub fn is_time_to_look(&self) -> bool {
        let now = self.memory().uptime();
        let last = Duration::from_nanos(self.looked.load(Ordering::Relaxed));
        let is_time = now.saturating_sub(last) >= BETWEEN_LOOKS;
        if is_time {
            self.looked.store(now.as_nanos() as u64, Ordering::Relaxed);
            self.beat();
        }
        is_time
    }

    /// Hands `snapshot` to each host that is joining `area` and asks for one. Blocks for up to five
    /// seconds for each.
    ///
    /// # Errors
    /// The first of `snapshot`.
    pub fn help_joining<E>(
        &self,
        area: &Area<M>,
        snapshot: impl Fn() -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        if !area.has_joining() {
            return Ok(());
        }
        let members = area.membership();
        for host in members.hosts().filter(|&host| !members.is_ready(host)) {
            if let Some(giver) = Giver::answer(area, self.seat.host(), host) {
                giver.give(snapshot()?);
            }
        }
        Ok(())
    }

    /// Ends this host's part in `area`, in which it does nothing any more, and detaches its tenant.
    /// Blocks up to ten seconds if this host is the last one and others are joining; then those are
    /// expelled.
    pub fn leave_area(&self, area: &Area<M>, enrolment: &Enrolment) {
        let Ok(()) = self.leave_area_in_order(area, enrolment, || Ok::<_, Infallible>(()), || ());
    }

    /// As [`leave_area`](Self::leave_area). The last host calls `help` while it waits for hosts
    /// that are joining, and then `close`, before another host may open the area.
    ///
    /// # Errors
    /// Those of `help`: the host is still in the area.
    pub fn leave_area_in_order<E>(
        &self,
        area: &Area<M>,
        enrolment: &Enrolment,
        mut help: impl FnMut() -> Result<(), E>,
        close: impl FnOnce(),
    ) -> Result<(), E> {
        let memory = self.memory();
        let started = memory.uptime();
        let is_patient = || memory.uptime().saturating_sub(started) < JOINING_PATIENCE;
        loop {
            match enrolment.leave(memory, is_patient()) {
                Leave::Left => break,
                Leave::Wait => {
                    help()?;
                    // One that died as it joined is never ready.
                    area.fence_ended();
                    memory.pause();
                }
                Leave::Close => {
                    close();
                    enrolment.closed(memory);
                    break;
                }
            }
        }
        self.detached(area);
        Ok(())
    }

    pub(crate) fn attached(&self, area: &Area<M>) {
        self.attached.fetch_or(1 << area.number(), Ordering::Relaxed);
    }

    /// The tenant of `area` has left it. When it was the last, the host leaves the pod.
    pub fn detached(&self, area: &Area<M>) {
        let bit = 1 << area.number();
        if self.attached.fetch_and(!bit, Ordering::AcqRel) == bit {
            self.leave();
        }
    }

    /// Gives the seat back, or says that this host is gone, if it was fenced. No tenant is
    /// attached, and nothing else may be done with this host afterwards.
    pub fn leave(&self) {
        if !self.seat.leave(self.memory()) {
            self.pod.note_gone(self.stay());
        }
    }
}
