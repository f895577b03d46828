//! A process is killed at any moment: others go on, and see no page that has gone back.

use std::time::{Duration, Instant};

use tombolo_memory::FetchOp;
use tombolo_pod::PodSpec;
use tombolo_regions::{Mode, Regions, SharedRegion};

use crate::children::start;
use crate::hosts::pod;

const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;
/// Pages that the process writes that is killed.
const PAGES: usize = 8;
/// A page behind those, which all write.
const COUNTER: usize = PAGES * PAGE;
/// Much longer than others need to find out.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes one number after the other into all words of all pages.
pub(crate) fn write_for_ever(spec: &PodSpec, name: &str) {
    let regions = Regions::join(spec).unwrap();
    let region = regions.open(name).unwrap();
    println!("ready");
    for number in 1_u64.. {
        for page in 0..PAGES {
            for word in 0..WORDS {
                region.bytes().store(page * PAGE + word * 8, number);
            }
        }
        region.bytes().fetch(COUNTER, FetchOp::Add, 1_u64);
    }
}

/// A page's words, by a system call; nothing if the page is lost.
fn read(region: &SharedRegion, page: usize) -> Option<Vec<u64>> {
    use std::io::Read;
    let (mut from, to) = std::io::pipe().unwrap();
    let done = region.bytes().write_to(page * PAGE, PAGE, &to).ok()?;
    // A call that meets a lost page in its first byte is an error.
    assert_eq!(done, PAGE);
    let mut bytes = vec![0; PAGE];
    from.read_exact(&mut bytes).unwrap();
    Some(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// The number of the last round that a page shows, if it shows one at all.
fn check_page(words: &[u64], before: u64) -> u64 {
    // Words are written in their order, and a system call reads them in that order while they are
    // written: a word may be newer than those before it, but no word is older than the last look.
    assert!(words.iter().all(|&word| word >= before), "a page went back behind {before}");
    *words.iter().min().unwrap()
}

fn kill_a_writer(mode: Mode, rounds: u64) {
    let Some((_folder, spec)) = pod(true) else { return };
    let hosts = [Regions::join(&spec).unwrap(), Regions::join(&spec).unwrap()];
    let mut lost = 0;
    for round in 0..rounds {
        let name = format!("round-{round}");
        hosts[0].create(&name, (COUNTER + PAGE) as u64, mode).unwrap();
        let regions = [hosts[0].open(&name).unwrap(), hosts[1].open(&name).unwrap()];
        let mut writer = start(&spec, &["writer", &name]);
        writer.says("ready");
        let mut seen = [[0; PAGES]; 2];
        let (started, until) = (Instant::now(), Duration::from_millis(5 + round * 7 % 40));
        let mut added = 0;
        while started.elapsed() < until {
            for (region, seen) in regions.iter().zip(&mut seen) {
                let page = (added % PAGES as u64) as usize;
                let words = read(region, page).expect("the writer lives");
                seen[page] = check_page(&words, seen[page]);
                region.bytes().fetch(COUNTER, FetchOp::Add, 1_u64);
                added += 1;
            }
        }
        writer.kill();
        let killed = Instant::now();
        let newest: Vec<u64> = (0..PAGES).map(|page| seen[0][page].max(seen[1][page])).collect();
        for (page, &newest) in newest.iter().enumerate() {
            let found = regions.each_ref().map(|region| read(region, page));
            assert_eq!(found[0], found[1], "hosts disagree on page {page}");
            match &found[0] {
                None => lost += 1,
                Some(words) => _ = check_page(words, newest),
            }
        }
        // The counter is on a page of its own, which the writer may have had alone as well.
        if let Some(words) = read(&regions[0], PAGES) {
            assert!(words[0] >= added, "{} of {added} were counted", words[0]);
        }
        assert!(killed.elapsed() < PATIENCE, "{:?}", killed.elapsed());
        let told = regions[0].lost();
        assert_eq!(told, regions[1].lost());
        assert!(mode != Mode::Direct || told.is_empty(), "direct pages are never lost");
        while regions[0].deaths() == 0 {
            assert!(killed.elapsed() < PATIENCE, "nobody has cleaned up after the writer");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(regions);
        hosts[0].remove(&name).unwrap();
    }
    if mode == Mode::Direct {
        assert_eq!(lost, 0);
    }
    eprintln!("{}: {lost} of {} pages were lost", mode.name(), rounds * PAGES as u64);
}

#[test]
fn a_killed_host_takes_only_what_it_alone_had_written() {
    for mode in Mode::ALL {
        kill_a_writer(mode, 4);
    }
}

#[test]
#[ignore = "takes minutes"]
fn many_killed_hosts() {
    for mode in Mode::ALL {
        kill_a_writer(mode, 70);
    }
}
