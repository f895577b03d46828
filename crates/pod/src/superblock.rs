//! The superblock: 32 words at the start of SCR, and a twin at the start of LNR by which the two
//! halves of a pod recognise each other.
//!
//! ```text
//! words  0, 1   magic number, version of the format
//! words  2..4   UUID
//! words  4..6   secret that keys the hash of object keys
//! words  6, 7   sizes of SCR and LNR
//! words  8..11  hosts, slots of a mailbox, bytes of a transfer window
//! word   11     areas in the directory
//! word   31     checksum of the others
//! ```
//!
//! The magic number is written last, so a pod whose creation was cut off is no pod.

use tombolo_memory::{Lines, LnrAddr, Memory, ScrAddr};
use uuid::Uuid;

use crate::area::Area;
use crate::layout::{Kind, Layout, MAX_AREAS, Places};
use crate::qualification::Qualification;
use crate::{PodClock, PodError, directory, sites};

/// The version of the format that this crate writes and reads.
pub const FORMAT_VERSION: u64 = 13;

const MAGIC: u64 = u64::from_le_bytes(*b"TOMBOLO\0");
const WORDS: usize = 32;
const CHECKSUM: usize = WORDS - 1;

/// Size of the superblock in bytes.
pub(crate) const SUPERBLOCK_BYTES: u64 = 8 * WORDS as u64;

const fn word(index: usize) -> ScrAddr<u64> {
    ScrAddr::new(8 * index as u64)
}

/// By which a pod is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The pod's UUID.
    pub uuid: Uuid,
    /// The secret that keys the hash of object keys.
    pub hash_key: (u64, u64),
}

/// A pod that has been verified, as one host sees it.
#[derive(Clone)]
pub struct Pod<M> {
    memory: M,
    layout: Layout,
    /// As of the layout.
    places: Places,
    identity: Identity,
}

impl<M: Memory> Pod<M> {
    /// Writes an empty pod into memory, over whatever is there; all its areas are closed. The
    /// caller makes sure that nobody uses the memory.
    ///
    /// # Errors
    /// [`PodError::TooSmall`] if the layout does not fit the memory.
    pub fn format(memory: M, layout: &Layout) -> Result<Self, PodError> {
        layout.check().map_err(PodError::TooSmall)?;
        if layout.scr_bytes > memory.scr_bytes() || layout.lnr_bytes > memory.lnr_bytes() {
            return Err(PodError::TooSmall("the memory is smaller than the layout".to_owned()));
        }
        memory.store(word(0), 0);
        let identity = Identity {
            uuid: uuid::Builder::from_random_bytes(two_words(memory.random(), memory.random()))
                .into_uuid(),
            hash_key: (memory.random(), memory.random()),
        };
        let pod = Self { memory, layout: layout.clone(), places: layout.places(), identity };
        pod.write_tables();
        for (number, area) in pod.layout.areas.iter().enumerate() {
            directory::write(&pod.memory, number, area);
        }
        let words = encode(&pod.layout, &pod.identity);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let twin = Lines::covering(LnrAddr::new(0), bytes.len() as u64);
        pod.memory.takes_blank(twin);
        pod.memory.write(LnrAddr::new(0), &bytes);
        pod.memory.publish(sites::FORMAT_CLEAN, [twin], |memory| {
            memory.gives(twin, SUPERBLOCK_BYTES);
            for index in (0..WORDS).rev() {
                memory.store(word(index), words[index]);
            }
        });
        Ok(pod)
    }

    /// Verifies the pod that is there.
    ///
    /// # Errors
    /// Errors of the memory or of its superblock: see [`PodError`].
    pub fn open(memory: M) -> Result<Self, PodError> {
        let layout = Self::peek(&memory)?;
        if layout.scr_bytes > memory.scr_bytes() || layout.lnr_bytes > memory.lnr_bytes() {
            return Err(PodError::Damaged(format!(
                "it needs {} bytes of SCR and {} of LNR, but the memory has {} and {}",
                layout.scr_bytes,
                layout.lnr_bytes,
                memory.scr_bytes(),
                memory.lnr_bytes()
            )));
        }
        let words = read_words(&memory);
        let identity = Identity { uuid: uuid_of(&words), hash_key: (words[4], words[5]) };
        let twin = Lines::covering(LnrAddr::new(0), SUPERBLOCK_BYTES);
        let mut bytes = [0; 8 * WORDS];
        let since = memory.moment();
        memory.consume(sites::OPEN_INVALIDATE, |_| ((), Some(twin)));
        memory.read(LnrAddr::new(0), &mut bytes);
        memory.relies_on(LnrAddr::new(0), SUPERBLOCK_BYTES, since);
        let same = |(word, bytes): (&u64, &[u8])| word.to_le_bytes() == *bytes;
        if !words.iter().zip(bytes.chunks(8)).all(same) {
            return Err(PodError::Mismatched);
        }
        Ok(Self { memory, places: layout.places(), layout, identity })
    }

    /// The layout that superblock and directory tell, without looking at anything else: `memory`
    /// needs the first 4 KiB of SCR, and no LNR.
    ///
    /// # Errors
    /// [`PodError::NotAPod`], [`PodError::Version`] or [`PodError::Damaged`].
    pub fn peek(memory: &M) -> Result<Layout, PodError> {
        if memory.scr_bytes() < SUPERBLOCK_BYTES {
            return Err(PodError::NotAPod);
        }
        let words = read_words(memory);
        if words[0] != MAGIC {
            return Err(PodError::NotAPod);
        }
        if words[1] != FORMAT_VERSION {
            return Err(PodError::Version { found: words[1], expected: FORMAT_VERSION });
        }
        if words[CHECKSUM] != checksum(&words[..CHECKSUM]) {
            return Err(PodError::Damaged("its checksum is wrong".to_owned()));
        }
        let areas = words[11] as usize;
        let head = (1 + words[11]).saturating_mul(SUPERBLOCK_BYTES);
        if areas > MAX_AREAS || head > memory.scr_bytes() {
            return Err(PodError::Damaged(format!("its directory has {} entries", words[11])));
        }
        let layout = Layout {
            scr_bytes: words[6],
            lnr_bytes: words[7],
            hosts: words[8],
            mail_slots: words[9],
            window_bytes: words[10],
            areas: (0..areas)
                .map(|number| directory::read(memory, number))
                .collect::<Result<_, _>>()?,
        };
        layout.check().map_err(PodError::Damaged)?;
        Ok(layout)
    }

    /// The memory the pod lies in.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The pod's layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    #[inline]
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// By which the pod is known.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The findings about its memory, if that was ever asked, as of now.
    pub fn qualification(&self) -> Option<Qualification> {
        Qualification::of(&self.memory)
    }

    /// The clock by which deadlines pass for all hosts at once.
    pub fn clock(&self) -> PodClock {
        PodClock::new(self.places.clock)
    }

    /// The areas, in the order of their numbers.
    pub fn areas(&self) -> impl Iterator<Item = Area<M>> {
        (0..self.layout.areas.len()).map(|number| Area::new(self, number))
    }

    /// The first area of `kind`.
    ///
    /// # Errors
    /// [`PodError::NoArea`] if there is none.
    pub fn area_of(&self, kind: Kind) -> Result<Area<M>, PodError> {
        let found = self.areas().find(|area| area.layout().kind == kind);
        found.ok_or_else(|| PodError::NoArea {
            kind,
            there: self.layout.areas.iter().map(|area| area.kind.to_string()).collect(),
        })
    }

    /// Empty tables, and areas whose SCR is all zero, but for the logs' first position.
    fn write_tables(&self) {
        let (places, hosts) = (&self.places, self.layout.hosts);
        let zero = |from: ScrAddr<u64>, words: u64| {
            (0..words).for_each(|index| self.memory.store(from.element(index), 0));
        };
        zero(places.stays, 8);
        zero(places.clock, 8);
        zero(places.hosts, 8 * hosts);
        zero(places.names, 8 * hosts);
        zero(places.mail_words, hosts * self.layout.mail_slots);
        for area in &self.layout.areas {
            zero(ScrAddr::new(area.scr.start), area.scr.bytes / 8);
            let own = self.layout.area_places(area);
            for shard in area.shards() {
                // The first lap starts at one ring's length: no word of it can look like a zero.
                self.memory.store(own.log(shard).low_water_mark, area.ring_entries);
            }
        }
    }
}

/// The UUID of the pod, of whatever version, whose superblock is at the start of SCR.
pub(crate) fn uuid<M: Memory>(memory: &M) -> Option<Uuid> {
    let is_pod = memory.scr_bytes() >= SUPERBLOCK_BYTES && memory.load(word(0)) == MAGIC;
    is_pod.then(|| uuid_of(&read_words(memory)))
}

/// Whether there are only zeros where a superblock would be.
pub(crate) fn is_blank<M: Memory>(memory: &M) -> bool {
    memory.scr_bytes() >= SUPERBLOCK_BYTES && read_words(memory) == [0; WORDS]
}

fn uuid_of(words: &[u64; WORDS]) -> Uuid {
    Uuid::from_bytes(two_words(words[2], words[3]))
}

fn read_words<M: Memory>(memory: &M) -> [u64; WORDS] {
    std::array::from_fn(|index| memory.load(word(index)))
}

fn encode(layout: &Layout, identity: &Identity) -> [u64; WORDS] {
    let (low, high) = identity.uuid.as_u64_pair();
    let used = [
        MAGIC,
        FORMAT_VERSION,
        low.to_be(),
        high.to_be(),
        identity.hash_key.0,
        identity.hash_key.1,
        layout.scr_bytes,
        layout.lnr_bytes,
        layout.hosts,
        layout.mail_slots,
        layout.window_bytes,
        layout.areas.len() as u64,
    ];
    let mut words = [0; WORDS];
    words[..used.len()].copy_from_slice(&used);
    words[CHECKSUM] = checksum(&words[..CHECKSUM]);
    words
}

/// The checksum of these words.
pub(crate) fn checksum(words: &[u64]) -> u64 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    u64::from(crc32c::crc32c(&bytes))
}

fn two_words(first: u64, second: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_ne_bytes());
    bytes[8..].copy_from_slice(&second.to_ne_bytes());
    bytes
}
