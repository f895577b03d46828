//! The steps of this crate that the simulator can take out. `docs/verification.md` says which trap
//! each one is the remedy for.

tombolo_memory::sites! {
    /// Lines that the host may have cached earlier are dropped before an object is read.
    READ_INVALIDATE = "objects.read.invalidate";
    /// Lines are dropped after the counter was loaded, not before.
    READ_INVALIDATE_AFTER_COUNTER = "objects.read.invalidate-after-counter";
    /// Nothing has been read of a new generation.
    READ_SEEN_GENERATION = "objects.read.seen-generation";
    /// A note of an earlier read counts only for the same counter.
    READ_SEEN_COUNTER = "objects.read.seen-counter";
    /// The log is applied up to its tail after the copy.
    READ_TAIL_AGAIN = "objects.read.tail-again";
    /// The entry is the same after the copy.
    READ_ENTRY_AGAIN = "objects.read.entry-again";
    /// The counter is the same after the copy.
    READ_COUNTER_AGAIN = "objects.read.counter-again";
    /// The counter is looked at again before the log is.
    READ_COUNTER_FIRST = "objects.read.counter-first";
    /// All lines of a batch are clean before any of the objects' locks is released.
    BATCH_CLEAN = "objects.batch.clean";
    /// An object that is locked by the log is not read.
    READ_LOG_LOCK = "objects.read.log-lock";
    /// A read of part of an object does not validate the rest.
    READ_PART_NOT_VALIDATED = "objects.read.part-not-validated";
    /// Equal hashes are settled by comparing keys.
    KEY_COMPARE = "objects.key.compare";
    /// A writer takes the record's lock.
    WRITE_LOCK = "objects.write.lock";
    /// A free record goes to one object.
    RECORD_CLAIM = "objects.record.claim";
    /// A copy counts only for the same counter.
    COPY_COUNTER = "objects.copy.counter";
    /// A counter that a copy is compared with is the object's own if its entry is still the same.
    COPY_ENTRY_AGAIN = "objects.copy.entry-again";
    /// A copy is found only where its object's note names it.
    COPY_NAMED = "objects.copy.named";
    /// Nobody finds a copy any more when its place becomes another's.
    COPY_UNNAMED = "objects.copy.unnamed";
    /// A read of a copy counts only if its place has not become another's meanwhile.
    COPY_STILL = "objects.copy.still";
    /// An object in a host's memory is used there only as long as its entry says so.
    PARTITION_HERE = "objects.partition.here";
    /// A value that returns to LNR is in memory before the event says so.
    PARTITION_CLEAN = "objects.partition.clean";
    /// A host that waits for another one to bring an object back answers requests meanwhile.
    PARTITION_ANSWER_MEANWHILE = "objects.partition.answer-meanwhile";
    /// A host that leaves the pod brings back what is in its partition.
    PARTITION_LEAVE = "objects.partition.leave";
    /// Bytes written in a host's memory are in the object's slot, too, and in memory, before the
    /// write counts.
    PARTITION_BACKUP = "objects.partition.backup";
    /// A host that writes such an object says so first.
    PARTITION_NOTED = "objects.partition.noted";
    /// That a write is through is known to all before its host looks whether it has been fenced.
    PARTITION_THROUGH = "objects.partition.through";
    /// A write in a host's memory counts only if the host has not been fenced by the time its slot
    /// is in memory.
    PARTITION_HOLDS = "objects.partition.holds";
    /// An object that moves from a host's memory to another slot is there, whatever is left in the
    /// one it has left.
    PARTITION_MOVES = "objects.partition.moves";
    /// A dead host's note of an object in its memory is void before others use that.
    PARTITION_STAYS = "objects.partition.stays";
    /// An object is used in a host's memory only once the log says that it is there.
    EVENT_MOVE_IN = "objects.event.move-in";
    /// An object that returned is reached in LNR only once the log says so.
    EVENT_MOVE_OUT = "objects.event.move-out";
    /// A record in two parts is read when both belong together.
    RECORD_SPLIT = "objects.record.split";
    /// Releasing a record that shares its word with others changes it alone.
    RECORD_RELEASE = "objects.record.release";
    /// A host that finds no free record applies the log, to learn which objects have them.
    RECORD_SYNC = "objects.record.sync";
    /// A writer applies the log and looks at the entry again once it has the lock.
    WRITE_ENTRY_AGAIN = "objects.write.entry-again";
    /// Stale lines are dropped before a writer reads or changes part of them.
    WRITE_INVALIDATE = "objects.write.invalidate";
    /// The written lines are in memory before the lock is released.
    WRITE_CLEAN = "objects.write.clean";
    /// Releasing the lock moves the counter on.
    WRITE_COUNTER = "objects.write.counter";
    /// A new object's bytes are in memory before it is announced.
    CREATE_CLEAN = "objects.create.clean";
    /// A create counts only if the objects with its hash are those it was decided on.
    CREATE_CONDITION = "objects.create.condition";
    /// A change counts only for the generation it was decided on.
    EVENT_GENERATION = "objects.event.generation";
    /// A new object is in the log before it counts as created.
    EVENT_CREATE = "objects.event.create";
    /// An object that is gone is so in the log before its slot and record are free.
    EVENT_DELETE = "objects.event.delete";
    /// An object's new place is in the log before the old one is free.
    EVENT_MOVE = "objects.event.move";
    /// An object has a record only once the log says so.
    EVENT_ALLOCATE = "objects.event.allocate";
    /// A record is free only once the log says that its object has it no more.
    EVENT_DEALLOCATE = "objects.event.deallocate";
    /// A counter that would start again at zero is announced in the log first.
    EVENT_WRAP = "objects.event.wrap";
    /// Every event about an object starts a new generation.
    EVENT_NEW_GENERATION = "objects.event.new-generation";
    /// A value that is lost is reported so by all.
    EVENT_LOSE = "objects.event.lose";
    /// An object is taken out of the slot into which a fenced host may still write.
    EVENT_RESCUE = "objects.event.rescue";
    /// Such a slot is free again once that host is gone.
    EVENT_FORGET = "objects.event.forget";
    /// A writer says what it is about to change before it does.
    WRITE_NOTED = "objects.write.noted";
    /// A writer says that it is through before it releases the lock.
    WRITE_THROUGH = "objects.write.through";
    /// A host that clears up leaves slots alone that were reserved by others since.
    CLEAR_PROMISED = "objects.clear.promised";
    /// A host that clears up says which of two slots is empty before it empties that.
    CLEAR_DECIDED = "objects.clear.decided";
    /// Bytes that were read under a lock that was taken over were not written meanwhile.
    RESCUE_AGAIN = "objects.rescue.again";
    /// Slots into which a fenced host may write are known to who opens the pod when all have died.
    QUARANTINE_NOTED = "objects.quarantine.noted";
    /// Slots are not in quarantine if who said so has died before their objects could go on
    /// elsewhere.
    QUARANTINE_EARLY = "objects.quarantine.early";
    /// The bytes that a write overwrites are in memory before the write is noted.
    UNDO_CLEAN = "objects.undo.clean";
    /// Small objects are undone in a pod for a page cache, whatever becomes of larger ones.
    UNDO_SMALL = "objects.undo.small";
    /// The noted bytes are those that this write has overwritten, not an earlier one.
    UNDO_OWN = "objects.undo.own";
    /// The bytes that a dead host's write has overwritten are read afresh.
    UNDO_INVALIDATE = "objects.undo.invalidate";
    /// An object that a dead host had locked starts a new generation before its counter starts
    /// anew.
    RESCUE_GENERATION = "objects.rescue.generation";
    /// An operation that a dead host was about to do to an object it had locked is off before its
    /// lock is released.
    RESCUE_STAYS = "objects.rescue.stays";
    /// The bytes that a dead host had overwritten are restored, and in memory, before its lock is
    /// released.
    RESCUE_CLEAN = "objects.rescue.clean";
    /// A host that is fenced while it commits an event leaves locked what the event may be about.
    FENCED_ABANDONS = "objects.fenced.abandons";
    /// A record is taken back only by who holds its lock.
    RECLAIM_LOCK = "objects.reclaim.lock";
    /// A mark changes alone: its neighbours in the word are others'.
    MARK_ALONE = "objects.mark.alone";
    /// A marked object has its tag, by which it is found.
    MARK_TAG = "objects.mark.tag";
    /// A record is taken back from a marked object only when its mark is off.
    RECLAIM_UNMARKED = "objects.reclaim.unmarked";
    /// A host that takes a record back has a dirty object written back first.
    RECLAIM_CLEAN = "objects.reclaim.clean";
    /// A marked object is not deleted by who wants unmarked ones gone.
    DELETE_UNMARKED = "objects.delete.unmarked";
    /// Nor is one whose value is lost.
    DELETE_FOUND = "objects.delete.found";
    /// A deleted object's mark is off before its record is free for another.
    DELETE_MARK = "objects.delete.mark";
    /// A pod with marks is opened without objects: what they stood for may have changed since.
    OPEN_EMPTY = "objects.open.empty";
    /// The host that opens a pod applies nothing of the log that was there before.
    OPEN_LOG_END = "objects.open.log-end";
    /// An object is deleted only by who holds its lock, if it has a record.
    DELETE_LOCK = "objects.delete.lock";
    /// A chunk goes to one host.
    CHUNK_CLAIM = "objects.chunk.claim";
    /// A chunk that is divided is taken only for the log shard that tells which of its slots are
    /// free.
    CHUNK_SHARD = "objects.chunk.shard";
    /// A chunk is free for all only if it is empty as of the end of its shard's log.
    CHUNK_EMPTY = "objects.chunk.empty";
    /// An object that has a record is moved only by who holds its lock.
    COMPACT_LOCK = "objects.compact.lock";
    /// A free chunk says how it was divided, as long as an object may be on its way out.
    CHUNK_CLASS = "objects.chunk.class";
    /// A chunk that changes hands is looked at only when its last holder's changes are known.
    CHUNK_SYNC = "objects.chunk.sync";
    /// A slot that is promised to one object is not given to another.
    SLOT_RESERVED = "objects.slot.reserved";
    /// A slot's size is known before readers can find an object there.
    SLOT_KNOWN_FIRST = "objects.slot.known-first";
    /// A chunk is handed on only when none of its slots is promised.
    CHUNK_SETTLED = "objects.chunk.settled";
    /// A slot is noted before anything is written into it: what it holds is no object yet.
    PLACE_NOTED = "objects.place.noted";
    /// Bytes that are stored into room that is given out are in memory before another agent, or the
    /// log, counts on it.
    ROOM_CLEAN = "objects.room.clean";
    /// A host whose caches may have older lines of room that it has published reads it anew.
    ROOM_NOT_VALIDATED = "objects.room.not-validated";
    /// An object that is to be gone from its slot, or to come to one, is noted before the log says
    /// so.
    LEAVE_NOTED = "objects.leave.noted";
    /// A slot that an object has left begins with no header.
    SLOT_SCRUB = "objects.slot.scrub";
    /// Of a header that is taken out, what makes it one goes first: half of it is not taken for
    /// another object's.
    SLOT_SCRUB_MARK = "objects.slot.scrub-mark";
    /// A slot is promised again only when the header of its last object is gone.
    SLOT_LEFT = "objects.slot.left";
    /// A host that views an object says so before it makes sure that the object is there.
    PIN_SET = "objects.pin.set";
    /// A host takes off its own pin alone.
    PIN_ALONE = "objects.pin.alone";
    /// An object that is viewed is not changed in place.
    PIN_WRITE = "objects.pin.write";
    /// A slot that an object has left is not promised while it is viewed.
    PIN_SLOT = "objects.pin.slot";
    /// A chunk in which something is viewed is not taken.
    PIN_CHUNK = "objects.pin.chunk";
    /// Of a slot that is viewed the header alone is taken out.
    PIN_SCRUB = "objects.pin.scrub";
    /// The rest of the line stays as it is in memory.
    PIN_INVALIDATE = "objects.pin.invalidate";
    /// An object that is viewed does not return from a host's memory into the slot that it has
    /// there.
    PIN_MOVE_OUT = "objects.pin.move-out";
    /// Nor is it changed there while it is in the host's memory, too.
    PIN_BACKUP = "objects.pin.backup";
    /// The pins of a dead host are off before its seat is free.
    PIN_CLEAR = "objects.pin.clear";
    /// Bytes that look like a header in a chunk are gone before that is divided anew.
    CHUNK_SCRUB = "objects.chunk.scrub";
    /// There is memory behind slots before anything is written into them.
    CHUNK_POPULATE = "objects.chunk.populate";
    /// How many slots of a chunk are prepared is known to all before one of them is promised.
    CHUNK_PREPARED = "objects.chunk.prepared";
    /// A host that gives a chunk's memory back has taken the chunk.
    CHUNK_DISCARD_TAKEN = "objects.chunk.discard-taken";
    /// A chunk counts as one without memory before its memory is given back.
    CHUNK_FORGET_FIRST = "objects.chunk.forget-first";
    /// A host that frees a large object's chunks has them count as its own first.
    CHAIN_ASSIGN = "objects.chain.assign";
    /// The slot of an object whose value is elsewhere says so.
    AWAY_CLEAN = "objects.away.clean";
    /// A lost object leaves its slot when nobody else is at that, to clear up.
    LOST_ALONE = "objects.lost.alone";
    /// A torn object is gone, not lost, only if it is not marked.
    LOST_UNMARKED = "objects.lost.unmarked";
    /// Latches of a dead host are free before its seat is.
    LATCH_FREE = "objects.latch.free";
    /// A pod whose hosts have died under another scheme is not opened.
    OPEN_OTHER = "objects.open.other";
    /// Remains of hosts in a pod for a page cache are taken care of before the pod is emptied.
    OPEN_LEFT = "objects.open.left";
    /// Such a pod is closed empty.
    CLOSE_EMPTY = "objects.close.empty";
    /// A value that was torn when all hosts died is not taken for an object.
    OPEN_TORN = "objects.open.torn";
    /// Bytes that were read from memory with errors are not handed out.
    POISON_READ = "objects.poison.read";
    /// An object that could not be written because of a memory error is lost for all before its
    /// lock is released.
    POISON_WRITE = "objects.poison.write";
    /// Bytes that a write would overwrite are noted only if they could be read.
    POISON_UNDO = "objects.poison.undo";
    /// A new object is announced only if the memory of its slot has no errors.
    POISON_PLACE = "objects.poison.place";
    /// A backup that could not be written is not taken for the object.
    POISON_BACKUP = "objects.poison.backup";
    /// An object returns only into memory that has no errors.
    POISON_MOVE_OUT = "objects.poison.move-out";
    /// An object that a host views is not evicted.
    EVICT_VIEWED = "objects.evict.viewed";
    /// An object that was written since it was looked at is not evicted.
    EVICT_VERSION = "objects.evict.version";
    /// An object that a dead host had locked is whole only if it can be read.
    POISON_RESCUE = "objects.poison.rescue";
    /// A chunk in whose memory there was an error is marked for all.
    CHUNK_FLAGGED = "objects.chunk.flagged";
    /// The marks of a chunk stay when it changes hands.
    CHUNK_FLAGS_STAY = "objects.chunk.flags-stay";
    /// Slots of such a chunk are given to nobody.
    CHUNK_POISONED = "objects.chunk.poisoned";
    /// Headers are not believed in a chunk where one could not be taken out.
    OPEN_UNTRUE = "objects.open.untrue";
    /// A host that waits for room in the log hands its replica to a joining host.
    JOIN_HELP = "objects.join.help";
    /// A host that waits for something in one shard of the log applies the others, too.
    SHARD_OTHERS = "objects.shard.others";
    /// A host that joins knows nothing of its caches.
    JOIN_UNKNOWN = "objects.join.unknown";
    /// Headers are read afresh when a pod is opened.
    OPEN_INVALIDATE = "objects.open.invalidate";
    /// An object that a fenced host had locked is gone only once the log says so.
    EVENT_REMOVE = "objects.event.remove";
    /// Objects that a transaction has locked are not in the way of its other keys with their hash.
    TRANSACTION_OWN = "objects.transaction.own";
    /// A transaction locks an object at the version that it has read.
    TRANSACTION_SEEN = "objects.transaction.seen";
    /// An object that a transaction has read, and does not change, is as it was once all that
    /// changes is locked.
    TRANSACTION_VALIDATE = "objects.transaction.validate";
    /// A note says what a transaction changes before anything is changed.
    TRANSACTION_NOTE = "objects.transaction.note";
    /// All that a transaction has stored is in memory before its note is gone.
    TRANSACTION_CLEAN = "objects.transaction.clean";
    /// A transaction's note is gone before one of its locks is released.
    TRANSACTION_NOTE_FIRST = "objects.transaction.note-first";
    /// An object that a dead host had locked is as the note of that host's transaction says.
    TRANSACTION_REDO = "objects.transaction.redo";
    /// That there is a note is said in its host's intent before an object is released.
    TRANSACTION_DECIDED = "objects.transaction.decided";
    /// A new object of a transaction that was cut off without a note is no object.
    TRANSACTION_UNWRITTEN = "objects.transaction.unwritten";
    /// Notes of a host are gone before its seat is another's.
    TRANSACTION_NOTES_END = "objects.transaction.notes-end";
    /// The host that opens a pod does what notes say.
    OPEN_REDO = "objects.open.redo";
    /// The host that opens a pod drops new objects of transactions that were cut off.
    OPEN_UNWRITTEN = "objects.open.unwritten";
}
