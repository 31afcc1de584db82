//! Why the pod of a build does not run. Nobody looks while it does.

use super::super::decide::{Waits, has_ended};
use api_types::labels;
use controller_kit::pods::{PodWatcher, PodsOf};
use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use std::time::Duration;
use workload::Trouble;

/// What a build waits for, and when to look again.
pub(super) async fn waits(watcher: &PodWatcher<Trouble>, job: &Job, now: Timestamp) -> Waits {
    let metadata = &job.metadata;
    let (name, uid) = (metadata.name.as_deref().unwrap_or_default(), metadata.uid.as_deref().unwrap_or_default());
    if !lacks_pod(job) {
        watcher.forget(uid);
        return Waits::default();
    }
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let pods = PodsOf { uid, namespace, selector: format!("{}={name}", labels::JOB_NAME) };
    let tell = async |pods: Vec<Pod>| match pods.is_empty() {
        true => refusal(watcher, namespace, name, uid).await,
        false => watcher.diagnose(&pods).await,
    };
    let (trouble, after) = watcher.look(&pods, age(job, now), tell).await;
    Waits { trouble, look_again: Some(after) }
}

/// Whether a build goes on without a pod that runs.
fn lacks_pod(job: &Job) -> bool {
    let ready = job.status.as_ref().and_then(|status| status.ready).unwrap_or_default();
    ready == 0 && job.metadata.deletion_timestamp.is_none() && !has_ended(job)
}

fn age(job: &Job, now: Timestamp) -> Duration {
    let made = job.metadata.creation_timestamp.as_ref().map_or(now, |made| made.0);
    Duration::try_from(now.duration_since(made)).unwrap_or_default()
}

/// Why a Job gets no pods.
async fn refusal(watcher: &PodWatcher<Trouble>, namespace: &str, job: &str, uid: &str) -> Option<Trouble> {
    let of_job = format!("involvedObject.uid={uid}");
    let told = watcher.warnings(namespace, "Job", "FailedCreate", Some(&of_job)).await;
    Some(Trouble::of_refusal(&format!("Job {job}"), &told.first()?.message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn job(status: Value) -> Job {
        let metadata = json!({ "name": "j", "creationTimestamp": "2026-01-01T00:00:00Z" });
        serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
    }

    #[test]
    fn pods_are_looked_at_only_while_a_build_has_none_that_runs() {
        let ended = |type_: &str| json!({ "conditions": [{ "type": type_, "status": "True" }] });
        let table = [
            (json!({}), true),
            (json!({ "active": 1 }), true),
            (json!({ "active": 1, "ready": 0, "failed": 2 }), true),
            (json!({ "active": 1, "ready": 1 }), false),
            (ended("Complete"), false),
            (ended("Failed"), false),
        ];
        for (status, expected) in table {
            assert_eq!(lacks_pod(&job(status.clone())), expected, "{status}");
        }
        let mut going = job(json!({}));
        going.metadata.deletion_timestamp = going.metadata.creation_timestamp.clone();
        assert!(!lacks_pod(&going));
    }

    #[test]
    fn a_build_waits_since_its_job_was_made() {
        let at = |text: &str| age(&job(json!({})), text.parse().unwrap());
        assert_eq!(at("2026-01-01T00:01:30Z"), Duration::from_secs(90));
        assert_eq!(at("2025-12-31T23:59:59Z"), Duration::ZERO, "clocks differ");
    }
}
