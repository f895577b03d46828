//! Areas of a program that was not written for tiers: large anonymous mappings, found in the kernel's
//! list of them.
//!
//! The list is of a moment. A mapping that changes before it is registered is refused by the kernel,
//! or found to be another when the list is read again.
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

/// The addresses of an anonymous mapping. What has a name is the program's heap or stack, a file, or
/// the kernel's.
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
}
