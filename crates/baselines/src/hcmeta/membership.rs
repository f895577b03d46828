//! All hosts come before the first operation, and leave after the last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use tombolo_host::{Host, Joining, Tenant};
use tombolo_memory::{FetchOp, LINE_BYTES, Lines, Memory, ScrAddr};
use tombolo_pod::{Area, Kind, Mailbox};
use tombolo_sharing::{AREA_VERSION, Counters, Error, OBJECTS, ObjectArea, PAGES, Usage};

use super::body::no_slot;
use super::partition::{Partition, Place};
use super::record::{Layout, MAX_HOSTS};
use super::request_server::RequestServer;
use super::space::Space;
use super::table::Table;
use super::{HcMeta, Options, sites};

/// How long hosts wait for each other.
const PATIENCE: Duration = Duration::from_secs(30);

impl<M: Memory> HcMeta<M> {
    /// Takes part in an area for objects or pages of the pod that `host` is in, and waits for all
    /// other hosts to do so.
    ///
    /// # Errors
    /// [`Error::Setup`] if the others do not come, the area is used under another scheme, or it is
    /// too small; [`Error::Pod`].
    pub(crate) fn attach_all(
        host: &Arc<Host<M>>,
        area: Area<M>,
        options: Options,
    ) -> Result<Self, Error> {
        let scheme: Self = host.attach(area, options)?;
        if scheme.meet(scheme.table.come())? {
            return Ok(scheme);
        }
        scheme.enrolment.give_up(scheme.memory());
        Err(Error::Setup(format!("not all of its {} hosts have come", scheme.options.hosts)))
    }

    /// Waits until all hosts have got as far; whether they have.
    fn meet(&self, at: ScrAddr<u64>) -> Result<bool, Error> {
        let memory = self.memory();
        memory.fetch(sites::COUNT_HOST, at, FetchOp::Add, 1);
        let started = memory.uptime();
        while memory.load(at) < u64::from(self.options.hosts) {
            if memory.uptime().saturating_sub(started) > PATIENCE {
                return Ok(false);
            }
            self.serve()?;
            memory.pause();
        }
        Ok(true)
    }

    /// Finds this host's objects in a pod that was closed. Nobody gives slots out before all have
    /// done so.
    fn restore(&self) -> Result<(), Error> {
        for chunk in self.space.chunks() {
            if !self.space.is_usable(chunk) {
                return Err(Error::Setup(format!(
                    "chunk {chunk} is part of a large object, or damaged"
                )));
            }
            let divided = self.space.slots_of(chunk);
            for line in divided {
                self.restore_slot(chunk, line)?;
            }
        }
        Ok(())
    }

    fn restore_slot(&self, chunk: u64, line: u64) -> Result<(), Error> {
        let lines = self.space.lines(line).ok_or_else(|| no_slot(line))?;
        match self.header_at(sites::OPEN_INVALIDATE, lines)? {
            None if chunk % u64::from(self.options.hosts) == u64::from(self.enrolment.host()) => {
                self.space.free(line);
            }
            Some((_, key)) if self.owner_of(self.hash(&key)?) == self.enrolment.host() => {
                let hash = self.hash(&key)?;
                let place = self.withdraw(line, false, hash, &key)?;
                self.enrol(&mut self.partition.shard(hash).lock(), hash, &key, place);
            }
            _ => {}
        }
        Ok(())
    }

    /// Waits for all hosts to leave, and leaves LNR such that a slot holds a header if and only if
    /// it holds an object.
    pub(crate) fn leave_with_all(&self) -> Result<(), Error> {
        self.meet(self.table.left())?;
        self.settle()?;
        let close = || {
            self.table.clear();
            self.area.put_under_other_scheme(false);
        };
        self.host.leave_area_in_order(&self.area, &self.enrolment, || Ok(()), close)
    }

    fn settle(&self) -> Result<(), Error> {
        let (memory, means) = (self.memory(), self.means());
        for shard in self.partition.shards() {
            for owned in shard.lock().objects() {
                let (lines, bytes) = match &owned.place {
                    Place::Shared(_) | Place::Lent => continue,
                    // A pod for pages opens empty, and LNR may have no room for all.
                    Place::Local { .. } if self.area.geometry().has_marks() => continue,
                    Place::Private(private) => {
                        let line = private.line;
                        let lines = self.space.lines(line).ok_or_else(|| no_slot(line))?;
                        (lines, private.dirty.unwrap_or(0))
                    }
                    Place::Local { value, version } => {
                        let (lines, header) = means.place(&owned.key, &value.to_vec(), *version)?;
                        (lines, header.total_bytes())
                    }
                };
                means.publish(sites::CLOSE_CLEAN, [lines], |memory| memory.gives(lines, bytes));
            }
        }
        for line in self.space.take_all_free() {
            if memory.keeps(sites::CLOSE_SCRUB) {
                let lines = Lines::new(line, 1);
                memory.takes_blank(lines);
                memory.write(lines.start(), &[0; LINE_BYTES as usize]);
                means.publish(sites::CLOSE_CLEAN, [lines], |memory| {
                    memory.gives(lines, LINE_BYTES);
                });
            }
        }
        Ok(())
    }

    /// How many objects there are.
    pub(crate) fn objects(&self) -> u64 {
        let count = |host| self.memory().load(self.table.objects(host));
        (0..self.options.hosts).map(count).sum()
    }

    pub(crate) fn used(&self) -> Usage {
        let sharing = self.partition.sharing.lock();
        let entries = sharing.hashes.iter().flatten().count() as u64;
        drop(sharing);
        let (lnr_used_bytes, lnr_bytes) = self.space.usage();
        let hosts = u64::from(self.options.hosts);
        Usage {
            objects: self.objects(),
            lnr_used_bytes,
            lnr_bytes,
            records_used: entries * hosts,
            records: self.table.entries() * hosts,
            scr_used_bytes: entries * hosts * self.table.entry_bytes(),
            local_bytes: self.local_bytes(),
            ..Usage::default()
        }
    }

    /// Bytes of this host's own memory for what it knows of its objects.
    fn local_bytes(&self) -> u64 {
        let of_object = |owned: &mut super::partition::Owned| {
            let value = match &owned.place {
                Place::Local { value, .. } => value.len(),
                Place::Private(_) | Place::Shared(_) | Place::Lent => 0,
            };
            (size_of_val(owned) + owned.key.len() + value) as u64
        };
        let shards = self.partition.shards().iter();
        shards.map(|shard| shard.lock().objects().map(of_object).sum::<u64>()).sum()
    }
}

impl<M: Memory> Tenant<M> for HcMeta<M> {
    const KINDS: &'static [(Kind, u64)] = &[(OBJECTS, AREA_VERSION), (PAGES, AREA_VERSION)];
    type Options = Options;
    type Error = Error;
    type Announced = Table<M>;
    type Replica = ();

    fn announce(joining: &Joining<M>, options: &Options) -> Result<Table<M>, Error> {
        let (host, hosts) = (joining.enrolment.host(), options.hosts);
        if !(1..=MAX_HOSTS).contains(&hosts) {
            return Err(Error::Setup(format!(
                "HCMeta takes up to {MAX_HOSTS} hosts, whose bits fit into a record, not {hosts}"
            )));
        }
        if host >= hosts {
            return Err(Error::Setup(format!(
                "there are to be {hosts} hosts, and this is one more"
            )));
        }
        if joining.area.pod().layout().lnr_bytes > LINE_BYTES << 32 {
            return Err(Error::Setup("LNR is larger than 256 GiB".to_owned()));
        }
        Table::new(&ObjectArea::new(joining.area.clone())?, hosts, options.key_bytes)
    }

    fn open(joining: &Joining<M>, table: &Table<M>, _: &Options) -> Result<(), Error> {
        let area = ObjectArea::new(joining.area.clone())?;
        refuse_what_the_dead_left(&area)?;
        area.put_under_other_scheme(true);
        if area.geometry().has_marks() {
            open_empty(&area);
        }
        table.format();
        Ok(())
    }

    fn follow(_: &mut Joining<M>, table: &Table<M>, _: &Options) -> Result<(), Error> {
        if table.is_there() {
            return Ok(());
        }
        Err(Error::Setup("its hosts use another scheme, or other options".to_owned()))
    }

    fn start(joining: &Joining<M>, (): (), options: Options) -> Result<Self, Error> {
        let Joining { host, area, enrolment } = joining;
        let area = ObjectArea::new(area.clone())?;
        let (me, hosts) = (enrolment.host(), options.hosts);
        let table = Table::new(&area, hosts, options.key_bytes)?;
        let scheme = Self {
            mailbox: Mailbox::new(&area, host.seat(), host.mail()),
            layout: Layout::new(hosts, me),
            space: Space::new(&area, me, hosts),
            partition: Partition::new(options.shards.max(1), table.entries(), table.ways()),
            counters: Counters::new(),
            versions: AtomicU64::new(u64::from(enrolment.stay().number) << 40),
            request_server: RequestServer::new(options.pace),
            active: AtomicBool::new(true),
            table,
            options: Options { shards: options.shards.max(1), ..options },
            host: Arc::clone(host),
            enrolment: enrolment.clone(),
            area,
        };
        scheme.restore()?;
        Ok(scheme)
    }
}

/// Hosts that have died leave objects half written, and slots that seem to hold some.
fn refuse_what_the_dead_left<M: Memory>(area: &ObjectArea<M>) -> Result<(), Error> {
    let dead = area.membership().fenced().next();
    if area.is_under_other_scheme() {
        let dead = dead.map_or(String::new(), |host| format!(" (host {host} among them)"));
        return Err(Error::Setup(format!(
            "hosts have died in it under HCMeta{dead}, which does not survive that; create it anew"
        )));
    }
    match dead {
        Some(host) => Err(Error::Setup(format!(
            "host {host} has died in it; open it under megalon first, which puts it in order"
        ))),
        None => Ok(()),
    }
}

/// A pod for a page cache begins without objects, and without anybody who holds a latch.
fn open_empty<M: Memory>(area: &ObjectArea<M>) {
    let (memory, areas, geometry) = (area.memory(), area.areas(), area.geometry());
    (0..geometry.latches).for_each(|latch| memory.store(areas.latches.element(latch), 0));
    if memory.keeps(sites::OPEN_EMPTY) {
        (0..geometry.chunks).for_each(|chunk| memory.store(areas.chunk_table.element(chunk), 0));
    }
}
