//! Tigon as an engine whose hosts are processes.

use std::sync::Arc;

use tombolo_database::hosts::{
    AfterDeath, DatabaseShape, EachVersion, EngineMetrics, Homes, Participation, PodEngine,
    SetupError,
};
use tombolo_database::log::GroupCommit;
use tombolo_database::{TableId, TxError, Version};
use tombolo_memory::Mapped;
use tombolo_pod::{Kind, Pod, PodError, PodSpec, Sizes};

use crate::layout::{KIND, Shape};
use crate::member::AFTER_DEATH;
use crate::tigon::{Options, Tigon};

impl PodEngine for Tigon<Mapped> {
    const KIND: Kind = KIND;
    const AFTER_DEATH: AfterDeath = AFTER_DEATH;

    fn lnr_bytes(shape: &DatabaseShape) -> u64 {
        u64::from(shape.hosts) * u64::from(shape.workers) * shape.log_buffer_bytes
    }

    fn create_pod(
        spec: &PodSpec,
        sizes: Sizes,
        shape: &DatabaseShape,
    ) -> Result<Pod<Mapped>, PodError> {
        let shape = Shape {
            homes: shape.hosts,
            partitions: shape.partitions,
            tables: shape.tables.len() as u16,
            workers: shape.workers,
            log_buffer_bytes: shape.log_buffer_bytes,
        };
        Self::create(spec, sizes, shape)
    }

    fn take_part(spec: &PodSpec, how: Participation) -> Result<Self, SetupError> {
        let Participation { tables, commit, is_logged, first_epoch } = how;
        Self::open(spec, Options { commit, is_logged, first_epoch, ..Options::new(tables) })
    }

    fn homes(&self) -> &Homes<Mapped> {
        &self.cat.homes
    }

    fn group(&self) -> &Arc<GroupCommit<Mapped>> {
        self.log()
    }

    fn meet_all(&self, round: u64) -> Result<(), SetupError> {
        self.meet(round)
    }

    fn load_recovered(
        &self,
        table: TableId,
        key: &[u8],
        version: Version,
        row: &[u8],
    ) -> Result<(), TxError> {
        self.load_version(table, key, version, row)
    }

    fn each_version(&self, table: TableId, each: &mut EachVersion<'_>) -> Result<(), TxError> {
        self.each_row(table, each)
    }

    fn share(&self, table: TableId) -> Result<u64, TxError> {
        self.share_table(table)
    }

    fn scr_by_table(&self) -> Vec<u64> {
        Self::scr_by_table(self)
    }

    fn engine_metrics(&self) -> EngineMetrics {
        let moves = self.moves();
        EngineMetrics {
            requests: moves.requests,
            replies: moves.replies,
            moved_in: moves.moved_in,
            moved_out: moves.moved_out,
            invalidated_lines: moves.invalidated_lines,
            cleaned_lines: moves.cleaned_lines,
            scr_record_bytes: moves.scr_record_bytes,
            scr_index_bytes: moves.scr_bytes.saturating_sub(moves.scr_record_bytes),
        }
    }
}
