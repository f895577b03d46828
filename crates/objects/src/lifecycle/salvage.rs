//! The remains in a pod for a page cache all of whose hosts have died.
//!
//! Such a pod opens empty, and is closed empty, if nothing is dirty. So if there are objects when
//! it is opened, its hosts have died, or left with something dirty, and somebody has to take care
//! of that first. Dirty bits are records', and whose record it was only the hosts knew, so any
//! object may be one that was dirty. The host that opens the pod puts it in order as any other
//! ([`open`](crate::lifecycle::open)), shows its objects to a [`CrashRecovery`], and only then is
//! rid of them and of the dirty bits. If it dies meanwhile, the next one does all of it again.
//!
//! Left out: which of the objects were dirty.

use tombolo_memory::Memory;
use tombolo_sharing::ObjectArea;

use crate::Error;
use crate::ids::Slot;
use crate::lifecycle::offline::{object_at_rest, value_at_rest};
use crate::storage::space::Space;

/// Takes care of what hosts had left dirty when they died.
pub trait CrashRecovery<M: Memory> {
    /// Does with these objects what their dirty bits were for. They are gone afterwards. May be
    /// done again, with all of them, if the host dies at it.
    ///
    /// # Errors
    /// The first obstacle: the pod stays as it is.
    fn recover(&self, orphans: &Orphans<'_, M>) -> Result<(), Error>;
}

/// The objects of a pod whose hosts are all gone.
pub struct Orphans<'a, M: Memory> {
    area: &'a ObjectArea<M>,
    space: &'a Space<M>,
    slots: Vec<Slot>,
}

impl<'a, M: Memory> Orphans<'a, M> {
    pub(crate) fn new(area: &'a ObjectArea<M>, space: &'a Space<M>, slots: Vec<Slot>) -> Self {
        Self { area, space, slots }
    }

    /// The memory they lie in.
    pub fn memory(&self) -> &M {
        self.area.memory()
    }

    /// Shows key and value of each object to `visit`; no value if it is lost.
    ///
    /// # Errors
    /// The first of `visit`; [`Error::Damaged`].
    pub fn visit(
        &self,
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for &slot in &self.slots {
            let Some(object) = object_at_rest(self.area, self.space, slot)? else { continue };
            let value = value_at_rest(self.area, self.space, slot, &object);
            visit(&object.key, value.as_deref())?;
        }
        Ok(())
    }
}
