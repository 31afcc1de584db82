//! Kubernetes quantities, compared by value.

/// Quantities are compared in billionths, the finest step the API server keeps.
const NANO_DIGITS: u32 = 9;

/// The value of a quantity in billionths, rounded away from zero as the API server does.
///
/// `None` if `text` is not a quantity, or is one beyond 10^29.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    let text = text.trim();
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (digits, decimals) = parse_number(number)?;
    let (multiplier, exponent) = parse_suffix(suffix)?;
    let exponent = exponent + i32::try_from(NANO_DIGITS).ok()? - i32::try_from(decimals).ok()?;
    let scaled = digits.checked_mul(multiplier)?;
    if exponent >= 0 {
        scaled.checked_mul(10_i128.checked_pow(exponent.unsigned_abs())?)
    } else {
        let divisor = 10_i128.checked_pow(exponent.unsigned_abs())?;
        let rest = (scaled % divisor).signum();
        Some(scaled / divisor + rest)
    }
}

/// Splits `-1.50` into `(-150, 2)`.
fn parse_number(number: &str) -> Option<(i128, usize)> {
    let (sign, unsigned) = match number.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((sign * digits.parse::<i128>().ok()?, fraction.len()))
}

/// A suffix as `(multiplier, power of ten)`.
fn parse_suffix(suffix: &str) -> Option<(i128, i32)> {
    let decimal = |power| Some((1, power));
    let binary = |steps: u32| Some((1024_i128.pow(steps), 0));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let power = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
            (-30..=30).contains(&power).then_some((1, power))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::nanos;

    #[test]
    fn spellings_of_one_value_are_equal() {
        for (a, b) in [
            ("1000m", "1"),
            ("0.5Gi", "512Mi"),
            ("1.5", "1500m"),
            ("1e3", "1k"),
            ("12E-1", "1200m"),
            ("1G", "1000M"),
            ("+2", "2.0"),
            ("-0.5", "-500m"),
            ("0", "0m"),
            ("1Ei", "1024Pi"),
            ("0.1n", "1n"),
        ] {
            assert!(nanos(a).is_some(), "{a} is a quantity");
            assert_eq!(nanos(a), nanos(b), "{a} = {b}");
        }
    }

    #[test]
    fn different_values_differ() {
        for (a, b) in [("1G", "1Gi"), ("1", "1m"), ("100m", "101m"), ("1E", "1e1")] {
            assert_ne!(nanos(a), nanos(b), "{a} != {b}");
        }
    }

    #[test]
    fn other_text_is_not_a_quantity() {
        for text in
            ["", "abc", "1.2.3", "1 Gi", "Gi", "1Qi", "--1", "1-2", ".", "99999999999999999999999999999999999999999"]
        {
            assert_eq!(nanos(text), None, "{text:?}");
        }
    }
}
