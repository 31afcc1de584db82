//! Kubernetes quantities by value.

/// Powers of ten, and their suffixes.
const DECIMAL: [(i32, &str); 10] =
    [(-9, "n"), (-6, "u"), (-3, "m"), (0, ""), (3, "k"), (6, "M"), (9, "G"), (12, "T"), (15, "P"), (18, "E")];
/// Powers of two, the greatest first, and their suffixes.
const BINARY: [(u32, &str); 6] = [(60, "Ei"), (50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];

/// The value of a quantity in billionths, rounded away from zero; `None` if `text` is no quantity, or one beyond 10^29.
pub fn nanos(text: &str) -> Option<i128> {
    let (digits, power) = QuantityParts::read(text)?.scaled()?;
    let ten = 10_i128.checked_pow(power.unsigned_abs())?;
    if power >= 0 { digits.checked_mul(ten) } else { Some(digits / ten + (digits % ten).signum()) }
}

/// The value of a quantity in billionths; `None` if `text` is no quantity, or one whose value is no whole number of
/// them.
pub fn exact_nanos(text: &str) -> Option<i128> {
    let (digits, power) = QuantityParts::read(text)?.scaled()?;
    let ten = 10_i128.checked_pow(power.unsigned_abs());
    match ten {
        _ if digits == 0 => Some(0),
        Some(ten) if power >= 0 => digits.checked_mul(ten),
        Some(ten) if digits % ten == 0 => Some(digits / ten),
        _ => None,
    }
}

/// Whether a text has the form of a quantity.
pub fn is_quantity(text: &str) -> bool {
    QuantityParts::read(text).is_some()
}

/// The form in which Kubernetes writes a quantity: the largest suffix of the user's kind without a fraction.
/// `None` if `text` is no quantity.
pub fn canonical(text: &str) -> Option<String> {
    const ONE: i128 = 1_000_000_000;
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
    let (digits, power, decimal) = DECIMAL.into_iter().rev().find_map(|(power, decimal)| {
        let ten = 10_i128.checked_pow(u32::try_from(power + 9).ok()?)?;
        (value % ten == 0).then(|| (value / ten, power, decimal))
    })?;
    if suffix.starts_with(['e', 'E']) && suffix.len() > 1 {
        return Some(if power == 0 { digits.to_string() } else { format!("{digits}e{power}") });
    }
    Some(format!("{digits}{decimal}"))
}

/// Sign, decimal number and suffix of a quantity.
struct QuantityParts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: Suffix,
}

enum Suffix {
    PowerOfTen(i32),
    PowerOfTwo(u32),
}

impl<'a> QuantityParts<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = (!whole.is_empty() || !fraction.is_empty()) && !fraction.contains('.');
        is_number.then_some(Self { negative: text.starts_with('-'), whole, fraction, suffix: Suffix::read(suffix)? })
    }

    /// The value as a whole number times a power of ten, in billionths.
    fn scaled(&self) -> Option<(i128, i32)> {
        let digits: i128 = format!("{}{}", self.whole, self.fraction).parse().ok()?;
        let (factor, power) = match self.suffix {
            Suffix::PowerOfTen(power) => (1, power),
            Suffix::PowerOfTwo(power) => (1_i128 << power, 0),
        };
        let places = i32::try_from(self.fraction.len()).ok()?;
        let scaled = digits.checked_mul(factor)?;
        Some((if self.negative { -scaled } else { scaled }, power.checked_add(9)?.checked_sub(places)?))
    }
}

impl Suffix {
    fn read(suffix: &str) -> Option<Self> {
        let binary = BINARY.into_iter().find(|(_, known)| *known == suffix).map(|(power, _)| Self::PowerOfTwo(power));
        let decimal = || DECIMAL.into_iter().find(|(_, known)| *known == suffix).map(|(power, _)| power);
        let exponent = || suffix.strip_prefix(['e', 'E'])?.parse().ok();
        binary.or_else(|| decimal().or_else(exponent).map(Self::PowerOfTen))
    }
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
    fn what_is_no_quantity_is_recognized() {
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
