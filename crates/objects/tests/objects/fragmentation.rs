//! Churn with sizes that change: what is left unusable is bounded, and room that the bound leaves
//! is had.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tombolo_memory::{Backing, Mapped, MemorySpec, Window};
use tombolo_objects::{Error, Objects, Options};
use tombolo_pod::Pod;
use tombolo_sharing::{Classes, HEADER_BYTES, hash_key};
use tombolo_sharing::{Options as PodOptions, plan_layout};

const SCR: u64 = 256 << 10;
const LNR: u64 = 8 << 20;
const CHUNK: u64 = 16 << 10;
const HOSTS: u64 = 2;

fn total_bytes(value_bytes: usize) -> u64 {
    (HEADER_BYTES + size_of::<u32>() + value_bytes) as u64
}

/// The hosts of a pod, in one process and with one thread, and what they should have in it.
struct Model {
    hosts: Vec<Objects<Mapped>>,
    objects: BTreeMap<u32, usize>,
    next: u32,
}

impl Model {
    fn new(log_shards: u64) -> Self {
        let spec = MemorySpec::anonymous(SCR + LNR);
        let region = Arc::new(Backing::open(&spec).unwrap().map(SCR + LNR).unwrap());
        let memory =
            Mapped::new(Window::new(region.clone(), 0, SCR), Window::new(region, SCR, LNR));
        let options = PodOptions {
            log_shards: Some(log_shards),
            chunk_bytes: Some(CHUNK),
            ring_entries: Some(4096),
            segment_entries: Some(2048),
            records: Some(64),
            ..Default::default()
        };
        let layout = plan_layout(SCR, LNR, options).unwrap();
        let pod = Pod::format(memory, &layout).unwrap();
        let first = Objects::join(pod.clone(), Options::default()).unwrap();
        let second = std::thread::scope(|scope| {
            let joining = scope.spawn(|| Objects::join(pod.clone(), Options::default()).unwrap());
            while !joining.is_finished() {
                first.tick().unwrap();
            }
            joining.join().unwrap()
        });
        Self { hosts: vec![first, second], objects: BTreeMap::new(), next: 0 }
    }

    /// The chunks that may be in use: for each class and shard the least that hold its objects, and
    /// one that each host holds besides; and those of objects that are larger than a chunk.
    fn chunks_in_use_at_most(&self) -> u64 {
        let (area, classes) = (self.hosts[0].area(), Classes::new(CHUNK));
        let mut objects = BTreeMap::<(u8, u64), u64>::new();
        let mut in_chains = 0;
        for (number, &bytes) in &self.objects {
            let key = number.to_le_bytes();
            let total = total_bytes(bytes);
            let Some(class) = classes.class_for(total) else {
                in_chains += total.div_ceil(CHUNK);
                continue;
            };
            let hash = u64::from(hash_key(area.pod(), &key).unwrap() as u32);
            let shard = (hash * area.geometry().log_shards) >> 32;
            *objects.entry((class, shard)).or_default() += 1;
        }
        let chunks = objects
            .into_iter()
            .map(|((class, _), count)| count.div_ceil(classes.slots(class).unwrap()) + HOSTS);
        chunks.sum::<u64>() + in_chains
    }

    /// Creates an object. Where there is no room, there must not be any.
    fn create(&mut self, host: usize, bytes: usize) -> bool {
        let number = self.next;
        self.next += 1;
        let created = self.hosts[host].create(&number.to_le_bytes(), &vec![number as u8; bytes]);
        self.hosts.iter().for_each(|host| host.tick().unwrap());
        match created {
            Ok(_) => {
                self.objects.insert(number, bytes);
                true
            }
            Err(Error::LnrFull { .. }) => {
                let (most, chunks) =
                    (self.chunks_in_use_at_most(), self.hosts[0].area().geometry().chunks);
                let wanted = total_bytes(bytes).div_ceil(CHUNK);
                assert!(
                    most + wanted > chunks,
                    "no room for {wanted} chunks, though {most} of {chunks} are in use"
                );
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn delete(&mut self, host: usize, number: u32) {
        assert!(self.hosts[host].delete(&number.to_le_bytes()).unwrap());
        self.hosts.iter().for_each(|host| host.tick().unwrap());
        self.objects.remove(&number);
    }

    /// Gives some objects records, so that there are both kinds.
    fn write(&self, host: usize, number: u32) {
        let bytes = vec![number as u8; self.objects[&number]];
        self.hosts[host].write(&number.to_le_bytes(), &bytes).unwrap();
        self.hosts.iter().for_each(|host| host.tick().unwrap());
    }

    fn check(&self) {
        let mut read = Vec::new();
        for (&number, &bytes) in &self.objects {
            for host in &self.hosts {
                host.read(&number.to_le_bytes(), &mut read).unwrap().expect("an object is there");
                assert!(read.len() == bytes && read.iter().all(|&byte| byte == number as u8));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Phases with sizes of their own: each fills the pod, and then deletes most of what is there.
    #[test]
    fn no_more_than_the_bound_is_unusable(
        log_shards in prop::sample::select(vec![1u64, 2]),
        seed: u64,
        phases in prop::collection::vec((5u32..16, 1u32..3, 2u32..40), 2..5),
    ) {
        let mut model = Model::new(log_shards);
        let mut dice = SmallRng::seed_from_u64(seed);
        for (power, spread, one_in) in phases {
            let largest = 1usize << (power + spread).min(17);
            let size = |dice: &mut SmallRng| dice.random_range(1usize << power..=largest);
            loop {
                let (host, bytes) = (dice.random_range(0..2), size(&mut dice));
                if !model.create(host, bytes) {
                    break;
                }
            }
            let all: Vec<u32> = model.objects.keys().copied().collect();
            for number in all {
                let host = dice.random_range(0..2);
                match dice.random_range(0..one_in) {
                    0 if dice.random() => model.write(host, number),
                    0 => {}
                    _ => model.delete(host, number),
                }
            }
            model.check();
        }
        let usage = model.hosts[0].usage();
        prop_assert!(usage.lnr_used_bytes + usage.lnr_fragmented_bytes <= usage.lnr_bytes);
    }
}
