//! The results of functions.

use rust_decimal::{Decimal, RoundingStrategy};

use crate::arithmetic;
use crate::datetime::{self, DAY};
use crate::error::{Result, SqlError, state};
use crate::exec::Exec;
use crate::functions::{Field, Function};
use crate::system;
use crate::text;
use crate::types::{DataType, Datum};

/// Bytes of a text that a function makes at most.
const MAX_TEXT: usize = 1 << 20;

fn text_of(value: &str) -> Datum {
    Datum::Text(value.to_owned())
}

fn too_long() -> SqlError {
    SqlError::new(state::PROGRAM_LIMIT, "requested length too large")
}

impl Exec<'_, '_> {
    /// The result of a function for these arguments.
    pub(crate) fn call(
        &mut self,
        function: Function,
        args: &[Datum],
        types: &[DataType],
    ) -> Result<Datum> {
        match function {
            Function::Concat => return concat(args, types, None),
            Function::ConcatWith => return concat(&args[1..], &types[1..], Some(&args[0])),
            Function::Greatest | Function::Least => return Ok(extreme(function, args)),
            Function::NullIf => {
                let is_equal = !args[0].is_null() && args[0].order(&args[1]).is_eq();
                return Ok(if is_equal { Datum::Null } else { args[0].clone() });
            }
            Function::ArrayHas => return array_has(&args[0], &args[1], types[0]),
            Function::True => return Ok(Datum::Bool(true)),
            Function::Nothing => return Ok(Datum::Null),
            Function::FormatType if !args[0].is_null() => return Ok(format_type(args)),
            _ => {}
        }
        if args.iter().any(Datum::is_null) {
            return Ok(Datum::Null);
        }
        match args {
            [Datum::Numeric(value), rest @ ..] => of_numeric(function, *value, rest),
            [Datum::Float(value), rest @ ..] => of_float(function, *value, rest),
            [Datum::Text(text), rest @ ..] => self.of_text(function, text, rest),
            [Datum::Timestamp(_) | Datum::Date(_), ..] => of_moment(function, args),
            [Datum::Bytes(bytes)] if function == Function::OctetLength => {
                Ok(Datum::Int(bytes.len() as i64))
            }
            [Datum::Int(value), rest @ ..] => self.of_integer(function, *value, rest),
            _ => self.of_session(function, args),
        }
        .map(|value| match (function, &value) {
            (Function::ToText, value) => Datum::Text(text::format(value, types[0])),
            _ => value,
        })
    }

    fn of_integer(&mut self, function: Function, value: i64, rest: &[Datum]) -> Result<Datum> {
        Ok(match (function, rest) {
            (Function::Abs, _) => {
                let message = "bigint out of range";
                let overflow = || SqlError::new(state::NUMERIC_OUT_OF_RANGE, message);
                Datum::Int(value.checked_abs().ok_or_else(overflow)?)
            }
            (Function::Mod, [Datum::Int(0)]) => {
                return Err(SqlError::new(state::DIVISION_BY_ZERO, "division by zero"));
            }
            (Function::Mod, [Datum::Int(by)]) => Datum::Int(value.wrapping_rem(*by)),
            (Function::RegclassName, _) => {
                let name =
                    u32::try_from(value).ok().and_then(|oid| system::name_of(self.catalog, oid));
                match (name, value) {
                    (Some(name), _) => text_of(name),
                    (None, 0) => text_of("-"),
                    (None, _) => Datum::Text(value.to_string()),
                }
            }
            (Function::RegtypeName, _) => match value {
                0 => text_of("-"),
                _ => Datum::Text(system::format_type(value as u32, -1)),
            },
            (Function::NamespaceName, _) => text_of(system::namespace(value)),
            (Function::IndexDefinition, _) => self.definition(value, system::index_definition),
            (Function::ConstraintDefinition, _) => {
                self.definition(value, system::constraint_definition)
            }
            (Function::UserName, _) => text_of(&self.session.user),
            (Function::Encoding, _) => text_of("UTF8"),
            (Function::RelationSize, _) => Datum::Int(0),
            (Function::Same | Function::ToText, _) => Datum::Int(value),
            _ => return Err(misplaced(function)),
        })
    }

    fn definition(
        &self,
        oid: i64,
        of: impl Fn(&crate::catalog::TableDef, &crate::catalog::IndexDef) -> String,
    ) -> Datum {
        for table in self.catalog.tables() {
            if let Some(index) = table.all_indexes().find(|index| i64::from(index.oid) == oid) {
                return Datum::Text(of(table, index));
            }
        }
        Datum::Null
    }

    fn of_session(&mut self, function: Function, args: &[Datum]) -> Result<Datum> {
        Ok(match function {
            Function::Now => Datum::Timestamp(self.now),
            Function::ClockTimestamp => Datum::Timestamp(datetime::now()),
            Function::CurrentDate => Datum::Date(self.now.div_euclid(DAY) as i32),
            Function::Random => Datum::Float(self.session.random()),
            Function::Version => text_of(crate::settings::VERSION),
            Function::CurrentSchema => text_of("public"),
            Function::CurrentUser => text_of(&self.session.user),
            Function::CurrentDatabase => text_of(&self.session.database),
            Function::BackendPid => Datum::Int(self.session.process.into()),
            Function::False => Datum::Bool(false),
            Function::Zero => Datum::Int(0),
            Function::Same | Function::ToText => args[0].clone(),
            Function::RelationSize => Datum::Int(0),
            _ => return Err(misplaced(function)),
        })
    }

    fn of_text(&mut self, function: Function, value: &str, rest: &[Datum]) -> Result<Datum> {
        let characters = || value.chars().count() as i64;
        Ok(match (function, rest) {
            (Function::Length, _) => Datum::Int(characters()),
            (Function::OctetLength, _) => Datum::Int(value.len() as i64),
            (Function::Lower, _) => Datum::Text(value.to_lowercase()),
            (Function::Upper, _) => Datum::Text(value.to_uppercase()),
            (Function::Initcap, _) => Datum::Text(initcap(value)),
            (Function::Reverse, _) => Datum::Text(value.chars().rev().collect()),
            (Function::QuoteIdent, _) => Datum::Text(system::quote(value)),
            (Function::Substring, [Datum::Int(from)]) => substring(value, *from, None)?,
            (Function::Substring, [Datum::Int(from), Datum::Int(count)]) => {
                substring(value, *from, Some(*count))?
            }
            (Function::Trim | Function::TrimLeft | Function::TrimRight, _) => {
                let what = match rest {
                    [Datum::Text(what)] => what.as_str(),
                    _ => " ",
                };
                let is_cut = |char: char| what.contains(char);
                text_of(match function {
                    Function::TrimLeft => value.trim_start_matches(is_cut),
                    Function::TrimRight => value.trim_end_matches(is_cut),
                    _ => value.trim_matches(is_cut),
                })
            }
            (Function::Replace, [Datum::Text(what), Datum::Text(by)]) => {
                match what.is_empty() || value.len().saturating_mul(by.len().max(1)) <= MAX_TEXT {
                    true if what.is_empty() => text_of(value),
                    true => Datum::Text(value.replace(what.as_str(), by)),
                    false => return Err(too_long()),
                }
            }
            (Function::Position, [Datum::Text(what)]) => {
                let at = value.find(what.as_str());
                Datum::Int(at.map_or(0, |at| value[..at].chars().count() as i64 + 1))
            }
            (Function::StartsWith, [Datum::Text(what)]) => {
                Datum::Bool(value.starts_with(what.as_str()))
            }
            (Function::Left, [Datum::Int(count)]) => {
                let count = if *count < 0 { characters() + count } else { *count };
                Datum::Text(value.chars().take(count.max(0) as usize).collect())
            }
            (Function::Right, [Datum::Int(count)]) => {
                let skipped = if *count < 0 { -count } else { characters() - count };
                Datum::Text(value.chars().skip(skipped.max(0) as usize).collect())
            }
            (Function::Repeat, [Datum::Int(count)]) => {
                let count = (*count).max(0) as usize;
                match value.len().checked_mul(count) {
                    Some(..=MAX_TEXT) => Datum::Text(value.repeat(count)),
                    _ => return Err(too_long()),
                }
            }
            (Function::PadLeft | Function::PadRight, [Datum::Int(length), fill @ ..]) => {
                let fill = match fill {
                    [Datum::Text(fill)] => fill.as_str(),
                    _ => " ",
                };
                pad(value, *length, fill, function == Function::PadLeft)?
            }
            (Function::SplitPart, [Datum::Text(by), Datum::Int(number)]) => {
                split_part(value, by, *number)?
            }
            (Function::CurrentSetting, _) => match self.session.setting(value) {
                Some(setting) => Datum::Text(setting),
                None if matches!(rest, [Datum::Bool(true)]) => Datum::Null,
                None => {
                    let message = format!("unrecognized configuration parameter \"{value}\"");
                    return Err(SqlError::new(state::UNDEFINED_OBJECT, message));
                }
            },
            (Function::RegclassOf, _) => match value.parse::<u32>() {
                Ok(oid) => Datum::Int(oid.into()),
                Err(_) => match system::oid_of(self.catalog, value) {
                    Some(oid) => Datum::Int(oid.into()),
                    None => {
                        let message = format!("relation \"{value}\" does not exist");
                        return Err(SqlError::new(state::UNDEFINED_TABLE, message));
                    }
                },
            },
            (Function::DateTrunc, [Datum::Timestamp(micros)]) => {
                Datum::Timestamp(truncate(value, *micros)?)
            }
            (Function::Same | Function::ToText, _) => text_of(value),
            (Function::RelationSize, _) => Datum::Int(0),
            _ => return Err(misplaced(function)),
        })
    }
}

/// Whether an array, as text such as `{a,b}`, has an element.
fn array_has(value: &Datum, array: &Datum, ty: DataType) -> Result<Datum> {
    let Datum::Text(array) = array else { return Ok(Datum::Null) };
    if value.is_null() {
        return Ok(Datum::Null);
    }
    let elements = array.trim_matches(['{', '}']).split(',').filter(|text| !text.is_empty());
    for element in elements {
        if text::parse(element, ty)?.order(value).is_eq() {
            return Ok(Datum::Bool(true));
        }
    }
    Ok(Datum::Bool(false))
}

fn misplaced(function: Function) -> SqlError {
    SqlError::new(state::INTERNAL, format!("{function:?} got arguments of other types"))
}

fn concat(args: &[Datum], types: &[DataType], between: Option<&Datum>) -> Result<Datum> {
    let between = match between {
        None => "",
        Some(Datum::Text(between)) => between.as_str(),
        Some(_) => return Ok(Datum::Null),
    };
    let known = args.iter().zip(types).filter(|(value, _)| !value.is_null());
    let parts: Vec<String> = known.map(|(value, ty)| text::format(value, *ty)).collect();
    Ok(Datum::Text(parts.join(between)))
}

fn extreme(function: Function, args: &[Datum]) -> Datum {
    let known = args.iter().filter(|value| !value.is_null());
    let found = match function {
        Function::Greatest => known.max_by(|one, other| one.order(other)),
        _ => known.min_by(|one, other| one.order(other)),
    };
    found.cloned().unwrap_or(Datum::Null)
}

fn format_type(args: &[Datum]) -> Datum {
    let number = |value: &Datum| match value {
        Datum::Int(value) => *value,
        _ => -1,
    };
    Datum::Text(system::format_type(number(&args[0]) as u32, number(&args[1]) as i32))
}

fn of_numeric(function: Function, value: Decimal, rest: &[Datum]) -> Result<Datum> {
    let places = match rest {
        [Datum::Int(places)] => *places,
        _ => 0,
    };
    Ok(Datum::Numeric(match function {
        Function::Abs => value.abs(),
        Function::Ceil => value.ceil(),
        Function::Floor => value.floor(),
        Function::Sign => arithmetic::sign(value),
        Function::Round => rounded(value, places, RoundingStrategy::MidpointAwayFromZero),
        Function::Trunc => rounded(value, places, RoundingStrategy::ToZero),
        Function::Mod => match rest {
            [Datum::Numeric(by)] if !by.is_zero() => value % by,
            _ => return Err(SqlError::new(state::DIVISION_BY_ZERO, "division by zero")),
        },
        Function::ToText | Function::Same => value,
        _ => return Err(misplaced(function)),
    }))
}

/// A number with so many digits behind the point; with fewer than none, zeros before it.
fn rounded(value: Decimal, places: i64, strategy: RoundingStrategy) -> Decimal {
    if places >= 0 {
        let places = places.min(28) as u32;
        let mut value = value.round_dp_with_strategy(places, strategy);
        value.rescale(places);
        return value;
    }
    match 10i128.checked_pow(places.unsigned_abs().min(30) as u32) {
        Some(unit) if places >= -28 => {
            let unit = Decimal::from_i128_with_scale(unit, 0);
            (value / unit).round_dp_with_strategy(0, strategy) * unit
        }
        _ => Decimal::ZERO,
    }
}

fn of_float(function: Function, value: f64, rest: &[Datum]) -> Result<Datum> {
    let outside = || {
        let message = "a function is not defined for this argument";
        SqlError::new(state::NUMERIC_OUT_OF_RANGE, message)
    };
    let result = match function {
        Function::Abs => value.abs(),
        Function::Ceil => value.ceil(),
        Function::Floor => value.floor(),
        Function::Round => value.round_ties_even(),
        Function::Trunc => value.trunc(),
        Function::Sign if value == 0.0 => 0.0,
        Function::Sign => value.signum(),
        Function::Sqrt if value < 0.0 => return Err(outside()),
        Function::Sqrt => value.sqrt(),
        Function::Exp => value.exp(),
        Function::Ln | Function::Log if value <= 0.0 => return Err(outside()),
        Function::Ln => value.ln(),
        Function::Log => value.log10(),
        Function::Power => match rest {
            [Datum::Float(exponent)] => {
                let result = value.powf(*exponent);
                if result.is_nan() && !value.is_nan() && !exponent.is_nan() {
                    return Err(outside());
                }
                result
            }
            _ => return Err(misplaced(function)),
        },
        Function::ToText | Function::Same => value,
        _ => return Err(misplaced(function)),
    };
    Ok(Datum::Float(arithmetic::check_float(result, value.is_finite(), DataType::Double)?))
}

fn initcap(value: &str) -> String {
    let mut is_start = true;
    let one = |char: char| {
        let mapped: String = match is_start {
            true => char.to_uppercase().collect(),
            false => char.to_lowercase().collect(),
        };
        is_start = !char.is_alphanumeric();
        mapped
    };
    value.chars().map(one).collect()
}

fn substring(value: &str, from: i64, count: Option<i64>) -> Result<Datum> {
    let end = match count {
        Some(..0) => {
            let message = "negative substring length not allowed";
            return Err(SqlError::new(state::SUBSTRING_ERROR, message));
        }
        Some(count) => from.saturating_add(count),
        None => i64::MAX,
    };
    let start = from.max(1);
    let taken = (end - start).max(0) as usize;
    Ok(Datum::Text(value.chars().skip(start as usize - 1).take(taken).collect()))
}

fn pad(value: &str, length: i64, fill: &str, left: bool) -> Result<Datum> {
    let length = length.max(0) as usize;
    if length > MAX_TEXT {
        return Err(too_long());
    }
    let count = value.chars().count();
    if count >= length || fill.is_empty() {
        return Ok(Datum::Text(value.chars().take(length).collect()));
    }
    let padding: String = fill.chars().cycle().take(length - count).collect();
    Ok(Datum::Text(if left { padding + value } else { value.to_owned() + &padding }))
}

fn split_part(value: &str, by: &str, number: i64) -> Result<Datum> {
    if number == 0 {
        let message = "field position must not be zero";
        return Err(SqlError::new(state::INVALID_PARAMETER_VALUE, message));
    }
    let parts: Vec<&str> = if by.is_empty() { vec![value] } else { value.split(by).collect() };
    let at = if number > 0 { number - 1 } else { parts.len() as i64 + number };
    let part = usize::try_from(at).ok().and_then(|at| parts.get(at));
    Ok(text_of(part.copied().unwrap_or_default()))
}

fn of_moment(function: Function, args: &[Datum]) -> Result<Datum> {
    let out_of_range = || SqlError::new(state::DATETIME_OVERFLOW, "date out of range");
    Ok(match (function, args) {
        (Function::AddInterval { months, micros }, [Datum::Timestamp(moment)]) => {
            let moved = add_months(*moment, months).and_then(|moved| moved.checked_add(micros));
            Datum::Timestamp(moved.ok_or_else(out_of_range)?)
        }
        (Function::AddDays | Function::SubtractDays, [Datum::Date(date), Datum::Int(days)]) => {
            let days = if function == Function::AddDays { *days } else { -*days };
            let moved = i64::from(*date).checked_add(days).and_then(|days| days.try_into().ok());
            Datum::Date(moved.ok_or_else(out_of_range)?)
        }
        (Function::DaysBetween, [Datum::Date(one), Datum::Date(other)]) => {
            Datum::Int(i64::from(*one) - i64::from(*other))
        }
        (Function::Extract(field), [Datum::Timestamp(moment)]) => {
            Datum::Numeric(extract(field, *moment))
        }
        (Function::ToText | Function::Same, [value]) => value.clone(),
        _ => return Err(misplaced(function)),
    })
}

fn add_months(moment: i64, months: i32) -> Option<i64> {
    let (year, month, day) = datetime::date_of(moment.div_euclid(DAY) as i32);
    let total = year * 12 + month - 1 + i64::from(months);
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
    let day = day.min(datetime::days_in_month(year, month));
    Some(i64::from(datetime::days_of(year, month, day)?) * DAY + moment.rem_euclid(DAY))
}

fn extract(field: Field, moment: i64) -> Decimal {
    let days = moment.div_euclid(DAY);
    let (year, month, day) = datetime::date_of(days as i32);
    let micros = moment.rem_euclid(DAY);
    let seconds = micros / 1_000_000;
    // 2000-01-01 was a Saturday.
    let weekday = (days + 6).rem_euclid(7);
    let start = datetime::days_of(year, 1, 1).map_or(0, i64::from);
    let of_minute = micros % 60_000_000;
    match field {
        Field::Year => year.into(),
        Field::Month => month.into(),
        Field::Day => day.into(),
        Field::Hour => (seconds / 3600).into(),
        Field::Minute => (seconds / 60 % 60).into(),
        Field::Second => Decimal::new(of_minute, 6),
        Field::Milliseconds => Decimal::new(of_minute, 3),
        Field::Microseconds => of_minute.into(),
        Field::Epoch => Decimal::new(moment + 10_957 * DAY, 6),
        Field::DayOfWeek => weekday.into(),
        Field::IsoDayOfWeek => (if weekday == 0 { 7 } else { weekday }).into(),
        Field::DayOfYear => (days - start + 1).into(),
        Field::Quarter => ((month + 2) / 3).into(),
    }
}

/// The start of the year, month, day ... that a moment is in.
fn truncate(field: &str, moment: i64) -> Result<i64> {
    let (year, month, _) = datetime::date_of(moment.div_euclid(DAY) as i32);
    let start = |year, month| datetime::days_of(year, month, 1).map_or(0, i64::from) * DAY;
    let days = moment.div_euclid(DAY);
    let unit = |micros: i64| moment.div_euclid(micros) * micros;
    Ok(match field.to_ascii_lowercase().as_str() {
        "year" => start(year, 1),
        "quarter" => start(year, (month - 1) / 3 * 3 + 1),
        "month" => start(year, month),
        // Weeks begin on Mondays.
        "week" => (days - (days + 5).rem_euclid(7)) * DAY,
        "day" => days * DAY,
        "hour" => unit(3_600_000_000),
        "minute" => unit(60_000_000),
        "second" => unit(1_000_000),
        "milliseconds" => unit(1000),
        "microseconds" => moment,
        other => return Err(SqlError::unsupported(format_args!("the unit {other}"))),
    })
}
