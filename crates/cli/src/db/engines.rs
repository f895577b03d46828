//! The engines that the command knows.

use anyhow::Result;
use tombolo::PodSpec;
use tombolo_database::hosts::{DatabaseShape, PodEngine, recreate_pod};
use tombolo_memory::Mapped;
use tombolo_pod::{Kind, Pod};
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
const KINDS: [Kind; 3] = [Tigon::<Mapped>::KIND, Sundial::<Mapped>::KIND, Ds2pl::<Mapped>::KIND];

impl EngineKind {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Tigon, Self::Sundial, Self::Ds2pl];

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tigon => "tigon",
            Self::Sundial => "sundial",
            Self::Ds2pl => "ds2pl",
        }
    }

    /// Bytes of LNR that a database takes, whose rows take `row_bytes` where they are shared.
    pub(crate) fn lnr_bytes(self, shape: &DatabaseShape, row_bytes: u64) -> u64 {
        with_engine!(self, E => E::lnr_bytes(shape)) + self.shared(row_bytes)
    }

    /// Only Tigon shares rows.
    fn shared(self, row_bytes: u64) -> u64 {
        if self == Self::Tigon { row_bytes } else { 0 }
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
