//! Eviction in `tombolo pod info`.

use std::collections::BTreeMap;

use serde::Serialize;
use tombolo::format_size;
use tombolo_memory::Mapped;
use tombolo_sharing::{EvictionReason, ObjectArea};

/// The policy when there is no room, and the values that were evicted.
#[derive(Serialize)]
pub(super) struct EvictionInfo {
    policy: &'static str,
    limit_bytes: Option<u64>,
    /// Values that were evicted, by reason, by all hosts there were.
    evicted: BTreeMap<&'static str, u64>,
    evicted_bytes: u64,
}

impl EvictionInfo {
    pub(super) fn of(area: &ObjectArea<Mapped>) -> Self {
        let reasons = EvictionReason::ALL.map(EvictionReason::name);
        Self {
            policy: area.eviction_policy().name(),
            limit_bytes: area.byte_limit(),
            evicted: reasons.into_iter().zip(area.evicted()).collect(),
            evicted_bytes: area.evicted_bytes(),
        }
    }

    pub(super) fn rows(&self) -> Vec<(&'static str, String)> {
        let limit = self.limit_bytes.map(|bytes| ("  limit", format_size(bytes)));
        let values: u64 = self.evicted.values().sum();
        let by: Vec<_> =
            self.evicted.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let bytes = format_size(self.evicted_bytes);
        let evicted = format!("{values} values, {bytes} ({})", by.join(", "));
        let evicted = (values > 0).then_some(("  evicted", evicted));
        let policy = ("  without room", self.policy.to_owned());
        [policy].into_iter().chain(limit).chain(evicted).collect()
    }
}
