//! Areas of a program that was not written for tiers: large anonymous mappings, found in the
//! kernel's list of them.
//!
//! The list is of a moment. A mapping that changes before it is registered is refused by the
//! kernel, or found to be another when the list is read again.
#![allow(unsafe_code)]

use std::fs;
use std::ops::Range;
use std::ptr::{NonNull, with_exposed_provenance_mut};

use tombolo_memory::paging::{PageSpace, page_bytes};

/// Mappings that are smaller stay as they are.
const LEAST_BYTES: usize = 4 << 20;
/// Mappings that are larger stay as they are: each page takes four bytes of this process.
const MOST_BYTES: usize = 64 << 30;

/// Anonymous mappings that can be read and written, of a size that is worth it.
pub(crate) fn mappings() -> Vec<Range<usize>> {
    fs::read_to_string("/proc/self/maps").map_or_else(|_| Vec::new(), |list| parse(&list))
}

fn parse(list: &str) -> Vec<Range<usize>> {
    let large = |range: &Range<usize>| (LEAST_BYTES..=MOST_BYTES).contains(&range.len());
    list.lines().filter_map(anonymous).filter(large).collect()
}

/// The addresses of an anonymous mapping. A mapping with a name is the program's heap or stack, a
/// file, or the kernel's.
fn anonymous(line: &str) -> Option<Range<usize>> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (access, inode) = (fields.next()?, fields.nth(2)?);
    if access != "rw-p" || inode != "0" || fields.next().is_some() {
        return None;
    }
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

/// Those of these mappings that are not for stacks of threads.
///
/// A page of a thread's stack may not be parked: when the thread ends, the kernel clears a word
/// there by which another thread waits for it. A page that is absent at that moment is not brought
/// back, and the other thread would wait for ever. The kernel marks mappings that are made for
/// stacks as not to have huge pages.
pub(crate) fn without_stacks(among: &[Range<usize>]) -> Vec<Range<usize>> {
    let list = fs::read_to_string("/proc/self/smaps");
    list.map_or_else(|_| Vec::new(), |list| parse_flags(&list, among))
}

fn parse_flags(list: &str, among: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut current = None;
    let mut found = Vec::new();
    for line in list.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            let is_stack = flags.split_ascii_whitespace().any(|flag| flag == "nh");
            found.extend(current.take().filter(|mapping| !is_stack && among.contains(mapping)));
        } else if let Some(mapping) = anonymous(line) {
            current = Some(mapping);
        }
    }
    found
}

/// Takes a mapping of the program in.
pub(crate) fn space(mapping: &Range<usize>) -> Option<PageSpace> {
    let address = NonNull::new(with_exposed_provenance_mut(mapping.start))?;
    // SAFETY: the pages are anonymous and private, as the kernel says. If the program changes that,
    // the kernel refuses to move them. Bytes that move stay at their addresses.
    Some(unsafe { PageSpace::adopt(address, mapping.len() / page_bytes()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_anonymous_mappings_are_found() {
        let list = "\
            7f0000000000-7f0000800000 rw-p 00000000 00:00 0 \n\
            7f0001000000-7f0001001000 rw-p 00000000 00:00 0 \n\
            7f0002000000-7f0003000000 r--p 00000000 00:00 0 \n\
            7f0004000000-7f0005000000 rw-p 00000000 08:01 42 /usr/lib/a.so\n\
            55d000000000-55d001000000 rw-p 00000000 00:00 0 [heap]\n";
        assert_eq!(parse(list), vec![0x7f00_0000_0000..0x7f00_0080_0000; 1]);
    }

    #[test]
    fn mappings_for_stacks_are_told_apart() {
        let list = "\
            7f0000000000-7f0000800000 rw-p 00000000 00:00 0 \n\
            Rss:                 8 kB\n\
            VmFlags: rd wr mr mw me ac nh sd \n\
            7f0001000000-7f0001800000 rw-p 00000000 00:00 0 \n\
            VmFlags: rd wr mr mw me ac sd \n";
        let mappings = [0x7f00_0000_0000..0x7f00_0080_0000, 0x7f00_0100_0000..0x7f00_0180_0000];
        assert_eq!(parse_flags(list, &mappings), mappings[1..]);
    }

    #[test]
    fn the_kernel_marks_stacks_of_threads() {
        let on_stack = std::thread::Builder::new().stack_size(8 << 20).spawn(|| {
            let here = 0u8;
            let address = (&raw const here).addr();
            let mapping = mappings().into_iter().find(|mapping| mapping.contains(&address));
            // A mapping beside it may make one with it; then the kernel's mark is of both.
            mapping.is_none_or(|mapping| without_stacks(&[mapping]).is_empty())
        });
        assert!(on_stack.unwrap().join().unwrap());
    }
}
