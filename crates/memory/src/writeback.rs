//! Each way there is to get a line into memory, by itself: for a tool that finds out which of them
//! another host sees. Protocols use [`Memory::publish`](crate::Memory::publish), which chooses.
#![allow(unsafe_code)]

use std::fmt;

use crate::cache::CacheControl;
use crate::mapped::Mapped;
use crate::{LINE_BYTES, Lines};

/// A way to write a line and have it in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteBack {
    /// Stores, then the instructions that clean by this.
    Cached(CacheControl),
    /// Non-temporal stores, then a store fence.
    #[cfg(target_arch = "x86_64")]
    NonTemporal,
    /// MOVDIR64B, one store of 64 bytes, then a store fence.
    #[cfg(target_arch = "x86_64")]
    Movdir64b,
    /// Stores, then `dc civac`.
    #[cfg(target_arch = "aarch64")]
    CleanAndInvalidate,
}

impl WriteBack {
    /// The ways that this processor has. [`Mapped`] cleans by the first unless told otherwise.
    pub fn available() -> Vec<Self> {
        let mut found: Vec<Self> =
            CacheControl::available().into_iter().map(Self::Cached).collect();
        #[cfg(target_arch = "x86_64")]
        {
            found.push(Self::NonTemporal);
            if has_movdir64b() {
                found.push(Self::Movdir64b);
            }
        }
        #[cfg(target_arch = "aarch64")]
        found.push(Self::CleanAndInvalidate);
        found
    }

    /// The instruction's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cached(control) => control.name(),
            #[cfg(target_arch = "x86_64")]
            Self::NonTemporal => "non-temporal stores",
            #[cfg(target_arch = "x86_64")]
            Self::Movdir64b => "MOVDIR64B",
            #[cfg(target_arch = "aarch64")]
            Self::CleanAndInvalidate => "dc civac",
        }
    }
}

impl fmt::Display for WriteBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Mapped {
    /// Writes a line of LNR in one of the ways that the processor has, and waits for the fence
    /// behind it.
    ///
    /// # Panics
    /// If the processor does not have this way, or the line is outside LNR.
    pub fn write_line_by(&self, way: WriteBack, line: u64, bytes: &[u8; LINE_BYTES as usize]) {
        assert!(WriteBack::available().contains(&way), "no {way} on this processor");
        let place = self.line_at(Lines::new(line, 1));
        // SAFETY: within the window, at the start of a line; the instructions were checked for.
        unsafe {
            match way {
                WriteBack::Cached(control) => {
                    crate::copy::write(place.as_ptr(), bytes);
                    control.begin_clean(place, 1);
                    control.fence_stores();
                }
                #[cfg(target_arch = "x86_64")]
                WriteBack::NonTemporal => x86::non_temporal(place.as_ptr(), bytes),
                #[cfg(target_arch = "x86_64")]
                WriteBack::Movdir64b => x86::movdir64b(place.as_ptr(), bytes),
                #[cfg(target_arch = "aarch64")]
                WriteBack::CleanAndInvalidate => {
                    crate::copy::write(place.as_ptr(), bytes);
                    CacheControl::DataCache.invalidate(place, 1);
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_movdir64b() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).ecx & (1 << 28) != 0
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::asm;
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si64};

    use crate::LINE_BYTES;

    const LINE: usize = LINE_BYTES as usize;

    /// # Safety
    /// A line is mapped at `to`.
    pub(super) unsafe fn non_temporal(to: *mut u8, bytes: &[u8; LINE]) {
        // SAFETY: eight aligned words within the line; SSE2 is part of x86-64.
        unsafe {
            for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                _mm_stream_si64(to.cast::<i64>().add(index), i64::from_le_bytes(*word));
            }
            _mm_sfence();
        }
    }

    /// # Safety
    /// A line is mapped at `to`, and the processor has the instruction.
    pub(super) unsafe fn movdir64b(to: *mut u8, bytes: &[u8; LINE]) {
        // SAFETY: the instruction reads 64 bytes at `bytes`, and writes the line at `to`.
        unsafe {
            asm!("movdir64b {to}, [{from}]", to = in(reg) to, from = in(reg) bytes.as_ptr(),
                options(nostack, preserves_flags));
            _mm_sfence();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Backing, LnrAddr, Memory, MemorySpec, Window};

    #[test]
    fn every_way_that_the_processor_has_writes_the_line() {
        let backing = Backing::open(&MemorySpec::anonymous(8192)).unwrap();
        let region = Arc::new(backing.map(8192).unwrap());
        let windows = (Window::new(region.clone(), 0, 4096), Window::new(region, 4096, 4096));
        let memory = Mapped::new(windows.0, windows.1);
        for (line, way) in (1..).zip(WriteBack::available()) {
            let bytes = std::array::from_fn(|index| line as u8 ^ index as u8);
            memory.write_line_by(way, line, &bytes);
            let mut found = [0; LINE_BYTES as usize];
            memory.read(LnrAddr::of_line(line), &mut found);
            assert_eq!(found, bytes, "{way}");
        }
    }

    #[test]
    #[should_panic(expected = "outside their region")]
    fn a_line_outside_is_refused() {
        let backing = Backing::open(&MemorySpec::anonymous(8192)).unwrap();
        let region = Arc::new(backing.map(8192).unwrap());
        let memory = Mapped::new(Window::new(region.clone(), 0, 4096), Window::new(region, 0, 64));
        memory.write_line_by(WriteBack::available()[0], 1, &[0; LINE_BYTES as usize]);
    }
}
