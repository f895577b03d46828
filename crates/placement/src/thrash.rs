//! Thrash control: promotions that demotions only undo are stopped.
//!
//! The paper leaves this open. Here a window is so many moves. If in a window nearly as many
//! promoted pages went down as came up, promotions stop, but for one in a hundred: the probes. When
//! a window of probes ends without as many demotions, promotions go on.

/// Promotions that are asked for in a window.
const WINDOW: u32 = 512;
/// Of so many promotions that are asked for while they are stopped, one is made.
const PROBE: u32 = 100;

/// The change at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Promotions stop.
    Stop,
    /// They go on.
    Resume,
}

/// Whether promotions are worth it.
#[derive(Debug, Default)]
pub struct Thrash {
    asked: u32,
    promoted: u32,
    demoted: u32,
    is_stopped: bool,
}

impl Thrash {
    /// Whether promotions are stopped.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Asks for a promotion; whether it may be made.
    pub fn ask(&mut self) -> bool {
        self.asked += 1;
        !self.is_stopped || self.asked.is_multiple_of(PROBE)
    }

    /// A promotion was made.
    pub fn promoted(&mut self) {
        self.promoted += 1;
    }

    /// A page went down that a promotion had brought up.
    pub fn demoted(&mut self) {
        self.demoted += 1;
    }

    /// Ends the window if it is over, and says what changes.
    pub fn turn(&mut self) -> Option<Turn> {
        if self.asked < WINDOW {
            return None;
        }
        let is_swapping = self.promoted > 0 && self.demoted * 10 >= self.promoted * 9;
        let was_stopped = self.is_stopped;
        *self = Self { is_stopped: is_swapping, ..Self::default() };
        match (was_stopped, is_swapping) {
            (false, true) => Some(Turn::Stop),
            (true, false) => Some(Turn::Resume),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window in which so many of ten promotions are undone.
    fn window(thrash: &mut Thrash, undone: u32) -> (u32, Option<Turn>) {
        let mut made = 0;
        for number in 0..WINDOW {
            if thrash.ask() {
                made += 1;
                thrash.promoted();
                // Probes are few: all of them count as the tenths say.
                if number / PROBE % 10 < undone || number % 10 < undone {
                    thrash.demoted();
                }
            }
        }
        (made, thrash.turn())
    }

    #[test]
    fn promotions_stop_when_they_only_swap_and_probes_resume_them() {
        let mut thrash = Thrash::default();
        assert_eq!(window(&mut thrash, 0), (WINDOW, None));
        assert_eq!(window(&mut thrash, 10), (WINDOW, Some(Turn::Stop)));
        let (probes, turn) = window(&mut thrash, 10);
        assert_eq!((probes, turn), (WINDOW / PROBE, None));
        assert!(thrash.is_stopped());
        assert_eq!(window(&mut thrash, 0).1, Some(Turn::Resume));
        assert_eq!(window(&mut thrash, 0), (WINDOW, None));
    }

    #[test]
    fn a_window_is_not_judged_before_its_end() {
        let mut thrash = Thrash::default();
        (0..WINDOW - 1).for_each(|_| {
            thrash.ask();
            thrash.promoted();
            thrash.demoted();
        });
        assert_eq!(thrash.turn(), None);
    }
}
