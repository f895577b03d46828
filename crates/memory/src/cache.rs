//! Writing cache lines back and dropping them.
//!
//! On x86-64 lines are cleaned by CLWB where the processor has it, which keeps them cached; else by
//! CLFLUSHOPT, which drops them too; else by CLFLUSH, which is slower because it waits for one line
//! before it starts with the next. They are invalidated by CLFLUSHOPT or CLFLUSH: x86-64 lets
//! programs drop a line only together with its write-back. On AArch64 it is `dc cvac` and `dc
//! civac`.
//!
//! CLWB and CLFLUSHOPT are not ordered with later stores or loads. So a clean ends with a store
//! fence: a store after it is seen only once the lines are in memory. An invalidate stands between
//! two full fences: it happens after every earlier load, and before every later one.
#![allow(unsafe_code)]

use std::ptr::NonNull;

use crate::LINE_BYTES;

/// Which instructions maintain the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheControl {
    /// x86-64: clean by CLWB, invalidate by CLFLUSHOPT.
    #[cfg(target_arch = "x86_64")]
    Clwb,
    /// x86-64 without CLWB: both by CLFLUSHOPT.
    #[cfg(target_arch = "x86_64")]
    ClflushOpt,
    /// x86-64 of before 2015: both by CLFLUSH.
    #[cfg(target_arch = "x86_64")]
    Clflush,
    /// AArch64: clean by `dc cvac`, invalidate by `dc civac`.
    #[cfg(target_arch = "aarch64")]
    DataCache,
}

#[cfg(target_arch = "x86_64")]
mod instructions {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_clflush, _mm_mfence, _mm_sfence};

    use super::CacheControl;

    impl CacheControl {
        /// The ways that this processor has, best first.
        pub fn available() -> Vec<Self> {
            let mut found = Vec::new();
            if __cpuid(0).eax >= 7 {
                let features = __cpuid_count(7, 0).ebx;
                if features & (1 << 24) != 0 && features & (1 << 23) != 0 {
                    found.push(Self::Clwb);
                }
                if features & (1 << 23) != 0 {
                    found.push(Self::ClflushOpt);
                }
            }
            // Every x86-64 processor has it.
            found.push(Self::Clflush);
            found
        }

        /// # Safety
        /// `line` is mapped, and the processor has the instructions.
        #[inline]
        pub(super) unsafe fn clean_line(self, line: *const u8) {
            // SAFETY: as above; these instructions change no bytes.
            unsafe {
                match self {
                    Self::Clwb => {
                        asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
                    }
                    other => other.drop_line(line),
                }
            }
        }

        /// # Safety
        /// As of `clean_line`.
        #[inline]
        pub(super) unsafe fn drop_line(self, line: *const u8) {
            // SAFETY: as above.
            unsafe {
                match self {
                    Self::Clwb | Self::ClflushOpt => {
                        asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                    }
                    Self::Clflush => _mm_clflush(line),
                }
            }
        }

        /// All earlier stores of this thread are seen before its later ones, in
        /// whatever way.
        #[inline]
        pub(crate) fn fence_stores(self) {
            // SAFETY: SSE is part of x86-64.
            unsafe { _mm_sfence() };
        }

        #[inline]
        pub(super) fn fence(self) {
            // SAFETY: SSE2 is part of x86-64.
            unsafe { _mm_mfence() };
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod instructions {
    use std::arch::asm;

    use super::CacheControl;

    impl CacheControl {
        /// The ways that this processor has, best first.
        pub fn available() -> Vec<Self> {
            vec![Self::DataCache]
        }

        /// # Safety
        /// `line` is mapped.
        #[inline]
        pub(super) unsafe fn clean_line(self, line: *const u8) {
            // SAFETY: as above; the instruction changes no bytes, and Linux allows it to programs.
            // The second one is for processors whose lines have 32 bytes.
            unsafe {
                asm!("dc cvac, {0}", "dc cvac, {1}", in(reg) line, in(reg) line.add(32),
                    options(nostack, preserves_flags));
            }
        }

        /// # Safety
        /// As of `clean_line`.
        #[inline]
        pub(super) unsafe fn drop_line(self, line: *const u8) {
            // SAFETY: as above.
            unsafe {
                asm!("dc civac, {0}", "dc civac, {1}", in(reg) line, in(reg) line.add(32),
                    options(nostack, preserves_flags));
            }
        }

        /// All earlier stores of this thread are seen before its later ones, in
        /// whatever way.
        #[inline]
        pub(crate) fn fence_stores(self) {
            self.fence();
        }

        #[inline]
        pub(super) fn fence(self) {
            // SAFETY: a barrier. `dsb` and not `dmb`: cache maintenance completes by `dsb` only.
            unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("cache control is known for x86-64 and AArch64 only");

impl CacheControl {
    /// The name of the instruction that cleans.
    pub fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Clwb => "CLWB",
            #[cfg(target_arch = "x86_64")]
            Self::ClflushOpt => "CLFLUSHOPT",
            #[cfg(target_arch = "x86_64")]
            Self::Clflush => "CLFLUSH",
            #[cfg(target_arch = "aarch64")]
            Self::DataCache => "dc cvac",
        }
    }

    /// The best that this processor has.
    pub fn detect() -> Self {
        Self::available()[0]
    }

    /// Whether this is what processors of before 2015 have.
    pub(crate) fn is_old(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self == Self::Clflush;
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    /// Begins to write back `lines` lines at `start`; after [`fence_stores`](Self::fence_stores)
    /// they are in memory before anything that this thread stores from there on.
    ///
    /// # Safety
    /// They are mapped, and the processor has the instructions.
    #[inline]
    pub(crate) unsafe fn begin_clean(self, start: NonNull<u8>, lines: u64) {
        for line in 0..lines {
            // SAFETY: as above.
            unsafe { self.clean_line(start.as_ptr().add((line * LINE_BYTES) as usize)) };
        }
    }

    /// Drops `lines` lines at `start` from the caches.
    ///
    /// # Safety
    /// As of `begin_clean`.
    #[inline]
    pub(crate) unsafe fn invalidate(self, start: NonNull<u8>, lines: u64) {
        self.fence();
        for line in 0..lines {
            // SAFETY: as above.
            unsafe { self.drop_line(start.as_ptr().add((line * LINE_BYTES) as usize)) };
        }
        self.fence();
    }
}
