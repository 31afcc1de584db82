//! Kubernetes quantities by value.
//!
//! The apply engine of `controller-kit` has a reading of its own, for this crate may depend on nothing that knows a
//! client. They differ where their inputs do: it compares what an API server took, with white space around it; here an
//! author wrote the text, and what is no plain quantity is a mistake to be told.

const NANO_DIGITS: i32 = 9;

/// The value of a quantity in billionths, rounded away from zero; `None` if `text` is no quantity, or one beyond 10^29.
pub fn nanos(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (digits, decimals) = number_of(number)?;
    let (factor, power) = suffix_of(suffix)?;
    let scaled = digits.checked_mul(factor)?;
    let power = power + NANO_DIGITS - decimals;
    let ten = 10_i128.checked_pow(power.unsigned_abs())?;
    if power >= 0 { scaled.checked_mul(ten) } else { Some(scaled / ten + (scaled % ten).signum()) }
}

/// `-1.50` as `(-150, 2)`.
fn number_of(number: &str) -> Option<(i128, i32)> {
    let (sign, unsigned) = match number.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((sign * digits.parse::<i128>().ok()?, i32::try_from(fraction.len()).ok()?))
}

/// A suffix as a factor and a power of ten.
fn suffix_of(suffix: &str) -> Option<(i128, i32)> {
    if let Some(position) = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|known| *known == suffix) {
        return Some((1024_i128.pow(u32::try_from(position).ok()? + 1), 0));
    }
    let power = match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "" => 0,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        exponent => exponent.strip_prefix(['e', 'E'])?.parse().ok().filter(|power: &i32| power.abs() < 100)?,
    };
    Some((1, power))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_equal_in_every_notation() {
        for (one, other) in
            [("1Gi", "1024Mi"), ("0.5", "500m"), ("1e3", "1k"), ("2E", "2e18"), ("-1", "-1000m"), (".5", "0.50")]
        {
            assert_eq!(nanos(one).unwrap(), nanos(other).unwrap(), "{one} {other}");
        }
        assert_eq!(nanos("0"), Some(0));
        assert_eq!(nanos("0.1n"), Some(1), "rounded up");
    }

    #[test]
    fn what_is_no_quantity_is_told_apart() {
        for text in ["", "Gi", "8 Gi", "8GB", "1.2.3", "--1", "1e", "1e999999999999", "eight", "1-2"] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }
}
