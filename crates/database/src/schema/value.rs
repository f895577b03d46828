//! Typed values, as keys whose bytes sort as the values do, and as parts of rows.
//!
//! ```text
//! key   nullable: 0 for null, or 1 and the value; else the value
//!       bool 1 byte | numbers big-endian, the sign bit of signed ones flipped
//!       text and bytes: each 0 as 0 255, and 0 0 at the end
//!       descending: all of these bytes inverted
//! row   nullable: 0 for null, or 1 and the value; else the value
//!       numbers little-endian | text and bytes: length (4), then as they are
//! ```

use super::SchemaError;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// True or false.
    Bool,
    /// Numbers from 0 to 4,294,967,295.
    U32,
    /// Signed numbers of 32 bits.
    I32,
    /// Signed numbers of 64 bits.
    I64,
    /// Exact decimal numbers.
    Decimal {
        /// Digits behind the point.
        scale: u8,
    },
    /// Text of at most so many bytes.
    Text {
        /// The most bytes.
        most: u16,
    },
    /// At most so many bytes.
    Bytes {
        /// The most bytes.
        most: u16,
    },
    /// Moments, in microseconds since the Unix epoch.
    Timestamp,
}

/// A value of a column. Values of one type are ordered, and null is before all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number from 0 to 4,294,967,295.
    U32(u32),
    /// A signed number of 32 bits.
    I32(i32),
    /// A signed number of 64 bits.
    I64(i64),
    /// A decimal number, multiplied by 10 to the power of the column's scale.
    Decimal(i64),
    /// Text. It sorts by its bytes.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A moment, in microseconds since the Unix epoch.
    Timestamp(i64),
}

const NULL: u8 = 0;
const PRESENT: u8 = 1;

impl ColumnType {
    /// Whether `value`, which is not null, can stand in a column of this type.
    pub(super) fn admits(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Text { most }, Value::Text(text)) => text.len() <= usize::from(most),
            (Self::Bytes { most }, Value::Bytes(bytes)) => bytes.len() <= usize::from(most),
            (Self::Bool, Value::Bool(_))
            | (Self::U32, Value::U32(_))
            | (Self::I32, Value::I32(_))
            | (Self::I64, Value::I64(_))
            | (Self::Decimal { .. }, Value::Decimal(_))
            | (Self::Timestamp, Value::Timestamp(_)) => true,
            _ => false,
        }
    }

    /// The most bytes of a value in a key.
    pub(super) fn key_bytes(self) -> usize {
        match self {
            Self::Text { most } | Self::Bytes { most } => 2 * usize::from(most) + 2,
            fixed => fixed.row_bytes(),
        }
    }

    /// The most bytes of a value in a row.
    pub(super) fn row_bytes(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::U32 | Self::I32 => 4,
            Self::I64 | Self::Decimal { .. } | Self::Timestamp => 8,
            Self::Text { most } | Self::Bytes { most } => 4 + usize::from(most),
        }
    }
}

/// How a column's values are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coding {
    pub(super) kind: ColumnType,
    pub(super) nullable: bool,
    pub(super) descending: bool,
}

impl Coding {
    /// Appends a value to a key.
    pub(super) fn encode_key(self, value: &Value, key: &mut Vec<u8>) {
        let start = key.len();
        if self.nullable {
            key.push(if *value == Value::Null { NULL } else { PRESENT });
        }
        push_key(value, key);
        if self.descending {
            key[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// Takes a value from the front of a key.
    pub(super) fn decode_key(self, key: &mut &[u8]) -> Result<Value, SchemaError> {
        let mut reader = Reader { bytes: key, inverted: self.descending };
        let value = if self.nullable && reader.byte()? == NULL {
            Value::Null
        } else {
            reader.key_value(self.kind)?
        };
        *key = reader.bytes;
        Ok(value)
    }

    /// Appends a value to a row.
    pub(super) fn encode_row(self, value: &Value, row: &mut Vec<u8>) {
        if self.nullable {
            row.push(if *value == Value::Null { NULL } else { PRESENT });
        }
        match value {
            Value::Null => {}
            Value::Bool(value) => row.push(u8::from(*value)),
            Value::U32(value) => row.extend(value.to_le_bytes()),
            Value::I32(value) => row.extend(value.to_le_bytes()),
            Value::I64(value) | Value::Decimal(value) | Value::Timestamp(value) => {
                row.extend(value.to_le_bytes());
            }
            Value::Text(text) => push_sized(text.as_bytes(), row),
            Value::Bytes(bytes) => push_sized(bytes, row),
        }
    }

    /// Takes a value from the front of a row.
    pub(super) fn decode_row(self, row: &mut &[u8]) -> Result<Value, SchemaError> {
        let mut reader = Reader { bytes: row, inverted: false };
        let value = if self.nullable && reader.byte()? == NULL {
            Value::Null
        } else {
            reader.row_value(self.kind)?
        };
        *row = reader.bytes;
        Ok(value)
    }
}

fn push_sized(bytes: &[u8], row: &mut Vec<u8>) {
    row.extend((bytes.len() as u32).to_le_bytes());
    row.extend(bytes);
}

fn push_key(value: &Value, key: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Bool(value) => key.push(u8::from(*value)),
        Value::U32(value) => key.extend(value.to_be_bytes()),
        Value::I32(value) => key.extend((*value as u32 ^ 1 << 31).to_be_bytes()),
        Value::I64(value) | Value::Decimal(value) | Value::Timestamp(value) => {
            key.extend((*value as u64 ^ 1 << 63).to_be_bytes());
        }
        Value::Text(text) => push_escaped(text.as_bytes(), key),
        Value::Bytes(bytes) => push_escaped(bytes, key),
    }
}

fn push_escaped(bytes: &[u8], key: &mut Vec<u8>) {
    escape(bytes, key);
    key.extend([0, 0]);
}

/// Appends bytes as a key has them, without their end: so begin the keys of all that these begin.
pub(super) fn escape(bytes: &[u8], key: &mut Vec<u8>) {
    for &byte in bytes {
        key.push(byte);
        if byte == 0 {
            key.push(255);
        }
    }
}

/// Takes values from the front of bytes.
struct Reader<'a> {
    bytes: &'a [u8],
    /// Whether each byte is inverted.
    inverted: bool,
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], SchemaError> {
        let (array, rest) = self.bytes.split_first_chunk().ok_or(SchemaError::Damaged)?;
        self.bytes = rest;
        Ok(if self.inverted { array.map(|byte: u8| !byte) } else { *array })
    }

    fn byte(&mut self) -> Result<u8, SchemaError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn key_value(&mut self, kind: ColumnType) -> Result<Value, SchemaError> {
        let signed = |bytes: [u8; 8]| (u64::from_be_bytes(bytes) ^ 1 << 63) as i64;
        Ok(match kind {
            ColumnType::Bool => Value::Bool(self.byte()? != 0),
            ColumnType::U32 => Value::U32(u32::from_be_bytes(self.array()?)),
            ColumnType::I32 => Value::I32((u32::from_be_bytes(self.array()?) ^ 1 << 31) as i32),
            ColumnType::I64 => Value::I64(signed(self.array()?)),
            ColumnType::Decimal { .. } => Value::Decimal(signed(self.array()?)),
            ColumnType::Timestamp => Value::Timestamp(signed(self.array()?)),
            ColumnType::Text { .. } => text(self.unescape()?)?,
            ColumnType::Bytes { .. } => Value::Bytes(self.unescape()?),
        })
    }

    fn unescape(&mut self) -> Result<Vec<u8>, SchemaError> {
        let mut bytes = Vec::new();
        loop {
            match self.byte()? {
                0 => match self.byte()? {
                    0 => return Ok(bytes),
                    255 => bytes.push(0),
                    _ => return Err(SchemaError::Damaged),
                },
                byte => bytes.push(byte),
            }
        }
    }

    fn row_value(&mut self, kind: ColumnType) -> Result<Value, SchemaError> {
        Ok(match kind {
            ColumnType::Bool => Value::Bool(self.byte()? != 0),
            ColumnType::U32 => Value::U32(u32::from_le_bytes(self.array()?)),
            ColumnType::I32 => Value::I32(i32::from_le_bytes(self.array()?)),
            ColumnType::I64 => Value::I64(i64::from_le_bytes(self.array()?)),
            ColumnType::Decimal { .. } => Value::Decimal(i64::from_le_bytes(self.array()?)),
            ColumnType::Timestamp => Value::Timestamp(i64::from_le_bytes(self.array()?)),
            ColumnType::Text { .. } => text(self.sized()?)?,
            ColumnType::Bytes { .. } => Value::Bytes(self.sized()?),
        })
    }

    fn sized(&mut self) -> Result<Vec<u8>, SchemaError> {
        let length = u32::from_le_bytes(self.array()?) as usize;
        let (bytes, rest) = self.bytes.split_at_checked(length).ok_or(SchemaError::Damaged)?;
        self.bytes = rest;
        Ok(bytes.to_vec())
    }
}

fn text(bytes: Vec<u8>) -> Result<Value, SchemaError> {
    String::from_utf8(bytes).map(Value::Text).map_err(|_| SchemaError::Damaged)
}
