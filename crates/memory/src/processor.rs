//! Processors' help for searches in tables of this process' own memory.
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

/// Asks for huge pages for what lies in `memory` and has not been touched yet; the system may have
/// none.
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

/// As many tags as are searched together.
pub const TAGS: usize = 16;

/// Numbers of 24 bits, which a few vector instructions search. A compiled loop takes five times as
/// long.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tags {
    low: [u16; TAGS],
    high: [u8; TAGS],
}

impl Tags {
    /// Sets a tag to the lower 24 bits of `tag`.
    #[inline]
    pub fn set(&mut self, number: usize, tag: u32) {
        (self.low[number], self.high[number]) = (tag as u16, (tag >> 16) as u8);
    }

    /// A tag.
    #[inline]
    pub fn get(&self, number: usize) -> u32 {
        u32::from(self.high[number]) << 16 | u32::from(self.low[number])
    }

    /// A bit per tag that is this one, of 24 bits.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub fn search(&self, tag: u32) -> u16 {
        use std::arch::x86_64::{
            _mm_and_si128, _mm_cmpeq_epi8, _mm_cmpeq_epi16, _mm_loadu_si128, _mm_movemask_epi8,
            _mm_packs_epi16, _mm_set1_epi8, _mm_set1_epi16,
        };
        // SAFETY: SSE2 is part of x86-64; eight tags are loaded from each half of `low`, and all
        // from `high`.
        unsafe {
            let (low, high) = (_mm_set1_epi16(tag as i16), _mm_set1_epi8((tag >> 16) as i8));
            let [first, second] = [0, TAGS / 2].map(|from| {
                let half = _mm_loadu_si128(self.low[from..].as_ptr().cast());
                _mm_cmpeq_epi16(half, low)
            });
            let same = _mm_cmpeq_epi8(_mm_loadu_si128(self.high.as_ptr().cast()), high);
            _mm_movemask_epi8(_mm_and_si128(_mm_packs_epi16(first, second), same)) as u16
        }
    }

    /// A bit per tag that is this one, of 24 bits.
    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    pub fn search(&self, tag: u32) -> u16 {
        (0..TAGS).fold(0, |found, number| found | u16::from(self.get(number) == tag) << number)
    }
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
    fn tags_are_found() {
        let mut tags = Tags::default();
        assert_eq!(tags.search(0), u16::MAX);
        // Some have the lower bits in common, and some the upper ones.
        let tag = |number: usize| (number as u32 / 4 * 0x1_0000) + 0x8000 + (number as u32 % 8);
        (0..TAGS).for_each(|number| tags.set(number, tag(number)));
        for number in 0..TAGS {
            assert_eq!(tags.get(number), tag(number));
            assert_eq!(tags.search(tag(number)), 1 << number);
        }
        assert_eq!(tags.search(0x8007), 0);
        tags.set(0, 0x03_8007);
        tags.set(9, u32::MAX);
        assert_eq!(tags.search(0x03_8007), 0x8001);
        assert_eq!(tags.search(0xff_ffff), 1 << 9);
    }
}
