//! Days and moments, counted from 2000-01-01, and their text.

use crate::error::{Result, SqlError, state};

/// Microseconds of a day.
pub(crate) const DAY: i64 = 86_400_000_000;

/// Days from 1970-01-01 to 2000-01-01.
const EPOCH_DAYS: i64 = 10_957;

/// Days that have four digits for their year.
const YEARS: std::ops::RangeInclusive<i64> = 1..=9999;

/// The day of a date, if there is such a date.
pub(crate) fn days_of(year: i64, month: i64, day: i64) -> Option<i32> {
    if !YEARS.contains(&year) || !(1..=12).contains(&month) || day < 1 {
        return None;
    }
    if day > days_in_month(year, month) {
        return None;
    }
    // Years that begin with March have their leap day at the end.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    i32::try_from(era * 146_097 + days - 719_468 - EPOCH_DAYS).ok()
}

/// Days of a month.
pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Year, month and day.
pub(crate) fn date_of(days: i32) -> (i64, i64, i64) {
    let days = i64::from(days) + EPOCH_DAYS + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn invalid(kind: &str, text: &str) -> SqlError {
    let message = format!("invalid input syntax for type {kind}: \"{text}\"");
    SqlError::new(state::INVALID_DATETIME, message)
}

fn out_of_range(text: &str) -> SqlError {
    let message = format!("date/time field value out of range: \"{text}\"");
    SqlError::new(state::DATETIME_OVERFLOW, message)
}

fn number(text: &str, most: usize) -> Option<i64> {
    let digits = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Reads a day such as 2024-02-29.
pub(crate) fn parse_date(text: &str) -> Result<i32> {
    let trimmed = text.trim();
    if let Ok(moment) = keyword(trimmed) {
        return Ok(moment.div_euclid(DAY) as i32);
    }
    // The time of a moment does not matter.
    let date = trimmed.split(['T', ' ']).next().unwrap_or_default();
    let mut parts = date.splitn(3, '-').map(|part| number(part, 4));
    let (Some(Some(year)), Some(Some(month)), Some(Some(day))) =
        (parts.next(), parts.next(), parts.next())
    else {
        return Err(invalid("date", text));
    };
    days_of(year, month, day).ok_or_else(|| out_of_range(text))
}

fn keyword(text: &str) -> std::result::Result<i64, ()> {
    let day = |days: i64| now().div_euclid(DAY) * DAY + days * DAY;
    match text.to_ascii_lowercase().as_str() {
        "now" => Ok(now()),
        "today" => Ok(day(0)),
        "tomorrow" => Ok(day(1)),
        "yesterday" => Ok(day(-1)),
        "epoch" => Ok(-EPOCH_DAYS * DAY),
        _ => Err(()),
    }
}

/// Reads a moment such as `2024-02-29 12:30:00.5`; with a zone it is brought to UTC if
/// `has_zone`, else the zone does not matter.
pub(crate) fn parse_timestamp(text: &str, has_zone: bool) -> Result<i64> {
    let kind = if has_zone { "timestamp with time zone" } else { "timestamp" };
    let trimmed = text.trim();
    if let Ok(moment) = keyword(trimmed) {
        return Ok(moment);
    }
    let (date, time) = trimmed.split_once(['T', ' ']).unwrap_or((trimmed, ""));
    let days = i64::from(parse_date(date).map_err(|error| match error.state {
        state::DATETIME_OVERFLOW => out_of_range(text),
        _ => invalid(kind, text),
    })?);
    let (time, zone) = split_zone(time.trim()).ok_or_else(|| invalid(kind, text))?;
    let micros = if time.is_empty() { Some(0) } else { parse_time(time) };
    let micros = micros.ok_or_else(|| invalid(kind, text))?;
    Ok(days * DAY + micros - if has_zone { zone } else { 0 })
}

/// Splits a zone such as +02:00 from a time: the time, and microseconds east of UTC.
fn split_zone(time: &str) -> Option<(&str, i64)> {
    let utc = ["Z", "z", " UTC", "UTC"].iter().find_map(|zone| time.strip_suffix(zone));
    if let Some(rest) = utc {
        return Some((rest, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (rest, zone) = time.split_at(at);
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let mut parts = zone[1..].split(':');
    let hours = number(parts.next()?, 4)?;
    let minutes = parts.next().map_or(Some(0), |minutes| number(minutes, 2))?;
    let (hours, minutes) = if hours >= 100 { (hours / 100, hours % 100) } else { (hours, minutes) };
    let is_zone = parts.next().is_none() && hours <= 15 && minutes < 60;
    is_zone.then(|| (rest.trim_end(), sign * (hours * 60 + minutes) * 60_000_000))
}

fn parse_time(time: &str) -> Option<i64> {
    let mut parts = time.split(':');
    let hours = number(parts.next()?, 2)?;
    let minutes = number(parts.next()?, 2)?;
    let (seconds, fraction) = match parts.next() {
        None => (0, 0),
        Some(text) => match text.split_once('.') {
            None => (number(text, 2)?, 0),
            Some((seconds, fraction)) => (number(seconds, 2)?, micros_of(fraction)?),
        },
    };
    let is_time = parts.next().is_none() && hours <= 24 && minutes < 60 && seconds < 60;
    let micros = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + fraction;
    (is_time && micros <= DAY).then_some(micros)
}

fn micros_of(fraction: &str) -> Option<i64> {
    let digits = &fraction[..fraction.len().min(6)];
    number(fraction, 18)?;
    Some(number(digits, 6)? * 10i64.pow(6 - digits.len() as u32))
}

/// The text of a day.
pub(crate) fn format_date(days: i32) -> String {
    let (year, month, day) = date_of(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The text of a moment.
pub(crate) fn format_timestamp(micros: i64, has_zone: bool) -> String {
    let (days, rest) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let date = format_date(days as i32);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{date} {hours:02}:{minutes:02}:{seconds:02}");
    if fraction != 0 {
        let fraction = format!(".{fraction:06}");
        text += fraction.trim_end_matches('0');
    }
    text + if has_zone { "+00" } else { "" }
}

/// Now, by the clock of this host.
pub(crate) fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64) - EPOCH_DAYS * DAY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_days_read_back() {
        for days in (-730_119..2_921_939).step_by(37) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), Some(days), "{year}-{month}-{day}");
        }
        assert_eq!(parse_date("2000-01-01").unwrap(), 0);
        assert_eq!(parse_date("1970-01-01").unwrap(), -10_957);
        assert!(parse_date("2023-02-29").is_err() && parse_date("2024-02-29").is_ok());
    }

    #[test]
    fn moments_read_back() {
        for text in ["2024-02-29 12:30:00.5", "1999-12-31 23:59:59.999999", "2000-01-01 00:00:00"] {
            assert_eq!(format_timestamp(parse_timestamp(text, false).unwrap(), false), text);
        }
        let noon = parse_timestamp("2024-01-01 12:00:00+02:00", true).unwrap();
        assert_eq!(format_timestamp(noon, true), "2024-01-01 10:00:00+00");
        for wrong in ["", "2024", "2024-01-01 25:00", "2024-01-01 12:61", "12:00"] {
            assert!(parse_timestamp(wrong, false).is_err(), "{wrong}");
        }
    }
}
