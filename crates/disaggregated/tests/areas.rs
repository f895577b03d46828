//! Memory whose blocks are kept coherent in one of several ways.

use std::path::Path;

use tombolo_coherence::Filter;
use tombolo_disaggregated::{
    AreaSummary, AreasConfig, Body, Choice, Config, Core, Protocol, Summary, System,
};
use tombolo_programs::{Access, PAGE_BYTES, Parameters, Processor, Program, ProgramName};
use tombolo_regions::Mode;
use tombolo_timing::Profile;

const HOSTS: usize = 4;
const FAR_NS: f64 = 1080.0;
const CHOICES: [Choice; 4] = [
    Choice::Static(Mode::Direct),
    Choice::Static(Mode::Owned),
    Choice::Static(Mode::Replicated),
    Choice::Adaptive,
];

fn config(choice: Choice, pages: usize) -> Config {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/adaptive.toml"));
    let profile = Profile::read(path).unwrap();
    let areas = AreasConfig::of(&profile, choice, pages, FAR_NS);
    Config {
        threads: HOSTS,
        filter: Filter::Directory,
        areas,
        ..Config::paper(Protocol::Bi, HOSTS)
    }
}

fn run(config: &Config, body: impl Fn(usize, &Core) + Clone + 'static) -> Summary {
    let system: System = System::new(config).unwrap();
    let bodies = (0..HOSTS).map(|thread| {
        let (core, body) = (system.core(thread), body.clone());
        Box::new(move || body(thread, &core)) as Body
    });
    system.run(bodies.collect());
    system.summary()
}

fn areas(summary: &Summary) -> &AreaSummary {
    summary.areas.as_ref().unwrap()
}

/// Every host reads 4 MiB, more than its caches hold, so many times.
fn read_all(times: u64) -> impl Fn(usize, &Core) + Clone {
    move |_, core| {
        for line in (0..times).flat_map(|_| 0..65_536) {
            core.access(line * 64, 8, Access::Read);
        }
    }
}

/// Hosts write lines of their own, in pages that all of them write.
fn write_all(host: usize, core: &Core) {
    for write in 0..40_000 {
        core.access((write % 1024 * HOSTS as u64 + host as u64) * 64, 8, Access::Write);
    }
}

#[test]
fn every_program_is_right_however_its_pages_are_kept() {
    for &name in ProgramName::ALL {
        for choice in CHOICES {
            let scale = name.default_scale().saturating_sub(6).max(*name.scales().start());
            let parameters = Parameters { scale: Some(scale), ..Parameters::default() };
            let program: Program<Core> = Program::new(name, &parameters, HOSTS).unwrap();
            let last = program.regions().last().unwrap();
            let pages = (last.address + last.bytes).div_ceil(PAGE_BYTES) as usize;
            let system: System = System::new(&config(choice, pages)).unwrap();
            system.run_program(&program, |_, core| core);
            program.verify().unwrap_or_else(|wrong| panic!("{name} {choice:?}: {wrong}"));
            assert!(areas(&system.summary()).faults > 0, "{name} {choice:?}");
        }
    }
}

#[test]
fn what_is_read_is_replicated_and_that_pays() {
    let direct = run(&config(Choice::Static(Mode::Direct), 1024), read_all(20));
    let adaptive = run(&config(Choice::Adaptive, 1024), read_all(20));
    let blocks = &areas(&adaptive).blocks;
    assert!(blocks["replicated"] > 12, "of 16 blocks: {blocks:?}");
    assert!(adaptive.seconds < direct.seconds, "{adaptive:?}");
}

#[test]
fn what_all_write_stays_direct() {
    let adaptive = run(&config(Choice::Adaptive, 64), write_all);
    assert_eq!(areas(&adaptive).blocks.get("direct"), Some(&1), "{adaptive:?}");
}

#[test]
fn nothing_is_direct_where_memory_is_not_coherent() {
    let mut config = config(Choice::Adaptive, 1024);
    config.areas = config.areas.map(|areas| AreasConfig { coherent: false, ..areas });
    let summary = run(&config, read_all(4));
    assert!(!areas(&summary).misses.contains_key("direct"), "{summary:?}");
    let summary = run(&config, write_all);
    assert!(!areas(&summary).misses.contains_key("direct"), "{summary:?}");
}

#[test]
fn an_owned_page_is_handed_over_and_not_copied() {
    let owned = run(&config(Choice::Static(Mode::Owned), 64), write_all);
    assert!(areas(&owned).hand_overs > 0 && areas(&owned).page_copies == 0, "{owned:?}");
    let replicated = run(&config(Choice::Static(Mode::Replicated), 64), write_all);
    let counts = areas(&replicated);
    assert!(counts.page_copies >= counts.hand_overs, "{replicated:?}");
}

#[test]
fn one_seed_gives_one_run() {
    let one = run(&config(Choice::Adaptive, 64), write_all);
    assert_eq!(one, run(&config(Choice::Adaptive, 64), write_all));
}
