//! Values as bytes that sort as the values do.
//!
//! ```text
//! integer    128 + n, or 127 - n if negative; then the n bytes that matter
//! numeric    129 | exponent + 64 | digits by two, each plus 1 | 0; inverted behind 127 if negative
//! real       1 | 8 bytes, the sign bit flipped, or all bits if negative
//! text       1 | each 0 as 0 255 | 0 0
//! null       255: behind all others
//! ```

use rust_decimal::Decimal;

use crate::types::Datum;

/// Greater than the first byte of each value but null.
pub(crate) const NULL: u8 = 255;

/// Appends a value to a key.
pub(crate) fn encode(value: &Datum, key: &mut Vec<u8>) {
    match value {
        Datum::Null => key.push(NULL),
        Datum::Bool(value) => key.extend([1, u8::from(*value)]),
        Datum::Int(value) => integer(*value, key),
        Datum::Date(days) => integer((*days).into(), key),
        Datum::Timestamp(micros) => integer(*micros, key),
        Datum::Numeric(value) => numeric(value, key),
        Datum::Float(value) => float(*value, key),
        Datum::Text(text) => bytes(text.as_bytes(), key),
        Datum::Bytes(value) => bytes(value, key),
    }
}

fn integer(value: i64, key: &mut Vec<u8>) {
    let magnitude = if value < 0 { !value } else { value } as u64;
    let length = 8 - magnitude.leading_zeros() as usize / 8;
    key.push(if value < 0 { 127 - length as u8 } else { 128 + length as u8 });
    key.extend(&value.to_be_bytes()[8 - length..]);
}

fn numeric(value: &Decimal, key: &mut Vec<u8>) {
    let value = value.normalize();
    if value.is_zero() {
        key.push(128);
        return;
    }
    let mut digits = value.mantissa().unsigned_abs().to_string();
    let exponent = digits.len() as i32 - value.scale() as i32;
    let length = digits.trim_end_matches('0').len();
    digits.truncate(length);
    if digits.len() % 2 == 1 {
        digits.push('0');
    }
    let start = key.len() + 1;
    key.push(if value.is_sign_negative() { 127 } else { 129 });
    key.push((exponent + 64) as u8);
    key.extend(digits.as_bytes().chunks(2).map(|two| 10 * (two[0] - b'0') + two[1] - b'0' + 1));
    key.push(0);
    if value.is_sign_negative() {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

fn float(value: f64, key: &mut Vec<u8>) {
    // Zero has one sign, and there is one NaN.
    let value = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = value.to_bits();
    let bits = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    key.push(1);
    key.extend(bits.to_be_bytes());
}

fn bytes(value: &[u8], key: &mut Vec<u8>) {
    key.push(1);
    for &byte in value {
        key.push(byte);
        if byte == 0 {
            key.push(255);
        }
    }
    key.extend([0, 0]);
}

/// The least bytes that are greater than all that begin with `prefix`, if there are any.
pub(crate) fn after_all(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut bytes = prefix[..=last].to_vec();
    bytes[last] += 1;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(values: &[Datum]) -> Vec<u8> {
        let mut key = Vec::new();
        values.iter().for_each(|value| encode(value, &mut key));
        key
    }

    fn datum() -> impl Strategy<Value = (Datum, Datum)> {
        let decimal = (-1_000_000i64..1_000_000, 0..6u32)
            .prop_map(|(mantissa, scale)| Datum::Numeric(Decimal::new(mantissa, scale)));
        let int = prop_oneof![any::<i64>(), -300..300i64].prop_map(Datum::Int);
        let text = prop::collection::vec(0..3u8, 0..5)
            .prop_map(|bytes| Datum::Text(String::from_utf8(bytes).unwrap()));
        let float = prop_oneof![any::<f64>(), Just(0.0), Just(-0.0)].prop_map(Datum::Float);
        let pair = |one: BoxedStrategy<Datum>| {
            let one = prop_oneof![9 => one, 1 => Just(Datum::Null)];
            (one.clone(), one).boxed()
        };
        prop_oneof![
            pair(decimal.boxed()),
            pair(int.boxed()),
            pair(text.boxed()),
            pair(float.boxed())
        ]
    }

    proptest! {
        #[test]
        fn keys_sort_as_values_do((one, other) in datum(), (third, fourth) in datum()) {
            let [first, second] = [&one, &other].map(|datum| key(std::slice::from_ref(datum)));
            prop_assert_eq!(first.cmp(&second), one.order(&other));
            let order = one.order(&other).then(third.order(&fourth));
            prop_assert_eq!(key(&[one, third]).cmp(&key(&[other, fourth])), order);
        }
    }

    #[test]
    fn equal_numbers_have_equal_keys() {
        let number = |text: &str| key(&[Datum::Numeric(text.parse().unwrap())]);
        assert_eq!(number("1.0"), number("1.000"));
        assert_eq!(number("100"), number("100.00"));
        assert!(number("-10") < number("-9.99") && number("9.99") < number("10"));
        assert_eq!(key(&[Datum::Float(0.0)]), key(&[Datum::Float(-0.0)]));
    }
}
