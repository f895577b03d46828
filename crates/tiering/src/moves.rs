//! Moves of single pages, as the heap's threads make them, with what is counted about them.

use std::sync::atomic::Ordering;
use std::time::Instant;

use tombolo_memory::paging::Refusal;

use crate::area::{Area, Kernel, OnePage};
use crate::page::{Flags, Phase};
use crate::shared::Shared;
use crate::stats::Count;
use crate::transaction::{Demotion, Outcome, PageOps, Promotion, Transaction};

/// How a transaction ended, and for how long touches of the page had to wait, in nanoseconds.
pub(crate) type Ended = (Outcome, u64);

/// Whether one more page may come into the near tier.
pub(crate) fn has_near_room(shared: &Shared) -> bool {
    shared.near_pages() < shared.near_limit()
}

/// Brings a parked page back into the program's mapping, where it is in the far tier. The caller
/// holds the gate.
pub(crate) fn bring_back(
    shared: &Shared,
    kernel: &Kernel,
    area: &Area,
    page: usize,
) -> Result<(), Refusal> {
    let before = area.word(page).get();
    kernel.put_back(area, page)?;
    area.word(page).change(Phase::Parked, Phase::Loose);
    shared.note_left(before);
    Ok(())
}

/// Promotes a loose page.
pub(crate) fn promote(shared: &Shared, page: OnePage<'_>, keeps_shadow: bool) -> Ended {
    run(shared, &page, &mut Promotion::new(keeps_shadow))
}

/// Demotes a page that is loose or has a shadow; it is parked afterwards.
pub(crate) fn demote(shared: &Shared, page: OnePage<'_>) -> Ended {
    run(shared, &page, &mut Demotion::new())
}

fn run(shared: &Shared, page: &OnePage<'_>, transaction: &mut impl Transaction) -> Ended {
    let mut waited = 0;
    loop {
        let outcome = if transaction.is_in_gap() {
            let (outcome, gap) = cross_gap(shared, page, transaction);
            waited += gap;
            outcome
        } else {
            transaction.advance(page, None)
        };
        if let Some(outcome) = outcome {
            shared.count_abort(outcome);
            return (outcome, waited);
        }
    }
}

/// Runs the steps during which the page is out of the program's mapping.
fn cross_gap(
    shared: &Shared,
    page: &OnePage<'_>,
    transaction: &mut impl Transaction,
) -> (Option<Outcome>, u64) {
    let _gate = shared.gate.lock();
    if shared.is_failed.load(Ordering::Acquire) {
        // A page that left the mapping now might not come back.
        return (Some(Outcome::Busy), 0);
    }
    let (area, number) = (page.area, page.number);
    let before = area.word(number).get();
    let started = Instant::now();
    let mut outcome = None;
    while outcome.is_none() && transaction.is_in_gap() {
        outcome = transaction.advance(page, None);
    }
    let gap = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let after = page.phase();
    if before.phase() != after {
        shared.note_left(before);
        shared.note_entered(after);
    }
    match outcome {
        Some(Outcome::DemotedByRemap) => note_demoted(shared, page, Count::DemotionsByRemap),
        Some(Outcome::DemotedByCopy) => note_demoted(shared, page, Count::DemotionsByCopy),
        None | Some(Outcome::Promoted) => note_promoted(shared, area, number),
        _ => return (outcome, 0),
    }
    shared.counters.add(Count::GapNanoseconds, gap);
    (outcome, gap)
}

/// A page has come into the near tier. The caller holds the gate.
pub(crate) fn note_promoted(shared: &Shared, area: &Area, page: usize) {
    shared.note_tier(area, page, true);
    let word = area.word(page);
    word.mark(Flags::PROMOTED, Flags::NONE);
    word.forget_seen();
    word.note_in_vain(false);
    shared.counters.add(Count::Promotions, 1);
    shared.thrash.lock().promoted();
}

/// A page has left the near tier. If a promotion had brought it there, that was in vain; else a
/// cold page has made room for a hot one.
fn note_demoted(shared: &Shared, page: &OnePage<'_>, count: Count) {
    shared.note_tier(page.area, page.number, false);
    let word = page.area.word(page.number);
    let was_promoted = word.get().has(Flags::PROMOTED);
    word.mark(Flags::NONE, Flags::PROMOTED);
    word.forget_seen();
    shared.counters.add(count, 1);
    if was_promoted {
        word.note_in_vain(true);
        shared.thrash.lock().demoted();
    }
}

/// Gives the shadow of a page up; whether it had one.
pub(crate) fn drop_shadow(shared: &Shared, page: &OnePage<'_>, is_written: bool) -> bool {
    let _gate = shared.gate.lock();
    let word = page.area.word(page.number);
    let before = word.get();
    if !word.change(Phase::Shadowed, Phase::Loose) {
        return false;
    }
    page.drop_mirror();
    shared.note_left(before);
    let (marks, count) = if is_written {
        (Flags::WRITTEN.and(Flags::ACTIVE), Count::ShadowsWritten)
    } else {
        (Flags::NONE, Count::ShadowsReclaimed)
    };
    word.mark(marks, Flags::NONE);
    shared.counters.add(count, 1);
    true
}
