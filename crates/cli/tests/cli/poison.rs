//! Memory errors as clients see them: the pod's file is cut off under its hosts, which the kernel
//! answers with SIGBUS.

use std::fs::OpenOptions;

use redis::{Commands, Connection, cmd};

use crate::tombolo::Servers;

const KEYS: u32 = 4000;
const HUGE_PAGE: u64 = 2 << 20;

fn value(number: u32, round: u8) -> Vec<u8> {
    vec![number as u8 ^ round; 1000]
}

/// A figure of `INFO`.
fn figure(connection: &mut Connection, name: &str) -> u64 {
    let info: String = cmd("INFO").query(connection).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).trim().parse().unwrap()
}

#[test]
fn what_lay_in_broken_memory_is_a_miss_until_it_is_set_again() {
    let servers = Servers::start(2, &["--size", "17MiB", "--scr", "1MiB"], &[]);
    let (mut first, mut second) = (servers.connect(0), servers.connect(1));
    for number in 0..KEYS {
        let _: () = first.set(number, value(number, 0)).unwrap();
    }
    assert_eq!(figure(&mut first, "poisoned"), 0);
    let file = OpenOptions::new().write(true).open(servers.spec()).unwrap();
    // At a huge page's end: what is cut off of one that the kernel cannot split just then is zeros,
    // and no error.
    let quarter = file.metadata().unwrap().len() / 4;
    file.set_len(quarter - quarter % HUGE_PAGE).unwrap();

    let mut lost = Vec::new();
    for number in 0..KEYS {
        match first.get::<_, Option<Vec<u8>>>(number).unwrap() {
            Some(found) => assert_eq!(found, value(number, 0), "what is there is whole"),
            None => lost.push(number),
        }
    }
    assert!(!lost.is_empty() && lost.len() < KEYS as usize, "{} of {KEYS}", lost.len());
    assert_eq!(figure(&mut first, "poisoned"), lost.len() as u64);
    assert!(figure(&mut first, "lnr_poisoned_bytes") > 0);
    for number in &lost {
        assert_eq!(second.get::<_, Option<Vec<u8>>>(number).unwrap(), None, "lost is lost for all");
    }

    // All that was free is broken, too, so others make room.
    let kept: Vec<u32> = (0..KEYS).filter(|number| lost.binary_search(number).is_err()).collect();
    let (gone, kept) = kept.split_at(kept.len() / 2);
    let deleted: usize = cmd("DEL").arg(gone).query(&mut second).unwrap();
    assert_eq!(deleted, gone.len());
    let again = &lost[..lost.len().min(gone.len() / 4)];
    for &number in again {
        let _: () = first.set(number, value(number, 1)).unwrap();
    }
    for connection in [&mut first, &mut second] {
        for (numbers, round) in [(again, 1), (kept, 0)] {
            for &number in numbers {
                let found: Option<Vec<u8>> = connection.get(number).unwrap();
                assert_eq!(found, Some(value(number, round)), "{number}");
            }
        }
        assert_eq!(cmd("PING").query::<String>(connection).unwrap(), "PONG");
    }
}
