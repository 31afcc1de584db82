//! Kubernetes quantities, as far as conversion has to understand them: whether they are well-formed, zero, or equal.

use serde_json::Value;

/// The value in billionths; none if it is not a quantity or too large to say.
pub(super) fn nanos(quantity: &Value) -> Option<i128> {
    match quantity {
        Value::String(text) => parse(text),
        Value::Number(number) => parse(&number.to_string()),
        _ => None,
    }
}

/// Whether the text has the form of a quantity.
pub(super) fn is_quantity(text: &str) -> bool {
    split(text).is_some()
}

/// Sign and decimal number, and the power that follows.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: Suffix,
}

enum Suffix {
    Ten(i32),
    Two(u32),
}

fn split(text: &str) -> Option<Parts<'_>> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = (!whole.is_empty() || !fraction.is_empty()) && !fraction.contains('.');
    digits.then_some(Parts { negative, whole, fraction, suffix: suffix_of(suffix)? })
}

fn suffix_of(suffix: &str) -> Option<Suffix> {
    Some(match suffix {
        "n" => Suffix::Ten(-9),
        "u" => Suffix::Ten(-6),
        "m" => Suffix::Ten(-3),
        "" => Suffix::Ten(0),
        "k" => Suffix::Ten(3),
        "M" => Suffix::Ten(6),
        "G" => Suffix::Ten(9),
        "T" => Suffix::Ten(12),
        "P" => Suffix::Ten(15),
        "E" => Suffix::Ten(18),
        "Ki" => Suffix::Two(10),
        "Mi" => Suffix::Two(20),
        "Gi" => Suffix::Two(30),
        "Ti" => Suffix::Two(40),
        "Pi" => Suffix::Two(50),
        "Ei" => Suffix::Two(60),
        exponent => Suffix::Ten(exponent.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

fn parse(text: &str) -> Option<i128> {
    let parts = split(text)?;
    let places = i32::try_from(parts.fraction.len()).ok()?;
    let digits = format!("{}{}", parts.whole, parts.fraction);
    let number: i128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let (factor, ten) = match parts.suffix {
        Suffix::Ten(power) => (1, power),
        Suffix::Two(power) => (1_i128 << power, 0),
    };
    let power = ten.checked_add(9)?.checked_sub(places)?;
    let scaled = number.checked_mul(factor)?;
    let scale = 10_i128.checked_pow(power.unsigned_abs());
    let value = match scale {
        _ if scaled == 0 => 0,
        Some(scale) if power >= 0 => scaled.checked_mul(scale)?,
        Some(scale) if scaled % scale == 0 => scaled / scale,
        _ => return None,
    };
    Some(if parts.negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values() {
        for (given, nanos_wanted) in [
            (json!("1"), Some(1_000_000_000)),
            (json!(1), Some(1_000_000_000)),
            (json!("1000m"), Some(1_000_000_000)),
            (json!("0.5"), Some(500_000_000)),
            (json!(".5"), Some(500_000_000)),
            (json!("1e3"), Some(1_000_000_000_000)),
            (json!("1Ki"), Some(1_024_000_000_000)),
            (json!("-1"), Some(-1_000_000_000)),
            (json!("0Gi"), Some(0)),
            (json!("1.50"), Some(1_500_000_000)),
            (json!(""), None),
            (json!("."), None),
            (json!("1.2.3"), None),
            (json!("ten"), None),
            (json!("1Gb"), None),
            (json!("99999999999999999999999999999999999999999999"), None),
            (json!("1e999999999"), None),
            (json!("1e-2147483648"), None),
            (json!("0e999999999"), Some(0)),
            (json!(null), None),
            (json!("１"), None),
        ] {
            assert_eq!(nanos(&given), nanos_wanted, "{given}");
        }
    }
}
