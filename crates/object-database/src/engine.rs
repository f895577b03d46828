//! The database as an engine whose hosts are processes.

use std::sync::Arc;

use tombolo_database::hosts::{
    AfterDeath, DatabaseShape, EachVersion, EngineMetrics, Homes, Participation, PodEngine,
    SetupError,
};
use tombolo_database::log::GroupCommit;
use tombolo_database::{TableId, TxError, Version};
use tombolo_memory::Mapped;
use tombolo_pod::{Area, Kind, Pod, PodError, PodSpec, Sizes, Stay, inspect};

use crate::database::{ObjectDatabase, Options};
use crate::layout::{KIND, Places, Shape};
use crate::member::AFTER_DEATH;

/// LNR that a database takes besides its rows and log buffers: tables of the pod, and chunks that
/// hosts have begun for each size of objects.
const LNR_BYTES_OF_HOST: u64 = 32 << 20;

impl PodEngine for ObjectDatabase<Mapped> {
    const KIND: Kind = KIND;
    const AFTER_DEATH: AfterDeath = AFTER_DEATH;

    fn settle(&self, home: u8, stay: Stay) -> Result<bool, TxError> {
        self.settle(home, stay)
    }

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

    fn is_running(spec: &PodSpec) -> Result<bool, PodError> {
        let pod = inspect(spec)?;
        let is_running = |area: Area<Mapped>| {
            let places = Places::of_area(&area.layout().parameters, area.places()).ok()?;
            let mut hosts = area.membership().hosts().map(|host| area.stay_of(host));
            let one_lives = hosts.any(|stay| !area.pod().has_ended(stay));
            Some(one_lives && places.homes.have_all_come(area.memory()))
        };
        let area = pod.areas().find(|area| area.layout().kind == KIND);
        Ok(area.and_then(is_running).unwrap_or(false))
    }

    fn is_late(&self) -> bool {
        self.is_late
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
