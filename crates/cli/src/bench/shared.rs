//! Objects as a host that is measured shares them, under whatever scheme.

use tombolo::{Error, Handle, Mapped, Stats, Usage};
use tombolo_experiments::Objects;
use tombolo_pod::Pod;
use tombolo_sharing::Scheme;

/// A scheme, as a handle whose background work is done.
pub(crate) struct Shared<S>(S);

impl<S: Scheme<Memory = Mapped> + Send + Sync + 'static> Handle for Shared<S> {
    type Error = Error;
    type Options = S::Options;

    fn join(pod: Pod<Mapped>, options: S::Options) -> Result<Self, Error> {
        S::join(pod, options).map(Self)
    }

    fn tick(&self) -> Result<(), Error> {
        self.0.tick()
    }

    fn leave(&self) -> Result<(), Error> {
        self.0.leave()
    }
}

impl<S: Scheme> Shared<S> {
    pub(crate) fn stats(&self) -> Stats {
        self.0.stats()
    }

    pub(crate) fn usage(&self) -> Usage {
        self.0.usage()
    }

    pub(crate) fn driven(&self) -> Objects<&S> {
        Objects(&self.0)
    }
}
