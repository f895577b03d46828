//! The same on other ways of sharing, whose pages say themselves that they are dirty.

use tombolo_baselines::HcMeta;
use tombolo_objects::Objects;
use tombolo_pagecache::InHeader;
use tombolo_simulator::{Deaths, Kills, SimMemory, Trial};

use super::world::{PageWorld, Way, file, perform};
use super::{
    Operation, Step, UNITS, add_churn, anything_goes_under, changed_behind_under, churn_in,
    come_and_go, power_cut_under, read, run_under, scarce_under, write,
};
use crate::world::try_join;

type OnHcMeta = InHeader<HcMeta<SimMemory>>;
type OnAllLog = InHeader<Objects<SimMemory>>;

/// Clients on three hosts do anything to two files.
pub(crate) fn on_hcmeta(trial: &Trial) {
    anything_goes_under::<OnHcMeta>(trial);
}

/// The same with one file, and room for a handful of pages.
pub(crate) fn scarce_on_hcmeta(trial: &Trial) {
    scarce_under::<OnHcMeta>(trial, 4);
}

/// A page is admitted, written and evicted all the time.
pub(crate) fn comes_and_goes_on_hcmeta(trial: &Trial) {
    churn_in(PageWorld::<OnHcMeta>::new(trial, 2, 8), 1, 5, come_and_go);
}

/// A page is evicted by one host while another writes it.
pub(crate) fn eviction_on_hcmeta(trial: &Trial) {
    run_under::<OnHcMeta>(
        trial,
        8,
        &[write(0, UNITS, 1)],
        vec![
            (0, vec![Step::Evict, read(0)]),
            (1, vec![Step::Do(write(0, 2, 2)), Step::Do(write(1, 2, 3)), read(0)]),
        ],
    );
}

/// A page that one host has written and the other has brought to its file is written again, while
/// its host finds it clean.
pub(crate) fn noted(trial: &Trial) {
    let mut world = PageWorld::<OnHcMeta>::new(trial, 2, 8);
    world.tidying = false;
    world.prepare(|cache, scribe| perform(cache, scribe, file(0), write(0, UNITS, 1)));
    world.calmly(|host, cache, _| (host == 1).then(|| cache.sync(file(0), true).unwrap()));
    world.client(0, |cache, scribe| perform(cache, scribe, file(0), write(0, UNITS, 2)));
    world.client(0, |cache, _| cache.write_back_all(&mut |_| ()).unwrap());
    world.finish(1);
}

/// All hosts die while they write pages, evict them and synchronise their file: nobody takes what
/// they leave behind for pages.
pub(crate) fn all_die_on_hcmeta(trial: &Trial) {
    let kills = Some(Kills { hosts: vec![0, 1], one_in: 1, deaths: Deaths::Together });
    let setup = crate::world::Setup { kills, ..OnHcMeta::setup(2, 8) };
    let mut world = PageWorld::<OnHcMeta>::in_pod(trial, &setup);
    add_churn(&mut world, 1, 5, |dice, tag| match dice {
        0..3 => read(0),
        3..8 => Step::Do(write(0, UNITS, 100 + tag)),
        8..10 => Step::Do(Operation::Append { count: 1, tag: 100 + tag }),
        10..12 => Step::Evict,
        12..14 => Step::EvictOne,
        _ => Step::Sync,
    });
    world.run();
    if world.living().is_empty() {
        let refused = try_join(world.simulation.memory(0)).err().expect("it is not opened");
        assert!(refused.to_string().contains("HCMeta"), "{refused}");
    }
}

/// In a pod with an entry for one object of each host, two of them write a page and its head.
pub(crate) fn one_entry(trial: &Trial) {
    let setup = OnHcMeta::setup(2, 8);
    let setup = crate::world::Setup { records: (3 + 2) * 16, ..setup };
    churn_in(PageWorld::<OnHcMeta>::in_pod(trial, &setup), 1, 4, |dice, tag| match dice {
        0..4 => read(0),
        4..13 => Step::Do(write(0, UNITS, 100 + tag)),
        _ => Step::Do(Operation::Append { count: 1, tag: 100 + tag }),
    });
}

/// Files change while nobody is in the pod.
pub(crate) fn changed_behind_on_hcmeta(trial: &Trial) {
    changed_behind_under::<OnHcMeta>(trial);
}

/// Hosts write whole pages and synchronise, while power may be cut at any moment.
pub(crate) fn power_cut_on_hcmeta(trial: &Trial) {
    power_cut_under::<OnHcMeta>(trial, 4);
}

/// Clients on three hosts do anything to two files, whose pages are locked by the log.
pub(crate) fn on_alllog(trial: &Trial) {
    anything_goes_under::<OnAllLog>(trial);
}
