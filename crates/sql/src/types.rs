//! The types of columns and expressions, and their values.

use std::cmp::Ordering;
use std::fmt;

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

/// The type of a column or an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DataType {
    /// True or false.
    Bool,
    /// Integers of 16 bits.
    Int2,
    /// Integers of 32 bits.
    Int4,
    /// Integers of 64 bits.
    Int8,
    /// Numbers of objects in the catalog.
    Oid,
    /// Exact decimal numbers: digits in all, and behind the point.
    Numeric(Option<(u8, u8)>),
    /// Floating point of 32 bits.
    Real,
    /// Floating point of 64 bits.
    Double,
    /// Text of any length.
    Text,
    /// Text of at most so many characters.
    Varchar(Option<u32>),
    /// Text of so many characters, padded with blanks.
    Char(u32),
    /// Names of objects in the catalog.
    Name,
    /// Days.
    Date,
    /// Moments without a time zone.
    Timestamp,
    /// Moments; the time zone is UTC.
    Timestamptz,
    /// Bytes.
    Bytea,
    /// Arrays, which the catalog alone has; their values are text.
    Array,
    /// A literal or a parameter whose type its place decides.
    Unknown,
}

/// Types that are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Bool,
    Number,
    Text,
    Date,
    Timestamp,
    Bytes,
    Array,
    Unknown,
}

impl DataType {
    /// Its number in PostgreSQL's catalog.
    pub fn oid(self) -> u32 {
        match self {
            Self::Bool => 16,
            Self::Bytea => 17,
            Self::Name => 19,
            Self::Int8 => 20,
            Self::Int2 => 21,
            Self::Int4 => 23,
            Self::Text | Self::Unknown => 25,
            Self::Oid => 26,
            Self::Real => 700,
            Self::Double => 701,
            Self::Array => 1009,
            Self::Char(_) => 1042,
            Self::Varchar(_) => 1043,
            Self::Date => 1082,
            Self::Timestamp => 1114,
            Self::Timestamptz => 1184,
            Self::Numeric(_) => 1700,
        }
    }

    /// The type with a number of PostgreSQL's catalog.
    pub fn from_oid(oid: u32) -> Option<Self> {
        Some(match oid {
            16 => Self::Bool,
            17 => Self::Bytea,
            19 => Self::Name,
            20 => Self::Int8,
            21 => Self::Int2,
            23 => Self::Int4,
            25 => Self::Text,
            26 => Self::Oid,
            700 => Self::Real,
            701 => Self::Double,
            1042 => Self::Char(0),
            1043 => Self::Varchar(None),
            1082 => Self::Date,
            1114 => Self::Timestamp,
            1184 => Self::Timestamptz,
            1700 => Self::Numeric(None),
            705 | 0 => Self::Unknown,
            _ => return None,
        })
    }

    /// Bytes of its values, or -1 if that differs.
    pub fn length(self) -> i16 {
        match self {
            Self::Bool => 1,
            Self::Int2 => 2,
            Self::Int4 | Self::Oid | Self::Real | Self::Date => 4,
            Self::Int8 | Self::Double | Self::Timestamp | Self::Timestamptz => 8,
            Self::Name => 64,
            _ => -1,
        }
    }

    /// Length, or digits, as PostgreSQL's catalog has them; -1 if there are none.
    pub fn modifier(self) -> i32 {
        match self {
            Self::Varchar(Some(length)) => length as i32 + 4,
            Self::Char(length) if length > 0 => length as i32 + 4,
            Self::Numeric(Some((precision, scale))) => {
                (i32::from(precision) << 16 | i32::from(scale)) + 4
            }
            _ => -1,
        }
    }

    pub(crate) fn family(self) -> Family {
        match self {
            Self::Bool => Family::Bool,
            Self::Int2 | Self::Int4 | Self::Int8 | Self::Oid => Family::Number,
            Self::Numeric(_) | Self::Real | Self::Double => Family::Number,
            Self::Text | Self::Varchar(_) | Self::Char(_) | Self::Name => Family::Text,
            Self::Date => Family::Date,
            Self::Timestamp | Self::Timestamptz => Family::Timestamp,
            Self::Bytea => Family::Bytes,
            Self::Array => Family::Array,
            Self::Unknown => Family::Unknown,
        }
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Self::Int2 | Self::Int4 | Self::Int8 | Self::Oid)
    }

    /// The place of a number's type in the order in which types are widened.
    pub(crate) fn width(self) -> u8 {
        match self {
            Self::Int2 => 1,
            Self::Int4 => 2,
            Self::Oid => 3,
            Self::Int8 => 4,
            Self::Numeric(_) => 5,
            Self::Real => 6,
            _ => 7,
        }
    }

    /// The name without length or digits.
    pub(crate) fn base_name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Int2 => "smallint",
            Self::Int4 => "integer",
            Self::Int8 => "bigint",
            Self::Oid => "oid",
            Self::Numeric(_) => "numeric",
            Self::Real => "real",
            Self::Double => "double precision",
            Self::Text => "text",
            Self::Varchar(_) => "character varying",
            Self::Char(_) => "character",
            Self::Name => "name",
            Self::Date => "date",
            Self::Timestamp => "timestamp without time zone",
            Self::Timestamptz => "timestamp with time zone",
            Self::Bytea => "bytea",
            Self::Array => "text[]",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.base_name())?;
        match self {
            Self::Varchar(Some(length)) => write!(f, "({length})"),
            Self::Char(length) if *length > 0 => write!(f, "({length})"),
            Self::Numeric(Some((precision, scale))) => write!(f, "({precision},{scale})"),
            _ => Ok(()),
        }
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// No value is known.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer of any width.
    Int(i64),
    /// An exact decimal number.
    Numeric(Decimal),
    /// A floating-point number of either width.
    Float(f64),
    /// Text.
    Text(String),
    /// Days since 2000-01-01.
    Date(i32),
    /// Microseconds since 2000-01-01.
    Timestamp(i64),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Datum {
    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The order of two values of one type; null is behind all others, as in ascending order.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Null, Self::Null) => Ordering::Equal,
            (Self::Null, _) => Ordering::Greater,
            (_, Self::Null) => Ordering::Less,
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            (Self::Int(one), Self::Int(other)) => one.cmp(other),
            (Self::Numeric(one), Self::Numeric(other)) => one.cmp(other),
            (Self::Float(one), Self::Float(other)) => order_floats(*one, *other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Date(one), Self::Date(other)) => one.cmp(other),
            (Self::Timestamp(one), Self::Timestamp(other)) => one.cmp(other),
            (Self::Bytes(one), Self::Bytes(other)) => one.cmp(other),
            // The binder gives both sides of a comparison one type.
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 9,
            Self::Bool(_) => 0,
            Self::Int(_) => 1,
            Self::Numeric(_) => 2,
            Self::Float(_) => 3,
            Self::Text(_) => 4,
            Self::Date(_) => 5,
            Self::Timestamp(_) => 6,
            Self::Bytes(_) => 7,
        }
    }

    /// Bytes that are equal for equal values of one type, for hash tables.
    pub(crate) fn hash_key(&self, key: &mut Vec<u8>) {
        crate::key::encode(self, key);
    }
}

/// As PostgreSQL orders them: all NaN are equal, and greater than all numbers.
fn order_floats(one: f64, other: f64) -> Ordering {
    match (one.is_nan(), other.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => one.partial_cmp(&other).unwrap_or(Ordering::Equal),
    }
}

/// A row of values.
pub type Row = Vec<Datum>;
