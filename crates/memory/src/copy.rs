//! Copies between private buffers and shared memory.
//!
//! Another host may change the shared bytes at any time, so the compiler must not assume anything
//! about them: the copies are volatile, or opaque to it. The bytes are data only after the protocol
//! above has validated the read.
#![allow(unsafe_code)]

use std::sync::atomic::{Ordering, fence};

/// Bytes at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T>(T);

/// Copies `into.len()` bytes from shared memory; completed before any later access.
///
/// # Safety
/// `from` is mapped for as many bytes.
#[inline(always)]
pub(crate) unsafe fn read(from: *const u8, into: &mut [u8]) {
    // SAFETY: both are valid for as many bytes, and a private buffer overlaps no shared memory.
    unsafe { copy(from, into.as_mut_ptr(), into.len()) };
    // With the validation that follows: no load of it may come before these.
    fence(Ordering::Acquire);
}

/// Appends `bytes` bytes from shared memory to `to`; completed before any later access.
///
/// # Safety
/// `from` is mapped for as many bytes.
#[inline]
pub(crate) unsafe fn append(from: *const u8, bytes: usize, to: &mut Vec<u8>) {
    to.reserve(bytes);
    let before = to.len();
    // SAFETY: as in `read`; there is room for so many bytes, and all of them are written.
    unsafe {
        copy(from, to.as_mut_ptr().add(before), bytes);
        to.set_len(before + bytes);
    }
    // As in `read`.
    fence(Ordering::Acquire);
}

/// The 16 bytes in shared memory at `from`, and whether `behind` follows them; completed before any
/// later access.
///
/// # Safety
/// `from` is mapped for as many bytes.
#[inline(always)]
pub(crate) unsafe fn read_before(from: *const u8, behind: &[u8]) -> ([u8; 16], bool) {
    // SAFETY: by contract of the caller.
    let (low, high, follows) =
        unsafe { (load::<u64>(from), load::<u64>(from.add(8)), equals(from.add(16), behind)) };
    fence(Ordering::Acquire);
    let mut first = [0; 16];
    first.copy_from_slice([low, high].map(u64::to_ne_bytes).as_flattened());
    (first, follows)
}

/// Whether `bytes` are in shared memory at `at`.
#[inline(always)]
unsafe fn equals(at: *const u8, bytes: &[u8]) -> bool {
    // SAFETY: both are valid for as many bytes, by contract of the caller.
    unsafe {
        match bytes.len() {
            length @ 16..=32 => equal_ends_of_16(at, bytes.as_ptr(), length),
            _ => equals_of_any_length(at, bytes),
        }
    }
}

/// The same; some bytes may be compared twice.
#[inline(never)]
unsafe fn equals_of_any_length(at: *const u8, bytes: &[u8]) -> bool {
    let (from, length) = (bytes.as_ptr(), bytes.len());
    // SAFETY: as above.
    unsafe {
        match length {
            16.. => (0..length - 15)
                .step_by(16)
                .chain([length - 16])
                .all(|place| equal_ends_of_16(at.add(place), from.add(place), 16)),
            8.. => equal_ends_of_8(at, from, length),
            _ => (0..length).all(|place| load::<u8>(at.add(place)) == bytes[place]),
        }
    }
}

/// Compares 8 bytes from the start, and 8 up to the end.
#[inline(always)]
unsafe fn equal_ends_of_8(shared: *const u8, own: *const u8, bytes: usize) -> bool {
    // SAFETY: by contract of the caller.
    let same = |at| unsafe { load::<u64>(shared.add(at)) == load::<u64>(own.add(at)) };
    same(0) && same(bytes - 8)
}

#[inline(always)]
unsafe fn load<T: Copy>(from: *const u8) -> T {
    // SAFETY: by contract of the caller.
    let Unaligned(read) = unsafe { from.cast::<Unaligned<T>>().read_volatile() };
    read
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

/// Copies by the widest loads there are; at the end some bytes are copied twice.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: by contract of the callers: both are valid for as many bytes.
    unsafe {
        match bytes {
            #[cfg(target_arch = "x86_64")]
            65.. => x86::copy(from, to, bytes),
            #[cfg(not(target_arch = "x86_64"))]
            65.. => copy_words(from, to, bytes),
            #[cfg(target_arch = "x86_64")]
            32.. => x86::copy_middle(from, to, bytes),
            #[cfg(not(target_arch = "x86_64"))]
            32.. => copy_middle(from, to, bytes),
            16.. => copy_ends_of_16(from, to, bytes),
            9.. => copy_ends::<u64>(from, to, bytes),
            8 => copy_end::<u64>(from, to),
            _ => copy_few(from, to, bytes),
        }
    }
}

#[inline]
unsafe fn copy_few(from: *const u8, to: *mut u8, bytes: usize) {
    for at in 0..bytes {
        // SAFETY: by contract of the callers.
        unsafe { to.add(at).write_volatile(from.add(at).read_volatile()) };
    }
}

/// Copies as many bytes as `T` has from the start, and as many up to the end: that is all of them.
#[inline]
unsafe fn copy_ends<T: Copy>(from: *const u8, to: *mut u8, bytes: usize) {
    for at in [0, bytes - size_of::<T>()] {
        // SAFETY: by contract of the callers.
        unsafe { copy_end::<T>(from.add(at), to.add(at)) };
    }
}

/// Copies as many bytes as `T` has.
#[inline(always)]
unsafe fn copy_end<T: Copy>(from: *const u8, to: *mut u8) {
    // SAFETY: by contract of the callers.
    unsafe {
        let read = from.cast::<Unaligned<T>>().read_volatile();
        to.cast::<Unaligned<T>>().write_volatile(read);
    }
}

/// Copies 16 bytes from the start, and 16 up to the end: of at most 32 that is all of them.
#[inline(always)]
unsafe fn copy_ends_of_16(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: by contract of the callers.
    unsafe {
        copy_16(from, to);
        copy_16(from.add(bytes - 16), to.add(bytes - 16));
    }
}

/// Copies 32 bytes from the start, and 32 up to the end: of at most 64 that is all of them.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn copy_middle(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: by contract of the callers.
    unsafe {
        copy_ends_of_16(from, to, 32);
        copy_ends_of_16(from.add(bytes - 32), to.add(bytes - 32), 32);
    }
}

/// Copies at least 16 bytes.
#[inline]
unsafe fn copy_words(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes - 15).step_by(16) {
        // SAFETY: by contract of the callers.
        unsafe { copy_16(from.add(at), to.add(at)) };
    }
    // SAFETY: as above.
    unsafe { copy_16(from.add(bytes - 16), to.add(bytes - 16)) };
}

#[cfg(target_arch = "x86_64")]
use x86::{copy_16, equal_ends_of_16};

/// Compares 16 bytes from the start, and 16 up to the end: of at most 32 that is all of them.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn equal_ends_of_16(shared: *const u8, own: *const u8, bytes: usize) -> bool {
    let rest = bytes - 16;
    // SAFETY: by contract of the caller.
    unsafe {
        equal_ends_of_8(shared, own, 16) && equal_ends_of_8(shared.add(rest), own.add(rest), 16)
    }
}

/// Copies 16 bytes.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn copy_16(from: *const u8, to: *mut u8) {
    // SAFETY: by contract of the callers.
    unsafe { copy_ends::<u64>(from, to, 16) };
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use std::arch::{asm, is_x86_feature_detected};
    use std::sync::atomic::{AtomicU8, Ordering};

    /// From this length on one string instruction is fastest, if both ends are aligned alike. If
    /// they are not, it may take ten times as long as wide loads and stores of whole lines do.
    const STRING_COPY_BYTES: usize = 4096;
    /// The unit of alignment: lines, which are also the widest loads.
    const LINE: usize = 64;
    /// The same, for processors without wide loads.
    const NARROW_STRING_COPY_BYTES: usize = 512;

    /// How wide a processor's loads and stores are.
    #[derive(Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub(crate) enum Width {
        Narrow = 1,
        Of32 = 2,
        Of64 = 3,
    }

    /// That of this one; 0 if nobody has looked yet.
    static WIDTH: AtomicU8 = AtomicU8::new(0);

    impl Width {
        #[inline(always)]
        pub(crate) fn of_this_processor() -> Self {
            match WIDTH.load(Ordering::Relaxed) {
                0 => Self::find(),
                1 => Self::Narrow,
                2 => Self::Of32,
                _ => Self::Of64,
            }
        }

        /// Whether the widest are known to be there.
        #[inline(always)]
        pub(crate) fn is_64() -> bool {
            WIDTH.load(Ordering::Relaxed) == Self::Of64 as u8
        }

        #[cold]
        fn find() -> Self {
            let width = if is_x86_feature_detected!("avx512f") {
                Self::Of64
            } else if is_x86_feature_detected!("avx2") {
                Self::Of32
            } else {
                Self::Narrow
            };
            WIDTH.store(width as u8, Ordering::Relaxed);
            width
        }
    }

    /// Copies at least 64 bytes.
    #[inline(always)]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: by contract of the caller; the processor has the instructions.
        unsafe {
            if bytes >= STRING_COPY_BYTES {
                copy_long(from, to, bytes);
            } else if Width::is_64() {
                copy_by_64(from, to, bytes);
            } else {
                copy_narrower(from, to, bytes);
            }
        }
    }

    /// The same, of less than a page, unless the widest loads are known to be there.
    #[inline(never)]
    unsafe fn copy_narrower(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: as above.
        unsafe {
            match (Width::of_this_processor(), bytes) {
                (Width::Of64, _) => copy_by_64(from, to, bytes),
                (Width::Of32, _) => copy_by_32(from, to, bytes),
                (Width::Narrow, NARROW_STRING_COPY_BYTES..) => copy_string(from, to, bytes),
                (Width::Narrow, _) => super::copy_words(from, to, bytes),
            }
        }
    }

    // Volatile accesses of 16 bytes, as compilers make them, take four times as long.

    /// Copies 16 bytes.
    #[inline(always)]
    pub(super) unsafe fn copy_16(from: *const u8, to: *mut u8) {
        // SAFETY: by contract of the caller; SSE2 is part of x86-64.
        unsafe {
            asm!(
                "movdqu {register}, [{from}]",
                "movdqu [{to}], {register}",
                from = in(reg) from,
                to = in(reg) to,
                register = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Compares 16 bytes from the start, and 16 up to the end: of at most 32 that is all of them.
    #[inline(always)]
    pub(super) unsafe fn equal_ends_of_16(shared: *const u8, own: *const u8, bytes: usize) -> bool {
        let same: u32;
        // SAFETY: as above.
        unsafe {
            asm!(
                "movdqu {a}, [{shared}]",
                "movdqu {b}, [{own}]",
                "movdqu {c}, [{shared} + {bytes} - 16]",
                "movdqu {d}, [{own} + {bytes} - 16]",
                "pcmpeqb {a}, {b}",
                "pcmpeqb {c}, {d}",
                "pand {a}, {c}",
                "pmovmskb {same:e}, {a}",
                shared = in(reg) shared,
                own = in(reg) own,
                bytes = in(reg) bytes,
                same = lateout(reg) same,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags, readonly)
            );
        }
        same == 0xffff
    }

    /// Copies 32 bytes from the start, and 32 up to the end: of at most 64 that is all of them.
    #[inline(always)]
    pub(super) unsafe fn copy_middle(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: as above.
        unsafe {
            asm!(
                "movdqu {a}, [{from}]",
                "movdqu {b}, [{from} + 16]",
                "movdqu {c}, [{from} + {bytes} - 32]",
                "movdqu {d}, [{from} + {bytes} - 16]",
                "movdqu [{to}], {a}",
                "movdqu [{to} + 16], {b}",
                "movdqu [{to} + {bytes} - 32], {c}",
                "movdqu [{to} + {bytes} - 16], {d}",
                from = in(reg) from,
                to = in(reg) to,
                bytes = in(reg) bytes,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Copies at least two lines.
    #[inline(never)]
    unsafe fn copy_long(from: *const u8, to: *mut u8, bytes: usize) {
        let width = Width::of_this_processor();
        let (from_offset, to_offset) = (from.addr() % LINE, to.addr() % LINE);
        let wide = if width == Width::Of64 { copy_by_64 } else { copy_by_32 };
        // SAFETY: by contract of the caller; the bytes before the first whole line of the target
        // are less than a line, and copied with it.
        unsafe {
            if width == Width::Narrow || from_offset == to_offset {
                return copy_string(from, to, bytes);
            }
            let before = (LINE - to_offset) % LINE;
            wide(from, to, LINE);
            wide(from.add(before), to.add(before), bytes - before);
        }
    }

    #[inline]
    unsafe fn copy_string(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: by contract of the caller; the direction flag is clear by the calling convention.
        unsafe {
            asm!(
                "rep movsb",
                inout("rcx") bytes => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Copies four registers at a time, then one at a time, then what is left, up to the end.
    macro_rules! wide_copy {
        ($name:ident, $width:literal, $move:literal, $registers:expr, $end:literal, [$($clobbered:tt),*]) => {
            #[inline]
            unsafe fn $name(from: *const u8, to: *mut u8, bytes: usize) {
                // SAFETY: by contract of the caller, who has looked whether the processor has these
                // instructions.
                unsafe {
                    asm!(
                        concat!("lea {last}, [{bytes} - ", $width, "]"),
                        "xor {at:e}, {at:e}",
                        concat!("cmp {bytes}, 4 * ", $width),
                        "jb 3f",
                        concat!("sub {bytes}, 4 * ", $width),
                        "2:",
                        concat!($move, " ", $registers, "0, [{from} + {at}]"),
                        concat!($move, " ", $registers, "1, [{from} + {at} + ", $width, "]"),
                        concat!($move, " ", $registers, "2, [{from} + {at} + 2 * ", $width, "]"),
                        concat!($move, " ", $registers, "3, [{from} + {at} + 3 * ", $width, "]"),
                        concat!($move, " [{to} + {at}], ", $registers, "0"),
                        concat!($move, " [{to} + {at} + ", $width, "], ", $registers, "1"),
                        concat!($move, " [{to} + {at} + 2 * ", $width, "], ", $registers, "2"),
                        concat!($move, " [{to} + {at} + 3 * ", $width, "], ", $registers, "3"),
                        concat!("add {at}, 4 * ", $width),
                        "cmp {at}, {bytes}",
                        "jbe 2b",
                        "3:",
                        "cmp {at}, {last}",
                        "jae 4f",
                        concat!($move, " ", $registers, "0, [{from} + {at}]"),
                        concat!($move, " [{to} + {at}], ", $registers, "0"),
                        concat!("add {at}, ", $width),
                        "jmp 3b",
                        "4:",
                        concat!($move, " ", $registers, "0, [{from} + {last}]"),
                        concat!($move, " [{to} + {last}], ", $registers, "0"),
                        $end,
                        from = in(reg) from,
                        to = in(reg) to,
                        bytes = inout(reg) bytes => _,
                        at = out(reg) _,
                        last = out(reg) _,
                        $(out($clobbered) _,)*
                        options(nostack)
                    );
                }
            }
        };
    }

    // Registers from 16 on slow down no code that knows narrow ones only.
    wide_copy!(copy_by_64, "64", "vmovdqu64", "zmm2", "", ["xmm20", "xmm21", "xmm22", "xmm23"]);
    wide_copy!(
        copy_by_32,
        "32",
        "vmovdqu",
        "ymm",
        "vzeroupper",
        [
            "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
            "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
        ]
    );

    #[cfg(test)]
    pub(super) fn ways() -> Vec<unsafe fn(*const u8, *mut u8, usize)> {
        let mut ways: Vec<unsafe fn(*const u8, *mut u8, usize)> =
            vec![copy_string, super::copy_words];
        if is_x86_feature_detected!("avx512f") {
            ways.push(copy_by_64);
        }
        if is_x86_feature_detected!("avx2") {
            ways.push(copy_by_32);
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment() {
        let source: Vec<u8> = (0..6000).map(|n| (n * 7 % 251) as u8).collect();
        for length in (0..80).chain([511, 512, 513, 1500, 4095, 4096, 5000]) {
            for shift in 0..9 {
                let mut target = vec![0xEE; 6000];
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
                // SAFETY: as above.
                unsafe { append(target.as_ptr().add(shift + 3), length, &mut back) };
                assert_eq!(back, [bytes, bytes].concat());
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_way_copies_all_and_nothing_else() {
        let source: Vec<u8> = (0..2000).map(|n| (n * 7 % 251) as u8).collect();
        for copy in x86::ways() {
            for length in 64..1100 {
                let mut target = vec![0xEE; 1200];
                // SAFETY: both are within their vectors.
                unsafe {
                    copy(source.as_ptr().add(length % 7), target.as_mut_ptr().add(3), length)
                };
                assert_eq!(target[3..3 + length], source[length % 7..][..length]);
                assert!(target[..3].iter().chain(&target[3 + length..]).all(|&byte| byte == 0xEE));
            }
        }
    }
}
