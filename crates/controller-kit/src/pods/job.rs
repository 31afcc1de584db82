//! Why the pod of a Job does not run. Nothing is read while it runs.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use rendering::{Diagnosis, JobEnd};

use super::{PodDiagnostics, PodsOf};

/// Diagnosis of a Job whose pod does not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobWaits {
    /// Why not.
    pub trouble: Option<Diagnosis>,
    /// When to read again; none if the pod runs, or none is to come.
    pub look_again: Option<Duration>,
}

impl PodDiagnostics<Diagnosis> {
    /// What a Job waits for, and when to read again.
    pub async fn waits_of_job(&self, job: &Job, now: Timestamp) -> JobWaits {
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        let Some(selector) = selector(job).filter(|_| lacks_pod(job)) else {
            self.forget(uid);
            return JobWaits::default();
        };
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        let diagnose = async |pods: Vec<Pod>| match pods.is_empty() {
            true => self.rejection(job, namespace, uid).await,
            false => self.diagnose(&pods).await,
        };
        let (trouble, after) = self.observe(&PodsOf { uid, namespace, selector }, age(job, now), diagnose).await;
        JobWaits { trouble, look_again: Some(after) }
    }

    /// Why a Job gets no pods.
    async fn rejection(&self, job: &Job, namespace: &str, uid: &str) -> Option<Diagnosis> {
        let of_job = format!("involvedObject.uid={uid}");
        let warnings = self.warnings(namespace, "Job", "FailedCreate", Some(&of_job)).await;
        let name = job.metadata.name.as_deref().unwrap_or_default();
        Some(Diagnosis::from_creation_warning(&format!("Job {name}"), &without_pod_name(&warnings.first()?.message)))
    }
}

/// What the API server has given the Job to know its pods by.
fn selector(job: &Job) -> Option<String> {
    let labels = job.spec.as_ref()?.selector.as_ref()?.match_labels.as_ref()?;
    let parts: Vec<_> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    (!parts.is_empty()).then(|| parts.join(","))
}

/// Whether a Job goes on without a pod that runs.
fn lacks_pod(job: &Job) -> bool {
    let ready = job.status.as_ref().and_then(|status| status.ready).unwrap_or_default();
    let is_suspended = job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
    let has_ended = JobEnd::Complete.of(job).or_else(|| JobEnd::Failed.of(job)).is_some();
    ready == 0 && job.metadata.deletion_timestamp.is_none() && !is_suspended && !has_ended
}

fn age(job: &Job, now: Timestamp) -> Duration {
    let made = job.metadata.creation_timestamp.as_ref().map_or(now, |made| made.0);
    Duration::try_from(now.duration_since(made)).unwrap_or_default()
}

/// Every attempt is for a pod of another name. Words that change with each would have to be written each time.
fn without_pod_name(message: &str) -> String {
    let named = message.split_once("pods \"").and_then(|(before, rest)| Some((before, rest.split_once('"')?.1)));
    named.map_or_else(|| message.to_owned(), |(before, after)| format!("{before}a pod{after}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(status: Value) -> Job {
        let metadata = json!({ "name": "j", "creationTimestamp": "2026-01-01T00:00:00Z" });
        serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap()
    }

    #[test]
    fn pods_are_looked_at_only_while_a_job_has_none_that_runs() {
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
        let mut suspended = job(json!({}));
        suspended.spec = serde_json::from_value(json!({ "suspend": true, "template": {} })).unwrap();
        assert!(!lacks_pod(&suspended), "it gets no pod before it is resumed");
    }

    #[test]
    fn a_job_waits_since_it_was_made() {
        let at = |text: &str| age(&job(json!({})), text.parse().unwrap());
        assert_eq!(at("2026-01-01T00:01:30Z"), Duration::from_secs(90));
        assert_eq!(at("2025-12-31T23:59:59Z"), Duration::ZERO, "clocks differ");
    }

    #[test]
    fn pods_are_those_that_the_job_itself_selects() {
        let with = |selector: Value| {
            let mut job = job(json!({}));
            job.spec = serde_json::from_value(json!({ "selector": selector, "template": {} })).unwrap();
            super::selector(&job)
        };
        let own = json!({ "matchLabels": { "batch.kubernetes.io/controller-uid": "u" } });
        assert_eq!(with(own).as_deref(), Some("batch.kubernetes.io/controller-uid=u"));
        assert_eq!(with(Value::Null), None, "and never all pods of a namespace");
        assert_eq!(with(json!({})), None);
    }

    #[test]
    fn a_refusal_is_told_in_the_same_words_for_every_pod_that_is_tried() {
        let refused = |pod: &str| format!("Error creating: pods \"{pod}\" is forbidden: exceeded quota: gpus");
        let texts = ["j-x7k2p", "j-9fqzt", "j-"].map(|pod| without_pod_name(&refused(pod)));
        assert_eq!(texts, ["Error creating: a pod is forbidden: exceeded quota: gpus"; 3]);
        for other in ["Error creating: denied by a policy", "pods \"", ""] {
            assert_eq!(without_pod_name(other), other);
        }
    }
}
