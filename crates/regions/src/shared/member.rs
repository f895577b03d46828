//! A host's part in the regions of a pod: a tenant of an area.

use std::sync::Arc;
use std::time::Duration;

use tombolo_host::{Host, Joining, Tenant};
use tombolo_memory::Memory;
use tombolo_pod::{Area, Enrolment, Kind, Mailbox};

use super::back::View;
use super::directory::{BlockStats, RegionEntry};
use super::error::RegionError;
use super::keeper::Keeper;
use super::layout::{KIND, Places, VERSION};
use super::table::Table;
use crate::Mode;

/// The mark of an area that was formatted.
const MARK: u64 = 0x7265_6769_6f6e_7331;

/// How long a host may give no sign of life that others wait for.
const SILENCE: Duration = Duration::from_secs(5);

/// A host that takes part in the regions of an area.
pub struct RegionHost<M: Memory> {
    host: Arc<Host<M>>,
    enrolment: Enrolment,
    table: Table<M>,
    mailbox: Mailbox<M>,
}

impl<M: Memory> Tenant<M> for RegionHost<M> {
    const KINDS: &'static [(Kind, u64)] = &[(KIND, VERSION)];
    type Options = ();
    type Error = RegionError;
    type Announced = Places;
    type Replica = Places;

    fn announce(joining: &Joining<M>, (): &()) -> Result<Places, RegionError> {
        let (parameters, area) = (&joining.area.layout().parameters, joining.area.places());
        Places::of_area(parameters, area).map_err(RegionError::Damaged)
    }

    fn open(joining: &Joining<M>, places: &Places, (): &()) -> Result<Places, RegionError> {
        put_in_order(&table(joining, *places));
        joining.area.release_fenced();
        Ok(*places)
    }

    fn follow(_: &mut Joining<M>, places: &Places, (): &()) -> Result<Places, RegionError> {
        Ok(*places)
    }

    fn start(joining: &Joining<M>, places: Places, (): ()) -> Result<Self, RegionError> {
        let host = Arc::clone(&joining.host);
        let mailbox = Mailbox::new(&joining.area, host.seat(), host.mail());
        let table = table(joining, places);
        Ok(Self { host, enrolment: joining.enrolment.clone(), table, mailbox })
    }
}

fn table<M: Memory>(joining: &Joining<M>, places: Places) -> Table<M> {
    Table { area: joining.area.clone(), places, stay: joining.enrolment.stay() }
}

/// Puts the words of an area in order in which no living host takes part. Pages that a host had
/// written and not given back are lost.
fn put_in_order<M: Memory>(table: &Table<M>) {
    let (memory, places) = (table.memory(), &table.places);
    if memory.load(places.mark()) != MARK {
        for region in 0..super::layout::MAX_REGIONS {
            memory.store(places.entry(region, 0), 0);
        }
        memory.store(places.directory(), 0);
        places.words().for_each(|word| memory.store(word, 0));
        memory.store(places.mark(), MARK);
        return;
    }
    memory.store(places.directory(), 0);
    for host in 0..64 {
        (0..super::layout::MAX_REGIONS).for_each(|region| _ = table.forget_user(region, host));
    }
    for page in 0..places.pages {
        table.begin_anew(page);
    }
    for block in 0..places.pages / places.shape.block_pages {
        table.unlock_block(block, table.last_mode(block), tombolo_coherence::Hosts::default());
    }
}

impl<M: Memory> RegionHost<M> {
    /// Takes part in the regions in `area` of the pod that `host` is in.
    ///
    /// # Errors
    /// As of [`Host::attach`].
    pub fn join(host: &Arc<Host<M>>, area: Area<M>) -> Result<Self, RegionError> {
        host.attach(area, ())
    }

    /// The memory that this host sees.
    pub fn memory(&self) -> &M {
        self.host.memory()
    }

    /// This host's number.
    pub fn number(&self) -> u8 {
        self.table.stay.host
    }

    /// Where the parts of the area lie.
    pub fn places(&self) -> &Places {
        &self.table.places
    }

    /// The keeper that serves this host's pages. There is one at a time.
    pub fn keeper<V: View>(&self) -> Keeper<'_, M, V> {
        Keeper::new(&self.table, &self.host, &self.mailbox)
    }

    /// Makes a region of zeros. Blocks while it writes them.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn create(&self, name: &str, bytes: u64, mode: Mode) -> Result<(), RegionError> {
        self.table.create(name, bytes, mode, &mut |host| self.look_after(host))
    }

    /// Notes that this host uses a region, which is then to be opened by the keeper.
    ///
    /// # Errors
    /// [`RegionError::Missing`].
    pub fn begin_use(&self, name: &str) -> Result<RegionEntry, RegionError> {
        self.table.begin_use(name, &mut |host| self.look_after(host))
    }

    /// Notes that this host does not use a region any more, whose pages it has given back.
    pub fn end_use(&self, region: u64) {
        self.table.forget_user(region, self.table.stay.host);
    }

    /// Removes a region.
    ///
    /// # Errors
    /// [`RegionError::Missing`]; [`RegionError::InUse`].
    pub fn remove(&self, name: &str) -> Result<(), RegionError> {
        self.table.remove(name, &mut |host| self.look_after(host))
    }

    /// All regions, by their numbers.
    pub fn regions(&self) -> Vec<RegionEntry> {
        self.table.regions()
    }

    /// The mode and the counts of each block of a region, by all hosts.
    pub fn blocks(&self, entry: &RegionEntry) -> Vec<BlockStats> {
        self.table.block_stats(entry.extent)
    }

    /// Where a word is that the programs of a region share.
    ///
    /// # Panics
    /// If there is no such word.
    pub fn program_word(&self, region: u64, word: u64) -> tombolo_memory::ScrAddr<u64> {
        self.table.program_word(region, word)
    }

    /// Whether a page of a region is lost.
    pub fn is_lost(&self, entry: &RegionEntry, page: u64) -> bool {
        self.table.is_lost(entry.extent.first + page)
    }

    /// How many hosts have died that used a region.
    pub fn deaths(&self, region: u64) -> u64 {
        self.table.deaths(region)
    }

    /// Fences a host that is in the way, if it is dead.
    pub fn look_after(&self, host: u8) {
        self.host.fence_if_dead(&self.table.area, host, SILENCE);
    }

    /// Notes for others that this host, which they have fenced, does nothing any more.
    pub fn note_gone(&self) {
        self.table.area.note_gone(self.table.stay);
    }

    /// Leaves the area, as of [`Host::leave_area`]. All pages were given back before.
    pub fn leave(&self) {
        self.host.leave_area(&self.table.area, &self.enrolment);
    }
}
