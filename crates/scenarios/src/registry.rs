//! Every scenario and every site there is.

use tombolo_memory::Site;
use tombolo_simulator::{Coverage, Mutant, Trial};

use crate::{
    backup, baselines, branches, compaction, crash, database_deaths, deaths, epochs, eviction,
    expiry, fenced, give_back, heaps, log, mail, messages, objects, pages, poisoned, qualification,
    queues, regions, reservations, saved, seats, several, shards, short, tenants, together,
    transactions, transfer, views,
};

/// The actions of hosts on each other, and the checks of them.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// How long it is.
    pub kind: Kind,
    /// Runs it; panics if something went wrong.
    pub run: fn(&Trial),
}

/// How long a scenario is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A few operations: its schedules with few preemptions can be enumerated.
    Short,
    /// Many operations of many clients.
    Long,
    /// A host dies.
    Crash,
}

macro_rules! scenarios {
    ($($name:literal $kind:ident $($run:ident)::+;)*) => {
        &[$(Scenario { name: $name, kind: Kind::$kind, run: $($run)::+ }),*]
    };
}

/// Scenarios that run by name only. `qualify` holds, but takes minutes where a step is left out, so
/// no mutant of it was judged yet.
pub const PENDING: &[Scenario] = scenarios! {
    "qualify" Long qualification::two_hosts;
};

/// The steps that only pending scenarios come to, or whose mutants are not judged yet.
const PENDING_STEPS: [&str; 4] = [
    "qualify.",
    // Left out, these two are not found within some hundred schedules.
    "kv.uses.whole",
    "kv.evict.count",
    "kv.transaction.",
];

/// Every scenario that holds.
pub const SCENARIOS: &[Scenario] = scenarios! {
    "write-and-read" Short short::write_and_read;
    "read-together" Short short::read_together;
    "write-together" Short together::write_and_read;
    "two-write-together" Long together::two_writers;
    "together-writer-dies" Crash together::a_writer_dies;
    "together-writer-fenced" Crash together::a_writer_is_fenced;
    "first-write" Short short::first_write;
    "two-writers" Short short::two_writers;
    "create-twice" Short short::create_twice;
    "slot-reuse" Short short::slot_reuse;
    "other-size" Short short::other_size;
    "delete-and-write" Short short::delete_and_write;
    "wrap-around" Short short::wrap_around;
    "mixed-records" Long short::mixed_records;
    "one-record" Short short::one_record;
    "mark-and-delete" Short short::a_mark_changes_hands;
    "move" Short short::move_to_another_slot;
    "copies" Short short::copies;
    "one-copy" Short short::one_copy;
    "move-in" Long short::move_in;
    "wrapped-copy" Short short::wrapped_copy;
    "partition-of-another" Long short::partition_of_another;
    "swap-partitions" Long short::swap_partitions;
    "leave-with-partition" Long short::leave_with_partition;
    "grow-in-partition" Long short::grow_in_partition;
    "compare-and-swap" Short short::compare_and_swap;
    "partial-writes" Short short::partial_writes;
    "no-room" Short short::no_room;
    "view-and-write" Short views::view_and_write;
    "view-and-write-parts" Short views::view_and_write_parts;
    "view-and-reuse" Short views::view_and_reuse;
    "two-viewers" Short views::two_viewers;
    "view-and-divide" Short views::view_and_divide;
    "view-chain" Long views::view_chain;
    "view-and-move-in" Long views::view_and_move_in;
    "view-and-back-up" Short views::view_and_back_up;
    "views" Long views::anything_goes;
    "evict-and-write" Short eviction::evict_and_write;
    "evict-and-view" Short eviction::evict_and_view;
    "eviction" Long eviction::full;
    "use-clock" Long eviction::clock;
    "publish-and-read" Short reservations::publish_and_read;
    "publish-twice" Short reservations::publish_twice;
    "filled-by-agent" Short reservations::filled_by_an_agent;
    "reservations" Long reservations::anything_goes;
    "reserver-dies" Crash reservations::a_holder_dies;
    "all-reservers-die" Crash reservations::all_holders_die;
    "reserver-fenced" Crash reservations::a_holder_is_fenced;
    "host-with-agent-dies" Crash reservations::a_host_with_an_agent_dies;
    "mail" Long mail::short_mail;
    "other-shard" Short shards::a_chunk_of_another_shard;
    "filled-again" Short shards::a_chunk_that_fills_again;
    "full-shards" Long shards::full_shards;
    "hcmeta-write-and-read" Long baselines::write_and_read;
    "hcmeta-churn" Long baselines::churn;
    "hcmeta-delete-and-create" Long baselines::delete_and_create;
    "alllog-writes" Long baselines::all_log_writes;
    "many-wraps" Long short::many_wraps;
    "split-record" Long short::split_record;
    "full-log" Long short::full_log;
    "tigon-two-clients" Long transactions::two_clients;
    "tigon" Long transactions::anything_goes;
    "tigon-rows-move" Long transactions::rows_move;
    "tigon-nodes" Long transactions::nodes_come_and_go;
    "tigon-variants" Long transactions::variants;
    "tigon-least-recently-used" Long transactions::least_recently_used;
    "tigon-no-gap-locks" Long transactions::no_gap_locks;
    "tigon-logged" Long database_deaths::all_live;
    "tigon-checkpointed" Long database_deaths::checkpointed;
    "tigon-hosts-meet" Long transactions::tigon_meets;
    "ds2pl-hosts-meet" Long transactions::ds2pl_meets;
    "object-database-logged" Long transactions::durable::all_live;
    "object-database-host-fenced" Long transactions::durable::a_host_is_fenced;
    "object-database-hosts-meet" Long transactions::objects_meet;
    "queues-of-two" Short queues::two_hosts;
    "queues" Long queues::all_ask_each_other;
    "ds2pl-logs" Long branches::ds2pl;
    "sundial-logs" Long branches::sundial;
    "object-database-two-clients" Long transactions::objects_two_clients;
    "object-database" Long transactions::objects;
    "ds2pl-two-clients" Long transactions::ds2pl_two_clients;
    "ds2pl" Long transactions::ds2pl;
    "sundial-two-clients" Long transactions::sundial_two_clients;
    "sundial" Long transactions::sundial;
    "sundial-gap-leases" Long transactions::sundial_gap_leases;
    "heap-of-two" Short heaps::two_hosts;
    "messages-of-two" Short messages::two_hosts;
    "messages" Long messages::anything_goes;
    "messages-roomy" Long messages::roomy;
    "listeners" Short messages::listeners_come_and_go;
    "qualification-record" Short qualification::record;
    "qualification-host-dies" Crash qualification::a_host_dies;
    "regions-owned" Long regions::owned;
    "regions-replicated" Long regions::replicated;
    "regions" Long regions::anything_goes;
    "region-changes" Long regions::changes;
    "region-names" Long regions::names;
    "commits" Short log::short_commits;
    "two-givers" Long transfer::two_givers;
    "two-seats" Short seats::two_come_and_leave;
    "freed-while-taken" Short seats::freed_while_taken;
    "seats" Long seats::come_and_leave;
    "format-and-open" Long objects::format_and_open;
    "anything-goes" Long objects::anything_goes;
    "scarce-space" Long objects::scarce_space;
    "shards-trade-chunks" Long shards::chunks_change_shards;
    "equal-hashes" Long objects::equal_hashes;
    "guards" Long objects::guards;
    "join-under-load" Long objects::join_under_load;
    "late-joiner" Long objects::late_joiner;
    "join-under-churn" Long objects::join_under_churn;
    "join-at-once" Long objects::join_at_once;
    "join-twice" Long objects::join_twice;
    "closed-under-others" Long seats::closed_under_others;
    "many-seats" Long seats::many_come_and_leave;
    "many-hosts" Long seats::many_hosts;
    "two-tenants" Long tenants::two_tenants;
    "mail-of-tenants" Long tenants::mail_of_tenants;
    "crowded-segment" Long log::crowded_segment;
    "join-and-fill" Long log::join_and_fill;
    "leave-and-return" Long objects::leave_and_return;
    "save-among-others" Long saved::save_among_others;
    "save-from-partition" Long saved::save_from_partition;
    "load-among-others" Long saved::load_among_others;
    "make-room" Long compaction::room_is_made;
    "compaction" Long compaction::background;
    "unknown-objects" Long compaction::unknown_objects;
    "scattered-chunks" Long compaction::scattered;
    "roomy-chunks" Long compaction::roomy_chunks;
    "memory-comes-and-goes" Long give_back::memory_comes_and_goes;
    "free-chunks-go" Long give_back::free_chunks_go;
    "crowded-chunks" Long objects::crowded_chunks;
    "busy-mail" Long mail::busy_mail;
    "mail-for-the-last-one" Long mail::mail_for_the_last_one;
    "hcmeta" Long baselines::hcmeta;
    "hcmeta-local" Long baselines::hcmeta_local;
    "hcmeta-scarce-space" Long baselines::scarce_space;
    "hcmeta-equal-fingerprints" Long baselines::equal_fingerprints;
    "hcmeta-halves" Long baselines::halves;
    "hcmeta-leave-and-return" Long baselines::leave_and_return;
    "alllog" Long baselines::all_log_anything_goes;
    "concurrent-commits" Long log::concurrent_commits;
    "committed-before" Long log::reads_see_what_was_committed_before;
    "joining-by-copy" Long log::joining_by_copy;
    "expiry" Long expiry::gone_is_gone;
    "deadlines" Long expiry::deadlines;
    "expired-and-replaced" Long expiry::a_new_value_stays;
    "values-in-parts" Long expiry::parts;
    "page-admission" Long pages::admission;
    "page-overwritten" Long pages::overwriting;
    "page-cut" Long pages::cutting;
    "page-cut-while-admitted" Long pages::cutting_what_is_admitted;
    "page-cut-while-written" Long pages::cutting_what_is_written;
    "page-cut-dirty" Long pages::cutting_what_is_dirty;
    "page-eviction" Long pages::eviction;
    "page-eviction-one-by-one" Long pages::eviction_one_by_one;
    "page-append" Long pages::appending;
    "page-growth" Long pages::growing;
    "page-records" Long pages::few_records;
    "page-other-files" Long pages::other_files;
    "page-power-cut" Long pages::power_cut_at_once;
    "page-comes-and-goes" Long pages::comes_and_goes;
    "page-cut-and-admitted" Long pages::cut_and_admitted;
    "page-cut-and-written" Long pages::cut_and_written;
    "pages" Long pages::anything_goes;
    "scarce-pages" Long pages::scarce;
    "pages-changed-behind" Long pages::changed_behind;
    "power-cut" Long pages::power_cut;
    "hcmeta-pages" Long pages::on_hcmeta;
    "hcmeta-scarce-pages" Long pages::scarce_on_hcmeta;
    "hcmeta-page-comes-and-goes" Long pages::comes_and_goes_on_hcmeta;
    "hcmeta-page-eviction" Long pages::eviction_on_hcmeta;
    "hcmeta-page-noted" Long pages::noted;
    "hcmeta-page-one-entry" Long pages::one_entry;
    "hcmeta-pages-changed-behind" Long pages::changed_behind_on_hcmeta;
    "hcmeta-power-cut" Long pages::power_cut_on_hcmeta;
    "alllog-pages" Long pages::on_alllog;
    "page-host-dies" Crash pages::crash::a_host_dies;
    "page-one-of-two-dies" Crash pages::crash::one_of_two_dies;
    "page-size-changer-dies" Crash pages::crash::who_changes_the_size_dies;
    "page-writer-dies" Crash pages::crash::who_writes_dies;
    "page-host-fenced" Crash pages::crash::a_host_is_fenced;
    "hcmeta-all-die" Crash baselines::all_die;
    "hcmeta-leavers-die" Crash baselines::leavers_die;
    "hcmeta-refused-dies" Crash baselines::who_is_refused_dies;
    "hcmeta-only-host-dies" Crash baselines::the_only_host_dies;
    "hcmeta-pages-all-die" Crash pages::all_die_on_hcmeta;
    "page-power-cut-after-death" Crash pages::crash::power_cut;
    "page-all-die" Crash pages::crash::all_die;
    "page-openers-die" Crash pages::crash::openers_die;
    "page-file-holder-dies" Crash pages::crash::who_has_the_file_dies;
    "page-unlinker-dies" Crash pages::crash::who_has_an_unlinked_file_dies;
    "host-dies" Crash crash::a_host_dies;
    "all-die" Crash crash::all_hosts_die;
    "host-fenced" Crash crash::a_host_is_fenced;
    "helper-dies" Crash crash::a_helper_dies;
    "writer-fenced" Crash fenced::a_writer_is_fenced;
    "late-writer-fenced" Crash fenced::a_late_writer_is_fenced;
    "rescuer-dies" Crash fenced::a_rescuer_dies;
    "writer-dies" Crash fenced::a_writer_dies;
    "large-writer-dies" Crash fenced::a_writer_of_much_dies;
    "noted-twice" Crash fenced::one_of_two_writers_dies;
    "all-die-fenced" Crash fenced::all_die_after_a_fence;
    "all-die-writing" Crash fenced::all_die_writing;
    "all-die-creating" Crash fenced::all_die_creating;
    "loss-left-behind" Crash fenced::a_loss_is_left_behind;
    "patient-writer-dies" Crash fenced::a_patient_writer_dies;
    "in-the-way" Long fenced::who_is_in_the_way_is_named;
    "head-writer-dies" Crash fenced::who_writes_a_head_dies;
    "two-clear-up" Crash fenced::two_clear_up;
    "fenced-with-partition" Crash fenced::fenced_with_partition;
    "page-evictor-dies" Crash pages::crash::who_evicts_dies;
    "poisoned-head" Crash pages::crash::a_head_is_poisoned;
    "backup-writer-dies" Crash backup::a_writer_dies;
    "backup-reader-dies" Crash backup::a_reader_dies;
    "backup-patient-writer-dies" Crash backup::a_patient_writer_dies;
    "backup-idle-host-dies" Crash backup::an_idle_host_dies;
    "backup-late-writer-fenced" Crash backup::a_late_writer_is_fenced;
    "backup-fenced" Crash backup::a_host_is_fenced;
    "backup-rescuer-dies" Crash backup::a_rescuer_dies;
    "backup-clearer-dies" Crash backup::a_clearer_dies;
    "backup-all-die" Crash backup::all_die;
    "backup-all-die-later" Crash backup::all_die_later;
    "backup-all-die-fenced" Crash backup::all_die_fenced;
    "backup-all-die-as-they-go-on" Crash backup::all_die_as_they_go_on;
    "poisoned-object" Long poisoned::an_object_is_poisoned;
    "poisoned-read-shared" Long poisoned::a_read_shared_object_is_poisoned;
    "poisoned-update" Long poisoned::an_update_is_poisoned;
    "poisoned-guard" Long poisoned::a_guarded_read_is_poisoned;
    "poisoned-view" Long poisoned::a_view_is_poisoned;
    "poisoned-neighbour" Long poisoned::a_neighbour_is_poisoned;
    "poisoned-free-slot" Long poisoned::a_free_slot_is_poisoned;
    "poisoned-partition" Long poisoned::a_partition_is_poisoned;
    "poisoned-backup" Crash poisoned::a_backup_is_poisoned;
    "poisoned-writer-dies" Crash poisoned::a_poisoned_writer_dies;
    "poisoned-and-reopened" Long poisoned::a_poisoned_pod_is_reopened;
    "poisoned-for-another" Long poisoned::a_chunk_is_poisoned_for_another;
    "poisoned-claim" Short poisoned::a_claimed_chunk_is_poisoned;
    "poisoned-rescuer" Crash poisoned::a_rescuer_is_poisoned;
    "poisoned-writer-fenced" Long poisoned::a_poisoned_writer_is_fenced;
    "poisoned-anything" Long poisoned::anything_is_poisoned;
    "only-host-dies" Crash crash::the_only_host_dies;
    "committer-dies" Crash crash::a_committer_dies;
    "formatter-dies" Crash crash::a_formatter_dies;
    "save-while-one-dies" Crash saved::save_while_a_host_dies;
    "member-dies" Crash seats::a_member_dies;
    "pod-opened-anew" Crash seats::opened_anew;
    "claimer-dies" Crash seats::a_claimer_dies;
    "host-of-two-dies" Crash tenants::a_host_of_two_dies;
    "openers-die" Crash crash::openers_die;
    "torn-openers-die" Crash crash::openers_of_torn_objects_die;
    "joiner-dies" Crash crash::a_joiner_dies;
    "only-helper-dies" Crash crash::the_only_helper_dies;
    "reader-dies" Crash crash::a_reader_dies;
    "deleter-dies" Crash crash::a_deleter_dies;
    "fenced-host-dies" Crash fenced::a_fenced_host_dies;
    "viewer-dies" Crash views::a_viewer_dies;
    "viewers-clearer-dies" Crash views::who_clears_up_after_a_viewer_dies;
    "viewed-deleter-dies" Crash views::a_deleter_dies;
    "viewed-partition-dies" Crash views::a_host_dies_with_a_viewed_object;
    "viewers-die" Crash views::viewers_die;
    "store-host-dies" Crash expiry::a_host_dies;
    "evictor-dies" Crash eviction::an_evicting_host_dies;
    "evictor-of-written-dies" Crash eviction::an_evictor_of_a_written_object_dies;
    "mover-dies" Crash compaction::a_mover_dies;
    "giver-dies" Crash give_back::a_giver_dies;
    "transactions" Long several::anything_goes;
    "transaction-of-one-hash" Long several::keys_with_one_hash;
    "transactor-dies" Crash several::a_host_dies;
    "helped-transactor-dies" Crash several::a_helped_host_dies;
    "two-transactors-die" Crash several::two_die;
    "transactors-die" Crash several::all_die;
    "transactor-fenced" Crash several::a_host_is_fenced;
    "fenced-transactors-die" Crash several::all_die_after_a_fence;
    "transaction-openers-die" Crash several::openers_die;
    "giver-of-the-last-chunk-dies" Crash give_back::a_giver_of_the_last_chunk_dies;
    "filler-dies" Crash shards::who_fills_a_chunk_again_dies;
    "page-two-die" Crash pages::crash::two_die;
    "page-mender-dies" Crash pages::crash::who_mends_the_size_dies;
    "page-dropper-dies" Crash pages::crash::who_drops_a_file_dies;
    "page-joiner-dies" Crash pages::crash::who_joins_dies;
    "dies-again" Crash deaths::a_host_dies_again;
    "two-writers-die" Crash deaths::two_writers_die;
    "several-die" Crash deaths::several_die;
    "clearer-dies" Crash deaths::a_clearer_dies;
    "mover-dies-last" Crash deaths::a_mover_dies_last;
    "deleter-dies-last" Crash deaths::a_deleter_dies_last;
    "move-clearer-dies" Crash deaths::a_clearer_of_a_move_dies;
    "clearer-is-late" Crash deaths::a_clearer_is_late;
    "tigon-host-dies" Crash database_deaths::a_host_dies;
    "tigon-all-die" Crash database_deaths::all_die;
    "tigon-checkpoint-dies" Crash database_deaths::all_die_while_checkpointed;
    "tigon-member-dies" Crash transactions::tigon_host_dies;
    "tigon-lister-dies" Crash transactions::tigon_lister_dies;
    "object-database-member-dies" Crash transactions::objects_host_dies;
    "object-database-host-dies" Crash transactions::durable::a_host_dies;
    "object-database-cleaner-dies" Crash transactions::durable::a_cleaner_dies;
    "object-database-all-die" Crash transactions::durable::all_die;
    "ds2pl-member-dies" Crash transactions::ds2pl_host_dies;
    "sundial-member-dies" Crash transactions::sundial_host_dies;
    "epochs-end" Short epochs::epochs_end;
    "group-commit" Long epochs::group_commit;
    "one-log" Long epochs::one_log;
    "late-log" Long epochs::late_log;
    "freed-under-reader" Long epochs::freed_under_a_reader;
    "logger-fenced" Long epochs::a_logging_host_is_fenced;
    "logger-dies" Crash epochs::a_logging_host_dies;
    "branch-dies" Crash branches::a_host_dies;
    "region-host-dies" Crash regions::a_host_dies;
    "region-two-die" Crash regions::two_die;
    "region-all-die" Crash regions::all_die;
    "region-host-fenced" Crash regions::a_host_is_fenced;
    "drainer-dies" Crash epochs::a_drainer_dies;
    "messages-host-dies" Crash messages::a_host_dies;
    "messages-two-die" Crash messages::two_die;
    "messages-all-die" Crash messages::all_die;
};

/// Steps of devices and agents that scenarios play. They are no protocol's, and none is left out.
pub(crate) const PLAYED: &[Site] = &[reservations::AGENT];

/// Every site there is, from memory upwards.
pub fn sites() -> impl Iterator<Item = Site> {
    let pending = |site: &Site| PENDING_STEPS.iter().any(|steps| site.name().starts_with(steps));
    all_sites().filter(move |site| !pending(site))
}

/// The same, with the steps that only pending scenarios come to.
pub(crate) fn all_sites() -> impl Iterator<Item = Site> {
    let crates = [
        tombolo_simulator::SITES,
        tombolo_pod::SITES,
        tombolo_log::SITES,
        tombolo_objects::SITES,
        tombolo_baselines::SITES,
        tombolo_kv::SITES,
        tombolo_pagecache::SITES,
        tombolo_database::SITES,
        tombolo_tigon::SITES,
        tombolo_object_database::SITES,
        tombolo_shared_nothing::SITES,
        tombolo_regions::SITES,
        tombolo_messages::SITES,
        tombolo_qualify::SITES,
    ];
    crates.into_iter().flatten().copied()
}

/// Steps whose absence shows in few scenarios, or few schedules, and a scenario in which it does:
/// it is tried first, and if it is short, schedules with up to three preemptions are among those
/// that are run.
pub(crate) const WRITTEN_FOR: &[(&str, &str)] = &[
    ("regions.lock", "region-changes"),
    ("regions.directory.lock", "region-changes"),
    ("regions.gone.await", "region-host-fenced"),
    ("hcmeta.chunk.claim", "hcmeta-scarce-space"),
    ("database.home.claim", "ds2pl-hosts-meet"),
    ("database.checkpoint.ask", "tigon-checkpointed"),
    ("tigon.gap.next", "tigon"),
    ("tigon.ghost.epoch", "tigon-logged"),
    ("tigon.usage.latch", "tigon-least-recently-used"),
    ("pod.heap.take", "heap-of-two"),
    ("pod.qualification.clean", "qualification-record"),
    ("pod.qualification.invalidate", "qualification-record"),
    ("pod.end.change", "backup-writer-dies"),
    ("hcmeta.clock.step", "hcmeta-churn"),
    ("hcmeta.host.count", "hcmeta-leave-and-return"),
    ("hcmeta.object.count", "hcmeta-leave-and-return"),
    ("log.fence.ignored", "host-fenced"),
    ("log.head.members", "join-and-fill"),
    ("log.replay.seat", "host-fenced"),
    ("log.ring.low-water-mark", "join-and-fill"),
    ("log.segment.withdraw", "host-fenced"),
    ("objects.read.counter-first", "wrap-around"),
    ("objects.batch.clean", "write-together"),
    ("objects.copy.entry-again", "wrapped-copy"),
    ("objects.copy.still", "one-copy"),
    ("objects.event.forget", "writer-fenced"),
    ("objects.event.rescue", "writer-fenced"),
    ("objects.place.noted", "all-die"),
    ("objects.open.torn", "all-die-writing"),
    ("objects.undo.invalidate", "writer-dies"),
    ("objects.undo.own", "head-writer-dies"),
    ("objects.write.noted", "writer-dies"),
    ("objects.write.through", "noted-twice"),
    ("objects.clear.promised", "clearer-is-late"),
    ("objects.rescue.again", "late-writer-fenced"),
    ("objects.quarantine.noted", "all-die-fenced"),
    ("objects.quarantine.early", "backup-all-die-as-they-go-on"),
    ("objects.rescue.stays", "deleter-dies"),
    ("objects.partition.backup", "backup-all-die"),
    ("objects.partition.noted", "backup-writer-dies"),
    ("objects.partition.through", "backup-idle-host-dies"),
    ("objects.partition.holds", "backup-late-writer-fenced"),
    ("objects.partition.moves", "backup-all-die"),
    ("objects.partition.stays", "backup-all-die-later"),
    ("objects.poison.backup", "poisoned-backup"),
    ("objects.clear.decided", "move-clearer-dies"),
    ("objects.copy.named", "one-copy"),
    ("objects.copy.unnamed", "one-copy"),
    ("objects.compact.lock", "make-room"),
    ("objects.delete.mark", "mark-and-delete"),
    ("objects.partition.here", "partition-of-another"),
    ("objects.partition.leave", "leave-with-partition"),
    ("objects.join.help", "join-under-churn"),
    ("objects.record.split", "split-record"),
    ("objects.slot.known-first", "other-size"),
    ("objects.chain.assign", "clearer-dies"),
    ("objects.open.log-end", "only-helper-dies"),
    ("pod.roster.opened", "pod-opened-anew"),
    ("pod.roster.opener", "pod-opened-anew"),
    ("pod.roster.expel", "member-dies"),
    ("pod.seat.step", "freed-while-taken"),
    ("pod.join.name", "claimer-dies"),
    ("pod.join.claimed", "claimer-dies"),
    ("pod.join.word", "claimer-dies"),
    ("pod.join.take-over", "claimer-dies"),
    ("pod.clock.max", "deadlines"),
    ("pod.roster.cleared", "host-of-two-dies"),
    ("pod.mail.area", "mail-of-tenants"),
    ("pod.mail.answer", "busy-mail"),
    ("pod.mail.renew", "mail-for-the-last-one"),
    ("pod.transfer.answer", "two-givers"),
    ("objects.transaction.note", "fenced-transactors-die"),
    ("objects.transaction.note-first", "transactor-fenced"),
    ("objects.transaction.redo", "transactor-dies"),
    ("objects.transaction.decided", "fenced-transactors-die"),
    ("objects.transaction.unwritten", "fenced-transactors-die"),
    ("objects.transaction.notes-end", "fenced-transactors-die"),
    ("objects.open.redo", "fenced-transactors-die"),
    ("objects.open.unwritten", "fenced-transactors-die"),
    ("objects.event.remove", "transactor-fenced"),
    ("objects.transaction.seen", "transactions"),
    ("objects.transaction.validate", "transactions"),
    ("objects.transaction.clean", "helped-transactor-dies"),
    ("objects.chunk.class", "mover-dies-last"),
    ("objects.chunk.prepared", "giver-dies"),
    ("objects.chunk.discard-taken", "memory-comes-and-goes"),
    ("objects.chunk.forget-first", "giver-of-the-last-chunk-dies"),
    ("objects.slot.scrub-mark", "deleter-dies-last"),
    ("objects.chunk.empty", "filled-again"),
    ("objects.chunk.sync", "filled-again"),
    ("objects.lost.alone", "writer-dies"),
    ("objects.mark.tag", "power-cut"),
    ("pagecache.zero.pages", "pages"),
    ("objects.lost.unmarked", "page-writer-dies"),
    ("objects.delete.found", "page-evictor-dies"),
    ("objects.open.left", "page-all-die"),
    ("objects.close.empty", "pages-changed-behind"),
    ("pagecache.write.written", "page-all-die"),
    ("pagecache.salvage.page", "page-all-die"),
    ("pagecache.salvage.size", "page-all-die"),
    ("pagecache.dead.files", "page-file-holder-dies"),
    ("pagecache.gone.files", "page-unlinker-dies"),
    ("pagecache.join.below", "page-other-files"),
    ("objects.latch.free", "page-host-dies"),
    ("pagecache.dead.keep", "page-size-changer-dies"),
    ("pagecache.grown.by-dead", "page-size-changer-dies"),
    ("pagecache.lost.head-size", "poisoned-head"),
    ("pagecache.read.grown", "page-size-changer-dies"),
    ("objects.open.other", "hcmeta-all-die"),
    ("objects.evict.viewed", "evict-and-view"),
    ("objects.evict.version", "evict-and-write"),
    ("kv.uses.clean", "eviction"),
    ("kv.uses.invalidate", "eviction"),
    ("kv.uses.tick", "use-clock"),
    ("objects.room.clean", "filled-by-agent"),
    ("objects.room.not-validated", "filled-by-agent"),
    ("objects.pin.set", "two-viewers"),
    ("objects.pin.alone", "two-viewers"),
    ("objects.pin.write", "view-and-write"),
    ("objects.pin.slot", "view-and-reuse"),
    ("objects.pin.chunk", "view-and-divide"),
    ("objects.pin.scrub", "view-and-reuse"),
    ("objects.pin.invalidate", "viewed-deleter-dies"),
    ("objects.pin.move-out", "view-and-move-in"),
    ("objects.pin.backup", "view-and-back-up"),
    ("objects.pin.clear", "viewer-dies"),
    ("objects.poison.write", "poisoned-neighbour"),
    ("objects.poison.undo", "poisoned-writer-fenced"),
    ("objects.poison.place", "poisoned-free-slot"),
    ("objects.poison.move-out", "poisoned-partition"),
    ("objects.poison.rescue", "poisoned-writer-fenced"),
    ("objects.chunk.flags-stay", "poisoned-claim"),
    ("objects.chunk.poisoned", "poisoned-for-another"),
    ("objects.open.untrue", "poisoned-and-reopened"),
    ("pagecache.admit.absent", "page-admission"),
    ("pagecache.admit.epoch", "page-cut-and-admitted"),
    ("pagecache.read.blank", "page-overwritten"),
    ("pagecache.write.blank", "page-overwritten"),
    ("pagecache.cut.barrier", "page-cut-while-admitted"),
    ("pagecache.read.epoch", "page-cut-and-admitted"),
    ("pagecache.read.size", "page-growth"),
    ("pagecache.clean.write-first", "power-cut"),
    ("pagecache.cut.unmarked", "page-cut-while-written"),
    ("pagecache.latch.take", "page-cut-and-admitted"),
    ("pagecache.header.forget-first", "hcmeta-page-noted"),
    ("object-database.settle.marker", "object-database-host-dies"),
    ("object-database.settle.out", "object-database-host-fenced"),
    ("database.begin.announce", "freed-under-reader"),
    ("database.commit.epoch", "one-log"),
    ("database.drain.invalidate", "drainer-dies"),
    ("database.flush.epoch-first", "one-log"),
    ("database.flush.retired", "logger-fenced"),
    ("database.join.announce", "late-log"),
];

/// Every mutant there is: each site left out, and each fence. `crossed` tells which sites end with
/// a fence.
pub fn mutants(crossed: &Coverage) -> Vec<Mutant> {
    let met = crossed.sites();
    let fenced = |site: &Site| met.get(site).is_some_and(|crossed| crossed.fenced);
    let fences = sites().filter(fenced).map(Mutant::Fence);
    sites().map(Mutant::Step).chain(fences).collect()
}
