//! Growing the table, by one bucket at a time, while others read it.

use smallvec::SmallVec;

use super::growth::{Group, LEAST, bucket_number};
use super::{CELLS, Entry, Index, IndexWriter, PlacedHead, Spot};
use crate::storage::index::validated::ValidatedAt;
use crate::sync::Ordering;

/// The chains that change while the table grows: those of buckets that there were before.
#[derive(Default)]
struct Changing<'a>(SmallVec<[PlacedHead<'a>; 2 * LEAST as usize]>);

impl<'a> Changing<'a> {
    fn begin(&mut self, head: PlacedHead<'a>) {
        let Self(heads) = self;
        if !heads.iter().any(|begun| std::ptr::eq(begun.bucket, head.bucket)) {
            head.bucket.begin_change();
            heads.push(head);
        }
    }

    fn end(self) {
        self.0.iter().for_each(|head| head.bucket.end_change());
    }
}

impl Index {
    /// Grows the table until it has room for so many entries, if there may be so many.
    pub(crate) fn make_room(&self, writer: &mut IndexWriter, entries: u64) {
        while self.is_small_for(entries) && self.split(writer) {}
    }

    pub(super) fn is_small_for(&self, entries: u64) -> bool {
        entries * 1000 > self.size_as_seen().buckets() * self.load_permille
    }

    /// Grows the table by one bucket, which takes its share of the entries of its group's others;
    /// whether it can grow.
    pub(crate) fn split(&self, writer: &mut IndexWriter) -> bool {
        let (size, grown) = (self.size_as_seen(), self.size_as_seen().one_more());
        let Some(new) = self.main.grow(size.buckets()) else { return false };
        new.bucket.set_next(None);
        let group = Group::of(size.buckets(), size);
        let mut changing = Changing::default();
        let mut leaving: SmallVec<[(Entry, ValidatedAt); 4 * CELLS]> = SmallVec::new();
        for number in group.buckets() {
            let head = self.head(number);
            // A chain is made anew as a whole, so that none keeps a bucket for which it is too
            // short by now.
            let is_chain = head.bucket.next().is_some();
            if is_chain {
                changing.begin(head);
            }
            let leaves = |hash| is_chain || bucket_number(hash, grown) != number;
            let spots = self.spots(number).filter(|spot| leaves(spot.found.entry.hash));
            for Spot { found, .. } in spots {
                changing.begin(head);
                leaving.push((found.entry, found.cell.take()));
            }
            if is_chain {
                self.release_overflow(writer, head);
            }
        }
        for (entry, validated_at) in leaving {
            let number = bucket_number(entry.hash, grown);
            let head = self.head(number);
            if number != size.buckets() {
                changing.begin(head);
            }
            self.add_to_chain(writer, head, &entry, validated_at);
        }
        self.size.store(grown.0, Ordering::Release);
        changing.end();
        // It is this group's turn soon.
        let next = Group::of(grown.buckets(), grown);
        next.buckets().for_each(|number| self.head(number).prefetch());
        true
    }

    fn release_overflow(&self, writer: &mut IndexWriter, head: PlacedHead<'_>) {
        let mut next = head.bucket.next();
        head.bucket.set_next(None);
        while let Some(number) = next {
            writer.spare.push(number);
            next = self.overflow.get(number).and_then(|more| more.bucket.next());
        }
    }
}
