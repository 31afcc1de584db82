//! Reads the pods of an object whose replicas are missing, and the warning events of Kubernetes about single objects.
//!
//! Pods are not watched whole: there are many, they change often, and nothing is planned on them. Only when replicas
//! have been missing for a while are the pods of that one thing read, and again after as much time as they have been
//! missing for, within limits. An object that comes up quickly causes no such request, and one that serves none at all.
//!
//! Only events contain the reason for a volume that cannot be mounted, or for a StatefulSet that gets no pods.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use api_types::typed::typed;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{Event, EventSeries, ObjectReference, Pod},
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, Time},
};
use kube::{Api, Client, api::ListParams};
use rendering::{JobEnd, PodDiagnosis, diagnose, pod_being_created};
use serde::Deserialize;
use tracing::debug;

use crate::{
    access::{Access, Verb},
    request::read,
    store::Packed,
    sync::locked,
};

/// Field selector of pods that may still run: they hold resources, and may register.
pub const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Time for which replicas may be missing before pods are read, and the longest time until they are read again.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);

/// Object whose pods are diagnosed.
#[derive(Debug, Clone)]
pub struct PodsOf<'a> {
    /// Uid of the object whose replicas are missing.
    pub uid: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Label selector of its pods.
    pub selector: String,
}

/// Result of the last look at each object: a `T`, or nothing to report.
pub struct PodDiagnostics<T> {
    client: Client,
    seen: Mutex<HashMap<String, SeenPods<T>>>,
}

#[derive(Clone, Debug)]
struct SeenPods<T> {
    at: Instant,
    shown: Option<T>,
}

impl<T: Clone> PodDiagnostics<T> {
    /// Has seen nothing yet.
    pub fn new(client: Client) -> Self {
        Self { client, seen: Mutex::default() }
    }

    /// Returns the result of `diagnose` for the pods, as far as it is known, and the time until the next read. `age` is
    /// the time for which replicas have been missing. Without an answer from the API server, the last result is kept.
    pub async fn observe<F>(&self, of: &PodsOf<'_>, age: Duration, diagnose: F) -> (Option<T>, Duration)
    where
        F: AsyncFnOnce(Vec<Pod>) -> Option<T>,
    {
        let last = locked(&self.seen).get(of.uid).cloned();
        match due(age, last.as_ref().map(|last| last.at.elapsed())) {
            Some(wait) => (last.and_then(|last| last.shown), wait),
            None => {
                let shown = match self.read(of).await {
                    Some(pods) => diagnose(pods).await,
                    None => last.and_then(|last| last.shown),
                };
                let seen = SeenPods { at: Instant::now(), shown: shown.clone() };
                let mut all = locked(&self.seen);
                // Objects that were deleted without a reconcile.
                all.retain(|_, seen| seen.at.elapsed() < 2 * LONGEST);
                all.insert(of.uid.to_owned(), seen);
                (shown, age.clamp(FIRST, LONGEST))
            }
        }
    }

    /// The pod that shows why pods do not serve. Events show what a pod waits for while it is set up.
    pub async fn diagnose(&self, pods: &[Pod]) -> Option<PodDiagnosis> {
        let mount = match pod_being_created(pods) {
            Some(pod) => self.failed_mount(pod).await,
            None => None,
        };
        mount.or_else(|| diagnose(pods))
    }

    /// Lists the events of a reason about objects of a kind in a namespace, or about the one of this uid, the latest
    /// first. Without an answer, or the right to list them, there are none.
    pub async fn warnings(&self, namespace: &str, kind: &str, reason: &str, uid: Option<&str>) -> Vec<EventWarning> {
        let api: Api<Packed<Event>> = Api::namespaced(self.client.clone(), namespace);
        let uid = uid.map(|uid| format!(",involvedObject.uid={uid}")).unwrap_or_default();
        let fields = format!("type=Warning,involvedObject.kind={kind},reason={reason}{uid}");
        let params = ListParams::default().fields(&fields);
        match read(|| format!("list the events of {namespace} with {fields}"), api.list(&params)).await {
            Ok(events) => {
                let mut all: Vec<_> = events.items.iter().filter_map(warning).collect();
                all.sort_by_key(|warning| std::cmp::Reverse(warning.last));
                all
            }
            Err(error) => {
                debug!(%error, "failed to list events for the diagnosis");
                Vec::new()
            }
        }
    }

    /// Returns the reason why a volume of a pod cannot be mounted, if the pod waits for that.
    async fn failed_mount(&self, pod: &Pod) -> Option<PodDiagnosis> {
        let (namespace, uid) = (pod.metadata.namespace.as_deref()?, pod.metadata.uid.as_deref()?);
        let warnings = self.warnings(namespace, "Pod", "FailedMount", Some(uid)).await;
        Some(PodDiagnosis::from_mount_warning(pod, &warnings.first()?.message))
    }

    /// All replicas are there: what was seen is of the past.
    pub fn forget(&self, uid: &str) {
        locked(&self.seen).remove(uid);
    }

    /// `None` if the API server did not answer.
    async fn read(&self, of: &PodsOf<'_>) -> Option<Vec<Pod>> {
        let PodsOf { namespace, selector, .. } = of;
        let pods: Api<Packed<Pod>> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().labels(selector).match_any();
        match read(|| format!("list the pods of {namespace} with {selector}"), pods.list(&params)).await {
            Ok(pods) => Some(Packed::readable(pods.items)),
            Err(error) => {
                debug!(%error, "failed to list pods for the diagnosis");
                None
            }
        }
    }
}

/// Returns the time until the next look; `None`: now.
fn due(age: Duration, since_last: Option<Duration>) -> Option<Duration> {
    let wait = match since_last {
        None => FIRST.saturating_sub(age),
        Some(since) => age.clamp(FIRST, LONGEST).saturating_sub(since),
    };
    (!wait.is_zero()).then_some(wait)
}

/// Diagnosis of a Job whose pod does not run. Nothing is read while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobWaits {
    /// Reason why it does not run.
    pub trouble: Option<PodDiagnosis>,
    /// Time until the next read; none if the pod runs, or none is to come.
    pub look_again: Option<Duration>,
}

impl PodDiagnostics<PodDiagnosis> {
    /// Returns the reason for the wait of a Job, and the time until the next read.
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

    /// Returns the reason why a Job gets no pods.
    async fn rejection(&self, job: &Job, namespace: &str, uid: &str) -> Option<PodDiagnosis> {
        let warnings = self.warnings(namespace, "Job", "FailedCreate", Some(uid)).await;
        let name = job.metadata.name.as_deref().unwrap_or_default();
        Some(PodDiagnosis::from_creation_warning(&format!("Job {name}"), &without_pod_name(&warnings.first()?.message)))
    }
}

/// Returns the label selector that the API server has given the Job for its pods.
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

/// The right that [`PodDiagnostics::warnings`] needs.
pub const ACCESS: Access = Access::new(
    "",
    "events",
    &[Verb::List],
    "why pods do not start where their status does not say it: volumes that cannot be mounted, and pods that are rejected",
);

/// A warning about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventWarning {
    /// Name of the object.
    pub object: String,
    /// Message of the event.
    pub message: String,
    /// Time of the last occurrence; `None` if the event does not contain it.
    pub last: Option<Timestamp>,
}

/// Fields that are read of an event, a fraction of it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WarningEvent {
    involved_object: ObjectReference,
    message: String,
    event_time: Option<MicroTime>,
    last_timestamp: Option<Time>,
    series: Option<EventSeries>,
}

/// `None` if the event cannot be read.
fn warning(event: &Packed<Event>) -> Option<EventWarning> {
    let event: WarningEvent = typed(event.value()).ok()?;
    let series = event.series.and_then(|series| series.last_observed_time).map(|time| time.0);
    let single = event.last_timestamp.map(|time| time.0);
    let first = event.event_time.map(|time| time.0);
    let object = event.involved_object.name.unwrap_or_default();
    Some(EventWarning { object, message: event.message, last: series.max(single).max(first) })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Event;
    use serde_json::json;

    use super::{EventWarning, warning, *};
    use crate::store::Packed;

    #[test]
    fn pods_are_looked_at_late_and_then_ever_more_rarely() {
        let seconds = Duration::from_secs;
        let table = [
            (0, None, Some(5)),
            (3, None, Some(2)),
            (5, None, None),
            (900, None, None),
            (6, Some(1), Some(5)),
            (20, Some(14), Some(6)),
            (20, Some(20), None),
            (900, Some(59), Some(1)),
            (900, Some(60), None),
        ];
        for (age, last, expected) in table {
            assert_eq!(due(seconds(age), last.map(seconds)), expected.map(seconds), "{age} {last:?}");
        }
    }

    fn read(event: serde_json::Value) -> Option<EventWarning> {
        warning(&Packed::<Event>::from_value(event).unwrap())
    }

    #[test]
    fn an_event_of_either_kind_says_what_happened_to_what_and_when_last() {
        let old = json!({
            "metadata": { "name": "e" }, "involvedObject": { "kind": "Pod", "name": "p" }, "message": "no such claim",
            "reason": "FailedMount", "count": 3, "eventTime": null, "series": null,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:05:00Z",
        });
        let last = Some("2026-01-01T00:05:00Z".parse().unwrap());
        assert_eq!(read(old), Some(EventWarning { object: "p".into(), message: "no such claim".into(), last }));
        let new = json!({
            "metadata": { "name": "e" }, "involvedObject": { "name": "p" }, "eventTime": "2026-01-01T00:00:00.000001Z",
            "lastTimestamp": null, "series": { "count": 2, "lastObservedTime": "2026-01-01T00:06:00.000001Z" },
        });
        let last = Some("2026-01-01T00:06:00.000001Z".parse().unwrap());
        assert_eq!(read(new), Some(EventWarning { object: "p".into(), message: String::new(), last }));
        let once = json!({ "metadata": { "name": "e" }, "eventTime": "2026-01-01T00:00:00.000001Z" });
        assert_eq!(read(once).unwrap().last, Some("2026-01-01T00:00:00.000001Z".parse().unwrap()));
    }

    #[test]
    fn an_event_that_cannot_be_read_says_nothing() {
        assert_eq!(read(json!({ "metadata": { "name": "e" }, "message": 7 })), None);
    }
}

#[cfg(test)]
mod job_tests {
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
    fn a_rejection_has_the_same_message_for_every_pod() {
        let refused = |pod: &str| format!("Error creating: pods \"{pod}\" is forbidden: exceeded quota: gpus");
        let texts = ["j-x7k2p", "j-9fqzt", "j-"].map(|pod| without_pod_name(&refused(pod)));
        assert_eq!(texts, ["Error creating: a pod is forbidden: exceeded quota: gpus"; 3]);
        for other in ["Error creating: denied by a policy", "pods \"", ""] {
            assert_eq!(without_pod_name(other), other);
        }
    }
}
