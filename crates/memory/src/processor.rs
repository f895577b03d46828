//! What processors do for whoever searches tables of this process' own memory.
#![allow(unsafe_code)]

use rustix::mm::Advice;

/// Huge pages have so many bytes, or more.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Has the processor fetch a line that will be used.
#[inline]
pub fn prefetch<T>(what: &T) {
    prefetch_at(std::ptr::from_ref(what).cast());
}

/// Has the processor fetch the line at an address, if there is one.
#[inline]
pub(crate) fn prefetch_at(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64, and a prefetch changes no bytes and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch changes no bytes and never faults.
    unsafe {
        use std::arch::asm;
        asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = at;
}

/// Asks for huge pages for what lies in `memory` and has not been touched yet; the system may have none.
pub fn prefer_huge_pages<T>(memory: &[T]) {
    let (base, bytes) = (memory.as_ptr().cast::<u8>(), size_of_val(memory));
    let before = base.align_offset(HUGE_PAGE);
    let length = bytes.saturating_sub(before) / HUGE_PAGE * HUGE_PAGE;
    if length > 0 {
        let start = base.wrapping_add(before).cast_mut().cast();
        // SAFETY: pages that hold nothing but `memory`; the advice changes no bytes.
        let _ = unsafe { rustix::mm::madvise(start, length, Advice::LinuxHugepage) };
    }
}

/// A bit per word of which `bits` are `value`.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn words_with(words: &[u32; 16], bits: u32, value: u32) -> u16 {
    use std::arch::x86_64::{
        _mm_and_si128, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_epi8, _mm_packs_epi16,
        _mm_packs_epi32, _mm_set1_epi32,
    };
    // What compilers make of a loop takes five times as long. SAFETY: SSE2 is part of x86-64, and four words
    // are loaded from each fourth of the array.
    unsafe {
        let (bits, value) = (_mm_set1_epi32(bits as i32), _mm_set1_epi32(value as i32));
        let same = |fourth: usize| {
            let four = _mm_loadu_si128(words[4 * fourth..][..4].as_ptr().cast());
            _mm_cmpeq_epi32(_mm_and_si128(four, bits), value)
        };
        let halves = [0, 2].map(|fourth| _mm_packs_epi32(same(fourth), same(fourth + 1)));
        _mm_movemask_epi8(_mm_packs_epi16(halves[0], halves[1])) as u16
    }
}

/// A bit per word of which `bits` are `value`.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn words_with(words: &[u32; 16], bits: u32, value: u32) -> u16 {
    words.iter().rev().fold(0, |found, word| found << 1 | u16::from(word & bits == value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_change_no_bytes() {
        for bytes in [0, 1, HUGE_PAGE - 1, 5 * HUGE_PAGE] {
            let mut memory = vec![0u8; bytes];
            prefer_huge_pages(&memory);
            assert!(memory.iter().all(|&byte| byte == 0));
            memory.fill(7);
            prefer_huge_pages(&memory);
            memory.iter().step_by(4096).for_each(prefetch);
            assert!(memory.iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn words_are_found() {
        let mut words = std::array::from_fn(|number| 0x8000_0000 | number as u32);
        for number in 0..16 {
            assert_eq!(words_with(&words, u32::MAX, 0x8000_0000 | number), 1 << number);
        }
        assert_eq!(words_with(&words, 3, 1), 0x2222);
        assert_eq!(words_with(&words, 0x8000_0000, 0), 0);
        words[0] = 0;
        words[15] = 0;
        assert_eq!(words_with(&words, 0x8000_0000, 0), 0x8001);
    }
}
