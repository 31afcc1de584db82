//! Fairness between namespaces, and what an engine's list may cost.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use super::{
    AdapterName, DesiredAdapters, Endpoint, EngineLimits, EngineOutcome, EngineRequest, PoolId,
    fixtures::desired_adapter,
    fleet::{EngineCall, Fleet},
};

fn pool(namespace: &str) -> PoolId {
    PoolId { namespace: namespace.into(), base_model_hash: "h".into() }
}

fn endpoints(count: u8) -> Vec<Endpoint> {
    let endpoint = |index: u8| Endpoint {
        pod_name: format!("w-{index}").as_str().into(),
        pod: format!("uid-{index}").as_str().into(),
        address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, index)),
        ready: true,
    };
    (1..=count).map(endpoint).collect()
}

fn desired(names: &[&str]) -> DesiredAdapters {
    DesiredAdapters {
        load: names.iter().map(|name| (AdapterName::from(*name), desired_adapter("s3://a"))).collect(),
        ..DesiredAdapters::default()
    }
}

fn listed(call: &EngineCall, fleet: &mut Fleet, names: &[&str], now: Instant) {
    let EngineRequest::List { counted } = &call.request else { panic!("{call:?}") };
    let body = serde_json::json!({ "loras": names }).to_string();
    let outcome = super::protocol::outcome_of(&call.request, http::StatusCode::OK, body.as_bytes());
    assert!(counted.len() <= 3, "{counted:?}");
    fleet.finish(call, outcome, now);
}

/// One tenant's engines that never answer held all requests, and other tenants' adapters waited for minutes.
#[test]
fn engines_of_one_namespace_do_not_take_the_requests_of_others() {
    let (mut fleet, now) = (Fleet::new(EngineLimits::default()), Instant::now());
    fleet.sync(&pool("noisy"), &endpoints(250), desired(&["a"]), now);
    let (noisy, _) = fleet.advance(now);
    assert_eq!(noisy.len(), 96, "three quarters");
    fleet.sync(&pool("quiet"), &endpoints(1), desired(&["a"]), now);
    let (quiet, _) = fleet.advance(now);
    let namespaces: Vec<&str> = quiet.iter().map(|call| &*call.engine.pool.namespace).collect();
    assert_eq!(namespaces, ["quiet"]);
    // The engine that answers is served at the pace of its answers.
    let later = now + Duration::from_millis(50);
    listed(&quiet[0], &mut fleet, &[], later);
    let (next, _) = fleet.advance(later);
    assert!(matches!(&next[..], [EngineCall { request: EngineRequest::Load { .. }, .. }]), "{next:?}");
}

/// One MiB of names, kept for each engine, was more memory than the process has.
#[test]
fn adapters_that_no_model_names_are_counted_and_not_kept() {
    let (mut fleet, now) = (Fleet::new(EngineLimits::default()), Instant::now());
    fleet.sync(&pool("n"), &endpoints(1), desired(&["a"]), now);
    let (calls, _) = fleet.advance(now);
    let names: Vec<String> = (0..10_000).map(|index| format!("x{index}")).chain(["a".to_owned()]).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    listed(&calls[0], &mut fleet, &names, now);
    let engine = fleet.engine(&calls[0].engine).unwrap();
    assert_eq!(engine.held.keys().map(AdapterName::as_str).collect::<Vec<_>>(), ["a"]);
    assert_eq!(engine.others, 10_000);
    // A name that a model desires later is looked for in the engine's list before anything is loaded.
    fleet.sync(&pool("n"), &endpoints(1), desired(&["a", "x7"]), now);
    let (calls, _) = fleet.advance(now);
    assert!(matches!(&calls[..], [EngineCall { request: EngineRequest::List { .. }, .. }]), "{calls:?}");
    listed(&calls[0], &mut fleet, &names, now);
    assert!(fleet.engine(&calls[0].engine).unwrap().held.contains_key(&"x7".into()));
    let (calls, _) = fleet.advance(now);
    assert!(calls.is_empty(), "both are there: {calls:?}");
}

/// A name that a model no longer desires before the next list of the engine may still be there.
#[test]
fn an_adapter_that_was_not_counted_may_be_held() {
    let (mut fleet, now) = (Fleet::new(EngineLimits::default()), Instant::now());
    fleet.sync(&pool("n"), &endpoints(1), desired(&["a"]), now);
    let (calls, _) = fleet.advance(now);
    listed(&calls[0], &mut fleet, &["a", "old"], now);
    let gone = DesiredAdapters { unload: BTreeMap::from([("old".into(), [].into())]), ..desired(&["a"]) };
    fleet.sync(&pool("n"), &endpoints(1), gone, now);
    assert_eq!(fleet.may_hold(&pool("n"), &"old".into()), ["w-1"]);
    let (calls, _) = fleet.advance(now);
    listed(&calls[0], &mut fleet, &["a", "old"], now);
    let (calls, _) = fleet.advance(now);
    assert!(matches!(&calls[..], [EngineCall { request: EngineRequest::Unload { .. }, .. }]), "{calls:?}");
    fleet.finish(&calls[0], EngineOutcome::Done, now);
    let (calls, _) = fleet.advance(now);
    listed(&calls[0], &mut fleet, &["a"], now);
    assert!(fleet.may_hold(&pool("n"), &"old".into()).is_empty());
}
