//! The superblock: 32 words at the start of SCR, and a twin at the start of LNR by which the two
//! halves of a pod recognise each other.
//!
//! The magic number is written last, so a pod whose creation was cut off is no pod.

use tombolo_memory::{Lines, LnrAddr, Memory, ScrAddr};
use uuid::Uuid;

use crate::geometry::{Areas, Geometry, NOTE_WORDS};
use crate::membership::Membership;
use crate::options::{RecordWidth, TornWrites};
use crate::{PodClock, PodError, sites};

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

/// Who a pod is.
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
    geometry: Geometry,
    /// As of the geometry.
    areas: Areas,
    identity: Identity,
}

impl<M: Memory> Pod<M> {
    /// Writes an empty, closed pod into memory, over whatever is there. The caller makes sure that
    /// nobody uses it.
    ///
    /// # Errors
    /// [`PodError::TooSmall`] if the geometry does not fit the memory.
    pub fn format(memory: M, geometry: Geometry) -> Result<Self, PodError> {
        geometry.check().map_err(PodError::TooSmall)?;
        if geometry.scr_bytes > memory.scr_bytes() || geometry.lnr_bytes > memory.lnr_bytes() {
            return Err(PodError::TooSmall("the memory is smaller than the layout".to_owned()));
        }
        memory.store(word(0), 0);
        let identity = Identity {
            uuid: uuid::Builder::from_random_bytes(two_words(memory.random(), memory.random()))
                .into_uuid(),
            hash_key: (memory.random(), memory.random()),
        };
        let pod = Self { memory, geometry, areas: geometry.areas(), identity };
        pod.write_tables();
        let words = encode(&pod.geometry, &pod.identity);
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
    /// What is wrong with it: see [`PodError`].
    pub fn open(memory: M) -> Result<Self, PodError> {
        let geometry = Self::peek(&memory)?;
        if geometry.scr_bytes > memory.scr_bytes() || geometry.lnr_bytes > memory.lnr_bytes() {
            return Err(PodError::Damaged(format!(
                "it needs {} bytes of SCR and {} of LNR, but the memory has {} and {}",
                geometry.scr_bytes,
                geometry.lnr_bytes,
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
        Ok(Self { memory, geometry, areas: geometry.areas(), identity })
    }

    /// The geometry in a superblock, without looking at anything else: `memory` needs 256 bytes of
    /// SCR, and no LNR.
    ///
    /// # Errors
    /// [`PodError::NotAPod`], [`PodError::Version`] or [`PodError::Damaged`].
    pub fn peek(memory: &M) -> Result<Geometry, PodError> {
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
        if words[CHECKSUM] != checksum(&words) {
            return Err(PodError::Damaged("its checksum is wrong".to_owned()));
        }
        let geometry = Geometry {
            scr_bytes: words[6],
            lnr_bytes: words[7],
            ring_entries: words[8],
            segment_entries: words[9],
            window_bytes: words[10],
            chunk_bytes: words[11],
            chunks: words[12],
            records: words[13],
            counter_bits: words[14],
            record_width: RecordWidth::decode(words[15]).ok_or_else(|| {
                PodError::Damaged(format!("records have no width with the code {}", words[15]))
            })?,
            mail_slots: words[16],
            log_shards: words[17],
            latches: words[18],
            hosts: words[19],
            writes: words[20],
            undo_bytes: words[21],
            torn_writes: TornWrites::decode(words[22]).ok_or_else(|| {
                PodError::Damaged(format!(
                    "torn writes have no meaning with the code {}",
                    words[22]
                ))
            })?,
            partition_backup: match words[23] {
                0 => false,
                1 => true,
                other => {
                    return Err(PodError::Damaged(format!(
                        "its objects in hosts' own memory have a backup, or none, not {other}"
                    )));
                }
            },
        };
        geometry.check().map_err(PodError::Damaged)?;
        Ok(geometry)
    }

    /// The memory the pod lies in.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The pod's layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Where the pod's areas start.
    #[inline]
    pub fn areas(&self) -> Areas {
        self.areas
    }

    /// Who the pod is.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Who is in the pod now.
    pub fn membership(&self) -> Membership {
        Membership::load(&self.memory, &self.areas())
    }

    /// The clock by which deadlines pass for all hosts at once.
    pub fn clock(&self) -> PodClock {
        PodClock::new(self.areas().clock)
    }

    /// Everything but the superblock: empty tables, and the log at its first position.
    /// Whether its hosts share objects in another way than by records, or did when they died.
    pub fn is_under_other_scheme(&self) -> bool {
        self.memory.load(self.areas().scheme) != 0
    }

    /// Says that its hosts do so, or that all who did have left it in order.
    pub fn put_under_other_scheme(&self, other: bool) {
        self.memory.store(self.areas().scheme, other.into());
    }

    fn write_tables(&self) {
        let (areas, hosts) = (self.areas(), self.geometry.hosts);
        let zero = |from: ScrAddr<u64>, words: u64| {
            (0..words).for_each(|index| self.memory.store(from.element(index), 0));
        };
        zero(areas.membership, 8);
        zero(areas.clock, 8);
        zero(areas.hosts, 8 * hosts);
        zero(areas.names, 8 * hosts);
        for shard in self.geometry.shards() {
            let log = self.geometry.log_areas(shard);
            zero(log.applied, 8 * hosts);
            zero(log.ring, self.geometry.ring_entries);
            // The first lap starts at one ring's length: no word of it can look like a zero.
            self.memory.store(log.milestone, self.geometry.ring_entries);
        }
        zero(areas.chunk_table, self.geometry.chunks);
        zero(areas.mail_words, hosts * self.geometry.mail_slots);
        zero(areas.records, self.geometry.record_bytes().div_ceil(8));
        zero(areas.writes, self.geometry.hosts * self.geometry.writes * NOTE_WORDS);
        zero(areas.quarantine, self.geometry.hosts * self.geometry.writes);
        zero(areas.latches, self.geometry.latches);
        zero(areas.marks, self.geometry.mark_words());
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

fn encode(geometry: &Geometry, identity: &Identity) -> [u64; WORDS] {
    let (low, high) = identity.uuid.as_u64_pair();
    let used = [
        MAGIC,
        FORMAT_VERSION,
        low.to_be(),
        high.to_be(),
        identity.hash_key.0,
        identity.hash_key.1,
        geometry.scr_bytes,
        geometry.lnr_bytes,
        geometry.ring_entries,
        geometry.segment_entries,
        geometry.window_bytes,
        geometry.chunk_bytes,
        geometry.chunks,
        geometry.records,
        geometry.counter_bits,
        geometry.record_width.encode(),
        geometry.mail_slots,
        geometry.log_shards,
        geometry.latches,
        geometry.hosts,
        geometry.writes,
        geometry.undo_bytes,
        geometry.torn_writes.encode(),
        geometry.partition_backup.into(),
    ];
    let mut words = [0; WORDS];
    words[..used.len()].copy_from_slice(&used);
    words[CHECKSUM] = checksum(&words);
    words
}

fn checksum(words: &[u64; WORDS]) -> u64 {
    let bytes: Vec<u8> = words[..CHECKSUM].iter().flat_map(|word| word.to_le_bytes()).collect();
    u64::from(crc32c::crc32c(&bytes))
}

fn two_words(first: u64, second: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_ne_bytes());
    bytes[8..].copy_from_slice(&second.to_ne_bytes());
    bytes
}
