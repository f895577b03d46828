//! Copies between private buffers and shared memory.
//!
//! Another host may change the shared bytes at any time, so the compiler must not assume anything
//! about them: the copies are volatile, or opaque to it. The bytes are data only after the protocol
//! above has validated the read.
#![allow(unsafe_code)]

use std::sync::atomic::{Ordering, fence};

/// From this length on, x86-64 copies by one string instruction.
#[cfg(target_arch = "x86_64")]
const STRING_COPY_BYTES: usize = 512;

/// Eight bytes at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Eight(u64);

/// Copies `into.len()` bytes from shared memory; completed before any later access.
///
/// # Safety
/// `from` is mapped for as many bytes.
#[inline]
pub(crate) unsafe fn read(from: *const u8, into: &mut [u8]) {
    // SAFETY: both are valid for as many bytes, and a private buffer overlaps no shared memory.
    unsafe { copy(from, into.as_mut_ptr(), into.len()) };
    // With the validation that follows: no load of it may come before these.
    fence(Ordering::Acquire);
}

/// Copies `bytes` into shared memory, after all earlier accesses.
///
/// # Safety
/// `to` is mapped for as many bytes.
#[inline]
pub(crate) unsafe fn write(to: *mut u8, bytes: &[u8]) {
    // With the lock that was taken before: no store may come before it.
    fence(Ordering::AcqRel);
    // SAFETY: as in `read`.
    unsafe { copy(bytes.as_ptr(), to, bytes.len()) };
}

#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    if bytes >= STRING_COPY_BYTES {
        // SAFETY: by contract of the callers; the direction flag is clear by the calling convention.
        unsafe {
            std::arch::asm!(
                "rep movsb",
                inout("rcx") bytes => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
        return;
    }
    let whole = bytes / 8 * 8;
    for at in (0..whole).step_by(8) {
        // SAFETY: by contract of the callers.
        unsafe {
            let eight = from.add(at).cast::<Eight>().read_volatile();
            to.add(at).cast::<Eight>().write_volatile(eight);
        }
    }
    for at in whole..bytes {
        // SAFETY: as above.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment() {
        let source: Vec<u8> = (0..2000).map(|n| (n * 7 % 251) as u8).collect();
        for length in (0..80).chain([511, 512, 513, 1500]) {
            for shift in 0..9 {
                let mut target = vec![0xEE; 2000];
                let bytes = &source[shift..shift + length];
                // SAFETY: both are within their vectors.
                unsafe { write(target.as_mut_ptr().add(shift + 3), bytes) };
                assert_eq!(&target[shift + 3..shift + 3 + length], bytes);
                assert!(target[..shift + 3].iter().all(|&byte| byte == 0xEE));
                assert!(target[shift + 3 + length..].iter().all(|&byte| byte == 0xEE));
                let mut back = vec![0; length];
                // SAFETY: as above.
                unsafe { read(target.as_ptr().add(shift + 3), &mut back) };
                assert_eq!(back, bytes);
            }
        }
    }
}
