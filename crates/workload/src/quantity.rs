//! Kubernetes quantities by value.

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

/// The form in which Kubernetes writes a quantity: the largest suffix of the author's kind without a fraction.
/// `None` if `text` is no quantity.
pub fn canonical(text: &str) -> Option<String> {
    const ONE: i128 = 1_000_000_000;
    const BINARY: [(u32, &str); 6] = [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
    let value = nanos(text)?;
    if value == 0 {
        return Some("0".to_owned());
    }
    let suffix = text.trim_start_matches(|c: char| matches!(c, '0'..='9' | '.' | '+' | '-'));
    if suffix.ends_with('i') && value.abs() >= 1024 * ONE {
        let whole = value / ONE + i128::from(value % ONE > 0);
        let (bits, suffix) = BINARY.into_iter().find(|(bits, _)| whole % (1 << bits) == 0).unwrap_or((0, ""));
        return Some(format!("{}{suffix}", whole >> bits));
    }
    let power = (-9..=18).rev().step_by(3).find(|power: &i32| {
        let ten = u32::try_from(power + 9).ok().and_then(|exponent| 10_i128.checked_pow(exponent));
        ten.is_some_and(|ten| value % ten == 0)
    })?;
    let digits = value / 10_i128.checked_pow(u32::try_from(power + 9).ok()?)?;
    if suffix.starts_with(['e', 'E']) && suffix.len() > 1 {
        return Some(if power == 0 { digits.to_string() } else { format!("{digits}e{power}") });
    }
    let suffix = match power {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    };
    Some(format!("{digits}{suffix}"))
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
        for (one, other) in [
            ("1Gi", "1024Mi"),
            ("0.5", "500m"),
            ("1e3", "1k"),
            ("2E", "2e18"),
            ("-1", "-1000m"),
            (".5", "0.50"),
            ("+2", "2.0"),
            ("12E-1", "1200m"),
            ("0.5Gi", "512Mi"),
            ("1Ei", "1024Pi"),
            ("0", "0m"),
            ("0.1n", "1n"),
        ] {
            assert_eq!(nanos(one).unwrap(), nanos(other).unwrap(), "{one} {other}");
        }
        assert_eq!(nanos("0"), Some(0));
        assert_eq!(nanos("0.1n"), Some(1), "rounded up");
    }

    #[test]
    fn different_values_differ() {
        for (one, other) in [("1G", "1Gi"), ("1", "1m"), ("100m", "101m"), ("1E", "1e1")] {
            assert_ne!(nanos(one).unwrap(), nanos(other).unwrap(), "{one} {other}");
        }
    }

    #[test]
    fn quantities_have_one_written_form() {
        for (given, written) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1500", "1500"),
            ("2000", "2k"),
            ("1e3", "1e3"),
            ("12e2", "1200"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("80Gi", "80Gi"),
            ("100G", "100G"),
            ("1E", "1E"),
            ("0Gi", "0"),
            ("-1000m", "-1"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(written), "{given}");
        }
        assert_eq!(canonical("ten"), None);
    }

    #[test]
    fn what_is_no_quantity_is_told_apart() {
        for text in [
            "",
            "Gi",
            "8 Gi",
            "8GB",
            "1.2.3",
            "--1",
            "1e",
            "1e999999999999",
            "eight",
            "1-2",
            "1Qi",
            ".",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(nanos(text), None, "{text}");
        }
    }
}
