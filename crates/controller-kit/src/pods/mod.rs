//! Reads the pods of an object whose replicas are missing.
//!
//! Pods are not watched whole: there are many, they change often, and nothing is decided on them. Only when replicas
//! have been missing for a while are the pods of that one thing read, and again after as much time as they have been
//! missing for, within limits. What comes up quickly causes no such request, and what serves none at all.

mod job;

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub use job::JobWaits;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};
use rendering::{Diagnosis, diagnose, pod_being_created};
use tracing::debug;

use crate::{
    read::read,
    store::Packed,
    warnings::{Warning, warnings},
};

/// Field selector of pods that may still run: they hold resources, and may register.
pub const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// How long replicas may be missing before pods are read, and the longest time until they are read again.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);

/// Whose pods are looked at.
#[derive(Debug, Clone)]
pub struct PodsOf<'a> {
    /// Uid of the object whose replicas are missing.
    pub uid: &'a str,
    /// Its namespace.
    pub namespace: &'a str,
    /// Label selector of its pods.
    pub selector: String,
}

/// What the last look has shown of each object: a `T`, or nothing worth telling.
pub struct PodDiagnostics<T> {
    client: Client,
    seen: Mutex<HashMap<String, Seen<T>>>,
}

#[derive(Clone, Debug)]
struct Seen<T> {
    at: Instant,
    shown: Option<T>,
}

impl<T: Clone> PodDiagnostics<T> {
    /// Has seen nothing yet.
    pub fn new(client: Client) -> Self {
        Self { client, seen: Mutex::default() }
    }

    /// What `diagnose` makes of the pods, as far as is known, and when to read again. `age` is for how long replicas
    /// have been missing. Without an answer from the API server, the last one is kept.
    pub async fn observe<F>(&self, of: &PodsOf<'_>, age: Duration, diagnose: F) -> (Option<T>, Duration)
    where
        F: AsyncFnOnce(Vec<Pod>) -> Option<T>,
    {
        let last = self.seen().get(of.uid).cloned();
        match due(age, last.as_ref().map(|last| last.at.elapsed())) {
            Some(wait) => (last.and_then(|last| last.shown), wait),
            None => {
                let shown = match self.read(of).await {
                    Some(pods) => diagnose(pods).await,
                    None => last.and_then(|last| last.shown),
                };
                let seen = Seen { at: Instant::now(), shown: shown.clone() };
                let mut all = self.seen();
                // Objects that were deleted without a reconcile.
                all.retain(|_, seen| seen.at.elapsed() < 2 * LONGEST);
                all.insert(of.uid.to_owned(), seen);
                (shown, age.clamp(FIRST, LONGEST))
            }
        }
    }

    /// The pod that shows why pods do not serve. Events show what a pod waits for while it is set up.
    pub async fn diagnose(&self, pods: &[Pod]) -> Option<Diagnosis> {
        let mount = match pod_being_created(pods) {
            Some(pod) => self.failed_mount(pod).await,
            None => None,
        };
        mount.or_else(|| diagnose(pods))
    }

    /// See [`warnings`].
    pub async fn warnings(&self, namespace: &str, kind: &str, reason: &str, more: Option<&str>) -> Vec<Warning> {
        warnings(&self.client, namespace, kind, reason, more).await
    }

    /// Why a volume of a pod cannot be mounted, if that is what the pod waits for.
    async fn failed_mount(&self, pod: &Pod) -> Option<Diagnosis> {
        let metadata = &pod.metadata;
        let of_pod = format!("involvedObject.uid={}", metadata.uid.as_deref()?);
        let warnings = self.warnings(metadata.namespace.as_deref()?, "Pod", "FailedMount", Some(&of_pod)).await;
        Some(Diagnosis::from_mount_warning(pod, &warnings.first()?.message))
    }

    /// All replicas are there: what was seen is of the past.
    pub fn forget(&self, uid: &str) {
        self.seen().remove(uid);
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<String, Seen<T>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if the API server did not answer.
    async fn read(&self, of: &PodsOf<'_>) -> Option<Vec<Pod>> {
        let PodsOf { namespace, selector, .. } = of;
        let pods: Api<Packed<Pod>> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().labels(selector).match_any();
        match read(|| format!("list the pods of {namespace} with {selector}"), pods.list(&params)).await {
            Ok(pods) => Some(Packed::readable(pods.items)),
            Err(error) => {
                debug!(%error, "the pods were not looked at");
                None
            }
        }
    }
}

/// How long not to look yet; `None`: now.
fn due(age: Duration, since_last: Option<Duration>) -> Option<Duration> {
    let wait = match since_last {
        None => FIRST.saturating_sub(age),
        Some(since) => age.clamp(FIRST, LONGEST).saturating_sub(since),
    };
    (!wait.is_zero()).then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
