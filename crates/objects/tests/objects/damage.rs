//! Nothing found in shared memory is trusted: whatever stands there, hosts report it or serve what
//! is sound, and never panic, hang or reach outside their regions.

use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tombolo_memory::{Backing, LnrAddr, Mapped, Memory, MemorySpec, ScrAddr, Site, Window};
use tombolo_objects::{Objects, Options, check};
use tombolo_pod::Pod;
use tombolo_sharing::{ObjectArea, Options as PodOptions, plan_layout};

const SCR: u64 = 64 << 10;
const LNR: u64 = 4 << 20;
const OBJECTS: u32 = 200;

fn memory() -> Mapped {
    let spec = MemorySpec::anonymous(SCR + LNR);
    let region = Arc::new(Backing::open(&spec).unwrap().map(SCR + LNR).unwrap());
    Mapped::new(Window::new(region.clone(), 0, SCR), Window::new(region, SCR, LNR))
}

fn value(number: u32) -> Vec<u8> {
    // Some take chunks of their own.
    vec![number as u8; if number.is_multiple_of(50) { 150_000 } else { 1 + number as usize % 300 }]
}

fn filled_pod(memory: &Mapped) -> (Pod<Mapped>, Objects<Mapped>) {
    let options = PodOptions { log_shards: Some(2), ..Default::default() };
    let layout = plan_layout(SCR, LNR, options).unwrap();
    let pod = Pod::format(memory.clone(), &layout).unwrap();
    let objects = Objects::join(pod.clone(), Options::default()).unwrap();
    (0..OBJECTS).for_each(|n| _ = objects.put(&n.to_le_bytes(), &value(n)).unwrap());
    (pod, objects)
}

fn use_all(objects: &Objects<Mapped>) {
    let mut bytes = Vec::new();
    for number in 0..OBJECTS {
        let key = number.to_le_bytes();
        let _ = objects.read(&key, &mut bytes);
        if let Ok(Some(view)) = objects.view(&key) {
            std::hint::black_box(&*view.bytes());
        }
        match number % 4 {
            0 => _ = objects.put(&key, &value(number + 1)),
            1 => _ = objects.delete(&key),
            2 => _ = objects.create(&key, &value(number)),
            _ => _ = objects.write_range(&key, 0, b"x"),
        }
    }
    let mut cursor = 0;
    for _ in 0..100_000 {
        let Ok(next) = objects.scan(cursor, |_| ()) else { break };
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let _ = objects.tick();
}

/// Overwrites a few words of SCR, in the chunk table and the records, and a few bytes of LNR. (A
/// damaged ring is a log that nobody can go on with: waiting for it takes its time.)
fn damage(memory: &Mapped, dice: &mut SmallRng, from: u64) {
    for _ in 0..dice.random_range(1..8) {
        let at = ScrAddr::<u64>::new(dice.random_range(from / 8..SCR / 8) * 8);
        let old = memory.load(at);
        let new = match dice.random_range(0..3) {
            0 => dice.random(),
            1 => old ^ 1 << dice.random_range(0..64),
            _ => old.wrapping_add(1 << 56),
        };
        memory.store(at, new);
    }
    for _ in 0..dice.random_range(1..20) {
        let at = LnrAddr::new(dice.random_range(64 * 64..LNR - 64) / 16 * 16);
        let bytes: [u8; 16] = dice.random();
        memory.write(at, &bytes[..dice.random_range(1..16)]);
    }
}

#[test]
fn a_damaged_pod_at_rest_is_no_danger() {
    for seed in 0..150 {
        let mut dice = SmallRng::seed_from_u64(seed);
        let memory = memory();
        let (pod, objects) = filled_pod(&memory);
        let area = ObjectArea::first(&pod).unwrap();
        objects.leave().unwrap();
        damage(&memory, &mut dice, area.areas().chunk_table.offset());
        let _ = check(&area);
        if let Ok(objects) = Objects::join(pod, Options::default()) {
            use_all(&objects);
        }
    }
}

#[test]
fn damage_under_way_is_no_danger() {
    for seed in 0..60 {
        let mut dice = SmallRng::seed_from_u64(seed);
        let memory = memory();
        let (pod, objects) = filled_pod(&memory);
        let area = ObjectArea::first(&pod).unwrap();
        // Objects only: a damaged record is a lock that nobody releases.
        for _ in 0..20 {
            let at = dice.random_range(area.areas().chunks.offset()..LNR - 64);
            memory.write(LnrAddr::new(at), &dice.random::<[u8; 16]>());
        }
        memory.clean(Site::new("test"), tombolo_memory::Lines::new(0, LNR / 64));
        use_all(&objects);
    }
}
