//! The back end as those see it who write against `Memory`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tombolo_memory::{FetchOp, HostMutex, Lines, LnrAddr, Memory, ScrAddr, Site, conformance};
use tombolo_timing::{Profile, Simulation, Spec, TimedMemory};

const PROFILE: &str = r#"
    name = "test"
    about = "three hosts with two cores"
    pod = { hosts = 3, cores = 2 }
    core = { atomic_ns = 5, pause_ns = 40, copy_ns = 2, misses_at_once = 4, stores_at_once = 4, core_to_core_ns = 50 }
    tlb = { page_kib = 4, pages = 64, miss_ns = 0 }
    cache = [{ kib = 16, ways = 4, latency_ns = 1 }, { kib = 256, ways = 8, latency_ns = 20 }]
    local = { latency_ns = 100, gb_per_s = 100 }
    link = { gb_per_s = 10 }
    device = { latency_ns = 300, gb_per_s = 10 }
    coherence = { latency_ns = 200, snoop_ns = 150 }
    flush = { clean_ns = 100, clean_more_ns = 20, invalidate_ns = 40, invalidate_more_ns = 5 }
    steps = { operation_ns = 50, lock_ns = 10, append_ns = 40, apply_ns = 30, message_ns = 50 }
"#;

const SITE: Site = Site::new("test");
const WORD: ScrAddr<u64> = ScrAddr::new(64);

fn simulation() -> Simulation {
    Simulation::new(Spec {
        profile: Profile::parse("test", PROFILE).unwrap(),
        scr_bytes: 64 << 10,
        lnr_bytes: 1 << 20,
        seed: 1,
    })
}

/// Runs a body on the first core of each host, with its number.
fn on_each_host(body: impl Fn(&TimedMemory, usize) + 'static) -> Simulation {
    let mut simulation = simulation();
    simulation.takes_time(true);
    let body = Rc::new(body);
    for host in 0..3 {
        let body = Rc::clone(&body);
        simulation.spawn(host, 0, move |memory| body(&memory, host));
    }
    simulation.run();
    simulation
}

#[test]
fn it_keeps_the_traits_word() {
    let simulation = simulation();
    conformance::check_all(&simulation.memory(0), &simulation.memory(1));
    simulation.takes_time(true);
    conformance::check_all(&simulation.memory(0), &simulation.memory(1));
}

#[test]
fn the_thread_with_the_smallest_clock_runs() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&order);
    on_each_host(move |memory, host| {
        for _ in 0..3 {
            memory.sleep(Duration::from_nanos(100 + 10 * host as u64));
            seen.borrow_mut().push((memory.uptime().as_nanos() as u64, host));
        }
    });
    let order = order.borrow();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(order.len(), 9);
}

#[test]
fn backing_off_takes_as_long_as_so_many_pauses() {
    on_each_host(|memory, _| {
        let started = memory.uptime();
        memory.pause();
        let paused = memory.uptime();
        memory.back_off(100);
        assert_eq!(memory.uptime() - paused, 100 * (paused - started));
    });
}

#[test]
fn a_contended_word_serves_one_host_after_the_other() {
    let simulation = on_each_host(|memory, _| {
        for _ in 0..1000 {
            memory.fetch(SITE, WORD, FetchOp::Add, 1);
        }
    });
    assert_eq!(simulation.memory(0).load(WORD), 3000);
    // Nearly every change has to take the line from another host first.
    let took = simulation.now().as_nanos() as f64 / 3000.0;
    assert!((300.0..360.0).contains(&took), "{took} ns each");
    assert!(simulation.counts().back_invalidations > 2900);
}

#[test]
fn no_more_goes_over_a_link_than_it_carries() {
    let simulation = on_each_host(|memory, host| {
        let mut bytes = vec![0; 64 << 10];
        (0..4)
            .for_each(|part| memory.read(LnrAddr::new((host as u64 * 4 + part) << 16), &mut bytes));
    });
    // 768 KiB through a device that carries 10 GB/s.
    let took = simulation.now().as_nanos() as f64;
    assert!(took >= 0.95 * 78_643.0, "{took} ns");
    assert_eq!(simulation.counts().lnr_misses, 12 * 1024);
    assert_eq!(simulation.counts().device_bytes, 12 << 16);
}

#[test]
fn who_waits_for_a_lock_sleeps_until_it_is_released() {
    let lock: Rc<HostMutex<TimedMemory, u64>> = Rc::new(HostMutex::<TimedMemory, _>::new(0));
    let mut simulation = simulation();
    simulation.takes_time(true);
    for core in 0..2 {
        let lock = Rc::clone(&lock);
        simulation.spawn(0, core, move |memory| {
            for _ in 0..10 {
                let mut guard = lock.lock();
                memory.sleep(Duration::from_micros(1));
                *guard += 1;
            }
        });
    }
    simulation.run();
    assert_eq!(*lock.lock(), 20);
    let took = simulation.now().as_nanos();
    assert!((20_000..22_000).contains(&took), "{took} ns");
}

#[test]
fn what_is_set_up_takes_no_time() {
    let mut simulation = simulation();
    let lines = Lines::new(0, 16);
    simulation.spawn(0, 0, move |memory| {
        memory.write(lines.start(), &[1; 1024]);
        memory.clean(SITE, lines);
        memory.store(WORD, 1);
    });
    simulation.run();
    assert_eq!(simulation.now(), Duration::ZERO);
    let found = simulation.memory(2).load(WORD);
    assert_eq!((found, simulation.counts().accesses), (1, 0));
}

#[test]
fn a_seed_gives_one_run() {
    let run = || {
        let sum = Rc::new(Cell::new(0u64));
        let seen = Rc::clone(&sum);
        let simulation = on_each_host(move |memory, _| {
            for _ in 0..200 {
                let at = memory.random() % 1000 * 64;
                memory.write(LnrAddr::new(at), &[3; 64]);
                memory.clean(SITE, Lines::covering(LnrAddr::new(at), 64));
                memory.fetch(SITE, WORD, FetchOp::Add, 1);
                seen.set(
                    seen.get().wrapping_mul(31).wrapping_add(memory.uptime().as_nanos() as u64),
                );
            }
        });
        (sum.get(), simulation.now(), simulation.counts())
    };
    assert_eq!(run(), run());
}

/// Every profile that comes with the program is sound, and says of every number where it comes
/// from.
#[test]
fn profiles_are_sound_and_say_where_numbers_come_from() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles");
    let mut found = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        Profile::read(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let numbers = text.lines().skip_while(|line| !line.starts_with('['));
        for line in numbers.filter(|line| line.contains('=') && !line.contains("= \"")) {
            assert!(line.contains('#'), "{}: {line}", path.display());
        }
        found += 1;
    }
    assert!(found >= 8, "{found} profiles");
}
