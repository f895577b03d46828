//! Decimal fractions of any length that are added exactly.
//!
//! Redis calculates with `long double`, of 64 significant bits: 10^17 and 0.1 are not added
//! exactly there. Here all numbers are exact that Redis takes, and a sum has up to 17 decimals, as
//! Redis writes it.

use std::cmp::Ordering;

/// Decimals of a sum that is written.
const DECIMALS: usize = 17;
/// The longest text that Redis takes, in bytes.
const MAX_TEXT_BYTES: usize = 5 * 1024 - 1;
/// The range of `long double`: numbers are below 10^4933, and none above 0 is below 10^-4951.
const MAX_EXPONENT: i64 = 4932;
const MIN_EXPONENT: i64 = -4951;
const LIMB: u64 = 1_000_000_000;
const LIMB_DIGITS: usize = 9;

/// The value of a text that is a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A number.
    Number(Decimal),
    /// A number beyond the range, or infinity by name.
    Infinite,
}

/// A number: limbs of nine digits, the lowest first, of which so many are behind the point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    limbs: Vec<u32>,
    fraction_limbs: usize,
}

/// The number that a text stands for: decimal or hexadecimal, with or without an exponent.
pub(crate) fn parse(text: &[u8]) -> Option<Parsed> {
    if text.is_empty() || text.len() > MAX_TEXT_BYTES {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
        return Some(Parsed::Infinite);
    }
    let parsed = match digits {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits)?,
        digits => decimal(digits)?,
    };
    Some(match parsed {
        Parsed::Number(number) => Parsed::Number(Decimal { negative, ..number }),
        Parsed::Infinite => Parsed::Infinite,
    })
}

/// Digits with at most one point among them, and where that is: so many are behind it.
fn mantissa(text: &[u8], is_digit: fn(&u8) -> bool) -> Option<(Vec<u8>, i64)> {
    let point = text.iter().position(|&byte| byte == b'.');
    let (whole, fraction) = point.map_or((text, &[][..]), |at| (&text[..at], &text[at + 1..]));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.iter().all(is_digit) {
        return None;
    }
    Some((digits, fraction.len() as i64))
}

/// Splits a text at the sign of its exponent, which is 0 if there is none.
fn exponent(text: &[u8], sign: u8) -> Option<(&[u8], i64)> {
    let Some(at) = text.iter().position(|byte| byte.to_ascii_lowercase() == sign) else {
        return Some((text, 0));
    };
    let digits = &text[at + 1..];
    let unsigned = digits.strip_prefix(b"-").or(digits.strip_prefix(b"+")).unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // One of more digits is as good as one that is out of range.
    let size = std::str::from_utf8(unsigned).ok()?.parse().unwrap_or(i64::from(i32::MAX));
    let size = size.min(i64::from(i32::MAX));
    Some((&text[..at], if digits[0] == b'-' { -size } else { size }))
}

fn decimal(text: &[u8]) -> Option<Parsed> {
    let (text, exponent) = exponent(text, b'e')?;
    let (digits, behind) = mantissa(text, u8::is_ascii_digit)?;
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    let digits = &digits[zeros..];
    if digits.is_empty() {
        return Some(Parsed::Number(Decimal::ZERO));
    }
    // The power of ten of the last digit, and of the first one.
    let last = exponent - behind;
    let first = last + digits.len() as i64 - 1;
    if first > MAX_EXPONENT {
        return Some(Parsed::Infinite);
    }
    if first < MIN_EXPONENT {
        return None;
    }
    Some(Parsed::Number(Decimal::of_digits(digits, last)))
}

fn hexadecimal(text: &[u8]) -> Option<Parsed> {
    let (text, exponent) = exponent(text, b'p')?;
    let (digits, behind) = mantissa(text, u8::is_ascii_hexdigit)?;
    let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
    let digits = &digits[zeros..];
    if digits.is_empty() {
        return Some(Parsed::Number(Decimal::ZERO));
    }
    // The power of two of the last digit, and about that of the first one.
    let last = exponent - 4 * behind;
    let first = last + 4 * digits.len() as i64;
    if first > 16_384 + 4 {
        return Some(Parsed::Infinite);
    }
    if first < -16_445 {
        return None;
    }
    let mut number = Decimal::ZERO;
    for digit in digits {
        number.multiply(16, char::from(*digit).to_digit(16)?);
    }
    if last >= 0 {
        (0..last / 16).for_each(|_| number.multiply(1 << 16, 0));
        (0..last % 16).for_each(|_| number.multiply(2, 0));
    } else {
        // 2^-n is 5^n / 10^n. Limbs behind the point are whole, so factors of 10 fill the last.
        let halves = last.unsigned_abs() as usize;
        let fill = halves.next_multiple_of(LIMB_DIGITS) - halves;
        (0..halves / 8).for_each(|_| number.multiply(5_u32.pow(8), 0));
        (0..halves % 8).for_each(|_| number.multiply(5, 0));
        (0..fill).for_each(|_| number.multiply(10, 0));
        number.fraction_limbs = (halves + fill) / LIMB_DIGITS;
    }
    number.trim();
    Some(if number.is_in_range() { Parsed::Number(number) } else { Parsed::Infinite })
}

impl Decimal {
    pub(crate) const ZERO: Self = Self { negative: false, limbs: Vec::new(), fraction_limbs: 0 };

    /// The number with these digits, of which the last stands for this power of ten.
    fn of_digits(digits: &[u8], last: i64) -> Self {
        let mut digits = digits.to_vec();
        let behind = usize::try_from(-last).unwrap_or(0);
        let fraction_limbs = behind.div_ceil(LIMB_DIGITS);
        let zeros = usize::try_from(last).unwrap_or(0) + fraction_limbs * LIMB_DIGITS - behind;
        digits.resize(digits.len() + zeros, b'0');
        let limb = |digits: &[u8]| digits.iter().fold(0, |sum, d| sum * 10 + u32::from(d - b'0'));
        let limbs = digits.rchunks(LIMB_DIGITS).map(limb).collect();
        let mut number = Self { negative: false, limbs, fraction_limbs };
        number.trim();
        number
    }

    /// Multiplies the limbs, and adds to the lowest.
    fn multiply(&mut self, factor: u32, add: u32) {
        let mut carry = u64::from(add);
        for limb in &mut self.limbs {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = (product % LIMB) as u32;
            carry = product / LIMB;
        }
        if carry > 0 {
            self.limbs.push(carry as u32);
        }
    }

    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    /// Whether `long double` has numbers of this size.
    fn is_in_range(&self) -> bool {
        let whole = self.limbs.len().saturating_sub(self.fraction_limbs);
        let highest = self.limbs.last().map_or(0, |limb| limb.ilog10() as usize + 1);
        whole == 0 || (whole - 1) * LIMB_DIGITS + highest <= MAX_EXPONENT as usize + 1
    }

    fn with_fraction_limbs(&self, fraction_limbs: usize) -> Vec<u32> {
        let mut limbs = vec![0; fraction_limbs - self.fraction_limbs];
        limbs.extend(&self.limbs);
        limbs
    }

    /// The sum of both; `None` if that is out of range.
    pub(crate) fn plus(&self, other: &Self) -> Option<Self> {
        let fraction_limbs = self.fraction_limbs.max(other.fraction_limbs);
        let [one, two] = [self, other].map(|number| number.with_fraction_limbs(fraction_limbs));
        let (negative, limbs) = if self.negative == other.negative {
            (self.negative, add(one, &two))
        } else {
            match compare(&one, &two) {
                Ordering::Less => (other.negative, subtract(two, &one)),
                _ => (self.negative, subtract(one, &two)),
            }
        };
        let mut sum = Self { negative, limbs, fraction_limbs };
        sum.trim();
        sum.is_in_range().then_some(sum)
    }

    /// The number with up to 17 decimals, and no more than it needs.
    pub(crate) fn text(&self) -> String {
        let mut digits: String =
            self.limbs.iter().rev().map(|limb| format!("{limb:0LIMB_DIGITS$}")).collect();
        let behind = self.fraction_limbs * LIMB_DIGITS;
        if digits.len() <= behind {
            digits.insert_str(0, &"0".repeat(behind + 1 - digits.len()));
        }
        let (whole, fraction) = digits.split_at(digits.len() - behind);
        let kept = &fraction[..fraction.len().min(DECIMALS)];
        let mut digits: Vec<u8> = [whole.as_bytes(), kept.as_bytes()].concat();
        if rounds_up(&digits, &fraction.as_bytes()[kept.len()..]) {
            increment(&mut digits);
        }
        let digits = String::from_utf8(digits).unwrap_or_default();
        let (whole, fraction) = digits.split_at(digits.len() - kept.len());
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let fraction = fraction.trim_end_matches('0');
        let sign = if self.negative && (whole, fraction) != ("0", "") { "-" } else { "" };
        let point = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{whole}{point}{fraction}")
    }
}

/// Whether the digits are one more when the rest is cut off: halves go to the even digit.
fn rounds_up(digits: &[u8], rest: &[u8]) -> bool {
    let half = |rest: &[u8]| rest[1..].iter().all(|&digit| digit == b'0');
    match rest.first() {
        None | Some(b'0'..=b'4') => false,
        Some(b'5') if half(rest) => digits.last().is_some_and(|digit| digit % 2 == 1),
        Some(_) => true,
    }
}

fn increment(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

fn compare(one: &[u32], two: &[u32]) -> Ordering {
    let limb = |limbs: &[u32], at: usize| limbs.get(at).copied().unwrap_or(0);
    let places = (0..one.len().max(two.len())).rev();
    places
        .map(|at| limb(one, at).cmp(&limb(two, at)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn add(mut one: Vec<u32>, two: &[u32]) -> Vec<u32> {
    one.resize(one.len().max(two.len()) + 1, 0);
    let mut carry = 0;
    for (at, limb) in one.iter_mut().enumerate() {
        let sum = *limb + two.get(at).copied().unwrap_or(0) + carry;
        (*limb, carry) = (sum % LIMB as u32, sum / LIMB as u32);
    }
    one
}

/// The difference to a number that is not greater.
fn subtract(mut one: Vec<u32>, two: &[u32]) -> Vec<u32> {
    one.resize(one.len().max(two.len()), 0);
    let mut borrow = 0;
    for (at, limb) in one.iter_mut().enumerate() {
        let other = two.get(at).copied().unwrap_or(0) + borrow;
        borrow = u32::from(*limb < other);
        *limb = *limb + borrow * LIMB as u32 - other;
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, two: &str) -> Option<String> {
        let number = |text: &str| match parse(text.as_bytes())? {
            Parsed::Number(number) => Some(number),
            Parsed::Infinite => None,
        };
        Some(number(one)?.plus(&number(two)?)?.text())
    }

    /// Sums used to be those of doubles where a number had an exponent or was above 10^21: an
    /// increment by 1 at 10^17 with an exponent was lost.
    #[test]
    fn sums_are_exact() {
        for (one, two, expected) in [
            ("0.1", "0.2", "0.3"),
            ("1e17", "1", "100000000000000001"),
            ("1e17", "0.1", "100000000000000000.1"),
            ("123456789012345678901234567890", "1e-3", "123456789012345678901234567890.001"),
            ("5.0e3", "200", "5200"),
            ("-5200.0", "5.2e3", "0"),
            ("-0.1", "0.05", "-0.05"),
            ("0.05", "-0.1", "-0.05"),
            ("1000000000", "-1", "999999999"),
            ("999999999", "1", "1000000000"),
            ("1", "-1e-17", "0.99999999999999999"),
            ("1", "1e-18", "1"),
            ("0", "5e-18", "0"),
            ("0", "15e-18", "0.00000000000000002"),
            ("0", "-5e-30", "0"),
            ("9.99999999999999999", "0.00000000000000001", "10"),
            ("0.999999999999999999", "0", "1"),
            ("0x10", "0xA", "26"),
            ("0x1.8p1", "-0X.8", "2.5"),
            ("0x1p-3", "0", "0.125"),
            ("0x1p100", "1", "1267650600228229401496703205377"),
            (".5", "5.", "5.5"),
            ("+1E+2", "1", "101"),
            ("0e99999999999999999999", "1", "1"),
            ("1e-4951", "0", "0"),
        ] {
            assert_eq!(sum(one, two).as_deref(), Some(expected), "{one} + {two}");
        }
        let large = format!("1{}", "0".repeat(4932));
        assert_eq!(sum("1e4932", "0"), Some(large.clone()));
        assert_eq!(sum(&large, "1"), Some(format!("1{}1", "0".repeat(4931))));
        assert_eq!(sum("9e4932", "9e4932"), None);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", ".", "-", "--1", " 1", "1 ", "1e", "e1", "1.2.3", "0x", "0x.", "0xg", "1e5x", "nan",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(&[b'1'; MAX_TEXT_BYTES + 1]), None);
        assert_eq!(parse(b"1e-4952"), None);
        for text in ["inf", "-Infinity", "1e4933", "1e99999999999999999999", "0x1p16385"] {
            assert_eq!(parse(text.as_bytes()), Some(Parsed::Infinite), "{text}");
        }
    }
}
