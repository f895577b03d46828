//! Stores past the caches: whole lines, of which no old bytes are fetched first.
//!
//! A store through the caches fetches its line, and a clean has it sent back: a line that is
//! written as a whole goes twice over the link. Non-temporal stores go to memory at once, and leave
//! no line in the caches. That wins where several lines are written at once. A shorter value is
//! better left in the caches, since it may well be read again soon.
//!
//! They are ordered with other stores by fences and read-modify-writes only. So a thread that
//! stores this way has a fence before it: the intent of a write is seen before the write is. Behind
//! them there is none: a writer cleans before it says so. Lines that were stored this way are [left
//! out](past) of that, and its fence is all they need.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::whole::{InLines, Whole};
use crate::{LINE_BYTES, copy, past};

const LINE: usize = LINE_BYTES as usize;

/// Does something with the function that copies whole lines past the caches, the best of this
/// processor's.
macro_rules! with_copy {
    (|$copy:ident| $act:expr) => {{
        #[cfg(target_arch = "x86_64")]
        if copy::x86::Width::is_64() {
            let $copy = |from, to, bytes| x86::by_64(from, to, bytes);
            $act
        } else {
            let $copy = |from, to, bytes| x86::narrower(from, to, bytes);
            $act
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            // Other processors are asked for nothing special.
            let $copy = |from, to, bytes| copy::write(to, std::slice::from_raw_parts(from, bytes));
            $act
        }
    }};
}

/// From this length on bytes are stored past the caches; never, where a processor is asked for
/// nothing special.
pub(crate) const STREAMED_BYTES: u64 = if cfg!(target_arch = "x86_64") { 512 } else { u64::MAX };

/// Copies `bytes` into shared memory: whole lines past the caches, and what is before and behind
/// them through the caches. Earlier loads come before it; so do earlier stores, if there is a fence
/// of stores between.
///
/// # Safety
/// `to` is mapped for as many bytes.
#[inline]
pub(crate) unsafe fn write(to: *mut u8, bytes: &[u8]) {
    forget_first(to);
    // SAFETY: by contract of the caller, of whose bytes these are parts.
    unsafe {
        let (lines, rest) = write_lines(to, bytes);
        note(to, &lines);
        write_cached(to.add(lines.end), rest);
    }
}

/// The same; the rest of the bytes' last line is written, too.
///
/// # Safety
/// `to` is mapped for as many bytes, and to the end of the last line.
#[inline]
pub(crate) unsafe fn write_padded(to: *mut u8, bytes: &[u8]) {
    forget_first(to);
    // SAFETY: as above.
    unsafe { note(to, &write_lines_padded(to, bytes)) };
}

/// Writes whole lines past the caches. The caller notes nothing, and has nothing to clean but a
/// fence to wait for.
///
/// # Safety
/// So many lines are mapped at `start`.
#[inline(always)]
pub(crate) unsafe fn write_in_lines(start: *mut u8, lines: &InLines<'_>) {
    let &InLines { ref first, middle, ref last, has_last } = lines;
    // SAFETY: by contract of the caller.
    unsafe {
        with_copy!(|copy| {
            copy(first.as_ptr(), start, LINE);
            copy(middle.as_ptr(), start.add(LINE), middle.len());
            if has_last {
                copy(last.as_ptr(), start.add(LINE + middle.len()), LINE);
            }
        });
    }
}

/// Writes a header and a value piece by piece, whole lines past the caches if it `streams`. Returns
/// how many lines are dirty then, from the first on. The caller cleans these, and notes nothing.
///
/// # Safety
/// Its lines are mapped at `start`.
#[inline(never)]
pub(crate) unsafe fn write_in_pieces(start: *mut u8, value: &Whole<'_>, streams: bool) -> u64 {
    let &Whole { ref header, head, rest, .. } = value;
    let before = value.before() + head.len();
    // SAFETY: by contract of the caller; the value is within its lines to the end of the last one.
    unsafe {
        copy::write(start, header);
        copy::write(start.add(value.before()), head);
        if streams {
            let streamed = write_lines_padded(start.add(before), rest);
            return (before + streamed.start) as u64 / LINE_BYTES;
        }
        copy::write(start.add(before), rest);
    }
    value.lines.count()
}

/// Copies all bytes but those before the first whole line past the caches, the last line with some
/// behind it: which of them, by number.
///
/// # Safety
/// As of `write_padded`.
#[inline(always)]
unsafe fn write_lines_padded(to: *mut u8, bytes: &[u8]) -> Range<usize> {
    // SAFETY: by contract of the caller; `write_lines` leaves less than a line, which begins at
    // one.
    unsafe {
        let (mut lines, rest) = write_lines(to, bytes);
        if !rest.is_empty() {
            let mut last = [0; LINE];
            copy::write(last.as_mut_ptr(), rest);
            copy_lines(last.as_ptr(), to.add(lines.end), LINE);
            lines.end += LINE;
        }
        lines
    }
}

/// Bytes before the first whole line are about to be stored through the caches.
#[inline(always)]
fn forget_first(to: *const u8) {
    past::forget(to.addr()..to.addr().next_multiple_of(LINE));
}

/// Copies all but the bytes in a last line that is not whole. Returns which of them are now in
/// lines that were stored past the caches, and which are left. The caller forgets what was before
/// them, and notes them.
///
/// # Safety
/// As of `write`.
#[inline(always)]
unsafe fn write_lines(to: *mut u8, bytes: &[u8]) -> (Range<usize>, &[u8]) {
    let before = (to.addr().wrapping_neg() % LINE).min(bytes.len());
    let (first, bytes) = bytes.split_at(before);
    let (lines, rest) = bytes.split_at(bytes.len() / LINE * LINE);
    // SAFETY: by contract of the caller; `to + before` begins a line, if there is anything to be
    // copied there.
    unsafe {
        // The compiler keeps all accesses before it, and what is done behind it there.
        copy::write(to, first);
        copy_lines(lines.as_ptr(), to.add(before), lines.len());
    }
    (before..before + lines.len(), rest)
}

/// Notes that these bytes from `to` on were stored past the caches.
#[inline(always)]
fn note(to: *const u8, bytes: &Range<usize>) {
    past::note(to.addr() + bytes.start..to.addr() + bytes.end);
}

/// Copies `bytes` into shared memory through the caches.
///
/// # Safety
/// `to` is mapped for as many bytes.
#[inline(always)]
pub(crate) unsafe fn write_cached(to: *mut u8, bytes: &[u8]) {
    past::forget(to.addr()..to.addr() + bytes.len());
    // SAFETY: by contract of the caller.
    unsafe { copy::write(to, bytes) };
}

/// Copies whole lines past the caches.
///
/// # Safety
/// Both are valid for as many bytes, and `to` begins a line.
#[inline(always)]
unsafe fn copy_lines(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: by contract of the caller.
    unsafe { with_copy!(|copy| copy(from, to, bytes)) };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;

    use super::LINE;
    use crate::copy::x86::Width;

    /// Copies line by line.
    macro_rules! copy_lines {
        ($name:ident, [$($load:literal, $store:literal),*], $end:literal, [$($clobbered:tt),*]) => {
            #[inline]
            pub(super) unsafe fn $name(from: *const u8, to: *mut u8, bytes: usize) {
                // SAFETY: by contract of the caller, who has looked whether the processor has these
                // instructions.
                unsafe {
                    // Counts up to 0, at the ends of both.
                    asm!(
                        "neg {at}",
                        "jz 3f",
                        "2:",
                        $($load,)*
                        $($store,)*
                        "add {at}, 64",
                        "jnz 2b",
                        "3:",
                        $end,
                        from = in(reg) from.wrapping_add(bytes),
                        to = in(reg) to.wrapping_add(bytes),
                        at = inout(reg) bytes => _,
                        $(out($clobbered) _,)*
                        options(nostack)
                    );
                }
            }
        };
    }

    /// The same by the widest stores, four lines at a time.
    #[inline(always)]
    pub(super) unsafe fn by_64(from: *const u8, to: *mut u8, bytes: usize) {
        let mut at = 0;
        // SAFETY: as above.
        unsafe {
            if bytes & LINE != 0 {
                copy_line(from, to, at);
                at += LINE;
            }
            if bytes & (2 * LINE) != 0 {
                copy_2_lines(from, to, at);
                at += 2 * LINE;
            }
            while at != bytes {
                copy_4_lines(from, to, at);
                at += 4 * LINE;
            }
        }
    }

    /// The same, unless the widest stores are known to be there.
    #[inline(never)]
    pub(super) unsafe fn narrower(from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: as above.
        unsafe {
            match Width::of_this_processor() {
                Width::Of64 => by_64(from, to, bytes),
                Width::Of32 => by_32(from, to, bytes),
                Width::Narrow => by_16(from, to, bytes),
            }
        }
    }

    macro_rules! copy_by_64 {
        ($name:ident, $($offset:literal),*) => {
            #[inline(always)]
            unsafe fn $name(from: *const u8, to: *mut u8, at: usize) {
                // SAFETY: as above.
                unsafe {
                    asm!(
                        $(
                            concat!("vmovdqu64 zmm20, [{from} + {at} + ", $offset, "]"),
                            concat!("vmovntdq [{to} + {at} + ", $offset, "], zmm20"),
                        )*
                        from = in(reg) from,
                        to = in(reg) to,
                        at = in(reg) at,
                        // Registers from 16 on slow down no code that knows narrow ones only.
                        out("xmm20") _,
                        options(nostack, preserves_flags)
                    );
                }
            }
        };
    }

    copy_by_64!(copy_line, 0);
    copy_by_64!(copy_2_lines, 0, 64);
    copy_by_64!(copy_4_lines, 0, 64, 128, 192);

    copy_lines!(
        by_32,
        [
            "vmovdqu ymm0, [{from} + {at}]",
            "vmovntdq [{to} + {at}], ymm0",
            "vmovdqu ymm1, [{from} + {at} + 32]",
            "vmovntdq [{to} + {at} + 32], ymm1"
        ],
        "vzeroupper",
        [
            "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
            "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
        ]
    );
    copy_lines!(
        by_16,
        [
            "movdqu xmm0, [{from} + {at}]",
            "movntdq [{to} + {at}], xmm0",
            "movdqu xmm1, [{from} + {at} + 16]",
            "movntdq [{to} + {at} + 16], xmm1",
            "movdqu xmm2, [{from} + {at} + 32]",
            "movntdq [{to} + {at} + 32], xmm2",
            "movdqu xmm3, [{from} + {at} + 48]",
            "movntdq [{to} + {at} + 48], xmm3"
        ],
        "",
        ["xmm0", "xmm1", "xmm2", "xmm3"]
    );

    #[cfg(test)]
    pub(super) fn ways() -> Vec<unsafe fn(*const u8, *mut u8, usize)> {
        let mut ways: Vec<unsafe fn(*const u8, *mut u8, usize)> = vec![by_16];
        if std::arch::is_x86_feature_detected!("avx512f") {
            ways.push(by_64);
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            ways.push(by_32);
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: u8 = 0xEE;

    /// Memory that begins with a line.
    #[repr(align(64))]
    struct Aligned([u8; 2048]);

    fn source() -> Vec<u8> {
        (0..2000).map(|n| (n * 7 % 251) as u8).collect()
    }

    #[test]
    fn every_length_and_alignment() {
        let source = source();
        for length in (0..200).chain([511, 512, 513, 1000, 1500]) {
            for shift in (0..70).step_by(3) {
                for padded in [false, true] {
                    let mut target = Aligned([OTHER; 2048]);
                    let bytes = &source[shift % 9..][..length];
                    let end = shift + length;
                    // SAFETY: both are within what they point into.
                    unsafe {
                        let to = target.0.as_mut_ptr().add(shift);
                        if padded { write_padded(to, bytes) } else { write(to, bytes) }
                    }
                    let padding = if padded { end.next_multiple_of(LINE) } else { end };
                    assert_eq!(&target.0[shift..end], bytes);
                    assert!(target.0[..shift].iter().all(|&byte| byte == OTHER));
                    assert!(target.0[padding..].iter().all(|&byte| byte == OTHER));
                }
            }
        }
    }

    #[test]
    fn whole_lines_need_no_clean_unless_they_are_stored_through_the_caches_again() {
        let mut target = Aligned([0; 2048]);
        let start = target.0.as_ptr().addr();
        let cleaned = || {
            let mut all = Vec::new();
            past::others(start..start + 2048, |bytes| {
                all.push((bytes.start - start, bytes.end - start));
            });
            all
        };
        // SAFETY: all is within the array.
        unsafe { write(target.0.as_mut_ptr().add(60), &source()[..1000]) };
        assert_eq!(cleaned(), [(0, 64), (1024, 2048)]);
        // SAFETY: as above.
        unsafe { write_cached(target.0.as_mut_ptr().add(700), &[1]) };
        assert_eq!(cleaned(), [(0, 2048)]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn every_way_copies_all_and_nothing_else() {
        let source = source();
        for copy in x86::ways() {
            for lines in 0..20 {
                let mut target = Aligned([OTHER; 2048]);
                // SAFETY: both are within what they point into.
                unsafe {
                    copy(source.as_ptr().add(lines), target.0.as_mut_ptr().add(64), LINE * lines)
                };
                let (before, behind) = target.0.split_at(64);
                assert_eq!(behind[..LINE * lines], source[lines..][..LINE * lines]);
                assert!(before.iter().chain(&behind[LINE * lines..]).all(|&byte| byte == OTHER));
            }
        }
    }
}
