//! Conditions of a status block.
//!
//! Beside its own types, every kind shows `Reconciling` and `Stalled`, by which generic tools (kstatus: Flux, Argo CD,
//! Helm) see whether to wait or to give up.

use std::time::Duration;

pub use api_types::conditions::{READY, RECONCILING, STALLED};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Reason of [`RECONCILING`]: work goes on without a user.
pub const PROGRESSING: &str = "Progressing";

/// Value of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The condition holds.
    True,
    /// The condition does not hold.
    False,
    /// Not known yet.
    Unknown,
}

impl Status {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for Status {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// Sets one condition and returns whether anything changed.
///
/// `lastTransitionTime` becomes `now` only if the status is another than before. Order is stable: a known type stays in
/// its place, a new one goes to the end.
pub fn set_condition(
    conditions: &mut Vec<Condition>,
    type_: &str,
    status: Status,
    reason: &str,
    message: &str,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let mut desired = Condition {
        type_: type_.to_owned(),
        status: status.as_str().to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation,
        last_transition_time: Time(whole_seconds(now)),
    };
    let Some(known) = conditions.iter_mut().find(|condition| condition.type_ == type_) else {
        conditions.push(desired);
        return true;
    };
    if known.status == desired.status {
        desired.last_transition_time = known.last_transition_time.clone();
    }
    let changed = *known != desired;
    *known = desired;
    changed
}

/// Progress in the terms of kstatus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The actual state is the desired one.
    Current,
    /// Under way.
    Working {
        /// Reason in CamelCase.
        reason: String,
        /// Description of what is awaited.
        message: String,
    },
    /// A user has to change something.
    Stuck {
        /// Reason in CamelCase.
        reason: String,
        /// The problem and its remedy.
        message: String,
    },
}

impl Progress {
    /// Under way, for this reason in CamelCase.
    pub fn working(reason: &str, message: impl Into<String>) -> Self {
        Self::Working { reason: reason.to_owned(), message: message.into() }
    }

    /// A user has to change something, for this reason in CamelCase.
    pub fn stuck(reason: &str, message: impl Into<String>) -> Self {
        Self::Stuck { reason: reason.to_owned(), message: message.into() }
    }
}

/// Sets [`RECONCILING`] and [`STALLED`], of which at most one is true. Returns whether anything changed.
pub fn set_progress(
    conditions: &mut Vec<Condition>,
    progress: &Progress,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> bool {
    let idle = (Status::False, "UpToDate", "");
    let (reconciling, stalled) = match progress {
        Progress::Current => (idle, idle),
        Progress::Working { reason, message } => {
            ((Status::True, reason.as_str(), message.as_str()), (Status::False, "Progressing", ""))
        }
        Progress::Stuck { reason, message } => {
            ((Status::False, "Stalled", ""), (Status::True, reason.as_str(), message.as_str()))
        }
    };
    let mut set = |type_, (status, reason, message): (Status, &str, &str)| {
        set_condition(conditions, type_, status, reason, message, observed_generation, now)
    };
    let first = set(RECONCILING, reconciling);
    set(STALLED, stalled) || first
}

/// The condition of this type.
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The condition of this type, if it has this status.
pub fn find_with<'a>(conditions: &'a [Condition], type_: &str, status: Status) -> Option<&'a Condition> {
    find(conditions, type_).filter(|condition| condition.status == status.as_str())
}

/// True if the condition of this type is there and true.
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    find_with(conditions, type_, Status::True).is_some()
}

/// The API keeps whole seconds; more would look like a change on every read.
fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// For how long things have been as they are, by the younger one of `Ready` and `Stalled`; zero if nothing was said
/// yet.
pub fn age(conditions: &[Condition], now: Timestamp) -> Duration {
    let known = [READY, STALLED].into_iter().filter_map(|type_| find(conditions, type_));
    let since = known.map(|condition| condition.last_transition_time.0).max();
    since.and_then(|since| Duration::try_from(now.duration_since(since)).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

    use super::{Progress, RECONCILING, STALLED, Status, find, is_true, set_condition, set_progress};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn since(conditions: &[Condition], type_: &str) -> i64 {
        find(conditions, type_).unwrap().last_transition_time.0.as_second()
    }

    #[test]
    fn the_transition_time_follows_the_status_only() {
        let mut all = Vec::new();
        assert!(set_condition(&mut all, "Ready", Status::False, "New", "", Some(1), at(10)));
        assert!(!set_condition(&mut all, "Ready", Status::False, "New", "", Some(1), at(20)), "nothing new");
        assert!(set_condition(&mut all, "Ready", Status::False, "Other", "words", Some(2), at(30)));
        assert_eq!(since(&all, "Ready"), 10);
        assert_eq!(find(&all, "Ready").unwrap().observed_generation, Some(2));
        assert!(set_condition(&mut all, "Ready", true.into(), "Other", "words", Some(2), at(40)));
        assert_eq!(since(&all, "Ready"), 40);
    }

    #[test]
    fn order_is_stable() {
        let mut all = Vec::new();
        for type_ in ["b", "a", "c", "a"] {
            set_condition(&mut all, type_, Status::Unknown, "x", "", None, at(1));
        }
        let order: Vec<&str> = all.iter().map(|c| c.type_.as_str()).collect();
        assert_eq!(order, ["b", "a", "c"]);
    }

    #[test]
    fn parts_of_a_second_are_no_change() {
        let mut all = Vec::new();
        let now = Timestamp::from_millisecond(1_500).unwrap();
        set_condition(&mut all, "Ready", Status::True, "x", "", None, now);
        assert_eq!(find(&all, "Ready").unwrap().last_transition_time.0, at(1));
    }

    #[test]
    fn progress_never_says_both() {
        let mut all = Vec::new();
        let working = Progress::working("Rollout", "1 of 2");
        let stuck = Progress::stuck("Invalid", "no image");
        for (progress, expected) in
            [(working, (true, false)), (stuck, (false, true)), (Progress::Current, (false, false))]
        {
            set_progress(&mut all, &progress, Some(3), at(5));
            assert_eq!((is_true(&all, RECONCILING), is_true(&all, STALLED)), expected, "{progress:?}");
            assert!(!set_progress(&mut all, &progress, Some(3), at(9)));
        }
    }
}
