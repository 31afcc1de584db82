//! The annotations by which users control the rollout of a graph's workers: one rule for admission and controller.

use std::collections::BTreeMap;

use crate::{
    annotations::{DEPLOYMENT_STRATEGY, PROGRESS_DEADLINE, PROVIDER_GROVE, ROLLOUT, ROLLOUT_STEP, WORKLOAD_PROVIDER},
    violations::{Reason, Violation, supported},
};

/// Annotations of this module.
pub const KEYS: [&str; 3] = [ROLLOUT, ROLLOUT_STEP, PROGRESS_DEADLINE];

/// Value of [`ROLLOUT`]: worker replicas stay where they are, and no new revision starts.
pub const PAUSED: &str = "paused";
/// Value of [`ROLLOUT`]: workers return to the older revision.
pub const UNDONE: &str = "undone";

/// The longest deadline, in seconds: 30 days.
const MOST_SECONDS: i64 = 30 * 24 * 3600;

/// Control of the rollout of a graph's workers. The default lets it continue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutControl {
    /// Reason why it stops.
    pub stop: Option<RolloutStop>,
    /// Limit of the new revision's progress.
    pub step: Option<RolloutStep>,
    /// Deadline after which it is undone.
    pub deadline: Option<ProgressDeadline>,
}

/// Reason why a rollout stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutStop {
    /// [`PAUSED`].
    Paused,
    /// [`UNDONE`].
    Undone,
}

/// The most workers of a component that the new revision gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutStep {
    /// A count.
    Workers(i32),
    /// Hundredths of the desired replicas.
    Percent(i32),
}

impl RolloutStep {
    /// Workers of a component with so many desired replicas: at least one, at most all.
    #[must_use]
    pub fn workers(self, desired: i32) -> i32 {
        let workers = match self {
            Self::Workers(count) => count,
            Self::Percent(percent) => {
                let hundredths = i64::from(percent) * i64::from(desired.max(0));
                i32::try_from((hundredths + 99) / 100).unwrap_or(i32::MAX)
            }
        };
        workers.clamp(1, desired.max(1))
    }
}

impl std::fmt::Display for RolloutStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Workers(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

/// Time without progress after which a rollout is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressDeadline {
    /// As the user wrote it.
    pub text: String,
    /// The deadline in seconds.
    pub seconds: i64,
}

/// Reads the annotations of a graph. `on_grove`: Grove runs it. `recreated`: names of its worker components that
/// replace all pods at once.
///
/// # Errors
/// All violations; the path of each is the key of the annotation.
pub fn rollout_control(
    annotations: &BTreeMap<String, String>,
    on_grove: bool,
    recreated: &[&str],
) -> Result<RolloutControl, Vec<Violation<&'static str>>> {
    let value = |key: &str| annotations.get(key).map(String::as_str).filter(|value| !value.is_empty());
    if on_grove {
        let violations: Vec<_> = KEYS.into_iter().filter(|key| value(key).is_some()).map(on_grove_violation).collect();
        return if violations.is_empty() { Ok(RolloutControl::default()) } else { Err(violations) };
    }
    let mut violations = Vec::new();
    let mut keep = |violation| violations.push(violation);
    let stop = value(ROLLOUT).and_then(|text| stop(text).map_err(&mut keep).ok());
    let step = value(ROLLOUT_STEP).and_then(|text| step(text).map_err(&mut keep).ok());
    let deadline = value(PROGRESS_DEADLINE).and_then(|text| deadline(text).map_err(&mut keep).ok());
    if let (Some(_), false) = (step, recreated.is_empty()) {
        keep(Violation::forbidden(
            ROLLOUT_STEP,
            format!(
                "needs workers of two revisions side by side, and spec.components[{}] has {DEPLOYMENT_STRATEGY}: \
                 Recreate",
                recreated.join(", ")
            ),
            "remove one of the two annotations",
        ));
    }
    if violations.is_empty() { Ok(RolloutControl { stop, step, deadline }) } else { Err(violations) }
}

fn on_grove_violation(key: &'static str) -> Violation<&'static str> {
    let problem =
        "is for graphs that run as components; Grove replaces the pods of this one, and cannot be held or undone";
    let remedy =
        format!("remove it, or create the graph anew without Grove ({WORKLOAD_PROVIDER} is {PROVIDER_GROVE} for life)");
    Violation::forbidden(key, problem, remedy)
}

fn stop(text: &str) -> Result<RolloutStop, Violation<&'static str>> {
    match text {
        PAUSED => Ok(RolloutStop::Paused),
        UNDONE => Ok(RolloutStop::Undone),
        _ => {
            let texts = format!("{}; remove it to let the rollout go on", supported(&[PAUSED, UNDONE]));
            Err(Violation::of_text(ROLLOUT, Reason::NotSupported, text, &texts))
        }
    }
}

fn step(text: &str) -> Result<RolloutStep, Violation<&'static str>> {
    let (digits, is_percentage) = text.strip_suffix('%').map_or((text, false), |digits| (digits, true));
    match number(digits).and_then(|number| i32::try_from(number).ok()) {
        Some(percent @ 1..=100) if is_percentage => Ok(RolloutStep::Percent(percent)),
        Some(count @ 1..) if !is_percentage => Ok(RolloutStep::Workers(count)),
        _ => Err(Violation::invalid(
            ROLLOUT_STEP,
            text,
            "is neither a count above 0 nor a percentage from 1% to 100%",
            "write a whole number such as 1, or a percentage such as 25%; remove it to let the rollout go on",
        )),
    }
}

fn deadline(text: &str) -> Result<ProgressDeadline, Violation<&'static str>> {
    match seconds(text) {
        Some(seconds @ 1..=MOST_SECONDS) => Ok(ProgressDeadline { text: text.to_owned(), seconds }),
        _ => Err(Violation::invalid(
            PROGRESS_DEADLINE,
            text,
            "is no time from 1s to 720h",
            "write hours, minutes and seconds such as 1h30m, 10m or 90s",
        )),
    }
}

/// Whole hours, minutes and seconds, as `1h30m`.
fn seconds(text: &str) -> Option<i64> {
    let (mut rest, mut total) = (text, 0_i64);
    while !rest.is_empty() {
        let unit = rest.find(|c: char| !c.is_ascii_digit())?;
        let factor = match rest[unit..].chars().next()? {
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return None,
        };
        total = total.checked_add(number(&rest[..unit])?.checked_mul(factor)?)?;
        rest = &rest[unit + 1..];
    }
    Some(total)
}

/// A number of decimal digits only.
fn number(digits: &str) -> Option<i64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(pairs: &[(&str, &str)]) -> Result<RolloutControl, Vec<&'static str>> {
        let all = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let paths = |all: Vec<Violation<&'static str>>| all.into_iter().map(|found| found.path).collect();
        rollout_control(&all, false, &[]).map_err(paths)
    }

    #[test]
    fn values_are_read_or_refused_at_their_key() {
        assert_eq!(control(&[("other", "x"), (ROLLOUT, "")]), Ok(RolloutControl::default()));
        for (text, stop) in [("paused", RolloutStop::Paused), ("undone", RolloutStop::Undone)] {
            assert_eq!(control(&[(ROLLOUT, text)]).unwrap().stop, Some(stop));
        }
        for (text, step) in [("1", Some(RolloutStep::Workers(1))), ("100%", Some(RolloutStep::Percent(100)))] {
            assert_eq!(control(&[(ROLLOUT_STEP, text)]).unwrap().step, step);
        }
        for (text, seconds) in [("90s", 90), ("10m", 600), ("1h30m", 5400), ("720h", MOST_SECONDS)] {
            assert_eq!(control(&[(PROGRESS_DEADLINE, text)]).unwrap().deadline.unwrap().seconds, seconds);
        }
        for (key, texts) in [
            (ROLLOUT, &["Paused", "resumed", " "][..]),
            (ROLLOUT_STEP, &["0", "0%", "101%", "-1", "+1", "half", "%", "99999999999"]),
            (PROGRESS_DEADLINE, &["0s", "10", "m", "10d", "1.5h", "-1m", "721h", "99999999999999999999h", "1m é"]),
        ] {
            for text in texts {
                assert_eq!(control(&[(key, text)]), Err(vec![key]), "{text}");
            }
        }
        assert_eq!(control(&[(ROLLOUT, "x"), (ROLLOUT_STEP, "x"), (PROGRESS_DEADLINE, "x")]), Err(KEYS.to_vec()));
    }

    #[test]
    fn what_cannot_be_held_is_refused() {
        let all: BTreeMap<_, _> = [(ROLLOUT_STEP.to_owned(), "1".to_owned())].into();
        let refused = rollout_control(&all, false, &["Decode"]).unwrap_err().remove(0);
        assert!(refused.message.contains("spec.components[Decode]"), "{refused}");
        for key in KEYS {
            let all: BTreeMap<_, _> = [(key.to_owned(), "1".to_owned())].into();
            assert_eq!(rollout_control(&all, true, &[]).unwrap_err()[0].path, key);
        }
        assert_eq!(rollout_control(&BTreeMap::new(), true, &["Decode"]), Ok(RolloutControl::default()));
    }

    #[test]
    fn a_step_is_rounded_up_and_at_least_one() {
        for (step, desired, workers) in [
            (RolloutStep::Percent(25), 4, 1),
            (RolloutStep::Percent(25), 5, 2),
            (RolloutStep::Percent(1), 3, 1),
            (RolloutStep::Percent(100), 3, 3),
            (RolloutStep::Percent(100), i32::MAX, i32::MAX),
            (RolloutStep::Workers(2), 8, 2),
            (RolloutStep::Workers(9), 8, 8),
            (RolloutStep::Workers(2), 0, 1),
        ] {
            assert_eq!(step.workers(desired), workers, "{step} of {desired}");
        }
    }
}
