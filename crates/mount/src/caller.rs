//! Doing something below in a caller's name: the kernel below then asks whether the caller may, and
//! what is made belongs to the caller from the start.
//!
//! Only root serves other users. Any other process serves its own, and changes nothing here.

use std::fs;

use fuser::Request;
use nix::unistd::{Gid as GroupId, Uid as UserId, setfsgid, setfsuid};
use rustix::io::Errno;
use rustix::process::{Gid, getgroups};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
};

/// The process that asks for something, and its user.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    user: u32,
    group: u32,
    process: u32,
}

impl Caller {
    pub(crate) fn new(request: &Request) -> Self {
        Self { user: request.uid(), group: request.gid(), process: request.pid() }
    }

    /// Makes something of the caller's with this mode. Whether the caller may was asked by the
    /// kernel above already, so it is not asked again.
    pub(crate) fn make<T>(
        &self,
        mode: u32,
        make: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        // A file keeps the bit only if the caller is in the file's group.
        let groups = mode & libc::S_ISGID != 0;
        self.during(groups, |all| all - CapabilitySet::FSETID, make)
    }

    /// Does something that the caller has to be allowed to do.
    pub(crate) fn ask<T>(&self, body: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        if self.user == 0 { body() } else { self.during(true, |_| CapabilitySet::empty(), body) }
    }

    fn during<T>(
        &self,
        with_groups: bool,
        capable_of: impl FnOnce(CapabilitySet) -> CapabilitySet,
        body: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if !rustix::process::geteuid().is_root() {
            return body();
        }
        let before = Before::note(with_groups)?;
        if with_groups {
            set_thread_groups(&self.groups())?;
        }
        setfsgid(GroupId::from_raw(self.group));
        if self.user != 0 {
            // Capabilities go with the user. Those of a user who makes something are given back.
            let capable = capable_of(before.capabilities.effective);
            setfsuid(UserId::from_raw(self.user));
            let kept = capable & before.capabilities.permitted;
            set_capabilities(None, CapabilitySets { effective: kept, ..before.capabilities })?;
        }
        // A number that stands for nobody here is not taken.
        let nobody = u32::MAX;
        let user = setfsuid(UserId::from_raw(nobody)).as_raw();
        let group = setfsgid(GroupId::from_raw(nobody)).as_raw();
        if (user, group) != (self.user, self.group) {
            return Err(Errno::OVERFLOW);
        }
        body()
    }

    /// The groups that the caller is in besides its own; none, if its process cannot be seen from
    /// here.
    fn groups(&self) -> Vec<Gid> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
        let numbers = line.unwrap_or_default().split_ascii_whitespace();
        numbers.filter_map(|number| number.parse().ok()).map(Gid::from_raw).collect()
    }
}

/// The credentials of a thread before it did something for a caller, and again afterwards.
struct Before {
    groups: Option<Vec<Gid>>,
    capabilities: CapabilitySets,
}

impl Before {
    fn note(with_groups: bool) -> Result<Self, Errno> {
        let groups = if with_groups { Some(getgroups()?) } else { None };
        Ok(Self { groups, capabilities: capabilities(None)? })
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        setfsuid(UserId::from_raw(0));
        setfsgid(GroupId::from_raw(rustix::process::getegid().as_raw()));
        let again = set_capabilities(None, self.capabilities);
        let again =
            again.and(self.groups.as_ref().map_or(Ok(()), |groups| set_thread_groups(groups)));
        // A thread that is half somebody else must serve nobody.
        if again.is_err() {
            std::process::abort();
        }
    }
}
