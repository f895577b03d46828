//! Memory errors, as files make them that are cut off under a mapping: a real SIGBUS.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use tombolo_memory::{
    Backing, LINE_BYTES, Lines, LnrAddr, Mapped, Memory, MemorySpec, OnMemoryError, ScrAddr, Site,
    Window, on_memory_error,
};

const HALF: u64 = 64 << 10;
const PAGE: u64 = 4096;
/// Which test is to end its process.
const VICTIM: &str = "TOMBOLO_TEST_POISON";

/// SCR in the first half of a file, LNR in its second, of which all but the first page survives
/// errors.
fn map(path: &Path) -> Mapped {
    let spec = MemorySpec::path(path);
    let (mut backing, created) = Backing::open_or_create(&spec).unwrap();
    if created {
        backing.reserve(2 * HALF).unwrap();
    }
    let region = Arc::new(backing.map(2 * HALF).unwrap());
    let (scr, lnr) = (Window::new(region.clone(), 0, HALF), Window::new(region, HALF, HALF));
    let memory = Mapped::new(scr, lnr);
    memory.survives_poison(Lines::covering(LnrAddr::new(PAGE), HALF - PAGE));
    memory
}

/// Leaves `bytes` bytes of a file.
fn cut(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

fn page(number: u64) -> Lines {
    Lines::covering(LnrAddr::new(number * PAGE), PAGE)
}

#[test]
fn what_cannot_be_read_is_zeros_and_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    let memory = map(&path);
    for number in 1..16 {
        memory.write(LnrAddr::new(number * PAGE), &[number as u8; PAGE as usize]);
    }
    cut(&path, HALF + 4 * PAGE);
    assert!((0..16).all(|number| !memory.poisoned(page(number))), "nobody has met it");
    let mut bytes = [1; 3 * LINE_BYTES as usize];
    memory.read(LnrAddr::new(3 * PAGE), &mut bytes);
    assert_eq!(bytes[0], 3);
    memory.read(LnrAddr::new(6 * PAGE + LINE_BYTES), &mut bytes);
    assert!(bytes.iter().all(|&byte| byte == 0));
    assert!(memory.poisoned(page(6)) && memory.poisoned(Lines::covering(LnrAddr::new(0), HALF)));
    assert!(!memory.poisoned(page(5)) && !memory.poisoned(page(7)) && !memory.poisoned(page(3)));
}

#[test]
fn copies_across_an_error_run_to_their_end() {
    for bytes in [2, 10, 18, 40, 100, 500, 6000] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory");
        let memory = map(&path);
        memory.write(LnrAddr::new(PAGE), &[7; 8 * PAGE as usize]);
        cut(&path, HALF + 2 * PAGE);
        let start = 2 * PAGE - bytes / 2;
        let mut read = vec![1; bytes as usize];
        memory.read(LnrAddr::new(start), &mut read);
        assert!(read[..bytes as usize / 2].iter().all(|&byte| byte == 7));
        assert!(read[bytes as usize / 2..].iter().all(|&byte| byte == 0));
        memory.write(LnrAddr::new(start), &vec![9; bytes as usize]);
        assert!(memory.poisoned(page(2)) && !memory.poisoned(page(1)));
    }
}

#[test]
fn stores_and_flushes_meet_it_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    let memory = map(&path);
    cut(&path, HALF + PAGE);
    memory.write(LnrAddr::new(2 * PAGE), &[1; 64]);
    assert!(memory.poisoned(page(2)));
    memory.invalidate(Site::new("test"), page(3));
    memory.clean(Site::new("test"), page(4));
    let mut bytes = [0; 64];
    memory.read(LnrAddr::new(2 * PAGE), &mut bytes);
    assert_eq!(bytes, [1; 64], "it is this process' own now");
    drop(memory);
    let other = map(&folder.path().join("other"));
    assert!(!other.poisoned(page(2)), "it goes with its mapping");
}

#[test]
fn threads_meet_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory");
    let memory = map(&path);
    memory.write(LnrAddr::new(PAGE), &vec![7; (HALF - PAGE) as usize]);
    cut(&path, HALF + PAGE);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 1..16 {
                    let mut bytes = [1; 64];
                    memory.read(LnrAddr::new(number * PAGE), &mut bytes);
                    assert!(bytes == [0; 64] && memory.poisoned(page(number)));
                }
            });
        }
    });
}

/// The end of a process that does `what`, in the test of that name in this file.
fn ends_by(name: &str, what: impl FnOnce()) -> (Option<i32>, String) {
    if std::env::var(VICTIM).is_ok_and(|victim| victim == name) {
        what();
        panic!("it went on");
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&format!("poison::{name}"), "--exact", "--nocapture"])
        .env(VICTIM, name)
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn an_error_in_scr_ends_the_process_and_says_so() {
    let (code, said) = ends_by("an_error_in_scr_ends_the_process_and_says_so", || {
        on_memory_error(OnMemoryError::EndProcess);
        let folder = tempfile::tempdir().unwrap();
        let memory = map(&folder.path().join("memory"));
        cut(&folder.path().join("memory"), 0);
        memory.load(ScrAddr::<u64>::new(4096 + 8));
    });
    assert_eq!(code, Some(74), "{said}");
    assert!(said.contains("memory error at byte 4104"), "{said}");
    assert!(said.contains("this host ends"), "{said}");
}

/// A program that embeds a host was ended by `_exit`, and had not asked for that.
#[test]
fn an_error_in_scr_is_passed_on_unless_the_program_chooses_otherwise() {
    let name = "an_error_in_scr_is_passed_on_unless_the_program_chooses_otherwise";
    let (code, said) = ends_by(name, || {
        let folder = tempfile::tempdir().unwrap();
        let memory = map(&folder.path().join("memory"));
        cut(&folder.path().join("memory"), 0);
        memory.load(ScrAddr::<u64>::new(4096 + 8));
    });
    assert_eq!(code, None, "the system's handler ends it: {said}");
    assert!(!said.contains("this host ends"), "{said}");
}

#[test]
fn without_a_handler_an_error_in_an_objects_memory_is_the_programs() {
    let name = "without_a_handler_an_error_in_an_objects_memory_is_the_programs";
    let (code, said) = ends_by(name, || {
        on_memory_error(OnMemoryError::NoHandler);
        let folder = tempfile::tempdir().unwrap();
        let memory = map(&folder.path().join("memory"));
        cut(&folder.path().join("memory"), HALF);
        memory.read(LnrAddr::new(PAGE), &mut [0; 64]);
    });
    assert_eq!(code, None, "{said}");
}

#[test]
fn an_error_outside_all_mappings_is_somebody_elses() {
    let (code, said) = ends_by("an_error_outside_all_mappings_is_somebody_elses", || {
        let folder = tempfile::tempdir().unwrap();
        let _memory = map(&folder.path().join("memory"));
        // The standard library's handler takes the first one for a fault that will come again.
        for _ in 0..2 {
            Command::new("kill").args(["-BUS", &std::process::id().to_string()]).status().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    assert_eq!(code, None, "it dies by the signal: {said}");
}
