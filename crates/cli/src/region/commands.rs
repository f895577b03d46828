//! `tombolo region create`, `list` and `remove`.

use anyhow::Result;
use serde::Serialize;
use tombolo_memory::format_size;
use tombolo_pod::{PodError, Sizes};
use tombolo_regions::{RegionEntry, Regions, Shape, create_pod};

use super::{CreateArgs, ListArgs, RemoveArgs};
use crate::output::{pairs, print, table};

/// Words of a page and its share of a block's, in bytes.
const SCR_BYTES_PER_PAGE: u64 = 33;
const PAGE_BYTES: u64 = 4096;
/// Directory, rosters and mail.
const SCR_FIXED_BYTES: u64 = 256 << 10;
/// Transfer windows, mail, and pages lost to rounding.
const LNR_FIXED_BYTES: u64 = 4 << 20;
/// Regions of one size that a new pod has room for.
const REGIONS: u64 = 4;

/// The sizes of a pod that has room for so many bytes of pages.
pub(super) fn sizes(bytes: u64) -> Sizes {
    let pages = bytes.div_ceil(PAGE_BYTES) + 64;
    Sizes {
        scr_bytes: Some(SCR_FIXED_BYTES + pages * SCR_BYTES_PER_PAGE),
        lnr_bytes: Some(LNR_FIXED_BYTES + pages * PAGE_BYTES),
        ..Sizes::default()
    }
}

#[derive(Serialize)]
struct Created {
    name: String,
    bytes: u64,
    mode: &'static str,
    pod_created: bool,
}

pub(super) fn create(args: &CreateArgs) -> Result<()> {
    let bytes = args.pod_bytes.unwrap_or(REGIONS * args.bytes);
    let shape = Shape { coherent: args.coherent, ..Shape::default() };
    let pod_created = match create_pod(&args.spec, sizes(bytes), args.hosts, shape) {
        Ok(_) => true,
        Err(PodError::Exists { .. } | PodError::InUse { .. }) => false,
        Err(error) => return Err(error.into()),
    };
    Regions::join(&args.spec)?.create(&args.name, args.bytes, args.mode)?;
    let (name, mode) = (args.name.clone(), args.mode.name());
    print(&Created { name, bytes: args.bytes, mode, pod_created }, args.format, |created| {
        pairs(&[
            ("region", created.name.clone()),
            ("bytes", format_size(created.bytes)),
            ("mode", created.mode.to_owned()),
            ("pod", if created.pod_created { "created" } else { "was there" }.to_owned()),
        ])
    })
}

#[derive(Serialize)]
struct Listed {
    name: String,
    bytes: u64,
    mode_at_first: &'static str,
    hosts: u32,
}

pub(super) fn list(args: &ListArgs) -> Result<()> {
    let as_listed = |entry: RegionEntry| Listed {
        name: entry.name,
        bytes: entry.bytes,
        mode_at_first: entry.mode.name(),
        hosts: entry.users.count_ones(),
    };
    let listed: Vec<Listed> =
        Regions::join(&args.spec)?.list().into_iter().map(as_listed).collect();
    print(&listed, args.format, |listed| {
        let mut rows = table(&["region", "bytes", "mode at first", "hosts"]);
        for region in listed {
            rows.add_row([
                region.name.clone(),
                format_size(region.bytes),
                region.mode_at_first.to_owned(),
                region.hosts.to_string(),
            ]);
        }
        format!("{rows}\n")
    })
}

pub(super) fn remove(args: &RemoveArgs) -> Result<()> {
    Ok(Regions::join(&args.spec)?.remove(&args.name)?)
}
