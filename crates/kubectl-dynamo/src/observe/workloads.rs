//! Workloads as a diagnosis needs them.

use k8s_openapi::api::{apps::v1::Deployment, batch::v1::Job};
use kube::{Resource, ResourceExt};
use rendering::LeaderWorkerSet;

use crate::diagnosis::Workload;

/// Of a Deployment.
pub fn of_deployment(deployment: &Deployment) -> Workload {
    let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let failed = conditions.into_iter().filter(|one| one.type_ == "ReplicaFailure" && one.status == "True");
    let failures = failed.filter_map(|one| one.message.clone());
    Workload {
        kind: "Deployment".to_owned(),
        name: deployment.name_any(),
        component: owner(deployment),
        paused: deployment.spec.as_ref().and_then(|spec| spec.paused) == Some(true),
        desired: deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        failures: failures.collect(),
    }
}

/// Of a LeaderWorkerSet.
pub fn of_leader_worker_set(set: &LeaderWorkerSet) -> Workload {
    Workload {
        kind: "LeaderWorkerSet".to_owned(),
        name: set.name_any(),
        component: owner(set),
        paused: false,
        desired: set.spec.replicas.unwrap_or(1),
        failures: Vec::new(),
    }
}

/// Of a Job.
pub fn of_job(job: &Job) -> Workload {
    Workload {
        kind: "Job".to_owned(),
        name: job.name_any(),
        component: None,
        paused: job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true),
        desired: 1,
        failures: Vec::new(),
    }
}

fn owner(object: &impl Resource) -> Option<String> {
    let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    Some(owner.name.clone())
}
