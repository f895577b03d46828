//! The database as an engine whose hosts are processes.

use std::sync::Arc;

use tombolo_database::hosts::{
    DatabaseShape, EachVersion, EngineMetrics, Homes, Participation, PodEngine, SetupError,
};
use tombolo_database::log::GroupCommit;
use tombolo_database::{TableId, TxError, Version};
use tombolo_memory::Mapped;
use tombolo_pod::{Kind, Pod, PodError, PodSpec, Sizes};

use crate::database::{ObjectDatabase, Options};
use crate::layout::{KIND, Shape};

/// LNR that a database takes besides its rows and log buffers: tables of the pod, and chunks that
/// hosts have begun for each size of objects.
const LNR_BYTES_OF_HOST: u64 = 32 << 20;

impl PodEngine for ObjectDatabase<Mapped> {
    const KIND: Kind = KIND;
    /// No host knows which transactions a dead one has committed and not logged. Its logger never
    /// passes their epoch, so recovery does without them.
    const DRAINS: bool = false;

    fn lnr_bytes(shape: &DatabaseShape) -> u64 {
        let buffers = u64::from(shape.workers) * shape.log_buffer_bytes;
        u64::from(shape.hosts) * (buffers + LNR_BYTES_OF_HOST)
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
        &self.homes
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

    /// No row moves, and the objects' own counters tell the lines.
    fn engine_metrics(&self) -> EngineMetrics {
        let (stats, usage) = (self.objects.stats(), self.objects.usage());
        EngineMetrics {
            invalidated_lines: stats.invalidated_lines,
            cleaned_lines: stats.cleaned_lines,
            scr_record_bytes: usage.scr_used_bytes,
            ..EngineMetrics::default()
        }
    }

    fn leave_all(&self) {
        self.leave();
    }
}
