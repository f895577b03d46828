//! Arrays in simulated memory: real values, and an address for each.

use std::cell::Cell;
use std::rc::Rc;

use crate::element::{Bytes, Element, MOST_BYTES, as_word, of_word};
use crate::{Access, Processor};

/// Arrays begin at multiples of this, so that no two share a page.
pub const PAGE_BYTES: u64 = 4096;

/// The bytes of a line in every machine there is; elements of padded arrays are as far apart.
pub(crate) const LINE_BYTES: u64 = 64;

/// Where an array lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The name of the program's data there.
    pub name: &'static str,
    /// Its first address.
    pub address: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Gives out addresses, the next array behind the last one. The first page is left out.
#[derive(Default)]
pub(crate) struct Layout {
    regions: Vec<Region>,
    /// The values of each array.
    contents: Vec<Box<dyn Contents>>,
    /// Ways to spoil each array: its values are turned round; a single one is again what it was at
    /// first.
    #[cfg(test)]
    pub(crate) spoilers: Vec<Box<dyn Fn()>>,
}

impl Layout {
    /// An array of these values.
    pub(crate) fn array<T: Element>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = T>,
    ) -> Array<T> {
        self.place(name, values, size_of::<T>() as u64)
    }

    /// An array of equal values.
    pub(crate) fn filled<T: Element>(
        &mut self,
        name: &'static str,
        length: usize,
        value: T,
    ) -> Array<T> {
        self.array(name, std::iter::repeat_n(value, length))
    }

    /// An array each of whose elements has a line of its own.
    pub(crate) fn padded<T: Element>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = T>,
    ) -> Array<T> {
        self.place(name, values, LINE_BYTES)
    }

    /// Where everything lies, by address.
    pub(crate) fn regions(&self) -> &[Region] {
        &self.regions
    }

    fn place<T: Element>(
        &mut self,
        name: &'static str,
        values: impl IntoIterator<Item = T>,
        stride: u64,
    ) -> Array<T> {
        let cells: Rc<[Cell<T>]> = values.into_iter().map(Cell::new).collect();
        const { assert!(size_of::<T>() <= MOST_BYTES) };
        let address = self.regions.last().map_or(PAGE_BYTES, |last| {
            (last.address + last.bytes.max(1)).next_multiple_of(PAGE_BYTES)
        });
        self.regions.push(Region { name, address, bytes: cells.len() as u64 * stride });
        #[cfg(test)]
        self.spoilers.push({
            let cells = Rc::clone(&cells);
            let only = cells.first().filter(|_| cells.len() == 1).map(Cell::get);
            Box::new(move || {
                let turned = cells.iter().rev().map(Cell::get);
                let values: Vec<T> = turned.map(|value| only.unwrap_or(value)).collect();
                cells.iter().zip(values).for_each(|(cell, value)| cell.set(value));
            })
        });
        let array = Array { address, stride, cells };
        self.contents.push(Box::new(array.clone()));
        array
    }

    /// Writes all values into a machine's memory.
    pub(crate) fn write_to(&self, bytes: &dyn Bytes) {
        self.contents.iter().for_each(|array| array.write_to(bytes));
    }

    /// Takes all values from a machine's memory.
    pub(crate) fn read_from(&self, bytes: &dyn Bytes) {
        self.contents.iter().for_each(|array| array.read_from(bytes));
    }
}

/// The values of an array, whatever they are.
trait Contents {
    fn write_to(&self, bytes: &dyn Bytes);
    fn read_from(&self, bytes: &dyn Bytes);
}

impl<T: Element> Contents for Array<T> {
    fn write_to(&self, bytes: &dyn Bytes) {
        for (index, cell) in self.cells.iter().enumerate() {
            write(bytes, self.address_of(index), cell.get());
        }
    }

    fn read_from(&self, bytes: &dyn Bytes) {
        for (index, cell) in self.cells.iter().enumerate() {
            cell.set(read(bytes, self.address_of(index)));
        }
    }
}

fn read<T: Element>(bytes: &dyn Bytes, address: u64) -> T {
    let mut buffer = [0; MOST_BYTES];
    bytes.read(address, &mut buffer[..size_of::<T>()]);
    T::take(&buffer)
}

fn write<T: Element>(bytes: &dyn Bytes, address: u64, value: T) {
    let mut buffer = [0; MOST_BYTES];
    value.put(&mut buffer);
    bytes.write(address, &buffer[..size_of::<T>()]);
}

/// An array. A clone is the same array.
///
/// Each method is one access, of which the value is the one at the time the machine has done it.
pub(crate) struct Array<T> {
    address: u64,
    stride: u64,
    cells: Rc<[Cell<T>]>,
}

impl<T> Clone for Array<T> {
    fn clone(&self) -> Self {
        Self { address: self.address, stride: self.stride, cells: Rc::clone(&self.cells) }
    }
}

impl<T: Element> Array<T> {
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    #[inline]
    pub(crate) fn get<P: Processor>(&self, processor: &P, index: usize) -> T {
        let cell = self.access(processor, index, Access::Read);
        processor.bytes().map_or_else(|| cell.get(), |bytes| read(bytes, self.address_of(index)))
    }

    /// The same of a value that says which element, of whichever array, is accessed next.
    #[inline]
    pub(crate) fn follow<P: Processor>(&self, processor: &P, index: usize) -> T {
        let value = self.get(processor, index);
        processor.depends();
        value
    }

    #[inline]
    pub(crate) fn set<P: Processor>(&self, processor: &P, index: usize, value: T) {
        let cell = self.access(processor, index, Access::Write);
        match processor.bytes() {
            None => cell.set(value),
            Some(bytes) => write(bytes, self.address_of(index), value),
        }
    }

    /// Atomically replaces a value; returns the old one.
    #[inline]
    pub(crate) fn update<P: Processor>(
        &self,
        processor: &P,
        index: usize,
        change: impl Fn(T) -> T,
    ) -> T {
        let cell = self.access(processor, index, Access::Update);
        let Some(bytes) = processor.bytes() else { return cell.replace(change(cell.get())) };
        let address = self.address_of(index);
        let mut old = as_word(read::<T>(bytes, address));
        loop {
            let new = as_word(change(of_word(old)));
            match bytes.compare_exchange(address, size_of::<T>(), old, new) {
                Ok(()) => return of_word(old),
                Err(found) => old = found,
            }
        }
    }

    /// Atomically replaces a value by `new` if it is `old`; whether it was.
    #[inline]
    pub(crate) fn compare_exchange<P: Processor>(
        &self,
        processor: &P,
        index: usize,
        old: T,
        new: T,
    ) -> bool
    where
        T: PartialEq,
    {
        let cell = self.access(processor, index, Access::Update);
        if let Some(bytes) = processor.bytes() {
            let (old, new) = (as_word(old), as_word(new));
            let address = self.address_of(index);
            return bytes.compare_exchange(address, size_of::<T>(), old, new).is_ok();
        }
        let equal = cell.get() == old;
        if equal {
            cell.set(new);
        }
        equal
    }

    /// A value, for oracles: nothing is simulated.
    pub(crate) fn peek(&self, index: usize) -> T {
        self.cells[index].get()
    }

    /// All values, for oracles: nothing is simulated.
    pub(crate) fn values(&self) -> impl Iterator<Item = T> + Clone {
        self.cells.iter().map(Cell::get)
    }

    #[inline]
    fn access<P: Processor>(&self, processor: &P, index: usize, access: Access) -> &Cell<T> {
        // Before the machine learns of an access, it is known to be one of this array.
        let cell = &self.cells[index];
        processor.access(self.address_of(index), size_of::<T>() as u32, access);
        cell
    }

    #[inline]
    fn address_of(&self, index: usize) -> u64 {
        self.address + index as u64 * self.stride
    }
}
