//! Rows of fixed layout: fields of fixed size one behind the other, numbers in little-endian order.

use tombolo_database::TxError;

/// The values of a field.
pub(crate) trait Value: Sized {
    /// Bytes that it takes.
    const BYTES: usize;

    /// The value in `field`, which has [`BYTES`](Self::BYTES) bytes.
    fn read(field: &[u8]) -> Self;

    /// Stores the value.
    fn write(&self, field: &mut [u8]);
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Value for $number {
            const BYTES: usize = size_of::<Self>();

            #[inline]
            fn read(field: &[u8]) -> Self {
                Self::from_le_bytes(*field.first_chunk().expect("fields have their size"))
            }

            #[inline]
            fn write(&self, field: &mut [u8]) {
                field.copy_from_slice(&self.to_le_bytes());
            }
        })*
    };
}

numbers!(u8, u16, u32, u64, i32, i64);

/// Text, with zeros behind it.
impl<const N: usize> Value for [u8; N] {
    const BYTES: usize = N;

    #[inline]
    fn read(field: &[u8]) -> Self {
        *field.first_chunk().expect("fields have their size")
    }

    #[inline]
    fn write(&self, field: &mut [u8]) {
        field.copy_from_slice(self);
    }
}

/// An error that says that a row has not the size of its layout.
#[cold]
pub(crate) fn misshapen(name: &str, bytes: usize, expected: usize) -> TxError {
    TxError::Failed(format!("a row of {name} has {bytes} bytes instead of {expected}"))
}

/// Defines a row over bytes: `Name<&[u8]>` to read it where it lies, `Name<[u8; BYTES]>` to change
/// it.
macro_rules! row {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident, $set:ident: $value:ty;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<B>(B);

        const _: () = {
            use $crate::row::Value;

            /// Gives each field its offset; there are no values of it.
            #[allow(dead_code)]
            #[repr(C, packed)]
            struct Layout {
                $($field: [u8; <$value as Value>::BYTES],)*
            }

            const BYTES: usize = size_of::<Layout>();

            impl $name<[u8; BYTES]> {
                /// Bytes of a row.
                pub const BYTES: usize = BYTES;

                /// A row of zeros.
                pub fn zeroed() -> Self {
                    Self([0; BYTES])
                }

                /// A copy of a row, to change it.
                ///
                /// # Errors
                /// That `row` has another size.
                pub fn copy(row: &[u8]) -> Result<Self, TxError> {
                    let bytes = row.try_into();
                    bytes.map(Self).map_err(|_| {
                        $crate::row::misshapen(stringify!($name), row.len(), BYTES)
                    })
                }

                /// The row.
                pub fn bytes(&self) -> &[u8] {
                    &self.0
                }

                $(
                    #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
                    #[inline]
                    pub fn $set(&mut self, value: $value) {
                        let at = std::mem::offset_of!(Layout, $field);
                        Value::write(&value, &mut self.0[at..at + <$value as Value>::BYTES]);
                    }
                )*
            }

            impl<'a> $name<&'a [u8]> {
                /// A copy, to change it.
                pub fn to_owned(&self) -> $name<[u8; BYTES]> {
                    $name(*self.0.first_chunk().expect("the size was checked"))
                }

                /// A row where it lies.
                ///
                /// # Errors
                /// That `row` has another size.
                pub fn view(row: &'a [u8]) -> Result<Self, TxError> {
                    match row.len() {
                        BYTES => Ok(Self(row)),
                        bytes => {
                            Err($crate::row::misshapen(stringify!($name), bytes, BYTES))
                        }
                    }
                }
            }

            impl<B: AsRef<[u8]>> $name<B> {
                $(
                    $(#[$doc])*
                    #[inline]
                    pub fn $field(&self) -> $value {
                        let at = std::mem::offset_of!(Layout, $field);
                        Value::read(&self.0.as_ref()[at..at + <$value as Value>::BYTES])
                    }
                )*
            }
        };
    };
}

pub(crate) use row;
