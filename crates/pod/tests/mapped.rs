//! Pods in mapped memory: created once, found again, never overwritten by accident, and refused
//! with a reason.

use std::fs::{self, File};
use std::path::PathBuf;

use tempfile::TempDir;
use tombolo_memory::{Mapped, Memory, ScrAddr};
use tombolo_pod::{
    Area, AreaRequest, Budget, Enrolment, Kind, Layout, Leave, LogOptions, PARAMETERS, Phase, Pod,
    PodError, PodOptions, PodSpec, Seat, SeatState, Sizes,
};

const SMALL: Sizes =
    Sizes { scr_bytes: Some(64 << 10), lnr_bytes: Some(8 << 20), force: false, sparse: false };

const FORCED: Sizes = Sizes { force: true, ..SMALL };

const KIND: Kind = Kind::new("test");

/// A pod with an area for a tenant that takes whatever there is.
fn layout(scr_bytes: u64, lnr_bytes: u64, hosts: Option<u8>) -> Result<Layout, PodError> {
    let any = |budget: Budget| match budget.scr.bytes {
        0 => Err("nothing is left".to_owned()),
        _ => Ok([0; PARAMETERS]),
    };
    let log = LogOptions::default();
    let request = AreaRequest {
        kind: KIND,
        version: 1,
        scr_bytes: None,
        lnr_bytes: None,
        log,
        plan: &any,
        on_demand: None,
    };
    let options = PodOptions { hosts, ..PodOptions::default() };
    Layout::plan(scr_bytes, lnr_bytes, options, &[request])
}

fn create(spec: &PodSpec, sizes: Sizes) -> Result<Pod<Mapped>, PodError> {
    tombolo_pod::create(spec, sizes, &|scr, lnr| layout(scr, lnr, None))
}

fn open(spec: &PodSpec) -> Result<Pod<Mapped>, PodError> {
    tombolo_pod::open(spec)
}

fn area(pod: &Pod<Mapped>) -> Area<Mapped> {
    pod.area_of(KIND).unwrap()
}

/// Takes a seat, and enrols in the area.
fn join(pod: &Pod<Mapped>) -> (Seat, Enrolment, bool) {
    let seat = pod.join().unwrap();
    let (enrolment, first) = area(pod).enrol(&seat).unwrap();
    (seat, enrolment, first)
}

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
    assert_eq!(created.layout(), opened.layout());
    assert_eq!(area(&opened).membership().phase(), Phase::Closed);
}

#[test]
fn scr_and_lnr_in_two_files() {
    let place = place();
    let path = place.file.display();
    let spec: PodSpec = format!("{path}.scr,size=64KiB+{path}.lnr,size=8MiB").parse().unwrap();
    let created = create(&spec, Sizes::default()).unwrap();
    assert_eq!(created.layout().scr_bytes, 64 << 10);
    assert_eq!(open(&spec).unwrap().identity(), created.identity());

    let other: PodSpec = format!("{path}.scr2,size=64KiB+{path}.lnr2,size=8MiB").parse().unwrap();
    create(&other, Sizes::default()).unwrap();
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
    let second = create(&place.spec, FORCED).unwrap();
    assert_ne!(second.identity(), first);
}

/// `pod create --force` on a device left the pins of the pod before, which `pod check` took for
/// hosts that looked at objects where they lay.
#[test]
fn a_pod_is_formatted_over_whatever_was_there() {
    let [fresh, used] = [place(), place()].map(|place| create(&place.spec, SMALL).unwrap());
    let layout = fresh.layout();
    // Only the superblock differs from pod to pod.
    let tables = || (256..layout.areas[0].scr.end()).step_by(8).map(ScrAddr::<u64>::new);
    tables().for_each(|word| used.memory().store(word, u64::MAX));
    let again = Pod::format(used.memory().clone(), layout).unwrap();
    for word in tables() {
        assert_eq!(again.memory().load(word), fresh.memory().load(word), "{word:?}");
    }
}

#[test]
fn a_live_pod_is_not_overwritten_at_all() {
    let place = place();
    let live = create(&place.spec, SMALL).unwrap();
    let forced = create(&place.spec, FORCED);
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
    let tiny = Sizes { scr_bytes: Some(4096), ..SMALL };
    assert!(message(create(&place.spec, tiny)).contains("does not fit"));
    let sizeless = Sizes { lnr_bytes: None, ..SMALL };
    assert!(message(create(&place.spec, sizeless)).contains("no size"));
    assert!(!place.file.exists());
    // Shared memory refuses at once; a disk would be full until it does.
    let place = place_in(tempfile::tempdir_in("/dev/shm").unwrap());
    let huge = Sizes { scr_bytes: Some(64 << 20), lnr_bytes: Some(1 << 41), ..SMALL };
    assert!(message(create(&place.spec, huge)).contains("cannot make room in"));
    assert!(!place.file.exists());
    // Without a tenant that takes memory when it needs it, all has to be there.
    assert!(message(create(&place.spec, Sizes { sparse: true, ..huge })).contains("make room"));
}

#[test]
fn who_has_not_left_is_gone_when_nobody_has_the_memory_open() {
    let place = place();
    let pod = create(&place.spec, SMALL).unwrap();
    let (seat, enrolment, first) = join(&pod);
    assert!(first);
    enrolment.ready(pod.memory()).unwrap();
    // While that host is there, another may open the pod.
    let other = open(&place.spec).unwrap();
    let stay = pod.stay_of(seat.host());
    assert!(!other.is_gone(stay));
    drop(pod);
    assert!(other.has_ended(stay), "nothing of it is left, though its process lives");
    drop(other);
    let pod = open(&place.spec).unwrap();
    assert_eq!(pod.stays_in(SeatState::Fenced).collect::<Vec<_>>(), [seat.stay()]);
    assert!(pod.is_gone(seat.stay()));
    let (next, _, first) = join(&pod);
    assert!(first && next.host() != seat.host(), "other seats are free");
    area(&pod).release_fenced();
    assert_eq!(pod.seat_of(seat.host()), (SeatState::Free, seat.stay()));
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
    let plan = |scr, lnr| layout(scr, lnr, Some(HOSTS));
    let pod = tombolo_pod::create(&place.spec, SMALL, &plan).unwrap();
    let mut seats = std::thread::scope(|scope| {
        let join = || {
            let pod = open(&place.spec).unwrap();
            let (seat, enrolment, first) = join(&pod);
            enrolment.ready(pod.memory()).unwrap();
            (seat.host(), seat.incarnation(), first, pod)
        };
        let threads: Vec<_> = (0..HOSTS).map(|_| scope.spawn(join)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(seats.iter().filter(|(_, _, first, _)| *first).count(), 1);
    assert_eq!(area(&pod).membership().count(), u32::from(HOSTS));
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
    let plan = |scr, lnr| layout(scr, lnr, Some(2));
    let pod = tombolo_pod::create(&place.spec, SMALL, &plan).unwrap();
    let seats = [0, 1].map(|_| pod.join().unwrap());
    assert!(pod.fence(seats[1].stay()));
    let said = pod.join().unwrap_err().to_string();
    let hint = format!("tombolo pod fence {} 1 --gone", place.file.display());
    assert!(said.contains(&hint), "{said}");
    pod.note_gone(seats[1].stay());
    assert_eq!(pod.join().unwrap().host(), 1);
}

#[test]
fn the_last_to_leave_closes() {
    let place = place();
    let pod = create(&place.spec, SMALL).unwrap();
    let (seat, enrolment, _) = join(&pod);
    enrolment.ready(pod.memory()).unwrap();
    assert_eq!(enrolment.leave(pod.memory(), true), Leave::Close);
    enrolment.closed(pod.memory());
    assert!(seat.leave(pod.memory()) && !seat.leave(pod.memory()));
    drop(pod);
    assert_eq!(area(&open(&place.spec).unwrap()).membership().count(), 0);
}

#[test]
fn who_joins_an_area_that_is_closed_meanwhile_is_not_in_it() {
    let place = place();
    let pod = create(&place.spec, SMALL).unwrap();
    let (memory, area) = (pod.memory(), area(&pod));
    let (_, first, _) = join(&pod);
    first.ready(memory).unwrap();
    let (_, late, opens) = join(&pod);
    assert!(!opens && area.has_joining());
    assert_eq!(first.leave(memory, true), Leave::Wait);
    assert_eq!(first.leave(memory, false), Leave::Close);
    assert!(matches!(late.ready(memory), Err(PodError::Expelled { host: 1 })));
    first.closed(memory);
    assert_eq!((area.membership().phase(), area.membership().count()), (Phase::Closed, 0));

    let (_, next, opens) = join(&pod);
    assert!(opens && next.host() == 2 && next.stay().number == 3);
    next.ready(memory).unwrap();
    assert!(matches!(late.ready(memory), Err(PodError::Expelled { host: 1 })));
    late.give_up(memory);
    assert_eq!(late.leave(memory, true), Leave::Left);
    assert_eq!(area.membership().hosts().collect::<Vec<_>>(), [2]);
}

/// A host died while it cleared up after another one, and was cleared up after first. (Then no host
/// could go on with the other one, for ever.)
#[test]
fn a_host_that_is_cleared_up_after_clears_up_no_more() {
    let place = place();
    let pod = create(&place.spec, SMALL).unwrap();
    let area = area(&pod);
    let stays = [0, 1, 2].map(|_| {
        let (_, enrolment, _) = join(&pod);
        enrolment.ready(pod.memory()).unwrap();
        enrolment.stay()
    });
    let ends = |number: usize| {
        area.fence(stays[number]);
        area.note_gone(stays[number]);
    };
    ends(0);
    assert!(area.begin_cleanup(stays[0], 1));
    ends(1);
    assert!(area.begin_cleanup(stays[1], 2) && area.release(stays[1]));
    assert!(area.begin_cleanup(stays[0], 2) && area.release(stays[0]));
}

/// Areas are opened, closed and cleared up by themselves: the hosts that take part in one know
/// nothing of the other.
#[test]
fn areas_have_rosters_of_their_own() {
    let place = place();
    let any = |_: Budget| Ok([0; PARAMETERS]);
    let log = LogOptions::default();
    let request = |name| AreaRequest {
        kind: Kind::new(name),
        version: 1,
        scr_bytes: None,
        lnr_bytes: None,
        log,
        plan: &any,
        on_demand: None,
    };
    let plan = |scr, lnr| {
        Layout::plan(scr, lnr, PodOptions::default(), &[request("one"), request("other")])
    };
    let pod = tombolo_pod::create(&place.spec, SMALL, &plan).unwrap();
    let memory = pod.memory();
    let [one, other] = ["one", "other"].map(|name| pod.area_of(Kind::new(name)).unwrap());
    let missing = pod.area_of(Kind::new("third")).err().unwrap().to_string();
    assert!(missing.contains("it has one, other"), "{missing}");

    let (both, only) = (pod.join().unwrap(), pod.join().unwrap());
    let enrol = |area: &Area<Mapped>, seat: &Seat| {
        let (enrolment, first) = area.enrol(seat).unwrap();
        enrolment.ready(memory).unwrap();
        (enrolment, first)
    };
    assert!(enrol(&one, &both).1 && enrol(&other, &both).1);
    assert!(!enrol(&one, &only).1);
    assert_eq!((one.membership().count(), other.membership().count()), (2, 1));

    pod.fence(both.stay());
    one.fence_ended();
    assert!(one.is_fenced(both.stay()) && other.is_member(both.stay()));
    pod.note_gone(both.stay());
    assert!(one.release(both.stay()));
    assert_eq!(pod.seat_of(both.host()), (SeatState::Free, both.stay()));
    // The rest of the work in the other area waits for a host that takes part there.
    let (opener, first) = enrol(&other, &only);
    assert!(first && other.is_fenced(both.stay()), "no host that takes part in it is alive");
    other.release_fenced();
    assert!(!other.is_fenced(both.stay()));
    assert_eq!(opener.leave(memory, true), Leave::Close);
    opener.closed(memory);
    assert_eq!((one.membership().count(), other.membership().phase()), (1, Phase::Closed));
}
