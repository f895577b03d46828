//! Beside the floors: a library that `tombolo tier run` has loaded into a program, whose pages it
//! moves between two tiers of memory.
//!
//! It replaces no function of the program. It starts the threads of [`ProcessTiers`], which find
//! the program's large anonymous mappings, whatever allocator made them, and are told by the kernel
//! what becomes of these.
//!
//! Invariant: the thread that serves faults has no memory of the program's. So this library has an
//! allocator of its own.
//!
//! Left out: a child of `fork()` that goes on without another program has no tiers.
#![allow(unsafe_code)]

use std::env;
use std::panic::catch_unwind;

use tombolo_memory::PrivateHeap;
use tombolo_tiering::{Options, ProcessTiers};

#[global_allocator]
static ALLOCATOR: PrivateHeap = PrivateHeap;

// SAFETY: the dynamic loader calls what is listed there, once, and with a stack.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    let Ok(text) = env::var(Options::VARIABLE) else { return };
    // The program starts whatever happens here.
    let begun = catch_unwind(|| -> Result<(), String> {
        let options: Options = text.parse()?;
        let tiers = ProcessTiers::start(options, vec![PrivateHeap::addresses()]);
        std::mem::forget(tiers.map_err(|error| error.to_string())?);
        Ok(())
    });
    match begun {
        Ok(Ok(())) => {}
        Ok(Err(error)) => eprintln!("tombolo: this program runs without tiers: {error}"),
        Err(_) => eprintln!("tombolo: this program runs without tiers: its start failed"),
    }
}
