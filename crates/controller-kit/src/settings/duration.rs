//! Durations as the configuration file has them: `30s`, `1h30m`, `250ms`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error};

/// A duration in the notation of the Go language: decimal numbers with the units `h`, `m`, `s`, `ms`, `us` and `ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub Duration);

/// Units and their seconds; longer names first, since `m` begins `ms`.
const UNITS: [(&str, f64); 7] =
    [("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9), ("h", 3600.0), ("m", 60.0), ("s", 1.0)];

impl std::str::FromStr for GoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a duration; write for example 30s or 1h30m");
        let (mut rest, mut seconds) = (text, 0.0);
        if rest == "0" {
            return Ok(Self(Duration::ZERO));
        }
        loop {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
            let (unit, scale) = UNITS.iter().find(|(unit, _)| rest[digits..].starts_with(unit)).ok_or_else(wrong)?;
            seconds += number * scale;
            rest = &rest[digits + unit.len()..];
            if rest.is_empty() {
                return Duration::try_from_secs_f64(seconds).map(Self).map_err(|_| wrong());
            }
        }
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::GoDuration;

    #[test]
    fn go_s_notation_is_understood() {
        for (text, millis) in [("30s", 30_000), ("1h30m", 5_400_000), ("1.5s", 1_500), ("250ms", 250), ("0", 0)] {
            assert_eq!(text.parse(), Ok(GoDuration(Duration::from_millis(millis))), "{text}");
        }
        for text in ["", "30", "s", "-5s", "1x", "1s!"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
    }
}
