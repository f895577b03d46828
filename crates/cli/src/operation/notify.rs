//! Messages to the service manager (`sd_notify`): that the host serves, how it is doing, and that
//! it is alive.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The service manager that has started this process, if one has, and wants to know.
pub(crate) struct ServiceManager(Option<UnixDatagram>);

impl ServiceManager {
    /// As the environment names it.
    pub(crate) fn of_environment() -> Self {
        let name = std::env::var("NOTIFY_SOCKET").ok();
        Self(name.as_deref().and_then(connected))
    }

    /// The host serves.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// How it is doing, in a line.
    pub(crate) fn status(&self, status: &str) {
        self.tell(&format!("STATUS={status}"));
    }

    /// It is alive: more often than the manager's watchdog waits.
    pub(crate) fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// It is about to leave.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    fn tell(&self, what: &str) {
        // A manager that is gone is not told.
        let _ = self.0.as_ref().map(|socket| socket.send(what.as_bytes()));
    }
}

fn connected(name: &str) -> Option<UnixDatagram> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let listening = UnixDatagram::bind(&path).unwrap();
        let name = format!("tombolo-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let abstractly = UnixDatagram::bind_addr(&address).unwrap();
        for (name, socket) in
            [(path.to_str().unwrap().to_owned(), listening), (format!("@{name}"), abstractly)]
        {
            ServiceManager(connected(&name)).ready();
            let mut told = [0; 16];
            let length = socket.recv(&mut told).unwrap();
            assert_eq!(&told[..length], b"READY=1");
        }
    }

    #[test]
    fn without_one_nothing_happens() {
        ServiceManager(None).ready();
        ServiceManager(connected("/nowhere/at/all")).status("well");
    }
}
