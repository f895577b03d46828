//! Programs as they are, on both hosts at once.

use std::fs;
use std::process::Command;

use super::{Mounts, has, path, shell};

#[test]
fn a_file_larger_than_the_pod_is_copied() {
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let script = "dd if=/dev/urandom of=one/large bs=1M count=40 conv=fsync 2>&1
        cmp one/large two/large
        dd if=two/large of=two/copy bs=64k 2>&1
        cmp one/large one/copy";
    shell(mounts.folder.path(), script);
    mounts.end();
    shell(&mounts.backing, "cmp large copy");
}

#[test]
fn git_works_on_both_hosts() {
    if !has("git") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "16MiB", "--scr", "1MiB"]) else { return };
    let script = "
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        export GIT_CONFIG_GLOBAL=/dev/null
        git init -q one/repo
        cd one/repo
        for i in $(seq 1 100); do echo \"file $i\" > f$i; done
        git add -A
        git commit -qm first
        cd ../../two/repo
        test -z \"$(git status --short)\"
        echo more >> f1
        git commit -qam second
        git gc -q
        cd ../../one/repo
        git fsck --full --strict
        test -z \"$(git status --short)\"
        git clone -q . ../clone
        git -C ../../two/clone log --oneline | wc -l";
    assert_eq!(shell(mounts.folder.path(), script).trim(), "2");
    mounts.end();
    shell(&mounts.backing, "git -C clone -c safe.directory='*' fsck --full");
}

#[test]
fn sqlite_works_on_both_hosts_at_once() {
    if !has("sqlite3") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "8MiB", "--scr", "512KiB"]) else { return };
    let script = "
        sqlite3 one/db 'create table t(host text, number int)'
        writer() {
          for i in $(seq 1 20); do
            sqlite3 -cmd '.timeout 60000' $1/db \"insert into t values('$1', $i)\"
          done
        }
        writer one & first=$!
        writer two & second=$!
        writer one & third=$!
        wait $first && wait $second && wait $third
        sqlite3 two/db 'select count(*), sum(number) from t; pragma integrity_check'";
    assert_eq!(shell(mounts.folder.path(), script), "60|630\nok\n");
    mounts.end();
    let check = "sqlite3 db 'select count(*) from t; pragma integrity_check'";
    assert_eq!(shell(&mounts.backing, check), "60\nok\n");
}

/// SQLite changed a database to WAL, which needs shared mappings, and then could not open it any
/// more: nothing said why, or what to do.
#[test]
fn a_database_that_sqlite_cannot_have_in_wal_mode_is_usable_in_others() {
    if !has("sqlite3") {
        return;
    }
    let create = ["--size", "8MiB", "--scr", "512KiB"];
    let Some(mut mounts) = Mounts::unmounted(&create) else { return };
    let log = mounts.folder.path().join("log");
    let logged = ["sh", "-c", &format!("exec \"$@\" 2> {}", path(&log)), "sh"];
    mounts.hosts = vec![mounts.mount_within(&logged, 0, &[]), mounts.mount(1, &[])];
    let script = "
        sqlite3 one/db 'create table t(x); insert into t values(1)'
        for attempt in 1 2; do
          if sqlite3 one/db 'pragma journal_mode=wal; insert into t values(100)' 2>&1; then
            echo 'WAL was accepted'
          fi
        done > refused
        grep -c 'disk I/O error' refused
        sqlite3 two/db 'pragma locking_mode=exclusive; pragma journal_mode=delete'
        sqlite3 one/db 'insert into t values(2)'
        sqlite3 two/db 'pragma locking_mode=exclusive; pragma journal_mode=wal;
          insert into t values(3); pragma journal_mode=delete'
        sqlite3 one/db 'insert into t values(4); pragma journal_mode; pragma integrity_check'
        sqlite3 two/db 'select count(*), sum(x) from t'";
    let said = shell(mounts.folder.path(), script);
    let expected = "2\nexclusive\ndelete\nexclusive\nwal\ndelete\ndelete\nok\n4|10\n";
    assert_eq!(said, expected);
    mounts.end();
    let log = fs::read_to_string(log).unwrap();
    assert_eq!(log.matches("journal_mode=DELETE").count(), 1, "{log}");
}

/// Each name that the kernel knew took a descriptor: with 1,008 files and the usual limit,
/// everything was told that there are too many open files.
#[test]
fn the_kernel_knows_more_names_than_there_are_descriptors() {
    if !has("prlimit") {
        return;
    }
    let Some(mut mounts) = Mounts::start(&["--size", "16MiB", "--scr", "1MiB"]) else { return };
    let host = mounts.hosts[0].id().to_string();
    let limited = Command::new("prlimit").args(["--pid", &host, "--nofile=128:128"]).status();
    assert!(limited.unwrap().success());
    let name = |number: u32| mounts.places[0].join(format!("file{number}"));
    for number in 0..500 {
        fs::write(name(number), number.to_string()).unwrap();
    }
    for number in 0..500 {
        assert_eq!(fs::read_to_string(name(number)).unwrap(), number.to_string());
    }
    mounts.end();
}
