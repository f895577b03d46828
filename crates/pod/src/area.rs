//! A part of a pod in which one tenant lives: its own SCR and LNR, its own log, and its own
//! [roster](crate::roster) of the hosts that take part.

use tombolo_memory::Memory;

use crate::layout::{AreaLayout, AreaPlaces, LogPlaces};
use crate::roster::Membership;
use crate::superblock::Pod;

/// An area of a pod, as one host sees it.
#[derive(Clone)]
pub struct Area<M> {
    pod: Pod<M>,
    number: u8,
    layout: AreaLayout,
    places: AreaPlaces,
}

impl<M> Area<M> {
    /// The area's number in the directory.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// The numbers that determine where its parts lie.
    pub fn layout(&self) -> &AreaLayout {
        &self.layout
    }

    /// Where its parts start.
    #[inline]
    pub fn places(&self) -> &AreaPlaces {
        &self.places
    }

    /// The pod it is part of.
    #[inline]
    pub fn pod(&self) -> &Pod<M> {
        &self.pod
    }

    /// Where shard `shard` of its log lies.
    pub fn log(&self, shard: u8) -> LogPlaces {
        self.places.log(shard)
    }
}

impl<M: Memory> Area<M> {
    pub(crate) fn new(pod: &Pod<M>, number: usize) -> Self {
        let layout = pod.layout().areas[number];
        let places = pod.layout().area_places(&layout);
        Self { pod: pod.clone(), number: number as u8, layout, places }
    }

    /// The memory the pod lies in.
    #[inline]
    pub fn memory(&self) -> &M {
        self.pod.memory()
    }

    /// Which hosts take part now.
    pub fn membership(&self) -> Membership {
        Membership::load(self.memory(), &self.places)
    }
}
