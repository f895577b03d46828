//! Which pages move without being asked to.

use tombolo_placement::{BreakEven, Place, Placement, Profile, Recency};

use crate::options::{Options, Policy};
use crate::page::{Flags, Phase, State};
use crate::queues::{PageId, Verdict};
use crate::shared::Shared;
use crate::stats::Count;

/// Whether a parked page that was touched is promoted while the program waits.
pub(crate) fn promotes_at_once(options: &Options, seen: State) -> bool {
    options.policy == Policy::Tpp && is_wanted(options, seen)
}

/// A parked page was touched, and is back in the far tier.
pub(crate) fn note_hint(shared: &Shared, page: PageId) {
    if matches!(shared.options.policy, Policy::None | Policy::Tpp) {
        return;
    }
    let dropped = shared.queues.lock().touched(page, |page| judge(shared, page));
    shared.counters.add(Count::CandidatesDropped, dropped.candidates);
    shared.counters.add(Count::PendingDropped, dropped.pending);
}

fn judge(shared: &Shared, (area, page): PageId) -> Verdict {
    let area = shared.area(area);
    if page >= area.pages() {
        // It was a page of an area that is gone.
        return Verdict::Drop;
    }
    let state = area.word(page).get();
    let is_far = matches!(state.phase(), Phase::Loose | Phase::Parked);
    if !is_far || state.has_any(Flags::NEAR.and(Flags::HOLD_FAR)) {
        Verdict::Drop
    } else if is_wanted(&shared.options, state) {
        Verdict::Promote
    } else {
        Verdict::Stay
    }
}

/// Whether the policy wants a far page near.
fn is_wanted(options: &Options, state: State) -> bool {
    if state.has(Flags::HOLD_FAR) {
        return false;
    }
    let each = if options.policy == Policy::BreakEven { options.accesses_per_fault } else { 1 };
    let profile = Profile {
        reads: state.seen().saturating_mul(each),
        writes: u32::from(state.has(Flags::WRITTEN)),
        others: 0,
        in_vain: state.in_vain(),
    };
    let place = match options.policy {
        Policy::None => Place::Shared,
        Policy::Tpp | Policy::Nomad => Recency.place(&profile, Place::Shared, &options.costs),
        Policy::BreakEven => BreakEven.place(&profile, Place::Shared, &options.costs),
    };
    place != Place::Shared
}
