//! Names for the protocol steps that keep incoherent memory correct.
//!
//! Every clean, invalidate and check from the log upwards carries a [`Site`]. Mapped memory ignores
//! it at no cost. The simulator can take one site out and must then find a failure: a step whose
//! removal nobody notices is either superfluous or untested.

use std::fmt;

/// A protocol step that the simulator can take out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site(&'static str);

impl Site {
    /// A site called `name`, such as `objects.read.invalidate`. Declare sites with
    /// [`sites!`](crate::sites).
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The site's name.
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Declares a crate's [`Site`]s and lists them all in `ALL`, so that none exists unlisted.
#[macro_export]
macro_rules! sites {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: $crate::Site = $crate::Site::new($text);)*

        /// Every site of this crate.
        pub const ALL: &[$crate::Site] = &[$($name),*];
    };
}
