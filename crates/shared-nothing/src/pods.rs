//! Databases without sharing as engines whose hosts are processes.

use std::sync::Arc;

use tombolo_database::hosts::{
    AfterDeath, DatabaseShape, EachVersion, EngineMetrics, Homes, Participation, PodEngine,
    SetupError,
};
use tombolo_database::log::GroupCommit;
use tombolo_database::{TableId, TxError, Version};
use tombolo_memory::{LINE_BYTES, Mapped};
use tombolo_pod::{Kind, Pod, PodError, PodSpec, Sizes};

use crate::engine::{Options, SharedNothing};
use crate::layout::{Shape, message_bytes};
use crate::member::AFTER_DEATH;
use crate::protocol::Protocol;

/// Bytes of a message, unless a row takes more: several rows of a scan fit.
const MESSAGE_BYTES: u64 = 16 << 10;

/// Bytes of LNR that the pod's own parts take at most.
const POD_BYTES: u64 = 1 << 20;

/// The shape of such a database here.
fn shape_of(shape: &DatabaseShape) -> Shape {
    let rows = shape.tables.iter().map(|table| message_bytes(table.row_bytes));
    let longest = rows.max().unwrap_or(0).next_multiple_of(LINE_BYTES);
    Shape {
        homes: shape.hosts,
        partitions: shape.partitions,
        tables: shape.tables.len() as u16,
        workers: shape.workers,
        log_buffer_bytes: shape.log_buffer_bytes,
        message_bytes: longest.max(MESSAGE_BYTES),
    }
}

impl<P: Protocol> PodEngine for SharedNothing<Mapped, P> {
    const KIND: Kind = P::KIND;
    const AFTER_DEATH: AfterDeath = AFTER_DEATH;

    fn lnr_bytes(shape: &DatabaseShape) -> u64 {
        shape_of(shape).bytes().1 + POD_BYTES
    }

    fn create_pod(
        spec: &PodSpec,
        sizes: Sizes,
        shape: &DatabaseShape,
    ) -> Result<Pod<Mapped>, PodError> {
        Self::create(spec, sizes, shape_of(shape))
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
        self.tables.load(table, key, version, row)
    }

    fn each_version(&self, table: TableId, each: &mut EachVersion<'_>) -> Result<(), TxError> {
        self.tables.each_version(table, each)
    }

    fn engine_metrics(&self) -> EngineMetrics {
        let messages = self.messages();
        let (invalidated_lines, cleaned_lines) = self.flushed_lines();
        EngineMetrics {
            requests: messages.requests,
            replies: messages.replies,
            invalidated_lines,
            cleaned_lines,
            ..EngineMetrics::default()
        }
    }
}
