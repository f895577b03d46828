//! Operations on one host against the least that the machine itself takes for them, in one run:
//! a read against a hash lookup and a copy; a write against a compare-and-swap, a copy and a clean
//! of the same lines; a create and delete against a copy and a clean; a read of a copy in the host's own
//! memory against a hash lookup and a copy from such memory, in huge pages as copies are. Keys are made
//! beforehand.
//!
//! `cargo bench -p tombolo --bench limit -- [BYTES]`. 100,000 objects of 1,000 bytes unless told
//! otherwise, keys of 20 bytes, chosen at random with seed 1; medians of 21 interleaved rounds.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tombolo::{CreateOptions, Entry, Mapped, MemorySpec, Objects, Options, Store, Thresholds};
use tombolo_memory::{Arena, Backing, LINE_BYTES, Lines, LnrAddr, Memory, ScrAddr, Site, Window};

const OBJECTS: u64 = 100_000;
/// Objects that fit into a core's own cache.
const FEW: u64 = 100;
const ROUNDS: usize = 21;
const OPERATIONS: u64 = 20_000;
const SITE: Site = Site::new("bench");

type Key = [u8; 20];

fn key(number: u64) -> Key {
    *format!("user{number:016}").as_bytes().first_chunk().unwrap()
}

/// Numbers below `end`, the same in every run.
fn numbers(end: u64) -> impl FnMut() -> u64 {
    let mut state = 1u64;
    move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) % end
    }
}

struct Bare {
    map: HashMap<Vec<u8>, u64>,
    memory: Mapped,
    own: Arena,
    bytes: usize,
    slot: u64,
}

impl Bare {
    fn new(bytes: usize) -> Self {
        let slot = (bytes as u64 + 64).next_multiple_of(64);
        let total = (OBJECTS * slot).next_multiple_of(4096) + 4096;
        let region =
            Arc::new(Backing::open(&MemorySpec::anonymous(total)).unwrap().map(total).unwrap());
        let window = |offset, bytes| Window::new(region.clone(), offset, bytes);
        let memory = Mapped::new(window(0, 4096), window(4096, total - 4096));
        let own = Arena::new(OBJECTS * slot / LINE_BYTES).unwrap();
        (0..OBJECTS).for_each(|number| own.write(number * slot, &vec![7; bytes]));
        let map = (0..OBJECTS).map(|number| (key(number).to_vec(), number * slot)).collect();
        Self { map, memory, own, bytes, slot }
    }

    fn read(&self, key: &[u8], into: &mut [u8]) {
        self.memory.read(LnrAddr::new(self.map[key]), into);
    }

    fn read_own(&self, key: &[u8], into: &mut [u8]) {
        self.own.read(self.map[key], into);
    }

    fn write(&self, key: &[u8], bytes: &[u8]) {
        let at = LnrAddr::new(self.map[key]);
        let word = ScrAddr::<u32>::new(0);
        let counter = self.memory.load(word);
        let _ = self.memory.compare_exchange(SITE, word, counter, counter + 1);
        self.memory.write(at, bytes);
        let lines = Lines::covering(at, bytes.len() as u64);
        self.memory.publish(SITE, [lines], |memory| memory.store(word, counter + 2));
    }

    fn store(&self, number: u64, bytes: &[u8]) {
        let at = LnrAddr::new(number * self.slot);
        self.memory.write(at, bytes);
        self.memory.clean(SITE, Lines::covering(at, self.bytes as u64 + 36));
    }
}

struct Row {
    name: &'static str,
    against: Option<&'static str>,
    run: Box<dyn FnMut() -> Duration>,
    ns: Vec<f64>,
}

/// Does something with so many keys that are there already.
fn with_keys(mut next: impl FnMut() -> u64, mut operation: impl FnMut(&Key)) -> Duration {
    let keys: Vec<Key> = (0..OPERATIONS).map(|_| key(next())).collect();
    let started = Instant::now();
    keys.iter().for_each(&mut operation);
    started.elapsed()
}

fn main() {
    let bytes = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(1000);
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let pod = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [first, second, third] = ["objects", "store", "copied"].map(pod);
    let size = (OBJECTS * (bytes as u64 + 300) * 2).max(64 << 20);
    for spec in [&first, &second, &third] {
        tombolo::create(spec, CreateOptions::sized(size)).unwrap();
    }
    let objects = Arc::new(Objects::join(&first).unwrap());
    let store = Arc::new(Store::join(&second).unwrap());
    // A host that copies what it reads into its own memory.
    let options = Options {
        copies_bytes: size,
        placement: Arc::new(Thresholds { copy_after: 1, ..Thresholds::default() }),
        ..Options::default()
    };
    let copies = Arc::new(Objects::join_pod(tombolo::open(&third).unwrap(), options).unwrap());
    let bare = Arc::new(Bare::new(bytes));
    let value = vec![7; bytes];
    for number in 0..OBJECTS {
        objects.create(&key(number), &value).unwrap();
        copies.create(&key(number), &value).unwrap();
        store.put(&key(number), &Entry::lasting(value.clone())).unwrap();
    }
    // All of them are copied before.
    let mut read = Vec::new();
    (0..OBJECTS).for_each(|number| _ = copies.read(&key(number), &mut read).unwrap());
    let mut rows = rows(&bare, [&objects, &copies], &store, bytes);
    for round in 0..=ROUNDS {
        for row in &mut rows {
            let took = (row.run)();
            if round > 0 {
                row.ns.push(took.as_nanos() as f64 / OPERATIONS as f64);
            }
        }
    }
    report(&mut rows);
}

fn rows(
    bare: &Arc<Bare>,
    [objects, copies]: [&Arc<Objects>; 2],
    store: &Arc<Store>,
    bytes: usize,
) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |name, against, run: Box<dyn FnMut() -> Duration>| {
        rows.push(Row { name, against, run, ns: Vec::new() });
    };
    let names = ["lookup and copy", "local lookup and copy", "read", "read of a copy", "store get"];
    let cached_names = [
        "lookup and copy, cached",
        "local lookup and copy, cached",
        "read, cached",
        "read of a copy, cached",
        "store get, cached",
    ];
    for (end, [plain, local, read, copy, get]) in [(FEW, cached_names), (OBJECTS, names)] {
        let (b, mut next, mut buffer) = (bare.clone(), numbers(end), vec![0; bytes]);
        add(
            plain,
            None,
            Box::new(move || {
                with_keys(&mut next, |key| {
                    b.read(key, &mut buffer);
                    black_box(&buffer);
                })
            }),
        );
        let (b, mut next, mut buffer) = (bare.clone(), numbers(end), vec![0; bytes]);
        add(
            local,
            None,
            Box::new(move || {
                with_keys(&mut next, |key| {
                    b.read_own(key, &mut buffer);
                    black_box(&buffer);
                })
            }),
        );
        for (name, host, against) in [(read, objects, plain), (copy, copies, local)] {
            let (o, mut next, mut buffer) = (host.clone(), numbers(end), Vec::new());
            add(
                name,
                Some(against),
                Box::new(move || {
                    with_keys(&mut next, |key| {
                        o.read(key, &mut buffer).unwrap();
                        black_box(&buffer);
                    })
                }),
            );
        }
        let (s, mut next) = (store.clone(), numbers(end));
        add(
            get,
            Some(plain),
            Box::new(move || with_keys(&mut next, |key| _ = black_box(s.get(key).unwrap()))),
        );
    }
    let (b, mut next, value) = (bare.clone(), numbers(FEW), vec![1; bytes]);
    add(
        "CAS, copy and clean",
        None,
        Box::new(move || with_keys(&mut next, |key| b.write(key, &value))),
    );
    let (o, mut next, value) = (objects.clone(), numbers(FEW), vec![1; bytes]);
    add(
        "write",
        Some("CAS, copy and clean"),
        Box::new(move || with_keys(&mut next, |key| _ = o.write(key, &value).unwrap())),
    );
    let (s, mut next, value) = (store.clone(), numbers(FEW), Entry::lasting(vec![1; bytes]));
    add(
        "store put",
        Some("CAS, copy and clean"),
        Box::new(move || with_keys(&mut next, |key| s.put(key, &value).unwrap())),
    );
    let (b, mut next, value) = (bare.clone(), numbers(FEW), vec![1; bytes]);
    add(
        "copy and clean",
        None,
        Box::new(move || {
            let started = Instant::now();
            (0..OPERATIONS).for_each(|_| b.store(next(), &value));
            started.elapsed()
        }),
    );
    let (o, value) = (objects.clone(), vec![1; bytes]);
    add(
        "create and delete",
        Some("copy and clean"),
        Box::new(move || {
            let mut number = OBJECTS;
            let next = || {
                number += 1;
                number
            };
            with_keys(next, |key| {
                o.create(key, &value).unwrap();
                o.delete(key).unwrap();
            })
        }),
    );
    rows
}

fn report(rows: &mut [Row]) {
    let medians: HashMap<&str, f64> = rows
        .iter_mut()
        .map(|row| {
            row.ns.sort_by(f64::total_cmp);
            (row.name, row.ns[row.ns.len() / 2])
        })
        .collect();
    for row in rows {
        let ns = medians[row.name];
        match row.against {
            Some(limit) => {
                println!("{:30} {ns:8.0} ns   {:5.2} x {limit}", row.name, ns / medians[limit]);
            }
            None => println!("{:30} {ns:8.0} ns", row.name),
        }
    }
}
