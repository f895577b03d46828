//! Figures and page of a mount.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

use super::{Mounts, has, wait_until};
use crate::operation::Browser;
use crate::tombolo::{address_of_page, get, metric};

/// Nothing told how much waited to be written to files, for how long, and how often pages were in
/// the pod.
#[test]
fn a_mount_tells_its_figures() {
    if !has("python3") {
        return;
    }
    let create = ["--size", "8MiB", "--scr", "512KiB"];
    let Some(mut mounts) = Mounts::unmounted(&create) else { return };
    fs::write(mounts.backing.join("file"), vec![1; 50 * 4096]).unwrap();
    let late = ["--write-back-ms", "600000"];
    mounts.hosts = vec![mounts.mount_monitored(0, &late), mounts.mount(1, &late)];
    let page = address_of_page(&mut mounts.hosts[0]);
    let figure = |name: &str| metric(&get(&page, "/metrics"), &format!("tombolo_{name}{{"));
    assert_eq!(get(&page, "/healthz"), "host 0 is in the pod\n");
    let path = mounts.places[0].join("file");
    let file = File::options().read(true).write(true).open(path).unwrap();
    for _ in 0..3 {
        file.read_exact_at(&mut [0; 50 * 4096], 0).unwrap();
    }
    let told = ["page_hits_total", "page_misses_total", "pages_read_total", "open_files"]
        .map(|name| figure(&format!("host_{name}")));
    assert_eq!(told, [100.0, 50.0, 50.0, 1.0]);
    drop(file);
    // Another process has them open: what starts one here closes files there, and writes them back.
    let script = "
import os, sys
one = os.open('one/file', os.O_RDWR)
two = os.open('two/other', os.O_RDWR | os.O_CREAT)
os.pwrite(two, b'2' * 20 * 4096, 0)
os.pwrite(one, b'2' * 10 * 4096, 0)
print('written', flush=True)
sys.stdin.readline()
os.fsync(one)
print('synchronised', flush=True)
sys.stdin.readline()
";
    let mut python = Command::new("python3");
    python.args(["-c", script]).current_dir(mounts.folder.path());
    let mut python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(python.stdout.take().unwrap()).lines();
    let mut go_on = python.stdin.take().unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "written");
    // Pages that the other host has not written back count, too.
    assert_eq!(figure("pod_dirty_pages"), 30.0);
    let written_back = figure("host_pages_written_back_total");
    go_on.write_all(b"\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "synchronised");
    assert_eq!(figure("pod_dirty_pages"), 20.0);
    assert_eq!(figure("host_pages_written_back_total") - written_back, 10.0);
    wait_until("both hosts are seen", || figure("pod_hosts") == 2.0);
    if let Some(mut browser) = Browser::start(mounts.folder.path()) {
        browser.open(&format!("http://{page}/"));
        let text = "document.getElementById('files').innerText.replace(/\\s+/g, ' ')";
        browser.until(&format!("{text}.includes('dirty pages 20 ')"));
        browser.until("[...document.querySelectorAll('[data-of=server]')].every(s => s.hidden)");
        browser.until("document.querySelectorAll('#hosts [data-state=live]').length === 2");
    }
    drop(go_on);
    assert!(python.wait().unwrap().success());
    mounts.end();
}

/// Pages that a full disk does not take are seen: how many, for how long, and which file it is.
#[test]
fn pages_that_wait_for_a_full_disk_are_seen() {
    let create = ["--size", "8MiB", "--scr", "512KiB"];
    let Some(mut mounts) = Mounts::on_small_disk(&create, "2m") else { return };
    mounts.hosts[0].signal("-TERM");
    mounts.hosts[0].end();
    mounts.hosts[0] = mounts.mount_monitored(0, &[]);
    let page = address_of_page(&mut mounts.hosts[0]);
    let figure = |name: &str| metric(&get(&page, "/metrics"), &format!("tombolo_{name}{{"));
    let file = File::create(mounts.places[0].join("late")).unwrap();
    let filler = mounts.backing.join("filler");
    file.write_all_at(&[5; 100_000], 0).unwrap();
    let free = mounts.disk.as_ref().unwrap().free_bytes();
    let _ = fs::write(&filler, vec![0; free as usize]);
    let _ = file.write_all_at(&[6; 100_000], 200_000);
    if file.sync_all().is_ok() {
        eprintln!("skipped: the pages were written before the disk was full");
        return;
    }
    wait_until("pages that wait are seen", || {
        figure("host_files_refused_total") > 0.0 && figure("pod_dirty_age_seconds") > 1.0
    });
    fs::remove_file(&filler).unwrap();
    wait_until("they are written", || figure("pod_dirty_pages") == 0.0);
    wait_until("nothing waits", || figure("pod_dirty_age_seconds") == 0.0);
    drop(file);
    mounts.end();
}
