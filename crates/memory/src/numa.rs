//! Binding memory to a NUMA node.
#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;

/// Makes the kernel take the pages of `bytes` bytes at `base`, which have not been touched, from
/// `node`.
pub(crate) fn bind(base: NonNull<u8>, bytes: usize, node: u32) -> io::Result<()> {
    const WORD_BITS: usize = libc::c_ulong::BITS as usize;
    let mut nodes: [libc::c_ulong; 1024 / WORD_BITS] = [0; 1024 / WORD_BITS];
    nodes[node as usize / WORD_BITS] = 1 << (node as usize % WORD_BITS);
    // SAFETY: the range is a mapping of ours, and the mask has the 1024 bits announced; the kernel
    // reads one bit less than the number it is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            base.as_ptr(),
            bytes,
            libc::MPOL_BIND,
            nodes.as_ptr(),
            1024 + 1,
            0,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
