//! The log in mapped memory: threads of several hosts, each host with its own mapping of one file.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tombolo_log::{Fences, Replica};
use tombolo_memory::Mapped;
use tombolo_pod::{PodSpec, open};
use tombolo_sharing::{CreateOptions, Options, create};

use tombolo_scenarios::append::{Append, History, check_agreement};

const HOSTS: usize = 3;
const ENTRIES: u64 = 1000;

fn join(spec: &PodSpec) -> Replica<Mapped, History> {
    let pod = open(spec).unwrap();
    let area = pod.areas().next().unwrap();
    let (enrolment, _) = area.enrol(&pod.join().unwrap()).unwrap();
    enrolment.ready(pod.memory()).unwrap();
    let position = Replica::<_, History>::announce(&area, &enrolment, 0);
    Replica::new(area, &enrolment, 0, (position, Fences::default()), History::default(), ())
}

/// A ring of 16 entries for 6 threads: it is full most of the time.
#[test]
fn replicas_agree_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let spec = PodSpec::path(folder.path().join("pod"));
    let layout = Options { ring_entries: Some(16), segment_entries: Some(8), ..Options::default() };
    let (scr_bytes, lnr_bytes) = (Some(64 << 10), Some(4 << 20));
    create(&spec, CreateOptions { scr_bytes, lnr_bytes, layout, ..Default::default() }).unwrap();
    let hosts: Vec<_> = (0..HOSTS).map(|_| join(&spec)).collect();
    let committing = AtomicUsize::new(2 * HOSTS);
    let acknowledged = thread::scope(|scope| {
        let (hosts, committing) = (&hosts, &committing);
        for host in hosts {
            scope.spawn(move || {
                while committing.load(Ordering::Acquire) > 0 {
                    host.sync().unwrap();
                    thread::yield_now();
                }
                host.sync().unwrap();
            });
        }
        let threads: Vec<_> = (0..2 * HOSTS)
            .map(|thread| {
                scope.spawn(move || {
                    let done = commit_all(&hosts[thread % HOSTS], thread as u64);
                    committing.fetch_sub(1, Ordering::Release);
                    done
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let replicas: Vec<_> = hosts.iter().map(|host| host.state().entries()).collect();
    check_agreement(&replicas, acknowledged);
}

/// Commits entries, every other one conditional; the tags of those that took effect.
fn commit_all(host: &Replica<Mapped, History>, thread: u64) -> Vec<u64> {
    (0..ENTRIES)
        .map(|n| thread * ENTRIES + n)
        .filter(|&tag| {
            let length = host.state().entries().len() as u64;
            let expected = tag.is_multiple_of(2).then_some(length);
            let done = host.commit(&Append { tag, expected }, &|| ()).unwrap();
            assert!(!done || host.state().knows(tag), "a committed entry is in the replica");
            done
        })
        .collect()
}
