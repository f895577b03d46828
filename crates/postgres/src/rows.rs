//! Rows and their descriptions as messages.

use bytes::{BufMut, BytesMut};
use pgwire::messages::data::{DataRow, FieldDescription, RowDescription};
use tombolo_sql::{DataType, Datum, OutputColumn, encode_binary, format_text};

/// The format of a column in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Binary,
}

/// The format of column `column`, if a client gives these codes: none, one for all, or one each.
pub(crate) fn format_of(codes: &[i16], column: usize) -> Format {
    let code = match codes {
        [] => 0,
        [code] => *code,
        codes => codes.get(column).copied().unwrap_or(0),
    };
    if code == 1 { Format::Binary } else { Format::Text }
}

/// The columns of a result.
pub(crate) fn description(columns: &[OutputColumn], codes: &[i16]) -> RowDescription {
    let field = |(number, column): (usize, &OutputColumn)| {
        let format = i16::from(format_of(codes, number) == Format::Binary);
        let (table, place) = column.origin;
        FieldDescription::new(
            column.name.clone(),
            table as i32,
            place,
            column.ty.oid(),
            column.ty.length(),
            column.ty.modifier(),
            format,
        )
    };
    RowDescription::new(columns.iter().enumerate().map(field).collect())
}

/// A row as a message.
pub(crate) fn data_row(columns: &[OutputColumn], row: &[Datum], codes: &[i16]) -> DataRow {
    let mut data = BytesMut::new();
    for (number, (column, value)) in columns.iter().zip(row).enumerate() {
        match value {
            Datum::Null => data.put_i32(-1),
            value => {
                let bytes = bytes_of(value, column.ty, format_of(codes, number));
                data.put_i32(bytes.len() as i32);
                data.extend_from_slice(&bytes);
            }
        }
    }
    DataRow::new(data, columns.len() as i16)
}

fn bytes_of(value: &Datum, ty: DataType, format: Format) -> Vec<u8> {
    match format {
        Format::Text => format_text(value, ty).into_bytes(),
        Format::Binary => encode_binary(value, ty),
    }
}
