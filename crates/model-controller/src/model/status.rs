//! The status of a model. Pure.

use api_types::{
    conditions::{self, model as reason},
    v1alpha1::{AdapterMemory, DynamoModelStatus, ModelEndpoint},
};
use controller_kit::{
    apply::Error,
    conditions::{Progress, Status, set_condition, set_progress},
    failure::Class,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// What the status shall say.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Generation of the spec that was decided on.
    pub generation: Option<i64>,
    /// Whether something is to be loaded.
    pub is_adapter: bool,
    /// How far the model is.
    pub standing: Standing,
    /// Number of Services of the base model.
    pub services: usize,
    /// The endpoints.
    pub endpoints: Vec<ModelEndpoint>,
    /// What is to be remembered.
    pub memory: Option<AdapterMemory>,
}

/// How far a model is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Every endpoint serves it.
    Served,
    /// There is no endpoint.
    NoEndpoints,
    /// Some endpoints do not serve it yet.
    Coming(String),
    /// Some endpoints will not serve it before somebody changes something.
    Failing(String),
    /// The spec cannot be used as it is.
    Invalid(String),
    /// Another model has the name.
    Taken(String),
}

/// The whole status. `live` is the present one; transition times and conditions of others stay.
pub fn status(live: Option<&DynamoModelStatus>, facts: &Facts, now: Timestamp) -> DynamoModelStatus {
    let mut all = live.map(|live| live.conditions.clone()).unwrap_or_default();
    set_services(&mut all, facts, now);
    set_readiness(&mut all, facts, now);
    set_progress(&mut all, &progress(&facts.standing), facts.generation, now);
    let count = |counts: fn(&ModelEndpoint) -> bool| {
        i32::try_from(facts.endpoints.iter().filter(|endpoint| counts(endpoint)).count()).unwrap_or(i32::MAX)
    };
    DynamoModelStatus {
        ready_endpoints: count(|endpoint| endpoint.ready),
        total_endpoints: count(|_| true),
        lora_fallback_covered_endpoints: count(|endpoint| endpoint.lora_fallback_covered),
        endpoints: facts.endpoints.clone(),
        conditions: all,
        observed_generation: facts.generation,
        adapter: facts.memory.clone(),
    }
}

/// The status of a model whose finalizer the API server refuses. Nothing is loaded without it, so nothing new is to be
/// remembered.
pub fn refused(
    status: DynamoModelStatus,
    live: Option<&DynamoModelStatus>,
    error: &Error,
    now: Timestamp,
) -> DynamoModelStatus {
    let reason = match error.class() {
        Class::Webhook => conditions::WEBHOOK_UNAVAILABLE,
        _ => reason::FORBIDDEN,
    };
    let (generation, message, mut all) = (status.observed_generation, error.to_string(), status.conditions);
    set_condition(&mut all, conditions::READY, Status::False, reason, &message, generation, now);
    set_progress(&mut all, &Progress::Working { reason: reason.to_owned(), message }, generation, now);
    DynamoModelStatus { conditions: all, adapter: live.and_then(|live| live.adapter.clone()), ..status }
}

fn set_services(all: &mut Vec<Condition>, facts: &Facts, now: Timestamp) {
    let (reason, message) = match facts.services {
        0 => (
            reason::NO_SERVICES_FOUND,
            "no component of this namespace refers to the base model; set modelRef.name of its workers to \
             spec.baseModelName"
                .to_owned(),
        ),
        services => (reason::SERVICES_FOUND, format!("Services of workers of the base model: {services}")),
    };
    let found = Status::from(facts.services > 0);
    set_condition(all, reason::SERVICES_FOUND, found, reason, &message, facts.generation, now);
}

fn set_readiness(all: &mut Vec<Condition>, facts: &Facts, now: Timestamp) {
    let endpoints = match &facts.standing {
        Standing::Served if facts.is_adapter => reason::ALL_ENDPOINTS_READY,
        Standing::Served => reason::ENDPOINTS_DISCOVERED,
        _ if facts.endpoints.is_empty() => reason::NO_ENDPOINTS,
        _ => reason::NOT_READY,
    };
    let (ready, message) = match &facts.standing {
        Standing::Served => (endpoints, "served by all endpoints"),
        Standing::NoEndpoints => (endpoints, "no worker of the base model is running"),
        Standing::Coming(message) => (endpoints, message.as_str()),
        Standing::Failing(message) => (reason::LOAD_FAILED, message.as_str()),
        Standing::Invalid(message) => (reason::INVALID_SPEC, message.as_str()),
        Standing::Taken(message) => (reason::NAME_TAKEN, message.as_str()),
    };
    let served = Status::from(facts.standing == Standing::Served);
    for (type_, reason) in [(reason::ENDPOINTS_READY, endpoints), (conditions::READY, ready)] {
        set_condition(all, type_, served, reason, message, facts.generation, now);
    }
}

fn progress(standing: &Standing) -> Progress {
    let working = |reason: &str, message: &str| Progress::Working { reason: reason.into(), message: message.into() };
    let stuck = |reason: &str, message: &str| Progress::Stuck { reason: reason.into(), message: message.into() };
    match standing {
        Standing::Served => Progress::Current,
        Standing::NoEndpoints => working(reason::NO_ENDPOINTS, "waiting for workers of the base model"),
        Standing::Coming(message) => working(reason::PROGRESSING, message),
        Standing::Failing(message) => stuck(reason::LOAD_FAILED, message),
        Standing::Invalid(message) => stuck(reason::INVALID_SPEC, message),
        Standing::Taken(message) => stuck(reason::NAME_TAKEN, message),
    }
}

#[cfg(test)]
mod tests {
    use controller_kit::{apply::ObjectId, conditions::find};
    use kube::core;

    use super::*;

    /// Found defect: while a webhook for models did not answer, a new model had no status at all.
    #[test]
    fn a_refused_finalizer_is_told_and_nothing_is_remembered() {
        let object = || ObjectId {
            group: "nvidia.com".into(),
            kind: "DynamoModel".into(),
            namespace: "team-a".into(),
            name: "lora".into(),
        };
        let memory = Some(AdapterMemory::default());
        let wanted = DynamoModelStatus { observed_generation: Some(3), adapter: memory, ..Default::default() };
        for (code, message, expected) in [
            (500, "Internal error occurred: failed calling webhook \"m\": connection refused", "WebhookUnavailable"),
            (403, "denied", "Forbidden"),
        ] {
            let source = Box::new(kube::Error::Api(core::Status::failure(message, "").with_code(code).boxed()));
            let error = Error::Api { action: "add a finalizer to", object: object(), source };
            let status = refused(wanted.clone(), None, &error, Timestamp::UNIX_EPOCH);
            assert_eq!((status.observed_generation, &status.adapter), (Some(3), &None));
            for (type_, value) in [(conditions::READY, "False"), (conditions::RECONCILING, "True")] {
                let found = find(&status.conditions, type_).unwrap();
                assert_eq!((found.status.as_str(), found.reason.as_str()), (value, expected));
                assert!(found.message.contains(message), "{}", found.message);
            }
        }
    }
}
