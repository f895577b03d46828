//! Values of arrays as bytes, for machines whose memory has the bytes.

/// Bytes of the largest element.
pub(crate) const MOST_BYTES: usize = 64;

/// The memory of a machine that holds the values of arrays, and not only knows of accesses.
pub trait Bytes {
    /// Copies bytes out. Up to eight bytes at a multiple of their number are read in one step.
    fn read(&self, address: u64, into: &mut [u8]);

    /// Copies bytes in; up to eight as for [`read`](Self::read).
    fn write(&self, address: u64, bytes: &[u8]);

    /// Replaces `current` by `new` in one step; otherwise the error is what stood there. Both have
    /// the number of bytes that `bytes` says: 1, 2, 4 or 8.
    ///
    /// # Errors
    /// The value that stood there instead.
    fn compare_exchange(
        &self,
        address: u64,
        bytes: usize,
        current: u64,
        new: u64,
    ) -> Result<(), u64>;
}

/// A value that an array can hold.
pub(crate) trait Element: Copy + 'static {
    /// Writes the value into as many bytes as it has.
    fn put(self, bytes: &mut [u8]);

    /// The value of these bytes.
    fn take(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Element for $number {
            #[inline]
            fn put(self, bytes: &mut [u8]) {
                bytes[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn take(bytes: &[u8]) -> Self {
                let (first, _) = bytes.split_first_chunk().expect("a value has all its bytes");
                Self::from_le_bytes(*first)
            }
        })*
    };
}

numbers!(u8, u16, u32, u64, i8, i32, i64, f32, f64);

impl<T: Element, const N: usize> Element for [T; N] {
    fn put(self, bytes: &mut [u8]) {
        self.into_iter().zip(bytes.chunks_mut(size_of::<T>())).for_each(|(v, to)| v.put(to));
    }

    fn take(bytes: &[u8]) -> Self {
        std::array::from_fn(|nth| T::take(&bytes[nth * size_of::<T>()..]))
    }
}

impl<A: Element, B: Element> Element for (A, B) {
    fn put(self, bytes: &mut [u8]) {
        self.0.put(bytes);
        self.1.put(&mut bytes[size_of::<A>()..]);
    }

    fn take(bytes: &[u8]) -> Self {
        (A::take(bytes), B::take(&bytes[size_of::<A>()..]))
    }
}

/// The same of a structure whose fields follow each other.
macro_rules! element {
    ($name:ident { $($field:ident: $of:ty),* }) => {
        impl crate::element::Element for $name {
            fn put(self, bytes: &mut [u8]) {
                let mut at = 0;
                $(
                    crate::element::Element::put(self.$field, &mut bytes[at..]);
                    at += size_of::<$of>();
                )*
                debug_assert!(at <= size_of::<Self>());
            }

            fn take(bytes: &[u8]) -> Self {
                let mut at = 0;
                $(
                    let $field = <$of as crate::element::Element>::take(&bytes[at..]);
                    at += size_of::<$of>();
                )*
                debug_assert!(at <= size_of::<Self>());
                Self { $($field),* }
            }
        }
    };
}

pub(crate) use element;

/// A word that is changed in one step.
pub(crate) fn as_word(value: impl Element) -> u64 {
    let mut bytes = [0; 8];
    value.put(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// The value of such a word.
pub(crate) fn of_word<T: Element>(word: u64) -> T {
    T::take(&word.to_le_bytes())
}
