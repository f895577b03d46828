//! Structs as rows.

use crate::schema::{Column, ColumnType, SchemaError, Table, Value};

/// A type of rows. [`row!`](crate::row) makes one of a struct.
pub trait Row: Sized {
    /// Names of its columns, in the table's order, and whether a value of a type may stand in each.
    fn fields() -> Vec<FieldType>;

    /// One value for each column.
    fn to_values(&self) -> Vec<Value>;

    /// A row of such values; `None` if they are not such.
    fn from_values(values: Vec<Value>) -> Option<Self>;
}

/// The type of a row's field.
#[derive(Clone, Copy, Debug)]
pub struct FieldType {
    /// The column's name.
    pub name: &'static str,
    /// Whether it can hold what a column of this type does.
    pub holds: fn(ColumnType) -> bool,
    /// Whether it can be null.
    pub nullable: bool,
}

/// A type of fields.
pub trait Field: Sized {
    /// Whether it can be null.
    const NULLABLE: bool = false;

    /// Whether it can hold what a column of this type does.
    fn holds(kind: ColumnType) -> bool;

    /// The value.
    fn to_value(&self) -> Value;

    /// A field with a value; `None` if it cannot have it.
    fn from_value(value: Value) -> Option<Self>;
}

/// A decimal number, multiplied by 10 to the power of its column's scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decimal(pub i64);

/// A moment, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

macro_rules! fields {
    ($($type:ty, $kind:pat, $value:ident, $self:ident => $to:expr, $found:ident => $from:expr;)*) => {
        $(
            impl Field for $type {
                fn holds(kind: ColumnType) -> bool {
                    matches!(kind, $kind)
                }

                fn to_value(&$self) -> Value {
                    Value::$value($to)
                }

                fn from_value(value: Value) -> Option<Self> {
                    match value {
                        Value::$value($found) => Some($from),
                        _ => None,
                    }
                }
            }

            impl From<$type> for Value {
                fn from(value: $type) -> Self {
                    value.to_value()
                }
            }
        )*
    };
}

fields! {
    bool, ColumnType::Bool, Bool, self => *self, found => found;
    u32, ColumnType::U32, U32, self => *self, found => found;
    i32, ColumnType::I32, I32, self => *self, found => found;
    i64, ColumnType::I64, I64, self => *self, found => found;
    Decimal, ColumnType::Decimal { .. }, Decimal, self => self.0, found => Self(found);
    Timestamp, ColumnType::Timestamp, Timestamp, self => self.0, found => Self(found);
    String, ColumnType::Text { .. }, Text, self => self.clone(), found => found;
    Vec<u8>, ColumnType::Bytes { .. }, Bytes, self => self.clone(), found => found;
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<F: Field> Field for Option<F> {
    const NULLABLE: bool = true;

    fn holds(kind: ColumnType) -> bool {
        F::holds(kind)
    }

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::Null, F::to_value)
    }

    fn from_value(value: Value) -> Option<Self> {
        match value {
            Value::Null => Some(None),
            value => F::from_value(value).map(Some),
        }
    }
}

/// Values of the first columns of a key, or of all: a tuple of up to 6, or a slice.
pub trait Key {
    /// The values.
    fn values(&self) -> Vec<Value>;
}

impl Key for [Value] {
    fn values(&self) -> Vec<Value> {
        self.to_vec()
    }
}

macro_rules! keys {
    ($($(($field:ident $number:tt))*;)*) => {
        $(
            impl<$($field: Clone + Into<Value>),*> Key for ($($field,)*) {
                fn values(&self) -> Vec<Value> {
                    vec![$(self.$number.clone().into()),*]
                }
            }
        )*
    };
}

keys! {
    ;
    (A 0);
    (A 0) (B 1);
    (A 0) (B 1) (C 2);
    (A 0) (B 1) (C 2) (D 3);
    (A 0) (B 1) (C 2) (D 3) (F 4);
    (A 0) (B 1) (C 2) (D 3) (F 4) (G 5);
}

/// Whether rows of type `R` are rows of `table`.
pub(super) fn check<R: Row>(table: &Table) -> Result<(), SchemaError> {
    let refuse = |why| Err(SchemaError::RowType { table: table.name.clone(), why });
    let fields = R::fields();
    if fields.len() != table.columns.len() {
        return refuse(format!("{} fields, {} columns", fields.len(), table.columns.len()));
    }
    for (field, column) in fields.iter().zip(&table.columns) {
        let Column { name, kind, nullable } = column;
        if field.name != name {
            return refuse(format!("field `{}` is where column `{name}` is", field.name));
        }
        if !(field.holds)(*kind) {
            return refuse(format!("field `{name}` cannot hold {kind:?}"));
        }
        if field.nullable != *nullable {
            return refuse(format!("either field or column `{name}` may be null, not both"));
        }
    }
    Ok(())
}

/// Makes structs whose fields are [`Field`]s into [`Row`]s.
///
/// ```
/// tombolo_database::row! {
///     /// An account.
///     #[derive(Clone, Debug)]
///     pub struct Account {
///         pub number: u32,
///         pub owner: String,
///         pub limit: Option<i64>,
///     }
/// }
/// ```
#[macro_export]
macro_rules! row {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$doc:meta])* $field_vis:vis $field:ident: $type:ty),* $(,)?
    })*) => {
        $(
            $(#[$meta])*
            $vis struct $name {
                $($(#[$doc])* $field_vis $field: $type),*
            }

            impl $crate::Row for $name {
                fn fields() -> ::std::vec::Vec<$crate::FieldType> {
                    ::std::vec![$($crate::FieldType {
                        name: ::std::stringify!($field),
                        holds: <$type as $crate::Field>::holds,
                        nullable: <$type as $crate::Field>::NULLABLE,
                    }),*]
                }

                fn to_values(&self) -> ::std::vec::Vec<$crate::schema::Value> {
                    ::std::vec![$(<$type as $crate::Field>::to_value(&self.$field)),*]
                }

                fn from_values(
                    values: ::std::vec::Vec<$crate::schema::Value>,
                ) -> ::std::option::Option<Self> {
                    let mut values = values.into_iter();
                    ::std::option::Option::Some(Self {
                        $($field: <$type as $crate::Field>::from_value(values.next()?)?),*
                    })
                }
            }
        )*
    };
}
