//! Where threads may be switched: before each operation on what they share.
//!
//! loom means to try only the switches that matter: those between operations on one object, of
//! which it remembers the last. That is one too few: if a thread loads a word before it stores to
//! it, loom does not try the store between two operations of another thread that came before the
//! load. So every operation is preceded by one on an object of their own, which has no other
//! effect: a notification that nobody waits for.

use std::cell::RefCell;
use std::rc::Rc;

use loom::sync::Condvar;

thread_local! {
    static SWITCHES: RefCell<Option<Rc<Condvar>>> = const { RefCell::new(None) };
}

/// Begins an execution of a model.
pub(crate) fn start() {
    SWITCHES.set(Some(Rc::new(Condvar::new())));
}

/// Lets another thread go first.
pub(crate) fn here() {
    let switches = SWITCHES.with_borrow(Clone::clone).expect("operations are part of a model");
    switches.notify_all();
}
