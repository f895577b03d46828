//! The mapped back end keeps its word: over one mapping or two of the same file, by every kind of
//! instruction the processor has, between threads and between processes.

use std::process::Command;
use std::sync::Arc;

use tombolo_memory::{
    Backing, CacheControl, FetchOp, Lines, LnrAddr, Mapped, Memory, MemorySpec, ScrAddr, Site,
    Window, conformance,
};

const HALF: u64 = 64 << 10;
const SITE: Site = Site::new("test");

/// Maps the file that `spec` names: SCR in its first half, LNR in its second.
fn map(spec: &MemorySpec, caches: CacheControl) -> Mapped {
    let region = Arc::new(Backing::open(spec).unwrap().map(2 * HALF).unwrap());
    let (scr, lnr) = (Window::new(region.clone(), 0, HALF), Window::new(region, HALF, HALF));
    Mapped::with_cache_control(scr, lnr, caches)
}

fn new_file(folder: &tempfile::TempDir) -> MemorySpec {
    let spec = MemorySpec::path(folder.path().join("memory"));
    Backing::open_or_create(&spec).unwrap().0.reserve(2 * HALF).unwrap();
    spec
}

#[test]
fn two_mappings_of_one_file_conform() {
    for caches in CacheControl::available() {
        let folder = tempfile::tempdir().unwrap();
        let spec = new_file(&folder);
        conformance::check_all(&map(&spec, caches), &map(&spec, caches));
    }
}

#[test]
fn anonymous_memory_conforms() {
    let spec = MemorySpec { huge: true, ..MemorySpec::anonymous(4 << 20) };
    let region = Arc::new(Backing::open(&spec).unwrap().map(4 << 20).unwrap());
    let window = |offset| Window::new(region.clone(), offset, 2 << 20);
    let memory = Mapped::new(window(0), window(2 << 20));
    conformance::check_all(&memory, &memory.clone());
}

#[test]
fn scr_and_lnr_may_be_two_files() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let window = |spec: &MemorySpec| {
        let region = Arc::new(Backing::open(spec).unwrap().map(HALF).unwrap());
        Window::new(region, 0, HALF)
    };
    let (scr, lnr) = (new_file(&one), new_file(&other));
    let host = || Mapped::new(window(&scr), window(&lnr));
    conformance::check_all(&host(), &host());
}

#[test]
fn threads_do_not_lose_updates() {
    let folder = tempfile::tempdir().unwrap();
    let spec = new_file(&folder);
    let counter = ScrAddr::<u8>::new(9);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let host = map(&spec, CacheControl::detect());
                (0..1000).for_each(|_| _ = host.fetch(SITE, counter, FetchOp::Add, 1));
            });
        }
    });
    assert_eq!(map(&spec, CacheControl::detect()).load(counter), (4000 % 256) as u8);
}

/// The tests' own program, started again, publishes what its parent waits for.
#[test]
fn another_process_sees_what_was_published() {
    const FILE: &str = "TOMBOLO_TEST_FILE";
    let flag = ScrAddr::<u32>::new(0);
    let message = [0xA5; 200];
    let place = LnrAddr::new(100);
    let lines = Lines::covering(place, 200);
    if let Ok(path) = std::env::var(FILE) {
        let host = map(&MemorySpec::path(path), CacheControl::detect());
        host.write(place, &message);
        host.publish(SITE, [lines], |memory| memory.store(flag, 1));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let spec = new_file(&folder);
    let host = map(&spec, CacheControl::detect());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "mapped::another_process_sees_what_was_published"])
        .env(FILE, folder.path().join("memory"))
        .spawn()
        .unwrap();
    while host.consume(SITE, |memory| (memory.load(flag), Some(lines))) == 0 {
        assert!(child.try_wait().unwrap().is_none_or(|status| status.success()));
        host.pause();
    }
    let mut read = [0; 200];
    host.read(place, &mut read);
    assert_eq!(read, message);
    assert!(child.wait().unwrap().success());
}

#[test]
#[should_panic(expected = "outside their region")]
fn a_wild_address_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let host = map(&new_file(&folder), CacheControl::detect());
    host.read(LnrAddr::new(HALF - 3), &mut [0; 4]);
}

#[test]
#[should_panic(expected = "outside their region")]
fn a_wild_flush_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let host = map(&new_file(&folder), CacheControl::detect());
    host.clean(SITE, Lines::new(1 << 58, 4));
}

#[test]
fn a_file_that_is_too_short_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let spec = new_file(&folder);
    let error = Backing::open(&spec).unwrap().map(4 * HALF).unwrap_err();
    assert!(error.to_string().contains("has 131072 bytes, but 262144 are needed"), "{error}");
}
