//! The engines that the command knows.

use anyhow::{Context, Result};
use tombolo::PodSpec;
use tombolo_database::hosts::{DatabaseShape, PodEngine, recreate_pod};
use tombolo_memory::Mapped;
use tombolo_object_database::ObjectDatabase;
use tombolo_pod::{Kind, Pod, inspect};
use tombolo_shared_nothing::{Ds2pl, Sundial};
use tombolo_tigon::Tigon;

use crate::cli::EngineKind;

/// Evaluates an expression with the type of an engine.
macro_rules! with_engine {
    ($kind:expr, $engine:ident => $body:expr) => {
        match $kind {
            $crate::cli::EngineKind::Tigon => {
                type $engine = tombolo_tigon::Tigon<tombolo_memory::Mapped>;
                $body
            }
            $crate::cli::EngineKind::Objects => {
                type $engine = tombolo_object_database::ObjectDatabase<tombolo_memory::Mapped>;
                $body
            }
            $crate::cli::EngineKind::Sundial => {
                type $engine = tombolo_shared_nothing::Sundial<tombolo_memory::Mapped>;
                $body
            }
            $crate::cli::EngineKind::Ds2pl => {
                type $engine = tombolo_shared_nothing::Ds2pl<tombolo_memory::Mapped>;
                $body
            }
        }
    };
}
pub(crate) use with_engine;

/// Kinds of areas in pods of databases. A pod that has an area of such a kind may be overwritten.
const KINDS: [Kind; 4] = [
    Tigon::<Mapped>::KIND,
    ObjectDatabase::<Mapped>::KIND,
    Sundial::<Mapped>::KIND,
    Ds2pl::<Mapped>::KIND,
];

impl EngineKind {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Tigon, Self::Objects, Self::Sundial, Self::Ds2pl];

    /// The engine of the database in a pod.
    pub(crate) fn of_pod(spec: &PodSpec) -> Result<Self> {
        let pod = inspect(spec)?;
        let has = |kind: Kind| pod.areas().any(|area| area.layout().kind == kind);
        let found = Self::ALL.into_iter().find(|engine| has(engine.kind()));
        found.with_context(|| format!("{spec} holds no database; `tombolo db create` makes one"))
    }

    /// The kind of the area that its database lies in.
    pub(crate) fn kind(self) -> Kind {
        with_engine!(self, E => E::KIND)
    }

    /// Whether the others go on when a host dies.
    pub(crate) fn goes_on(self) -> bool {
        with_engine!(self, E => E::AFTER_DEATH).goes_on()
    }

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tigon => "tigon",
            Self::Objects => "objects",
            Self::Sundial => "sundial",
            Self::Ds2pl => "ds2pl",
        }
    }

    /// Bytes of LNR that a database takes, whose rows take `row_bytes` where they are in the pod.
    pub(crate) fn lnr_bytes(self, shape: &DatabaseShape, row_bytes: u64) -> u64 {
        with_engine!(self, E => E::lnr_bytes(shape)) + self.shared(row_bytes)
    }

    /// Those of rows: Tigon has those in the pod that are shared, and objects are all there.
    fn shared(self, row_bytes: u64) -> u64 {
        match self {
            Self::Tigon | Self::Objects => row_bytes,
            Self::Sundial | Self::Ds2pl => 0,
        }
    }

    /// Creates the pod of a database. A pod that is there is overwritten if it holds a database,
    /// too, and no host uses it.
    pub(crate) fn create_pod(
        self,
        spec: &PodSpec,
        shape: &DatabaseShape,
        (scr, lnr, row_bytes): (u64, Option<u64>, u64),
    ) -> Result<Pod<Mapped>> {
        let sizes = (scr, lnr, self.shared(row_bytes));
        Ok(with_engine!(self, E => recreate_pod::<E>(spec, sizes, shape, &KINDS))?)
    }
}
