//! Pods in mapped memory: created once, found again, never overwritten by accident, and refused with
//! a reason.

use std::fs::{self, File};
use std::path::PathBuf;

use tempfile::TempDir;
use tombolo_memory::{Mapped, Memory, ScrAddr};
use tombolo_pod::{CreateOptions, Leave, Phase, Pod, PodError, PodSpec, TornWrites, create, open};

const SMALL: CreateOptions = CreateOptions {
    scr_bytes: Some(64 << 10),
    lnr_bytes: Some(8 << 20),
    layout: tombolo_pod::Options {
        hosts: None,
        ring_entries: None,
        segment_entries: None,
        chunk_bytes: None,
        records: None,
        record_width: None,
        counter_bits: None,
        mail_slots: None,
        log_shards: None,
        writes: None,
        torn_writes: TornWrites::Lost,
        latches: None,
        partition_backup: false,
    },
    force: false,
};

struct Place {
    _folder: TempDir,
    file: PathBuf,
    spec: PodSpec,
}

fn place() -> Place {
    place_in(tempfile::tempdir().unwrap())
}

fn place_in(folder: TempDir) -> Place {
    let file = folder.path().join("pod");
    Place { _folder: folder, spec: PodSpec::path(&file), file }
}

fn message(result: Result<Pod<Mapped>, PodError>) -> String {
    result.err().expect("it is refused").to_string()
}

#[test]
fn created_then_opened_by_others() {
    let place = place();
    let created = create(&place.spec, SMALL).unwrap();
    let opened = open(&place.spec).unwrap();
    assert_eq!(created.identity(), opened.identity());
    assert_eq!(created.geometry(), opened.geometry());
    assert_eq!(opened.membership().phase(), Phase::Closed);
}

#[test]
fn scr_and_lnr_in_two_files() {
    let place = place();
    let path = place.file.display();
    let spec: PodSpec = format!("{path}.scr,size=64KiB+{path}.lnr,size=8MiB").parse().unwrap();
    let created = create(&spec, CreateOptions::default()).unwrap();
    assert_eq!(created.geometry().scr_bytes, 64 << 10);
    assert_eq!(open(&spec).unwrap().identity(), created.identity());

    let other: PodSpec = format!("{path}.scr2,size=64KiB+{path}.lnr2,size=8MiB").parse().unwrap();
    create(&other, CreateOptions::default()).unwrap();
    let mixed: PodSpec = format!("{path}.scr+{path}.lnr2").parse().unwrap();
    assert!(matches!(open(&mixed), Err(PodError::Mismatched)));
    assert!(format!("{path}+{path}").parse::<PodSpec>().is_err());
}

#[test]
fn a_pod_is_not_overwritten_unless_forced() {
    let place = place();
    let first = create(&place.spec, SMALL).unwrap().identity();
    assert!(message(create(&place.spec, SMALL)).contains(&first.uuid.to_string()));
    assert_eq!(open(&place.spec).unwrap().identity(), first);
    let second = create(&place.spec, CreateOptions { force: true, ..SMALL }).unwrap();
    assert_ne!(second.identity(), first);
}

#[test]
fn a_live_pod_is_not_overwritten_at_all() {
    let place = place();
    let live = create(&place.spec, SMALL).unwrap();
    let forced = create(&place.spec, CreateOptions { force: true, ..SMALL });
    assert!(message(forced).contains("is in use"));
    assert_eq!(open(&place.spec).unwrap().identity(), live.identity());
}

#[test]
fn a_foreign_file_is_neither_opened_nor_overwritten() {
    let place = place();
    for content in ["", "short", &"a novel ".repeat(1000)] {
        fs::write(&place.file, content).unwrap();
        assert!(message(open(&place.spec)).contains("holds no pod"), "{content:.20}");
        if !content.is_empty() {
            assert!(message(create(&place.spec, SMALL)).contains("--force"));
        }
        assert_eq!(fs::read_to_string(&place.file).unwrap(), content);
    }
}

#[test]
fn a_truncated_pod_is_refused() {
    let place = place();
    create(&place.spec, SMALL).unwrap();
    File::options().write(true).open(&place.file).unwrap().set_len(4 << 20).unwrap();
    assert!(message(open(&place.spec)).contains("cut off"));
}

#[test]
fn another_version_or_a_damaged_superblock_is_refused() {
    let place = place();
    let pod = create(&place.spec, SMALL).unwrap();
    let version = ScrAddr::<u64>::new(8);
    pod.memory().store(version, 99);
    assert!(message(open(&place.spec)).contains("format version 99"));
    pod.memory().store(version, tombolo_pod::FORMAT_VERSION);
    pod.memory().store(ScrAddr::<u64>::new(13 * 8), 1 << 20);
    assert!(message(open(&place.spec)).contains("checksum"));
}

#[test]
fn what_cannot_be_made_leaves_nothing_behind() {
    let place = place();
    let tiny = CreateOptions { scr_bytes: Some(4096), ..SMALL };
    assert!(message(create(&place.spec, tiny)).contains("does not fit"));
    let sizeless = CreateOptions { lnr_bytes: None, ..SMALL };
    assert!(message(create(&place.spec, sizeless)).contains("no size"));
    assert!(!place.file.exists());
    // Shared memory refuses at once; a disk would be full until it does.
    let place = place_in(tempfile::tempdir_in("/dev/shm").unwrap());
    let huge = CreateOptions { scr_bytes: Some(64 << 20), lnr_bytes: Some(1 << 41), ..SMALL };
    assert!(message(create(&place.spec, huge)).contains("cannot make room in"));
    assert!(!place.file.exists());
}

#[test]
fn who_has_not_left_is_gone_when_nobody_has_the_memory_open() {
    let place = place();
    let pod = create(&place.spec, SMALL).unwrap();
    let (seat, first) = pod.join().unwrap();
    assert!(first);
    seat.ready(pod.memory()).unwrap();
    // While that host is there, another may open the pod.
    let other = open(&place.spec).unwrap();
    let stay = pod.stay_of(seat.host());
    assert!(!other.is_gone(stay));
    drop(pod);
    assert!(other.has_ended(stay), "nothing of it is left, though its process lives");
    drop(other);
    let pod = open(&place.spec).unwrap();
    assert_eq!(pod.membership().fenced().collect::<Vec<_>>(), [seat.host()]);
    assert!(pod.is_gone(pod.stay_of(seat.host())));
    let (next, first) = pod.join().unwrap();
    assert!(first && next.host() != seat.host(), "its seat is free once it is cleared up after");
}

#[test]
fn two_who_create_at_once_make_one_pod() {
    for _ in 0..20 {
        let place = place();
        let results = std::thread::scope(|scope| {
            let threads = [0; 4].map(|_| scope.spawn(|| create(&place.spec, SMALL)));
            threads.map(|thread| thread.join().unwrap())
        });
        let made: Vec<_> = results.into_iter().filter_map(Result::ok).collect();
        assert_eq!(made.len(), 1);
        assert_eq!(open(&place.spec).unwrap().identity(), made[0].identity());
    }
}

#[test]
fn hosts_that_join_at_once_get_different_seats() {
    const HOSTS: u8 = 40;
    let place = place();
    let layout = tombolo_pod::Options { hosts: Some(HOSTS), ..SMALL.layout };
    let pod = create(&place.spec, CreateOptions { layout, ..SMALL }).unwrap();
    let mut seats = std::thread::scope(|scope| {
        let join = || {
            let pod = open(&place.spec).unwrap();
            let (seat, first) = pod.join().unwrap();
            seat.ready(pod.memory()).unwrap();
            (seat.host(), seat.incarnation(), first, pod)
        };
        let threads: Vec<_> = (0..HOSTS).map(|_| scope.spawn(join)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(seats.iter().filter(|(_, _, first, _)| *first).count(), 1);
    assert_eq!(pod.membership().count(), u32::from(HOSTS));
    assert!(matches!(pod.join(), Err(PodError::Full { hosts: HOSTS, .. })));
    seats.sort_unstable_by_key(|(host, ..)| *host);
    seats.dedup_by_key(|(host, ..)| *host);
    assert_eq!(seats.len(), usize::from(HOSTS));
    seats.sort_unstable_by_key(|(_, incarnation, ..)| *incarnation);
    seats.dedup_by_key(|(_, incarnation, ..)| *incarnation);
    assert_eq!(seats.len(), usize::from(HOSTS));
}

/// A pod whose seats were all taken, one by a fenced host, did not say how to free that.
#[test]
fn a_full_pod_says_whose_seats_can_be_freed_and_how() {
    let place = place();
    let layout = tombolo_pod::Options { hosts: Some(2), ..SMALL.layout };
    let pod = create(&place.spec, CreateOptions { layout, ..SMALL }).unwrap();
    for _ in 0..2 {
        pod.join().unwrap().0.ready(pod.memory()).unwrap();
    }
    assert!(pod.fence(pod.stay_of(1)));
    let said = pod.join().unwrap_err().to_string();
    let hint = format!("tombolo pod fence {} 1 --gone", place.file.display());
    assert!(said.contains(&hint), "{said}");
    pod.note_gone(pod.stay_of(1));
    pod.release(pod.stay_of(1));
    assert_eq!(pod.join().unwrap().0.host(), 1);
}

#[test]
fn the_last_to_leave_closes() {
    let place = place();
    let pod = create(&place.spec, SMALL).unwrap();
    let (seat, _) = pod.join().unwrap();
    seat.ready(pod.memory()).unwrap();
    assert_eq!(seat.leave(pod.memory(), true), Leave::Close);
    seat.closed(pod.memory());
    drop(pod);
    assert_eq!(open(&place.spec).unwrap().membership().count(), 0);
}

#[test]
fn who_joins_a_pod_that_is_closed_meanwhile_is_not_in_it() {
    let place = place();
    let pod = create(&place.spec, SMALL).unwrap();
    let memory = pod.memory();
    let (first, _) = pod.join().unwrap();
    first.ready(memory).unwrap();
    let (late, opens) = pod.join().unwrap();
    assert!(!opens && pod.has_joining());
    assert_eq!(first.leave(memory, true), Leave::Wait);
    assert_eq!(first.leave(memory, false), Leave::Close);
    assert!(matches!(late.ready(memory), Err(PodError::Expelled { host: 1 })));
    first.closed(memory);
    assert_eq!((pod.membership().phase(), pod.membership().count()), (Phase::Closed, 0));

    let (next, opens) = pod.join().unwrap();
    assert!(opens && next.host() == 0 && next.incarnation() == 3);
    next.ready(memory).unwrap();
    assert!(matches!(late.ready(memory), Err(PodError::Expelled { host: 1 })));
    late.give_up(memory);
    assert_eq!(late.leave(memory, true), Leave::Left);
    assert_eq!(pod.membership().hosts().collect::<Vec<_>>(), [0]);
}
