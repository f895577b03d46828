//! Functions of single rows: which there are for which types.

use crate::error::{Result, SqlError, state};
use crate::types::{DataType, Family};

/// A function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Function {
    Abs,
    Ceil,
    Floor,
    Round,
    Trunc,
    Sign,
    Mod,
    Power,
    Sqrt,
    Exp,
    Ln,
    Log,
    Random,
    Length,
    OctetLength,
    Lower,
    Upper,
    Initcap,
    Substring,
    TrimLeft,
    TrimRight,
    Trim,
    Replace,
    Position,
    Left,
    Right,
    Repeat,
    Reverse,
    PadLeft,
    PadRight,
    SplitPart,
    StartsWith,
    Concat,
    ConcatWith,
    QuoteIdent,
    Greatest,
    Least,
    NullIf,
    /// The start of the transaction.
    Now,
    ClockTimestamp,
    CurrentDate,
    /// A moment with months, and microseconds, added.
    AddInterval {
        months: i32,
        micros: i64,
    },
    /// A day with days added.
    AddDays,
    SubtractDays,
    DaysBetween,
    Extract(Field),
    DateTrunc,
    ToText,
    Version,
    CurrentSchema,
    CurrentUser,
    CurrentDatabase,
    CurrentSetting,
    BackendPid,
    /// The table with a name, by its number; and the other way round.
    RegclassOf,
    RegclassName,
    RegtypeName,
    NamespaceName,
    /// Whether an array has an element.
    ArrayHas,
    FormatType,
    IndexDefinition,
    ConstraintDefinition,
    UserName,
    Encoding,
    RelationSize,
    /// Something that this database has none of: null.
    Nothing,
    True,
    False,
    /// The first argument, as it is.
    Same,
    Zero,
}

/// A part of a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Milliseconds,
    Microseconds,
    Epoch,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Quarter,
}

impl Field {
    pub(crate) fn named(name: &str) -> Result<Self> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "year" | "years" => Self::Year,
            "month" | "months" => Self::Month,
            "day" | "days" => Self::Day,
            "hour" | "hours" => Self::Hour,
            "minute" | "minutes" => Self::Minute,
            "second" | "seconds" => Self::Second,
            "millisecond" | "milliseconds" => Self::Milliseconds,
            "microsecond" | "microseconds" => Self::Microseconds,
            "epoch" => Self::Epoch,
            "dow" | "dayofweek" => Self::DayOfWeek,
            "isodow" => Self::IsoDayOfWeek,
            "doy" | "dayofyear" => Self::DayOfYear,
            "quarter" => Self::Quarter,
            other => return Err(SqlError::unsupported(format_args!("the field {other}"))),
        })
    }
}

/// A function with the types of its arguments and of its result.
pub(crate) struct Signature {
    pub(crate) function: Function,
    pub(crate) args: Vec<DataType>,
    pub(crate) result: DataType,
}

/// Finds the function with a name for arguments of these types.
pub(crate) fn find(name: &str, types: &[DataType]) -> Result<Signature> {
    let found = mathematical(name, types)
        .or_else(|| textual(name, types))
        .or_else(|| of_moments(name, types))
        .or_else(|| of_session(name, types))
        .or_else(|| of_system(name, types));
    let signature = found.map(|(function, args, result)| Signature { function, args, result });
    signature.ok_or_else(|| {
        let types: Vec<String> = types.iter().map(ToString::to_string).collect();
        let message = format!("function {name}({}) does not exist", types.join(", "));
        SqlError::new(state::UNDEFINED_FUNCTION, message)
            .with_hint("No function matches the given name and argument types.")
    })
}

type Found = Option<(Function, Vec<DataType>, DataType)>;

/// The type that a function of one number works on.
fn number(ty: DataType) -> Option<DataType> {
    match ty.family() {
        Family::Number => Some(if ty == DataType::Real { DataType::Double } else { ty }),
        Family::Unknown => Some(DataType::Double),
        _ => None,
    }
}

fn mathematical(name: &str, types: &[DataType]) -> Found {
    use Function::*;
    let exact = |ty: DataType| match number(ty)? {
        DataType::Double => Some(DataType::Double),
        _ => Some(DataType::Numeric(None)),
    };
    let one = |function, ty: DataType| Some((function, vec![ty], ty));
    let numeric = DataType::Numeric(None);
    match (name, types) {
        ("abs", [ty]) => one(Abs, number(*ty)?),
        ("ceil" | "ceiling", [ty]) => one(Ceil, exact(*ty)?),
        ("floor", [ty]) => one(Floor, exact(*ty)?),
        ("round", [ty]) => one(Round, exact(*ty)?),
        ("trunc", [ty]) => one(Trunc, exact(*ty)?),
        ("sign", [ty]) => one(Sign, exact(*ty)?),
        ("round" | "trunc", [ty, _]) if number(*ty).is_some() => {
            let function = if name == "round" { Round } else { Trunc };
            Some((function, vec![numeric, DataType::Int4], numeric))
        }
        ("mod", [one, other]) if one.family() == other.family() => {
            let wide = if one.width() < other.width() { *other } else { *one };
            let ty = if wide.is_integer() { wide } else { numeric };
            (one.family() == Family::Number).then(|| (Mod, vec![ty, ty], ty))
        }
        ("power" | "pow", [one, other]) => {
            number(*one).and(number(*other))?;
            let double = DataType::Double;
            Some((Power, vec![double, double], double))
        }
        ("sqrt" | "exp" | "ln" | "log", [ty]) => {
            number(*ty)?;
            let function = match name {
                "sqrt" => Sqrt,
                "exp" => Exp,
                "ln" => Ln,
                _ => Log,
            };
            one(function, DataType::Double)
        }
        ("random", []) => Some((Random, vec![], DataType::Double)),
        _ => None,
    }
}

fn is_text(ty: DataType) -> bool {
    matches!(ty.family(), Family::Text | Family::Unknown)
}

fn textual(name: &str, types: &[DataType]) -> Found {
    use Function::*;
    let (text, int) = (DataType::Text, DataType::Int4);
    let simple = |function, args: &[DataType], result| {
        let fits = args.len() == types.len()
            && args.iter().zip(types).all(|(wanted, given)| match wanted.family() {
                Family::Text => is_text(*given),
                _ => matches!(given.family(), Family::Number | Family::Unknown),
            });
        fits.then(|| (function, args.to_vec(), result))
    };
    match name {
        "length" | "char_length" | "character_length" if types == [DataType::Bytea] => {
            Some((OctetLength, types.to_vec(), int))
        }
        "length" | "char_length" | "character_length" => simple(Length, &[text], int),
        "octet_length" => match types {
            [DataType::Bytea] => Some((OctetLength, types.to_vec(), int)),
            _ => simple(OctetLength, &[text], int),
        },
        "lower" => simple(Lower, &[text], text),
        "upper" => simple(Upper, &[text], text),
        "initcap" => simple(Initcap, &[text], text),
        "substr" | "substring" => simple(Substring, &[text, int, int], text)
            .or_else(|| simple(Substring, &[text, int], text)),
        "ltrim" => simple(TrimLeft, &[text], text).or_else(|| simple(TrimLeft, &[text; 2], text)),
        "rtrim" => simple(TrimRight, &[text], text).or_else(|| simple(TrimRight, &[text; 2], text)),
        "btrim" => simple(Trim, &[text], text).or_else(|| simple(Trim, &[text; 2], text)),
        "replace" => simple(Replace, &[text; 3], text),
        "strpos" => simple(Position, &[text; 2], int),
        "left" => simple(Left, &[text, int], text),
        "right" => simple(Right, &[text, int], text),
        "repeat" => simple(Repeat, &[text, int], text),
        "reverse" => simple(Reverse, &[text], text),
        "lpad" => simple(PadLeft, &[text, int], text)
            .or_else(|| simple(PadLeft, &[text, int, text], text)),
        "rpad" => simple(PadRight, &[text, int], text)
            .or_else(|| simple(PadRight, &[text, int, text], text)),
        "split_part" => simple(SplitPart, &[text, text, int], text),
        "starts_with" => simple(StartsWith, &[text; 2], DataType::Bool),
        "concat" if !types.is_empty() => Some((Concat, types.to_vec(), text)),
        "concat_ws" if types.len() > 1 => Some((ConcatWith, types.to_vec(), text)),
        "quote_ident" => simple(QuoteIdent, &[text], text),
        _ => None,
    }
}

fn of_moments(name: &str, types: &[DataType]) -> Found {
    use Function::*;
    match (name, types) {
        (
            "now" | "transaction_timestamp" | "statement_timestamp" | "current_timestamp",
            [] | [_],
        ) => Some((Now, vec![], DataType::Timestamptz)),
        ("localtimestamp", []) => Some((Now, vec![], DataType::Timestamp)),
        ("clock_timestamp", []) => Some((ClockTimestamp, vec![], DataType::Timestamptz)),
        ("current_date", []) => Some((CurrentDate, vec![], DataType::Date)),
        ("date_trunc", [field, ty]) if is_text(*field) => {
            let ty = if *ty == DataType::Timestamptz { *ty } else { DataType::Timestamp };
            Some((DateTrunc, vec![DataType::Text, ty], ty))
        }
        _ => None,
    }
}

fn of_session(name: &str, types: &[DataType]) -> Found {
    use Function::*;
    match (name, types) {
        ("version", []) => Some((Version, vec![], DataType::Text)),
        ("current_schema", []) => Some((CurrentSchema, vec![], DataType::Name)),
        ("current_user" | "session_user" | "user" | "current_role", []) => {
            Some((CurrentUser, vec![], DataType::Name))
        }
        ("current_database" | "current_catalog", []) => {
            Some((CurrentDatabase, vec![], DataType::Name))
        }
        ("current_setting", [_] | [_, _]) => {
            let args = [DataType::Text, DataType::Bool][..types.len()].to_vec();
            Some((CurrentSetting, args, DataType::Text))
        }
        ("pg_backend_pid", []) => Some((BackendPid, vec![], DataType::Int4)),
        ("pg_is_in_recovery", []) => Some((False, vec![], DataType::Bool)),
        _ => None,
    }
}

/// The functions that psql and drivers use on the catalog.
fn of_system(name: &str, types: &[DataType]) -> Found {
    use Function::*;
    let (text, oid, int) = (DataType::Text, DataType::Oid, DataType::Int4);
    let given = types.to_vec();
    match (name, types.len()) {
        ("pg_table_is_visible" | "pg_type_is_visible" | "pg_function_is_visible", 1)
        | ("pg_relation_is_publishable", 1) => Some((True, given, DataType::Bool)),
        ("has_table_privilege" | "has_schema_privilege" | "has_database_privilege", 2 | 3)
        | ("has_column_privilege", 3 | 4) => Some((True, given, DataType::Bool)),
        ("format_type", 2) => Some((FormatType, vec![oid, int], text)),
        ("pg_get_expr", 2 | 3) => Some((Same, given, text)),
        ("pg_get_indexdef", 1) => Some((IndexDefinition, vec![oid], text)),
        ("pg_get_indexdef", 3) => Some((IndexDefinition, vec![oid, int, DataType::Bool], text)),
        ("pg_get_constraintdef", 1) => Some((ConstraintDefinition, vec![oid], text)),
        ("pg_get_constraintdef", 2) => {
            Some((ConstraintDefinition, vec![oid, DataType::Bool], text))
        }
        ("pg_get_userbyid", 1) => Some((UserName, vec![oid], DataType::Name)),
        ("pg_encoding_to_char", 1) => Some((Encoding, vec![int], DataType::Name)),
        (
            "pg_relation_size" | "pg_total_relation_size" | "pg_table_size" | "pg_indexes_size",
            1,
        ) => Some((RelationSize, given, DataType::Int8)),
        ("pg_size_pretty", 1) => Some((ToText, given, text)),
        (
            "obj_description"
            | "col_description"
            | "shobj_description"
            | "pg_get_viewdef"
            | "pg_get_statisticsobjdef_columns"
            | "pg_get_partkeydef"
            | "pg_get_triggerdef"
            | "pg_get_ruledef"
            | "array_to_string"
            | "pg_get_serial_sequence"
            | "pg_tablespace_location",
            _,
        ) => Some((Nothing, given, text)),
        ("pg_my_temp_schema" | "txid_current", 0) => Some((Zero, vec![], oid)),
        ("array_upper" | "array_lower" | "array_length", 2) if types[0] == DataType::Array => {
            Some((Nothing, given, int))
        }
        ("to_regclass", 1) => Some((RegclassOf, vec![text], oid)),
        _ => None,
    }
}
