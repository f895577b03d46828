//! The duties of every back end, as checks that any of them can be put through.
//!
//! Each takes two hosts of one memory, of at least 4 KiB of SCR and 16 KiB of LNR that nobody else
//! uses, and panics if the back end does not keep its word. The promises about stale lines can only
//! be broken by a back end whose caches are incoherent.

use crate::{FetchOp, LINE_BYTES, Lines, LnrAddr, Located, Memory, ScrAddr, Site, Whole, Word};

const SITE: Site = Site::new("conformance");

/// Every check there is.
pub fn check_all<M: Memory>(first: &M, second: &M) {
    words::<M, u8>(first, second);
    words::<M, u16>(first, second);
    words::<M, u32>(first, second);
    words::<M, u64>(first, second);
    located_words::<M, u8>(first, second);
    located_words::<M, u16>(first, second);
    located_words::<M, u32>(first, second);
    located_words::<M, u64>(first, second);
    neighbours(first);
    bytes(first);
    bytes_behind(first);
    published_bytes_arrive(first, second);
    much_at_once(first, second);
    whole_values(first, second);
    clocks(first);
}

/// Words change as asked, for both hosts.
pub fn words<M: Memory, W: Word>(first: &M, second: &M) {
    let at = ScrAddr::<W>::new(64);
    let of = W::from_bits;
    first.store(at, of(7));
    assert_eq!(first.load(at), of(7));
    while second.load(at) != of(7) {
        second.pause();
    }
    assert_eq!(second.compare_exchange(SITE, at, of(7), of(9)), Ok(of(7)));
    assert_eq!(first.compare_exchange(SITE, at, of(7), of(1)), Err(of(9)));
    let steps = [
        (FetchOp::Add, 3, 12),
        (FetchOp::And, 10, 8),
        (FetchOp::Or, 3, 11),
        (FetchOp::Max, 5, 11),
        (FetchOp::Max, 200, 200),
        (FetchOp::Swap, 1, 1),
    ];
    let mut before = of(9);
    for (op, operand, after) in steps {
        assert_eq!(first.fetch(SITE, at, op, of(operand)), before, "{op:?}");
        assert_eq!(second.load(at), of(after), "{op:?} {operand}");
        before = of(after);
    }
}

/// A word that was located is the one at its address, however often it is accessed.
pub fn located_words<M: Memory, W: Word>(first: &M, second: &M) {
    let at = ScrAddr::<W>::new(72);
    let of = W::from_bits;
    let (here, there) = (first.locate(at), second.locate(at));
    for round in 1..5 {
        here.store(of(round));
        assert_eq!(first.load(at), of(round));
        while there.load() != of(round) {
            second.pause();
        }
        assert_eq!(there.compare_exchange(SITE, of(round), of(90)), Ok(of(round)));
        assert_eq!(here.compare_exchange(SITE, of(round), of(91)), Err(of(90)));
        assert_eq!(first.load(at), of(90));
    }
}

/// A narrow word changes alone.
pub fn neighbours<M: Memory>(memory: &M) {
    let word = ScrAddr::<u64>::new(128);
    let byte = |n: u64| ScrAddr::<u8>::new(128 + n);
    memory.store(word, u64::MAX);
    memory.store(byte(3), 0);
    memory.fetch(SITE, byte(4), FetchOp::Add, 1);
    assert_eq!(memory.load(word), 0xFFFF_FF00_00FF_FFFF);
}

/// A host reads what it wrote, at any place and length.
pub fn bytes<M: Memory>(memory: &M) {
    for (start, length) in [(0, 1), (1, 7), (63, 2), (60, 200), (128, 64), (5, 1000)] {
        let written: Vec<u8> = (0..length).map(|n| (n * 31 + start) as u8).collect();
        memory.write(LnrAddr::new(start as u64), &written);
        let mut read = vec![0; length];
        memory.read(LnrAddr::new(start as u64), &mut read);
        assert_eq!(read, written, "{length} bytes at {start}");
    }
}

/// A host compares what it wrote, at any place and length, and finds any difference.
pub fn bytes_behind<M: Memory>(memory: &M) {
    let written: Vec<u8> = (0..300).map(|n| (n * 31 + 5) as u8).collect();
    memory.write(LnrAddr::new(0), &written);
    for start in [0, 1, 40] {
        for length in (0..70).chain([127, 200]) {
            let from = LnrAddr::new(start as u64);
            let mut behind = written[start + 16..][..length].to_vec();
            let first: [u8; 16] = *written[start..].first_chunk().unwrap();
            assert_eq!(memory.read_before(from, &behind), (first, true), "{length} at {start}");
            for place in 0..length {
                behind[place] ^= 0x40;
                let (_, same) = memory.read_before(from, &behind);
                assert!(!same, "byte {place} of {length} at {start}");
                behind[place] ^= 0x40;
            }
        }
    }
}

/// The bytes that one host published are seen by the other when it consumes; also if it had older
/// lines cached.
pub fn published_bytes_arrive<M: Memory>(first: &M, second: &M) {
    let flag = ScrAddr::<u64>::new(192);
    let place = LnrAddr::new(1024 + 10);
    for round in 1..50_u8 {
        let written = [round; 3 * LINE_BYTES as usize];
        let lines = Lines::covering(place, written.len() as u64);
        let mut read = [0; 3 * LINE_BYTES as usize];
        second.read(place, &mut read);
        // Lines this host may have dirty or stale from the last round, when the roles were swapped.
        first.invalidate(SITE, lines);
        first.write(place, &written);
        first.publish(SITE, [lines], |memory| memory.store(flag, u64::from(round)));
        while second.load(flag) != u64::from(round) {
            second.pause();
        }
        second.consume(SITE, |_| ((), Some(lines)));
        second.read(place, &mut read);
        assert_eq!(read, written);
    }
}

/// So do long bytes, and several that are written at once: the host that wrote them reads them at
/// once, the other one once they are published.
pub fn much_at_once<M: Memory>(first: &M, second: &M) {
    let flag = ScrAddr::<u64>::new(256);
    // Short and long ones, that begin and end anywhere in a line.
    let places = [(100, 5000), (5184, 40), (5250, 600), (6000, 2000), (8128, 1100)];
    let all = Lines::covering(LnrAddr::new(0), 16 << 10);
    for (round, apart) in (1..9_u64).zip([true, false].into_iter().cycle()) {
        let written = places.map(|(start, length): (u64, u64)| {
            let byte = move |n: u64| (n * 31 + start + round) as u8;
            (LnrAddr::new(start), (0..length).map(byte).collect::<Vec<u8>>())
        });
        let each = written.iter().map(|(to, bytes)| (*to, &bytes[..]));
        let arrived = |memory: &M| {
            for (from, bytes) in each.clone() {
                let mut read = vec![0; bytes.len()];
                memory.read(from, &mut read);
                assert_eq!(read, bytes, "{} bytes at {from:?}, round {round}", bytes.len());
            }
        };
        first.invalidate(SITE, all);
        if apart {
            each.clone().for_each(|(to, bytes)| first.write(to, bytes));
        } else {
            first.write_all(each.clone());
        }
        arrived(first);
        first.publish(SITE, [all], |memory| memory.store(flag, round));
        while second.load(flag) != round {
            second.pause();
        }
        second.consume(SITE, |_| ((), Some(all)));
        arrived(second);
    }
}

/// Values that are written whole are published with what stands before them, and what is between
/// stays.
pub fn whole_values<M: Memory>(first: &M, second: &M) {
    let flag = ScrAddr::<u64>::new(256);
    let key = |n: u64| (0..n).map(|n| n as u8).collect::<Vec<u8>>();
    // Where lines begin, how many bytes are kept between, and how long both parts of a value are.
    let places = [(0, 24, 0, 40), (2, 24, 8, 600), (13, 0, 0, 1100), (32, 100, 3, 2000)];
    let lines_of = |(line, kept, head, rest): (u64, u64, u64, u64)| {
        Lines::covering(Lines::new(line, 1).start(), 16 + kept + head + rest)
    };
    for round in 1..5_u64 {
        let bytes = |n: u64| (0..n).map(|n| (n * 31 + round) as u8).collect::<Vec<u8>>();
        let values = places.map(|(_, kept, head, rest)| (key(kept), bytes(head), bytes(rest)));
        let each = places.iter().zip(&values);
        let wholes: Vec<_> = each
            .clone()
            .map(|(&place, (kept, head, rest))| {
                let lines = lines_of(place);
                first.invalidate(SITE, lines);
                first.write(lines.start().plus(16), kept);
                let whole = Whole::new(lines, [round as u8; 16], kept, head, rest);
                first.prepare(whole, round % 2 == 1)
            })
            .collect();
        first.publish_whole(SITE, &wholes, |memory| memory.store(flag, round));
        while second.load(flag) != round {
            second.pause();
        }
        for (&place, (kept, head, rest)) in each {
            let written = [&[round as u8; 16], &kept[..], head, rest].concat();
            for memory in [first, second] {
                memory.consume(SITE, |_| ((), Some(lines_of(place))));
                let mut read = vec![0; written.len()];
                memory.read(lines_of(place).start(), &mut read);
                assert_eq!(read, written, "line {}, round {round}", place.0);
            }
        }
    }
}

/// Clocks do not go back, and random numbers differ.
pub fn clocks<M: Memory>(memory: &M) {
    let (before, wall) = (memory.uptime(), memory.wall_clock_ms());
    memory.pause();
    assert!(memory.uptime() >= before);
    assert!(memory.wall_clock_ms() >= wall);
    assert_ne!(memory.random(), memory.random());
}
