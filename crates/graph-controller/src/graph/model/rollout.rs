//! The condition of a rollout, and the record of its deadline.

use std::fmt;

use api_types::{conditions, names::RevisionSuffix};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};

/// Suffix of a revision that has none, in a record.
const NO_SUFFIX: &str = "-";

/// The condition `RolloutProgressing`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutCondition {
    /// Whether the deadline has not passed.
    pub holds: bool,
    /// Its reason.
    pub reason: &'static str,
    /// Its message, without the record.
    pub text: String,
    /// From what the next reconcile continues.
    pub record: RolloutRecord,
}

impl RolloutCondition {
    /// Message of the condition.
    pub fn message(&self) -> String {
        format!("{} [{}]", self.text, self.record)
    }

    /// Text and record of the stored condition, if it has one.
    pub fn stored(conditions: &[Condition]) -> Option<(String, RolloutRecord)> {
        let condition = conditions.iter().find(|found| found.type_ == conditions::ROLLOUT_PROGRESSING)?;
        let (text, record) = condition.message.strip_suffix(']')?.rsplit_once(" [")?;
        Some((text.to_owned(), RolloutRecord::from_text(record)?))
    }
}

/// State that determines the deadline of a rollout and that no live object shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutRecord {
    /// Another available worker of the new revision is waited for.
    Waiting {
        /// Fingerprint of the new revision.
        fingerprint: String,
        /// The most workers of it that were available at once.
        available: i32,
        /// Since when.
        since: Timestamp,
    },
    /// A revision was refused, and does not come back before the spec changes.
    Undone {
        /// Its fingerprint.
        fingerprint: String,
        /// The revision to which the workers return.
        kept: Option<RevisionSuffix>,
    },
}

impl fmt::Display for RolloutRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { fingerprint, available, since } => write!(f, "waiting {fingerprint} {available} {since}"),
            Self::Undone { fingerprint, kept } => {
                write!(f, "undone {fingerprint} {}", kept.as_ref().map_or(NO_SUFFIX, RevisionSuffix::as_str))
            }
        }
    }
}

impl RolloutRecord {
    fn from_text(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split(' ').collect();
        match words[..] {
            ["waiting", fingerprint, available, since] => Some(Self::Waiting {
                fingerprint: fingerprint.to_owned(),
                available: available.parse().ok()?,
                since: since.parse().ok()?,
            }),
            ["undone", fingerprint, kept] => Some(Self::Undone {
                fingerprint: fingerprint.to_owned(),
                kept: (kept != NO_SUFFIX).then(|| RevisionSuffix::from_label(kept)),
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use controller_kit::conditions::{Status, set_condition};

    use super::*;

    #[test]
    fn a_stored_record_is_read_back_and_another_message_is_none() {
        let fingerprint = || "v1:0a1b".to_owned();
        let since = Timestamp::from_second(1_764_000_000).unwrap();
        for record in [
            RolloutRecord::Waiting { fingerprint: fingerprint(), available: 2, since },
            RolloutRecord::Undone { fingerprint: fingerprint(), kept: Some(RevisionSuffix::from_label("9f8e7d6c")) },
            RolloutRecord::Undone { fingerprint: fingerprint(), kept: None },
        ] {
            let text = "why [not] it is so".to_owned();
            let written =
                RolloutCondition { holds: true, reason: "Reason", text: text.clone(), record: record.clone() };
            let mut all = Vec::new();
            let type_ = conditions::ROLLOUT_PROGRESSING;
            set_condition(&mut all, type_, Status::True, "Reason", &written.message(), None, since);
            assert_eq!(RolloutCondition::stored(&all), Some((text, record)));
            for other in ["", "text", "text [waiting v1:0a1b 2]", "text [waiting v1 x y]", "text [undone a b c]"] {
                set_condition(&mut all, type_, Status::True, "Reason", other, None, since);
                assert_eq!(RolloutCondition::stored(&all), None, "{other}");
            }
        }
    }
}
