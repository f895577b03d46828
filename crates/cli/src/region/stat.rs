//! `tombolo region stat`: areas of a region, and a map of its blocks.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use tombolo_regions::{BlockStats, Mode, RegionError, Regions};

use super::StatArgs;
use crate::output::{print, table};
use crate::stop::Stop;

/// Blocks in a line of the map.
const MAP_WIDTH: usize = 64;

/// Blocks in a row that have one mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Area {
    first_block: usize,
    blocks: usize,
    mode: &'static str,
    faults: u64,
    hand_overs: u64,
    changes: u64,
    lost_pages: u64,
}

#[derive(Serialize)]
pub(super) struct Shown {
    region: String,
    bytes: u64,
    hosts: u32,
    areas: Vec<Area>,
    map: Vec<String>,
}

pub(super) fn run(args: &StatArgs) -> Result<()> {
    let regions = Regions::join(&args.spec)?;
    let stop = Stop::on_signals()?;
    let mut before = Vec::new();
    loop {
        let blocks = regions.blocks(&args.name)?;
        let shown = show(&regions, &args.name, &since(&blocks, &before))?;
        print(&shown, args.format, text)?;
        let Some(seconds) = args.watch else { return Ok(()) };
        before = blocks;
        if stop.within(Duration::from_secs(seconds.into())) {
            return Ok(());
        }
    }
}

/// Each block's counts since an earlier look. Its mode and its lost pages are those of now.
fn since(now: &[BlockStats], before: &[BlockStats]) -> Vec<BlockStats> {
    let past = before.iter().map(Some).chain(std::iter::repeat(None));
    let less = |now: u64, before: Option<u64>| now.saturating_sub(before.unwrap_or(0));
    let difference = |(now, past): (&BlockStats, Option<&BlockStats>)| BlockStats {
        mode: now.mode,
        faults: less(now.faults, past.map(|past| past.faults)),
        hand_overs: less(now.hand_overs, past.map(|past| past.hand_overs)),
        changes: less(now.changes, past.map(|past| past.changes)),
        lost: now.lost,
    };
    now.iter().zip(past).map(difference).collect()
}

fn show(regions: &Regions, name: &str, blocks: &[BlockStats]) -> Result<Shown> {
    let missing = || RegionError::Missing(name.to_owned());
    let entry = regions.list().into_iter().find(|entry| entry.name == name).ok_or_else(missing)?;
    Ok(Shown {
        region: entry.name,
        bytes: entry.bytes,
        hosts: entry.users.count_ones(),
        areas: areas(blocks),
        map: map(blocks),
    })
}

/// Blocks in a row that have one mode, together.
pub(super) fn areas(blocks: &[BlockStats]) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        let mode = block.mode.mode.name();
        if areas.last().is_none_or(|area| area.mode != mode) {
            areas.push(Area {
                first_block: number,
                blocks: 0,
                mode,
                faults: 0,
                hand_overs: 0,
                changes: 0,
                lost_pages: 0,
            });
        }
        let area = areas.last_mut().expect("there is one by now");
        area.blocks += 1;
        area.faults += block.faults;
        area.hand_overs += block.hand_overs;
        area.changes += block.changes;
        area.lost_pages += block.lost;
    }
    areas
}

/// A letter for each block: its mode, small if there was no fault; `!` if pages are lost.
pub(super) fn map(blocks: &[BlockStats]) -> Vec<String> {
    let letter = |block: &BlockStats| {
        let letter = match block.mode.mode {
            _ if block.lost > 0 => '!',
            Mode::Direct => 'd',
            Mode::Owned => 'o',
            Mode::Replicated => 'r',
        };
        if block.faults > 0 { letter.to_ascii_uppercase() } else { letter }
    };
    blocks.chunks(MAP_WIDTH).map(|row| row.iter().map(letter).collect()).collect()
}

fn text(shown: &Shown) -> String {
    let mut rows =
        table(&["from block", "blocks", "mode", "faults", "hand-overs", "changes", "lost pages"]);
    for area in &shown.areas {
        rows.add_row([
            area.first_block.to_string(),
            area.blocks.to_string(),
            area.mode.to_owned(),
            area.faults.to_string(),
            area.hand_overs.to_string(),
            area.changes.to_string(),
            area.lost_pages.to_string(),
        ]);
    }
    let mut text = format!(
        "{}: {} bytes, used by {} hosts\n{rows}\n\n",
        shown.region, shown.bytes, shown.hosts
    );
    let _ = writeln!(text, "d direct, o owned, r replicated; large: with faults; ! lost pages");
    for (line, row) in shown.map.iter().enumerate() {
        let _ = writeln!(text, "{:>6}  {row}", line * MAP_WIDTH);
    }
    text
}
