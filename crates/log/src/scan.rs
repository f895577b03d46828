//! The remains of a log that no host applies any more.

use tombolo_memory::{LINE_BYTES, Lines, Memory};
use tombolo_pod::Area;

use crate::entry::{self, Content, Entry, LineBytes};
use crate::ring::{Look, Ring};
use crate::segment::segment_start;
use crate::sites;

/// The events of shard `shard` of the log that are still there, and their positions: those that a
/// host which has died had not applied, if it was not fenced before others went on, and perhaps
/// older ones. Events that a fence has made void are among them. Nobody may use the log meanwhile.
pub fn scan<M: Memory, E: Entry>(area: &Area<M>, shard: u8) -> Vec<(u64, E)> {
    let (ring, memory) = (Ring::new(area, shard), area.memory());
    let mut position = ring.low_water_mark();
    let mut events = Vec::new();
    while let Look::Run(run) = ring.look(position).1 {
        for at in run.place..run.place + run.entries {
            let start = segment_start(area, shard, run.host).plus(at * LINE_BYTES);
            let lines = Lines::covering(start, LINE_BYTES);
            let since = memory.moment();
            memory.consume(sites::REPLAY_INVALIDATE, |_| ((), [lines]));
            let mut line: LineBytes = [0; LINE_BYTES as usize];
            memory.read(start, &mut line);
            if let Some((_, Content::Event(event))) = entry::from_line::<E>(&line) {
                memory.relies_on(start, LINE_BYTES, since);
                events.push((position, event));
            }
            position += 1;
        }
    }
    events
}
