//! The page cache on mapped memory: two hosts, their threads, and files in memory.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tombolo_host::Host;
use tombolo_memory::{Backing as Place, Mapped, MemorySpec, Window};
use tombolo_objects::Objects;
use tombolo_pagecache::{Attributes, Backing, ByRecord, Error, FileId, Options, PageCache};
use tombolo_pod::{Pod, SeatState};
use tombolo_sharing::{AreaOptions, OBJECTS, PAGES, plan_areas, plan_layout};

const SCR: u64 = 64 << 10;

#[derive(Default)]
struct Files(Mutex<HashMap<FileId, (Vec<u8>, i64)>>);

impl Files {
    fn with<T>(&self, file: FileId, body: impl FnOnce(&mut Vec<u8>, &mut i64) -> T) -> T {
        let mut files = self.0.lock().unwrap();
        let (bytes, modified) = files.entry(file).or_default();
        body(bytes, modified)
    }
}

impl Backing for Files {
    fn knows(&self, _: FileId) -> bool {
        true
    }

    fn find(&self, files: &BTreeSet<FileId>) -> io::Result<BTreeSet<FileId>> {
        Ok(files.clone())
    }

    fn put_back(&self, _: FileId) -> bool {
        true
    }

    fn attributes(&self, file: FileId) -> io::Result<Attributes> {
        Ok(self.with(file, |b, m| Attributes { size: b.len() as u64, modified: *m }))
    }

    fn read(&self, file: FileId, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.with(file, |bytes, _| {
            let from = bytes.get(offset as usize..).unwrap_or(&[]);
            let length = from.len().min(into.len());
            into[..length].copy_from_slice(&from[..length]);
            length
        }))
    }

    fn write(&self, file: FileId, offset: u64, from: &[u8]) -> io::Result<()> {
        self.with(file, |bytes, _| {
            let end = offset as usize + from.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset as usize..end].copy_from_slice(from);
        });
        Ok(())
    }

    fn resize(&self, file: FileId, size: u64) -> io::Result<()> {
        self.with(file, |bytes, _| bytes.resize(size as usize, 0));
        Ok(())
    }

    fn set_modified(&self, file: FileId, to: i64) -> io::Result<()> {
        self.with(file, |_, modified| *modified = to);
        Ok(())
    }

    fn sync(&self, _: FileId, _: bool) -> io::Result<()> {
        Ok(())
    }
}

type Cache = PageCache<ByRecord<Mapped>, Files>;

fn pod(lnr: u64, latches: Option<u64>) -> Pod<Mapped> {
    let spec = MemorySpec::anonymous(SCR + lnr);
    let region = Arc::new(Place::open(&spec).unwrap().map(SCR + lnr).unwrap());
    let memory = Mapped::new(Window::new(region.clone(), 0, SCR), Window::new(region, SCR, lnr));
    let options = tombolo_sharing::Options { latches, ..Default::default() };
    Pod::format(memory, &plan_layout(SCR, lnr, options).unwrap()).unwrap()
}

fn options() -> Options {
    Options { write_back_after: Duration::from_millis(5), ..Options::default() }
}

/// Runs `body` with two hosts that do their background work.
fn with_two_hosts(lnr: u64, body: impl FnOnce(&[Arc<Cache>; 2], &Arc<Files>)) {
    let (pod, files, over) = (pod(lnr, Some(16)), Arc::<Files>::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let over = &over;
        let hosts = [0, 1].map(|_| {
            let cache = Cache::join(pod.clone(), Arc::clone(&files), options()).unwrap();
            let cache = Arc::new(cache);
            let host = Arc::clone(&cache);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    host.tick().unwrap();
                    host.tidy().unwrap();
                    thread::sleep(Duration::from_millis(1));
                }
            });
            cache
        });
        body(&hosts, &files);
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_pod_that_is_not_made_for_pages_is_refused() {
    let joined = Cache::join(pod(8 << 20, None), Arc::default(), options());
    assert!(matches!(joined, Err(Error::NotForPages)));
}

/// Objects and pages in one pod: one process runs both tenants in one seat, another host the
/// objects alone.
#[test]
fn two_tenants_share_a_pod_and_a_seat() {
    let (scr, lnr) = (2 * SCR, 16 << 20);
    let spec = MemorySpec::anonymous(scr + lnr);
    let region = Arc::new(Place::open(&spec).unwrap().map(scr + lnr).unwrap());
    let memory = Mapped::new(Window::new(region.clone(), 0, scr), Window::new(region, scr, lnr));
    let area = |latches| AreaOptions {
        layout: tombolo_sharing::Options { latches, ..Default::default() },
        ..AreaOptions::default()
    };
    let layout = plan_areas(scr, lnr, &[area(None), area(Some(16))]).unwrap();
    let pod = Pod::format(memory, &layout).unwrap();
    let seats = || pod.stays_in(SeatState::Seated).count();

    let (host, files) = (Host::join(pod.clone()).unwrap(), Arc::<Files>::default());
    let setup = || tombolo_objects::Options::default().into();
    let objects = Objects::attach(&host, pod.area_of(OBJECTS).unwrap(), setup()).unwrap();
    let pages = pod.area_of(PAGES).unwrap();
    let cache = Cache::attach(&host, pages.clone(), Arc::clone(&files), options()).unwrap();
    assert_eq!(seats(), 1, "two tenants of one host have one seat");

    let other = thread::scope(|scope| {
        let joining =
            scope.spawn(|| Objects::join(pod.clone(), tombolo_objects::Options::default()));
        while !joining.is_finished() {
            objects.tick().unwrap();
        }
        joining.join().unwrap().unwrap()
    });
    assert_eq!((seats(), pages.membership().count()), (2, 1), "the other host runs no page cache");
    let file = FileId { inode: 5, born: 0 };
    objects.put(b"key", b"an object").unwrap();
    cache.write(file, 0, b"a page").unwrap();
    let mut value = Vec::new();
    other.read(b"key", &mut value).unwrap();
    assert_eq!(value, b"an object");
    assert_eq!((other.object_count().unwrap(), objects.object_count().unwrap()), (1, 1));

    objects.leave().unwrap();
    assert_eq!(seats(), 2, "the page cache still runs");
    let mut bytes = [0; 6];
    assert_eq!(cache.read(file, 0, &mut bytes).unwrap(), 6);
    assert_eq!(&bytes, b"a page");
    cache.leave().unwrap();
    assert_eq!(seats(), 1, "the host has left with its last tenant");
    other.read(b"key", &mut value).unwrap();
    other.leave().unwrap();
    assert_eq!(seats(), 0);
    assert_eq!(files.with(file, |bytes, _| bytes.clone()), b"a page");
}

#[test]
fn two_hosts_do_what_one_sequence_of_bytes_would() {
    const CHAIN: u64 = 4 << 20;
    with_two_hosts(4 << 20, |hosts, files| {
        let file = FileId { inode: 5, born: 0 };
        let (mut dice, mut model) = (SmallRng::seed_from_u64(1), Vec::<u8>::new());
        for step in 0..6000 {
            let host = &hosts[dice.random_range(0..2)];
            let offset = dice.random_range(0..CHAIN);
            let mut bytes = vec![0; dice.random_range(0..20_000)];
            dice.fill(&mut bytes[..]);
            let end = offset as usize + bytes.len();
            match dice.random_range(0..20) {
                0..9 => {
                    let length = host.read(file, offset, &mut bytes).unwrap();
                    let from = model.get(offset as usize..).unwrap_or(&[]);
                    let expected = &from[..from.len().min(bytes.len())];
                    assert!(bytes[..length] == *expected, "step {step}");
                }
                9..16 => {
                    host.write(file, offset, &bytes).unwrap();
                    model.resize(model.len().max(end), 0);
                    model[offset as usize..end].copy_from_slice(&bytes);
                }
                16 if (model.len() as u64) < CHAIN => {
                    assert_eq!(host.append(file, &bytes).unwrap(), model.len() as u64);
                    model.extend(&bytes);
                }
                17 => {
                    host.truncate(file, offset).unwrap();
                    model.resize(offset as usize, 0);
                }
                18 => host.sync(file, true).unwrap(),
                _ => host.forget(file).unwrap(),
            }
        }
        assert!(hosts[0].counts().evicted > 0);
        hosts.iter().for_each(|host| host.write_back_all(&mut |_| ()).unwrap());
        assert!(
            files.with(file, |bytes, _| *bytes == model),
            "what is written back is all there is"
        );
    });
}

#[test]
fn threads_of_two_hosts_append_without_losing_anything() {
    const EACH: u64 = 200;
    with_two_hosts(2 << 20, |hosts, files| {
        let file = FileId { inode: 6, born: 0 };
        thread::scope(|scope| {
            for number in 0..4u64 {
                let host = &hosts[number as usize % 2];
                scope.spawn(move || {
                    for n in 0..EACH {
                        let bytes = (number * EACH + n).to_le_bytes().repeat(100);
                        host.append(file, &bytes).unwrap();
                    }
                });
            }
        });
        hosts[0].sync(file, true).unwrap();
        let mut found: Vec<u64> = files.with(file, |bytes, _| {
            let pieces = bytes.chunks(800).map(|piece| {
                let number = u64::from_le_bytes(*piece.first_chunk().unwrap());
                assert!(piece == number.to_le_bytes().repeat(100), "torn");
                number
            });
            pieces.collect()
        });
        found.sort_unstable();
        assert!(found.into_iter().eq(0..4 * EACH));
    });
}
