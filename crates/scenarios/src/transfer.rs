//! Handing a message to a host that is joining.

use std::cell::Cell;
use std::rc::Rc;

use tombolo_memory::Memory;
use tombolo_pod::{Giver, Pod, Taker};
use tombolo_simulator::Trial;

use crate::log::{area_of, pod};

/// A message of two pieces or more.
fn message(giver: u8) -> Vec<u8> {
    vec![giver; 6 << 10]
}

/// Two hosts see that a third one wants a message: for each request, one answers at most.
pub(crate) fn two_givers(trial: &Trial) {
    let mut simulation = pod(trial, None);
    let pods: Vec<_> =
        (0..3).map(|host| Rc::new(Pod::open(simulation.memory(host)).unwrap())).collect();
    let join = |(host, pod): (usize, &Rc<Pod<_>>)| {
        let (area, seat) = (area_of(pod), pod.join().unwrap());
        let (enrolment, _) = area.enrol(&seat).unwrap();
        if host < 2 {
            enrolment.ready(pod.memory()).unwrap();
        }
        (area, seat.host())
    };
    let seats: Vec<_> = pods.iter().enumerate().map(join).collect();
    let taker = seats[2].1;
    let (asked, answered) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let done = Rc::new(Cell::new(false));
    for (host, seat) in seats.iter().enumerate().take(2) {
        let ((area, giver), done) = (seat.clone(), Rc::clone(&done));
        let (asked, answered) = (Rc::clone(&asked), Rc::clone(&answered));
        simulation.spawn(host, move |memory| {
            while !done.get() {
                if let Some(giving) = Giver::answer(&area, giver, taker) {
                    answered.set(answered.get() + 1);
                    assert!(answered.get() <= asked.get(), "two hosts answer one request");
                    giving.give(message(giver));
                }
                memory.pause();
            }
        });
    }
    let (area, taker) = seats[2].clone();
    simulation.spawn(2, move |_| {
        while !done.get() {
            asked.set(asked.get() + 1);
            if let Some(bytes) = Taker::new(&area, taker).take() {
                assert!(bytes == message(bytes[0]), "a mixture of two messages");
                done.set(true);
            }
        }
    });
    simulation.run().unwrap();
}
