//! When to look again although nothing has told us to.

use std::time::Duration;

use controller_kit::conditions::age;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{acted::Acted, pull_secrets::NamedPullSecrets};

/// First and longest pause between two attempts at a write that the API server refused.
const FIRST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(15);

/// How long after a pull secret was missing it is looked for again.
const SECRETS: Duration = Duration::from_secs(60);

/// How long after an API was missing it is looked for again.
pub const API: Duration = Duration::from_secs(10);

/// How long after a claim was missing it is looked for again; claims are not watched.
const CLAIM: Duration = Duration::from_secs(15);

/// How long to wait before the next attempt; `None` if a change of a watched object will tell.
///
/// A refused write is tried again after as much time as it has been refused for, within limits: the age of the
/// conditions is a backoff that needs no memory. A name that is taken has to be tried because objects that do not carry
/// our labels are not watched; a missing pull secret because Secrets of the older type are not.
pub fn after(acted: &Acted, secrets: &NamedPullSecrets, conditions: &[Condition], now: Timestamp) -> Option<Duration> {
    if !acted.refusals.is_empty() {
        return Some(age(conditions, now).clamp(FIRST, LONGEST));
    }
    (!secrets.missing.is_empty()).then_some(SECRETS)
}

/// How long to wait for what nobody tells of when it comes: a claim, or an API that is installed later.
pub fn missing(lacks_claim: bool, lacks_api: bool) -> Option<Duration> {
    [lacks_claim.then_some(CLAIM), lacks_api.then_some(API)].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use api_types::conditions;
    use controller_kit::{
        apply::ObjectId,
        conditions::{Status, set_condition},
    };

    use super::*;
    use crate::component::acted::{Cause, Refusal};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn refused() -> Acted {
        let object = ObjectId { group: String::new(), kind: "Service".into(), namespace: "n".into(), name: "w".into() };
        let refusal = Refusal { cause: Cause::NameTaken, object, message: String::new() };
        Acted { refusals: vec![refusal], ..Acted::default() }
    }

    #[test]
    fn a_refusal_is_tried_again_later_each_time_within_limits() {
        let mut all = Vec::new();
        set_condition(&mut all, conditions::READY, Status::False, "r", "", None, at(0));
        set_condition(&mut all, conditions::STALLED, Status::True, "r", "", None, at(100));
        let secrets = NamedPullSecrets::default();
        let waits: Vec<u64> = [100, 101, 110, 130, 5_000]
            .map(|now| after(&refused(), &secrets, &all, at(now)).unwrap().as_secs())
            .to_vec();
        assert_eq!(waits, [2, 2, 10, 15, 15]);
        assert_eq!(after(&refused(), &secrets, &all, at(50)).unwrap(), FIRST, "a clock that went back");
        assert_eq!(after(&refused(), &secrets, &[], at(50)).unwrap(), FIRST);
    }

    #[test]
    fn nothing_in_the_way_needs_no_second_look() {
        let found = NamedPullSecrets::default();
        assert_eq!(after(&Acted::default(), &found, &[], at(0)), None);
        let missing = NamedPullSecrets { any: true, missing: vec!["s".into()] };
        assert_eq!(after(&Acted::default(), &missing, &[], at(0)), Some(SECRETS));
    }

    #[test]
    fn what_is_missing_is_looked_for_again() {
        let table = [(false, false, None), (true, false, Some(15)), (false, true, Some(10)), (true, true, Some(10))];
        for (claim, api, seconds) in table {
            assert_eq!(missing(claim, api).map(|wait| wait.as_secs()), seconds, "{claim} {api}");
        }
    }
}
