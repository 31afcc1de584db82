//! Every key that some process of the operator, ours or the reference, understands, and durations as Go writes them.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::{Value, json};

use super::OperatorConfiguration;

/// Every key, with its default: those of the configuration, and those that only processes of the reference understand.
/// Everything below a value is known, too.
fn known() -> Value {
    let mut known = serde_json::to_value(OperatorConfiguration::default()).unwrap_or_default();
    let of_reference = json!({
        "apiVersion": "",
        "kind": "",
        "server": {
            "metrics": { "bindAddress": "", "port": 0 },
            "healthProbe": { "bindAddress": "", "port": 0 },
            "webhook": { "bindAddress": "", "certDir": "" },
        },
        "checkpoint": { "storage": { "s3": "", "oci": "" } },
        "security": { "enableHTTP2": false },
    });
    json_patch::merge(&mut known, &of_reference);
    known
}

/// Unknown paths in `value`, in the order of the file's keys. The topmost unknown key represents all below it.
pub(super) fn unknown(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(value, &known(), "", &mut found);
    found
}

fn walk(value: &Value, known: &Value, prefix: &str, found: &mut Vec<String>) {
    let (Value::Object(fields), Value::Object(known)) = (value, known) else { return };
    for (key, below) in fields {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match known.get(key) {
            Some(known) => walk(below, known, &path, found),
            None => found.push(path),
        }
    }
}

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

/// As Go writes it, which is how Kubernetes objects hold durations: `1h30m0s`, `15m0s`, `1.5s`, `250ms`.
impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if seconds == 0 && nanos > 0 {
            let (unit, digits, name) = match nanos {
                1_000_000.. => (1_000_000, 6, "ms"),
                1_000.. => (1_000, 3, "µs"),
                _ => (1, 0, "ns"),
            };
            return write!(f, "{}{}{name}", nanos / unit, decimals(nanos % unit, digits));
        }
        let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if hours > 0 || minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        write!(f, "{seconds}{}s", decimals(nanos, 9))
    }
}

/// A fraction of so many digits behind its point, without trailing zeros; nothing if it is zero.
fn decimals(fraction: u32, digits: usize) -> String {
    let text = format!(".{fraction:0digits$}");
    if fraction == 0 { String::new() } else { text.trim_end_matches('0').to_owned() }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    fn paths(known: &Value, prefix: &str) -> Vec<String> {
        let Value::Object(fields) = known else { return vec![prefix.to_owned()] };
        let path = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
        fields.iter().flat_map(|(key, below)| paths(below, &path(key))).collect()
    }

    /// A key that is on no page cannot be found by its users.
    #[test]
    fn the_page_on_the_configuration_names_every_key() {
        let page = include_str!("../../../../docs/configuration.md");
        let mut keys = paths(&super::known(), "");
        keys.retain(|key| !["apiVersion", "kind"].contains(&key.as_str()));
        assert!(keys.len() > 60, "{keys:?}");
        let missing: Vec<_> = keys.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/configuration.md: {missing:?}");
    }
}

#[cfg(test)]
mod duration_tests {
    use std::time::Duration;

    use super::GoDuration;

    #[test]
    fn go_s_notation_is_understood() {
        for (text, millis) in [("30s", 30_000), ("1h30m", 5_400_000), ("1.5s", 1_500), ("250ms", 250), ("0", 0)] {
            assert_eq!(text.parse(), Ok(GoDuration(Duration::from_millis(millis))), "{text}");
        }
        for (text, written) in [
            ("15m", "15m0s"),
            ("4h", "4h0m0s"),
            ("1.5h", "1h30m0s"),
            ("90s", "1m30s"),
            ("1h1ms", "1h0m0.001s"),
            ("1500us", "1.5ms"),
            ("0s", "0s"),
            ("7ns", "7ns"),
        ] {
            assert_eq!(text.parse::<GoDuration>().unwrap().to_string(), written, "{text}");
        }
        for text in ["", "30", "s", "-5s", "1x", "1s!"] {
            assert!(text.parse::<GoDuration>().is_err(), "{text}");
        }
    }
}
