//! Options of mounts.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use super::{Mounts, has, shell};
use crate::tombolo::complaint;

/// Files could not be mapped shared, not even for reading: programs with large models or databases
/// refused to start.
#[test]
fn what_is_mounted_for_reading_can_be_mapped_shared() {
    if !has("python3") {
        return;
    }
    let Some(mut mounts) = Mounts::unmounted(&["--size", "8MiB", "--scr", "512KiB"]) else {
        return;
    };
    mounts.hosts = vec![mounts.mount(0, &[]), mounts.mount(1, &["-o", "ro,nosuid"])];
    fs::write(mounts.places[0].join("file"), "words").unwrap();
    let refused = File::options().write(true).open(mounts.places[1].join("file")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(30), "EROFS");
    let script = "
import errno, mmap, os, time
SIZE = 100000
def content(number): return (b'%07d ' % number) * (SIZE // 8)
writing = os.open('one/file', os.O_RDWR)
os.pwrite(writing, content(0), 0)
try:
    mmap.mmap(writing, SIZE, flags=mmap.MAP_SHARED)
    print('what could be written to is mapped shared')
except OSError as error:
    assert error.errno == errno.ENODEV, error
fd = os.open('two/file', os.O_RDONLY)
try:
    mapped = mmap.mmap(fd, SIZE, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
except OSError as error:
    assert error.errno == errno.ENODEV, error
    print('skipped: the kernel maps nothing shared')
    exit()
for number in range(1, 6):
    os.pwrite(writing, content(number), 0)
    again = mmap.mmap(fd, SIZE, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    assert again[:] == content(number), 'a new mapping has old bytes'
    os.pwrite(writing, content(number + 10), 0)
    tries = 0
    while mapped[:] != content(number + 10):
        tries += 1
        assert tries < 6000, 'old bytes are mapped'
        time.sleep(0.01)
    assert os.pread(fd, SIZE, 0) == content(number + 10)
print('mapped')
";
    fs::write(mounts.folder.path().join("script"), script).unwrap();
    let said = shell(mounts.folder.path(), "python3 script");
    assert!(said == "mapped\n" || said.starts_with("skipped"), "{said}");
    // Bytes that other hosts wrote are brought to their file here, too.
    File::options().write(true).open(mounts.places[0].join("file")).unwrap();
    mounts.end();
}

#[test]
fn options_that_are_not_known_are_refused() {
    let refused = complaint(&["mount", "--pod", "pod", "-o", "ro,quick", "below", "above"]);
    assert!(refused.contains("quick is not known"), "{refused}");
}

/// At a clean unmount there was a warning that an answer could not be sent: the kernel had given up
/// a request that was under way.
#[test]
fn a_clean_unmount_says_nothing() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let log = mounts.folder.path().join("log");
    let into = format!("exec \"$@\" 2>>{}", log.display());
    let by = ["sh", "-c", &into, "sh"];
    for round in 0..10u8 {
        mounts.hosts[0].signal("-TERM");
        assert!(mounts.hosts[0].end().success());
        mounts.hosts[0] = mounts.mount_within(&by, 0, &[]);
        let files: Vec<File> = (0..20)
            .map(|n| File::create(mounts.places[0].join(format!("file{n}"))).unwrap())
            .collect();
        files.iter().for_each(|file| file.write_all_at(&[round; 5000], 0).unwrap());
    }
    mounts.end();
    assert_eq!(fs::read_to_string(log).unwrap(), "");
}
