//! Messages between the servers of a pod's hosts: the area for them, and a host's part in it.

use anyhow::Result;
use tombolo::{AreaOptions, Store};
use tombolo_memory::Mapped;
use tombolo_messages::{KIND, MessageError, Messages, Received, area_request};
use tombolo_pod::{Layout, PodError};
use tombolo_server::{Bus, Heard, StoreError, Topic};
use tombolo_sharing::plan_areas_beside;

/// The layout of a pod with these areas, and one for messages unless that is to have 0 bytes.
///
/// # Errors
/// As of [`tombolo_sharing::plan_areas`].
pub(crate) fn plan(
    (scr_bytes, lnr_bytes): (u64, u64),
    areas: &[AreaOptions],
    message_bytes: Option<u64>,
) -> Result<Layout, PodError> {
    let hosts = areas[0].layout.hosts.unwrap_or(tombolo_pod::DEFAULT_HOSTS);
    let request = area_request(hosts, lnr_bytes, message_bytes);
    let beside = if message_bytes == Some(0) { &[][..] } else { &[request][..] };
    plan_areas_beside(scr_bytes, lnr_bytes, areas, beside)
}

/// A host's part in the messages of its pod.
pub(crate) struct Wire(Messages<Mapped>);

impl Wire {
    /// Takes part in the messages of the pod that `store` is in; `None` if it has no area for them.
    ///
    /// # Errors
    /// [`MessageError`].
    pub(crate) fn join(store: &Store) -> Result<Option<Self>, MessageError> {
        let host = store.objects().host();
        let area = host.pod().areas().find(|area| area.layout().kind == KIND);
        area.map(|area| Ok(Self(Messages::join(host, area)?))).transpose()
    }

    /// Leaves the messages. No server uses them any more.
    pub(crate) fn leave(&self) {
        self.0.leave();
    }
}

fn topic_of(number: u8) -> Option<Topic> {
    let topics = [Topic::Published, Topic::Changed, Topic::Event];
    topics.into_iter().find(|&topic| topic as u8 == number)
}

impl Bus for Wire {
    fn is_heard(&self, topic: Topic) -> bool {
        self.0.is_heard(topic as u8)
    }

    fn check_length(&self, bytes: usize) -> Result<(), StoreError> {
        self.0.check_length(bytes).map_err(|error| StoreError::Refused(error.to_string()))
    }

    fn send(&self, topic: Topic, message: &[u8]) -> Result<(), StoreError> {
        self.0.send(topic as u8, message).map_err(|error| StoreError::Refused(error.to_string()))
    }

    fn listen(&self, topic: Topic) {
        self.0.listen(topic as u8);
    }

    fn ignore(&self, topic: Topic) {
        self.0.ignore(topic as u8);
    }

    fn receive(&self, show: &mut dyn FnMut(Heard<'_>)) {
        self.0.receive(|received| match received {
            Received::Message { topic, payload, .. } => {
                topic_of(topic).into_iter().for_each(|topic| show(Heard::Message(topic, payload)));
            }
            Received::Missed { .. } | Received::Damaged { .. } => show(Heard::Missed),
            Received::Turnover { .. } => show(Heard::Turnover),
        });
    }

    fn tick(&self) {
        self.0.tick();
    }
}
