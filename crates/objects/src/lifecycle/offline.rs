//! Objects in a pod that nobody uses: what their headers tell, and whether that makes sense.

use std::collections::HashSet;

use tombolo_memory::{LINE_BYTES, Memory};
use tombolo_sharing::{HEADER_BYTES, Header, ObjectArea, PREFIX_BYTES, hash_key};

use crate::ids::{KeyHash, LostTo, NOTE_PREFIX, Slot, shard_of};
use crate::lifecycle::rebuild::other_shard;
use crate::storage::poison::survive;
use crate::storage::records::Abandoned;
use crate::storage::space::Space;
use crate::storage::space::chunk_table::{ChunkState, ChunkTable};
use crate::storage::space::extent::Extent;
use crate::storage::space::pins::PinTable;
use crate::transaction::UNWRITTEN;
use crate::{Error, Version, sites};

/// The contents of a pod at rest, and its faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Objects.
    pub objects: u64,
    /// Bytes of their keys.
    pub key_bytes: u64,
    /// Bytes of their values.
    pub value_bytes: u64,
    /// Chunks of LNR that are in use.
    pub chunks_used: u64,
    /// A sentence for each thing that is wrong.
    pub problems: Vec<String>,
}

impl Findings {
    /// Adds what was found in another area.
    pub fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.key_bytes += other.key_bytes;
        self.value_bytes += other.value_bytes;
        self.chunks_used += other.chunks_used;
        self.problems.extend(other.problems);
    }
}

/// Chunks of LNR that get no new objects, because of memory errors. Hosts may use the pod
/// meanwhile.
pub fn poisoned_chunks<M: Memory>(area: &ObjectArea<M>) -> u64 {
    ChunkTable::new(area).poisoned()
}

/// Looks at every object of a pod. Nobody may use it meanwhile.
/// Faults are among the findings.
pub fn check<M: Memory>(area: &ObjectArea<M>) -> Findings {
    survive(area);
    let space = Space::new(area, 0, 0, Abandoned::default());
    let mut findings = Findings::default();
    let mut keys = HashSet::new();
    for number in space.chunk_numbers() {
        if let Err(error) = check_chunk(area, &space, number, &mut keys, &mut findings) {
            findings.problems.push(error.to_string());
        }
    }
    let lost = space.chunks_of_no_object().into_iter();
    findings.problems.extend(lost.map(|number| format!("chunk {number} is of no object")));
    let viewed = PinTable::new(area).pinned().into_iter();
    findings
        .problems
        .extend(viewed.map(|number| format!("somebody still views what is in chunk {number}")));
    findings
}

fn check_chunk<M: Memory>(
    area: &ObjectArea<M>,
    space: &Space<M>,
    number: u32,
    keys: &mut HashSet<Vec<u8>>,
    findings: &mut Findings,
) -> Result<(), Error> {
    let word = space.word(number)?;
    findings.chunks_used += u64::from(word.state != ChunkState::Free);
    if word.is_taken() {
        let host = word.host;
        findings.problems.push(format!("host {host} left without giving up chunk {number}"));
    }
    if word.untrue {
        // The host that opens the pod believes no header there.
        return Ok(());
    }
    for slot in space.slots_of(number)? {
        let Some(object) = object_at_rest(area, space, slot)? else { continue };
        let AtRest { key, value_bytes, .. } = object;
        findings.objects += 1;
        findings.key_bytes += key.len() as u64;
        findings.value_bytes += u64::from(value_bytes);
        let shard =
            shard_of(hash_key(area.pod(), &key)? as KeyHash, area.geometry().log_shards as usize);
        if shard != usize::from(word.shard) {
            findings.problems.push(other_shard(slot));
        }
        if !keys.insert(key) {
            let line = slot.line;
            findings.problems.push(format!("the object at line {line} has another one's key"));
        }
    }
    Ok(())
}

/// An object in its slot.
pub(crate) struct AtRest {
    pub(crate) key: Vec<u8>,
    value_bytes: u32,
    version: Version,
    /// With what its value is lost, if it is.
    pub(crate) lost: Option<LostTo>,
}

impl AtRest {
    /// Whether it is of this version, and there.
    pub(crate) fn is(&self, version: Version) -> bool {
        self.version == version && !self.is_away()
    }

    /// Whether it is the note of a transaction.
    pub(crate) fn is_note(&self) -> bool {
        self.key.starts_with(NOTE_PREFIX)
    }

    /// Whether a transaction was to create it, and was cut off.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.is(UNWRITTEN)
    }

    /// Whether its value is not there.
    pub(crate) fn is_away(&self) -> bool {
        self.lost.is_some()
    }
}

/// The object in `slot`, if there is one.
pub(crate) fn object_at_rest<M: Memory>(
    area: &ObjectArea<M>,
    space: &Space<M>,
    slot: Slot,
) -> Result<Option<AtRest>, Error> {
    let extent = space.extent(slot).ok_or_else(|| {
        Error::Damaged(format!("the chunk table has an impossible slot at line {}", slot.line))
    })?;
    let fresh = |into: &mut [u8]| read_at_rest(area.memory(), &extent, 0, into);
    let mut buffer = [0; PREFIX_BYTES];
    fresh(&mut buffer[..LINE_BYTES as usize]);
    let away = Header::decode_away(&buffer, extent.bytes());
    let (key_bytes, value_bytes, version) = match (Header::decode(&buffer, extent.bytes()), away) {
        (Some(header), _) => (header.key_bytes.into(), header.value_bytes, header.version),
        (None, Some((_, key_bytes))) => (key_bytes, 0, Version(0)),
        (None, None) => {
            if extent.is_poisoned(area.memory(), LINE_BYTES) {
                space.set_poisoned(&extent);
            }
            return Ok(None);
        }
    };
    let length = HEADER_BYTES + key_bytes;
    if length > LINE_BYTES as usize {
        fresh(&mut buffer[..length]);
    }
    if extent.is_poisoned(area.memory(), length as u64) {
        space.set_poisoned(&extent);
        return Ok(None);
    }
    let key = buffer[HEADER_BYTES..length].to_vec();
    Ok(Some(AtRest {
        key,
        value_bytes,
        version,
        lost: away.map(|(code, _)| LostTo::of_code(code)),
    }))
}

/// The value of such an object; `None` if it is lost.
pub(crate) fn value_at_rest<M: Memory>(
    area: &ObjectArea<M>,
    space: &Space<M>,
    slot: Slot,
    object: &AtRest,
) -> Option<Vec<u8>> {
    let extent = space.extent(slot).filter(|_| !object.is_away())?;
    let from = (HEADER_BYTES + object.key.len()) as u64;
    let mut value = vec![0; object.value_bytes as usize];
    read_at_rest(area.memory(), &extent, from, &mut value);
    let poisoned = extent.is_poisoned(area.memory(), from + value.len() as u64);
    (!poisoned).then_some(value)
}

fn read_at_rest<M: Memory>(memory: &M, extent: &Extent, from: u64, into: &mut [u8]) {
    let (bytes, since) = (into.len() as u64, memory.moment());
    memory.consume(sites::OPEN_INVALIDATE, |_| ((), extent.covering(from, bytes)));
    extent.read(memory, from, into);
    extent.rely_on(memory, from, bytes, since);
}
