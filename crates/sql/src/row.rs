//! Rows as bytes.
//!
//! ```text
//! a bit for each column: null | the other columns in order
//! integers, moments 2, 4 or 8 bytes, little-endian | real 4 or 8 | boolean 1
//! numeric  scale (1), bytes of the mantissa (1), the mantissa, little-endian
//! text     length (4), then as it is
//! ```

use rust_decimal::Decimal;

use crate::catalog::ColumnDef;
use crate::error::{Result, SqlError, state};
use crate::types::{DataType, Datum, Row};

/// The bytes of a row.
pub(crate) fn encode(columns: &[ColumnDef], row: &[Datum]) -> Vec<u8> {
    let mut bytes = vec![0; columns.len().div_ceil(8)];
    for (number, (column, value)) in columns.iter().zip(row).enumerate() {
        match value {
            Datum::Null => bytes[number / 8] |= 1 << (number % 8),
            Datum::Bool(value) => bytes.push(u8::from(*value)),
            Datum::Int(value) => {
                let width = integer_bytes(column.ty);
                bytes.extend(&value.to_le_bytes()[..width]);
            }
            Datum::Numeric(value) => {
                let mantissa = value.mantissa().to_le_bytes();
                let length = significant(&mantissa);
                bytes.extend([value.scale() as u8, length as u8]);
                bytes.extend(&mantissa[..length]);
            }
            Datum::Float(value) => match column.ty {
                DataType::Real => bytes.extend((*value as f32).to_le_bytes()),
                _ => bytes.extend(value.to_le_bytes()),
            },
            Datum::Text(text) => sized(text.as_bytes(), &mut bytes),
            Datum::Bytes(value) => sized(value, &mut bytes),
            Datum::Date(days) => bytes.extend(days.to_le_bytes()),
            Datum::Timestamp(micros) => bytes.extend(micros.to_le_bytes()),
        }
    }
    bytes
}

/// Bytes of a little-endian number without those that only repeat its sign.
fn significant(bytes: &[u8; 16]) -> usize {
    let mut length = bytes.len();
    while length > 1 {
        let sign = if bytes[length - 2] >> 7 == 1 { 255 } else { 0 };
        if bytes[length - 1] != sign {
            break;
        }
        length -= 1;
    }
    length
}

fn integer_bytes(ty: DataType) -> usize {
    match ty {
        DataType::Int2 => 2,
        DataType::Int4 => 4,
        // Numbers of the catalog go beyond signed ones of 32 bits.
        _ => 8,
    }
}

fn sized(value: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend((value.len() as u32).to_le_bytes());
    bytes.extend(value);
}

/// The most bytes of a value.
pub(crate) fn most_bytes(ty: DataType) -> Option<usize> {
    Some(match ty {
        DataType::Bool => 1,
        DataType::Int2 | DataType::Int4 | DataType::Int8 | DataType::Oid => integer_bytes(ty),
        DataType::Numeric(_) => 18,
        DataType::Real | DataType::Date => 4,
        DataType::Double | DataType::Timestamp | DataType::Timestamptz => 8,
        DataType::Varchar(Some(length)) | DataType::Char(length) => 4 + 4 * length as usize,
        DataType::Name => 4 + 64,
        DataType::Text
        | DataType::Varchar(None)
        | DataType::Bytea
        | DataType::Array
        | DataType::Unknown => {
            return None;
        }
    })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let damaged = || SqlError::new(state::DATA_CORRUPTED, "a row is damaged");
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("so many bytes were taken"))
    }

    fn sized(&mut self) -> Result<&'a [u8]> {
        let length = u32::from_le_bytes(self.array()?);
        self.take(length as usize)
    }

    fn value(&mut self, ty: DataType) -> Result<Datum> {
        Ok(match ty {
            DataType::Bool => Datum::Bool(self.take(1)?[0] != 0),
            DataType::Int2 => Datum::Int(i16::from_le_bytes(self.array()?).into()),
            DataType::Int4 => Datum::Int(i32::from_le_bytes(self.array()?).into()),
            DataType::Int8 | DataType::Oid => Datum::Int(i64::from_le_bytes(self.array()?)),
            DataType::Numeric(_) => {
                let [scale, length] = self.array()?;
                let bytes = self.take(usize::from(length.clamp(1, 16)))?;
                let sign = if bytes[bytes.len() - 1] >> 7 == 1 { 255 } else { 0 };
                let mut mantissa = [sign; 16];
                mantissa[..bytes.len()].copy_from_slice(bytes);
                let value =
                    Decimal::try_from_i128_with_scale(i128::from_le_bytes(mantissa), scale.into());
                Datum::Numeric(value.map_err(|_| {
                    SqlError::new(state::DATA_CORRUPTED, "a row has a damaged number")
                })?)
            }
            DataType::Real => Datum::Float(f32::from_le_bytes(self.array()?).into()),
            DataType::Double => Datum::Float(f64::from_le_bytes(self.array()?)),
            DataType::Date => Datum::Date(i32::from_le_bytes(self.array()?)),
            DataType::Timestamp | DataType::Timestamptz => {
                Datum::Timestamp(i64::from_le_bytes(self.array()?))
            }
            DataType::Bytea => Datum::Bytes(self.sized()?.to_vec()),
            _ => Datum::Text(String::from_utf8(self.sized()?.to_vec()).map_err(|_| {
                SqlError::new(state::DATA_CORRUPTED, "a row has text that is no UTF-8")
            })?),
        })
    }
}

/// The values of a row.
///
/// # Errors
/// That the bytes are no row of these columns.
pub(crate) fn decode(columns: &[ColumnDef], bytes: &[u8]) -> Result<Row> {
    let mut reader = Reader(bytes);
    let nulls = reader.take(columns.len().div_ceil(8))?;
    let mut row = Vec::with_capacity(columns.len() + 1);
    for (number, column) in columns.iter().enumerate() {
        let is_null = nulls[number / 8] >> (number % 8) & 1 == 1;
        row.push(if is_null { Datum::Null } else { reader.value(column.ty)? });
    }
    match reader.0.is_empty() {
        true => Ok(row),
        false => Err(SqlError::new(state::DATA_CORRUPTED, "a row is longer than its columns")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back() {
        let types = [
            (DataType::Int2, Datum::Int(-3)),
            (DataType::Int8, Datum::Int(i64::MIN)),
            (DataType::Numeric(None), Datum::Numeric("-12345678901234567890.5".parse().unwrap())),
            (DataType::Numeric(None), Datum::Numeric("128".parse().unwrap())),
            (DataType::Numeric(None), Datum::Numeric("0.00".parse().unwrap())),
            (DataType::Text, Datum::Null),
            (DataType::Text, Datum::Text("ä\0b".to_owned())),
            (DataType::Real, Datum::Float(1.5)),
            (DataType::Bytea, Datum::Bytes(vec![0, 255])),
            (DataType::Timestamp, Datum::Timestamp(-1)),
            (DataType::Bool, Datum::Bool(true)),
        ];
        let column = |ty| ColumnDef { name: String::new(), ty, not_null: false, default: None };
        let columns: Vec<ColumnDef> = types.iter().map(|(ty, _)| column(*ty)).collect();
        let row: Row = types.into_iter().map(|(_, value)| value).collect();
        let bytes = encode(&columns, &row);
        assert_eq!(decode(&columns, &bytes).unwrap(), row);
        for length in 0..bytes.len() {
            assert!(decode(&columns, &bytes[..length]).is_err(), "cut to {length} bytes");
        }
    }
}
