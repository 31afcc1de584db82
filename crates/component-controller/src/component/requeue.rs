//! Pauses before the next pass, where no watch shows the awaited change.

use std::time::Duration;

use controller_kit::{conditions::age, controller::Action};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::model::{ComponentApplied, ComponentObserved, NamedPullSecrets};

/// Shortest pause before a rejected write is tried again.
const SHORTEST: Duration = Duration::from_secs(2);
/// Longest pause before a rejected write is tried again.
const LONGEST: Duration = Duration::from_secs(15);

/// Interval of lookups of a missing pull secret.
const SECRETS: Duration = Duration::from_secs(60);

/// Interval of lookups of a missing API.
pub const API: Duration = Duration::from_secs(10);

/// Interval of lookups of a missing PersistentVolumeClaim or device claim; neither is watched.
const CLAIM: Duration = Duration::from_secs(15);

/// The pause before the next pass; `None` if a watch shows the awaited change.
///
/// A rejected write is tried again after as much time as it has been rejected for, within limits: the age of the
/// conditions is a backoff that needs no memory. A taken name is tried again because objects without our labels are not
/// watched; a missing pull secret because Secrets of the older type are not.
fn after(
    applied: &ComponentApplied,
    secrets: &NamedPullSecrets,
    conditions: &[Condition],
    now: Timestamp,
) -> Option<Duration> {
    if !applied.rejections.is_empty() {
        return Some(age(conditions, now).clamp(SHORTEST, LONGEST));
    }
    (!secrets.missing.is_empty()).then_some(SECRETS)
}

/// The pause before a missing claim or API is looked up again.
fn missing(lacks_claim: bool, lacks_api: bool) -> Option<Duration> {
    [lacks_claim.then_some(CLAIM), lacks_api.then_some(API)].into_iter().flatten().min()
}

/// Determines when the next pass over a component is due.
pub fn next(
    observed: &ComponentObserved,
    applied: &ComponentApplied,
    conditions: &[Condition],
    now: Timestamp,
) -> Action {
    let lacks_claim = observed.legacy_needs.as_ref().is_ok_and(|legacy| legacy.missing_volume.is_some())
        || observed.claimed_gpus.is_err();
    let after = after(applied, &observed.named_pull_secrets, conditions, now);
    let pauses = [after, missing(lacks_claim, applied.lacks_api), applied.diagnose_after];
    pauses.into_iter().flatten().fold(Action::AwaitChange, Action::no_later_than)
}

#[cfg(test)]
mod tests {
    use api_types::conditions;
    use controller_kit::{
        apply::ObjectId,
        conditions::{Status, set_condition},
        failure::Class,
    };

    use super::*;
    use crate::component::model::Rejection;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn rejected() -> ComponentApplied {
        let object = ObjectId { group: String::new(), kind: "Service".into(), namespace: "n".into(), name: "w".into() };
        let rejection = Rejection { class: Class::Foreign, object, message: String::new() };
        ComponentApplied { rejections: vec![rejection], ..ComponentApplied::default() }
    }

    #[test]
    fn a_rejected_write_backs_off_within_limits() {
        let mut all = Vec::new();
        set_condition(&mut all, conditions::READY, Status::False, "r", "", None, at(0));
        set_condition(&mut all, conditions::STALLED, Status::True, "r", "", None, at(100));
        let secrets = NamedPullSecrets::default();
        let waits: Vec<u64> = [100, 101, 110, 130, 5_000]
            .map(|now| after(&rejected(), &secrets, &all, at(now)).unwrap().as_secs())
            .to_vec();
        assert_eq!(waits, [2, 2, 10, 15, 15]);
        assert_eq!(after(&rejected(), &secrets, &all, at(50)).unwrap(), SHORTEST, "the clock was set back");
        assert_eq!(after(&rejected(), &secrets, &[], at(50)).unwrap(), SHORTEST);
    }

    #[test]
    fn only_a_missing_pull_secret_requeues_without_rejections() {
        let found = NamedPullSecrets::default();
        assert_eq!(after(&ComponentApplied::default(), &found, &[], at(0)), None);
        let missing = NamedPullSecrets { any: true, missing: vec!["s".into()] };
        assert_eq!(after(&ComponentApplied::default(), &missing, &[], at(0)), Some(SECRETS));
    }

    #[test]
    fn missing_claims_and_apis_are_looked_up_again() {
        let table = [(false, false, None), (true, false, Some(15)), (false, true, Some(10)), (true, true, Some(10))];
        for (claim, api, seconds) in table {
            assert_eq!(missing(claim, api).map(|wait| wait.as_secs()), seconds, "{claim} {api}");
        }
    }
}
