//! Tables of this process' own memory that are looked up at random.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::prefer_huge_pages;
use crate::processor::HUGE_PAGE;

/// As many values as are asked for, in place: a boxed slice that is in huge pages, if it is as
/// large as one and the system has any. To look a place up takes a walk through page tables else,
/// which may well be out of the caches, too.
#[derive(Debug)]
pub struct Table<T> {
    start: NonNull<T>,
    length: usize,
}

// SAFETY: it owns its values, as a boxed slice does.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Table<T> {}

/// The layout of so many values.
///
/// # Panics
/// If they would take more than all of memory.
fn layout<T>(length: usize) -> Layout {
    let layout = Layout::array::<T>(length).expect("a table is less than all of memory");
    let align = if layout.size() < HUGE_PAGE { 1 } else { HUGE_PAGE };
    layout.align_to(align).expect("a table is less than all of memory")
}

impl<T: Default> Table<T> {
    /// So many default values.
    ///
    /// # Panics
    /// If they would take more than all of memory, or nothing.
    pub fn new(length: usize) -> Self {
        let layout = layout::<T>(length);
        assert!(layout.size() > 0, "a table has values, and they have bytes");
        // SAFETY: the layout has bytes; they are written before any read.
        unsafe {
            let start = NonNull::new(alloc(layout).cast::<T>());
            let start = start.unwrap_or_else(|| handle_alloc_error(layout));
            let room = start.cast::<MaybeUninit<T>>().as_ptr();
            // Before any page is touched.
            prefer_huge_pages(std::slice::from_raw_parts(room, length));
            (0..length).for_each(|number| start.add(number).write(T::default()));
            Self { start, length }
        }
    }
}

impl<T> Table<T> {
    /// The value with a number, of which only so many of the lowest bits count as there are values:
    /// for tables of as many as a power of two. A random lookup has no bounds to check then.
    #[inline(always)]
    pub fn at(&self, number: usize) -> &T {
        debug_assert!(self.length.is_power_of_two(), "a table of {} values", self.length);
        // SAFETY: there is a value, so this is none past the last, whatever the length.
        unsafe { self.start.add(number & (self.length - 1)).as_ref() }
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: there are so many values, for as long as the table is there, and nobody has them
        // mutably.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        // SAFETY: the values are all there, and nobody's any more; the memory was allocated with
        // this layout.
        unsafe {
            NonNull::slice_from_raw_parts(self.start, self.length).drop_in_place();
            dealloc(self.start.as_ptr().cast(), layout::<T>(self.length));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn large_ones_begin_with_a_huge_page() {
        for bytes in [1, 64, HUGE_PAGE - 1, HUGE_PAGE, 3 * HUGE_PAGE + 1] {
            let table = Table::<u8>::new(bytes);
            assert_eq!((table.len(), table.iter().max()), (bytes, Some(&0)));
            let aligned = table.as_ptr().addr().is_multiple_of(HUGE_PAGE);
            assert!(aligned || bytes < HUGE_PAGE);
        }
    }

    #[test]
    fn the_lowest_bits_of_a_number_say_where_its_value_is() {
        for length in [1, 2, 64] {
            let table = Table::<u8>::new(length);
            for number in [0, 1, 63, 64, 65, usize::MAX] {
                assert!(std::ptr::eq(table.at(number), &raw const table[number % length]));
            }
        }
    }

    #[test]
    fn values_are_dropped_once() {
        let value = Rc::new(());
        let table = Table::<std::cell::OnceCell<Rc<()>>>::new(5);
        table[1..4].iter().for_each(|cell| cell.set(value.clone()).unwrap());
        assert_eq!(Rc::strong_count(&value), 4);
        drop(table);
        assert_eq!(Rc::strong_count(&value), 1);
    }
}
