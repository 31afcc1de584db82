//! The status of a model. Pure.

use api_types::{
    conditions::{self, model as reason},
    v1alpha1::{DynamoModelStatus, ModelEndpoint},
};
use controller_kit::{
    apply::RequestError,
    conditions::{Progress, Status, set_condition, set_progress},
    failure::Class,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::model::{ModelApplied, ModelPhase, ModelPlan};

/// Status after the writes of a pass. `before` is the present status.
pub fn of_applied(before: Option<&DynamoModelStatus>, applied: &ModelApplied, now: Timestamp) -> DynamoModelStatus {
    let status = status(before, &applied.plan, now);
    match &applied.rejection {
        Some(rejection) => rejected(status, before, rejection, now),
        None => status,
    }
}

/// Status of a model that cannot be read.
pub fn unreadable(
    before: Option<&DynamoModelStatus>,
    generation: Option<i64>,
    message: String,
    now: Timestamp,
) -> DynamoModelStatus {
    let plan = ModelPlan {
        needs_finalizer: false,
        generation,
        is_adapter: false,
        phase: ModelPhase::Invalid(message),
        services: 0,
        endpoints: Vec::new(),
        memory: before.and_then(|before| before.adapter.clone()),
    };
    status(before, &plan, now)
}

/// The status. Transition times and conditions of other writers stay.
fn status(before: Option<&DynamoModelStatus>, plan: &ModelPlan, now: Timestamp) -> DynamoModelStatus {
    let mut all = before.map(|before| before.conditions.clone()).unwrap_or_default();
    set_services(&mut all, plan, now);
    set_readiness(&mut all, plan, now);
    set_progress(&mut all, &progress(&plan.phase), plan.generation, now);
    let count = |counts: fn(&ModelEndpoint) -> bool| {
        i32::try_from(plan.endpoints.iter().filter(|endpoint| counts(endpoint)).count()).unwrap_or(i32::MAX)
    };
    DynamoModelStatus {
        ready_endpoints: count(|endpoint| endpoint.ready),
        total_endpoints: count(|_| true),
        lora_fallback_covered_endpoints: count(|endpoint| endpoint.lora_fallback_covered),
        endpoints: plan.endpoints.clone(),
        conditions: all,
        observed_generation: plan.generation,
        adapter: plan.memory.clone(),
    }
}

/// Status of a model whose finalizer the API server rejects. Nothing is loaded without it, so there is nothing new to
/// remember.
fn rejected(
    status: DynamoModelStatus,
    before: Option<&DynamoModelStatus>,
    error: &RequestError,
    now: Timestamp,
) -> DynamoModelStatus {
    let reason = match error.class() {
        Class::Webhook => conditions::WEBHOOK_UNAVAILABLE,
        _ => reason::FORBIDDEN,
    };
    let (generation, message, mut all) = (status.observed_generation, error.to_string(), status.conditions);
    set_condition(&mut all, conditions::READY, Status::False, reason, &message, generation, now);
    set_progress(&mut all, &Progress::working(reason, message), generation, now);
    DynamoModelStatus { conditions: all, adapter: before.and_then(|before| before.adapter.clone()), ..status }
}

fn set_services(all: &mut Vec<Condition>, plan: &ModelPlan, now: Timestamp) {
    let (reason, message) = match plan.services {
        0 => (
            reason::NO_SERVICES_FOUND,
            "no component of this namespace refers to the base model; set modelRef.name of its workers to \
             spec.baseModelName"
                .to_owned(),
        ),
        services => (reason::SERVICES_FOUND, format!("Services of workers of the base model: {services}")),
    };
    let found = Status::from(plan.services > 0);
    set_condition(all, reason::SERVICES_FOUND, found, reason, &message, plan.generation, now);
}

fn set_readiness(all: &mut Vec<Condition>, plan: &ModelPlan, now: Timestamp) {
    let endpoints = match &plan.phase {
        ModelPhase::Served if plan.is_adapter => reason::ALL_ENDPOINTS_READY,
        ModelPhase::Served => reason::ENDPOINTS_DISCOVERED,
        _ if plan.endpoints.is_empty() => reason::NO_ENDPOINTS,
        _ => reason::NOT_READY,
    };
    let (ready, message) = match &plan.phase {
        ModelPhase::Served => (endpoints, "served by all endpoints"),
        ModelPhase::NoEndpoints => (endpoints, "no worker of the base model is running"),
        ModelPhase::Loading(message) => (endpoints, message.as_str()),
        ModelPhase::Failing(message) => (reason::LOAD_FAILED, message.as_str()),
        ModelPhase::Invalid(message) => (reason::INVALID_SPEC, message.as_str()),
        ModelPhase::NameTaken(message) => (reason::NAME_TAKEN, message.as_str()),
    };
    let served = Status::from(plan.phase == ModelPhase::Served);
    for (type_, reason) in [(reason::ENDPOINTS_READY, endpoints), (conditions::READY, ready)] {
        set_condition(all, type_, served, reason, message, plan.generation, now);
    }
}

fn progress(phase: &ModelPhase) -> Progress {
    match phase {
        ModelPhase::Served => Progress::Current,
        ModelPhase::NoEndpoints => Progress::working(reason::NO_ENDPOINTS, "waiting for workers of the base model"),
        ModelPhase::Loading(message) => Progress::working(reason::PROGRESSING, message),
        ModelPhase::Failing(message) => Progress::stuck(reason::LOAD_FAILED, message),
        ModelPhase::Invalid(message) => Progress::stuck(reason::INVALID_SPEC, message),
        ModelPhase::NameTaken(message) => Progress::stuck(reason::NAME_TAKEN, message),
    }
}

#[cfg(test)]
mod tests {
    use api_types::v1alpha1::AdapterMemory;
    use controller_kit::{apply::ObjectId, conditions::find};
    use kube::core;

    use super::*;

    /// Defect: while a webhook for models did not respond, a new model had no status.
    #[test]
    fn a_rejected_finalizer_is_in_the_status_and_nothing_is_remembered() {
        let object = || ObjectId {
            group: "nvidia.com".into(),
            kind: "DynamoModel".into(),
            namespace: "team-a".into(),
            name: "lora".into(),
        };
        let memory = Some(AdapterMemory::default());
        let desired = DynamoModelStatus { observed_generation: Some(3), adapter: memory, ..Default::default() };
        for (code, message, expected) in [
            (500, "Internal error occurred: failed calling webhook \"m\": connection refused", "WebhookUnavailable"),
            (403, "denied", "Forbidden"),
        ] {
            let source = kube::Error::Api(core::Status::failure(message, "").with_code(code).boxed()).into();
            let error = RequestError::Api { action: "add a finalizer to", object: object(), source };
            let status = rejected(desired.clone(), None, &error, Timestamp::UNIX_EPOCH);
            assert_eq!((status.observed_generation, &status.adapter), (Some(3), &None));
            for (type_, value) in [(conditions::READY, "False"), (conditions::RECONCILING, "True")] {
                let found = find(&status.conditions, type_).unwrap();
                assert_eq!((found.status.as_str(), found.reason.as_str()), (value, expected));
                assert!(found.message.contains(message), "{}", found.message);
            }
        }
    }
}
