//! Several hosts in one process, each with mappings of its own.

use std::thread;

use tombolo_pod::{PodSpec, Sizes};
use tombolo_regions::{Mode, RegionError, Regions, Shape, SharedRegion, create_pod};

const PAGE: usize = 4096;

/// A pod in shared memory, for as long as the folder is kept. `None`, and a line that says so,
/// where pages cannot be served.
pub(crate) fn pod(coherent: bool) -> Option<(tempfile::TempDir, PodSpec)> {
    if let Err(reason) = tombolo_memory::paging::SharedPages::new(1, None) {
        eprintln!("skipped: {reason}");
        return None;
    }
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let spec = PodSpec::path(folder.path().join("pod"));
    let sizes =
        Sizes { scr_bytes: Some(2 << 20), lnr_bytes: Some(16 << 20), force: false, sparse: false };
    create_pod(&spec, sizes, 8, Shape { coherent, ..Shape::default() }).unwrap();
    Some((folder, spec))
}

fn two(spec: &PodSpec, mode: Mode, pages: usize) -> ([Regions; 2], [SharedRegion; 2]) {
    let hosts = [Regions::join(spec).unwrap(), Regions::join(spec).unwrap()];
    hosts[0].create("test", (pages * PAGE) as u64, mode).unwrap();
    let regions = [hosts[0].open("test").unwrap(), hosts[1].open("test").unwrap()];
    (hosts, regions)
}

#[test]
fn what_one_host_writes_the_other_reads() {
    for (mode, coherent) in [(Mode::Owned, false), (Mode::Replicated, false), (Mode::Direct, true)]
    {
        let Some((_folder, spec)) = pod(coherent) else { return };
        let (_hosts, [one, two]) = two(&spec, mode, 130);
        for page in 0..130 {
            assert_eq!(two.bytes().load::<u64>(page * PAGE), 0);
            one.bytes().store(page * PAGE, page as u64 + 7);
            assert_eq!(two.bytes().load::<u64>(page * PAGE), page as u64 + 7);
            two.bytes().write(page * PAGE + 100, b"and back");
            let mut bytes = [0; 8];
            one.bytes().read(page * PAGE + 100, &mut bytes);
            assert_eq!(&bytes, b"and back");
        }
        assert!(one.blocks().iter().all(|block| block.mode.mode == mode && block.lost == 0));
        assert!(one.blocks()[0].faults > 0);
    }
}

#[test]
fn hosts_count_together_while_modes_change() {
    let Some((_folder, spec)) = pod(true) else { return };
    let (_hosts, [one, two]) = two(&spec, Mode::Owned, 2);
    thread::scope(|scope| {
        for region in [&one, &two] {
            scope.spawn(move || {
                for _ in 0..300 {
                    region.bytes().fetch_add(0, 1);
                    region.bytes().fetch_add(PAGE, 1);
                }
            });
        }
        for turn in 0..12 {
            let mode = Mode::ALL[turn % 3];
            [&one, &two][turn % 2].set_mode(0..2 * PAGE, mode).unwrap();
        }
    });
    assert_eq!((one.bytes().load::<u64>(0), two.bytes().load::<u64>(PAGE)), (600, 600));
    assert_eq!(one.blocks()[0].changes, 12);
}

#[test]
fn regions_have_names_and_keep_their_bytes() {
    let Some((_folder, spec)) = pod(false) else { return };
    let hosts = Regions::join(&spec).unwrap();
    hosts.create("a", 3 * PAGE as u64 + 1, Mode::Owned).unwrap();
    hosts.create("b", 1, Mode::Replicated).unwrap();
    assert!(matches!(hosts.create("a", 1, Mode::Owned), Err(RegionError::Exists(_))));
    assert!(matches!(hosts.create("c", 1, Mode::Direct), Err(RegionError::NotCoherent)));
    assert!(matches!(hosts.create("", 1, Mode::Owned), Err(RegionError::Name(_))));
    assert!(matches!(hosts.create("c", 1 << 40, Mode::Owned), Err(RegionError::NoRoom { .. })));
    assert!(matches!(hosts.open("c"), Err(RegionError::Missing(_))));
    let (a, b) = (hosts.open("a").unwrap(), hosts.open("b").unwrap());
    assert_eq!((a.len(), b.len()), (3 * PAGE + 1, 1));
    assert!(matches!(hosts.remove("a"), Err(RegionError::InUse { .. })));
    a.bytes().write(3 * PAGE, b"a");
    b.bytes().write(0, b"b");
    assert!(matches!(b.set_mode(0..1, Mode::Direct), Err(RegionError::NotCoherent)));
    drop((a, b, hosts));
    let hosts = Regions::join(&spec).unwrap();
    let names: Vec<_> = hosts.list().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["a", "b"]);
    let mut byte = [0];
    hosts.open("a").unwrap().bytes().read(3 * PAGE, &mut byte);
    assert_eq!(&byte, b"a");
    hosts.open("b").unwrap().bytes().read(0, &mut byte);
    assert_eq!(&byte, b"b");
    hosts.remove("a").unwrap();
    hosts.create("a", 5 * PAGE as u64, Mode::Owned).unwrap();
    assert_eq!(hosts.open("a").unwrap().bytes().load::<u64>(3 * PAGE), 0);
}

#[test]
fn system_calls_into_a_region_work() {
    use std::io::{Read, Write};
    let Some((_folder, spec)) = pod(false) else { return };
    for mode in [Mode::Owned, Mode::Replicated] {
        let name = mode.name();
        let hosts = [Regions::join(&spec).unwrap(), Regions::join(&spec).unwrap()];
        hosts[0].create(name, 8 * PAGE as u64, mode).unwrap();
        let regions = [hosts[0].open(name).unwrap(), hosts[1].open(name).unwrap()];
        let (mut from, mut to) = std::io::pipe().unwrap();
        to.write_all(&[7; 2 * PAGE]).unwrap();
        let done = regions[0].bytes().fill_from(PAGE - 100, 2 * PAGE, &from).unwrap();
        assert_eq!(done, 2 * PAGE);
        assert_eq!(regions[1].bytes().write_to(PAGE - 100, 2 * PAGE, &to).unwrap(), 2 * PAGE);
        let mut found = vec![0; 2 * PAGE];
        from.read_exact(&mut found).unwrap();
        assert_eq!(found, [7; 2 * PAGE]);
    }
}
