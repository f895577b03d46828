//! Binding memory to a NUMA node, and asking where pages are.
#![allow(unsafe_code)]

use std::io;
use std::ptr::{NonNull, null};

/// Makes the kernel take the pages of `bytes` bytes at `base`, which have not been touched, from
/// `node`.
pub(crate) fn bind(base: NonNull<u8>, bytes: usize, node: u32) -> io::Result<()> {
    set(base, bytes, node, libc::MPOL_BIND)
}

/// As [`bind`], but for pages of other nodes when `node` has none free.
pub(crate) fn prefer(base: NonNull<u8>, bytes: usize, node: u32) -> io::Result<()> {
    set(base, bytes, node, libc::MPOL_PREFERRED)
}

fn set(base: NonNull<u8>, bytes: usize, node: u32, mode: libc::c_int) -> io::Result<()> {
    if node >= 1024 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    const WORD_BITS: usize = libc::c_ulong::BITS as usize;
    let mut nodes: [libc::c_ulong; 1024 / WORD_BITS] = [0; 1024 / WORD_BITS];
    nodes[node as usize / WORD_BITS] = 1 << (node as usize % WORD_BITS);
    // SAFETY: the range is a mapping of ours, and the mask has the 1024 bits announced; the kernel
    // reads one bit less than the number it is given.
    let result = unsafe {
        libc::syscall(libc::SYS_mbind, base.as_ptr(), bytes, mode, nodes.as_ptr(), 1024 + 1, 0)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The node of each page; `None` for one that is not there.
pub(crate) fn nodes(pages: impl Iterator<Item = *mut u8>) -> io::Result<Vec<Option<u32>>> {
    let pages: Vec<*mut u8> = pages.collect();
    let mut nodes: Vec<libc::c_int> = vec![0; pages.len()];
    // SAFETY: both lists have as many entries as is said; without target nodes no page moves.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            pages.len(),
            pages.as_ptr(),
            null::<libc::c_int>(),
            nodes.as_mut_ptr(),
            0,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(nodes.into_iter().map(|node| u32::try_from(node).ok()).collect())
}
