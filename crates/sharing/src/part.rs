//! Which bytes of a value are wanted.

use crate::Error;

/// Which bytes of a value are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// None.
    Nothing,
    /// All.
    Whole,
    /// All, if that is at most so many; otherwise none.
    AtMost(u64),
    /// From an offset, as many bytes.
    Range(u64, u64),
}

impl Part {
    /// Whether it is all of a value of `length` bytes, because that is what is wanted.
    #[inline]
    pub fn is_whole(self, length: u64) -> bool {
        match self {
            Self::Whole => true,
            Self::AtMost(most) => length <= most,
            Self::Nothing | Self::Range(..) => false,
        }
    }

    /// Offset and count, of a value of `length` bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    #[inline]
    pub fn of(self, length: u64) -> Result<(u64, u64), Error> {
        match self {
            Self::Nothing => Ok((0, 0)),
            Self::Whole => Ok((0, length)),
            Self::AtMost(most) => Ok((0, if length <= most { length } else { 0 })),
            Self::Range(offset, bytes) => {
                let end = offset.saturating_add(bytes);
                if end > length {
                    return Err(Error::OutOfRange { offset, end, length });
                }
                Ok((offset, bytes))
            }
        }
    }
}
