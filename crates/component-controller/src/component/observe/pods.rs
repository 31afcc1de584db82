//! A look at the pods of a workload that does not come up.
//!
//! Pods are not watched: there are many, they change often, and nothing is decided on them. Only when replicas have been
//! missing for a while are the pods of that one workload read, and again after as much time as they have been missing for,
//! within limits. A graph that comes up quickly causes no such request, and one that serves none at all.

use crate::component::workload::WorkloadKind;
use api_types::{labels, names, v1beta1::DynamoComponentDeployment};
use controller_kit::{read::read, store::Key};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tracing::debug;
use workload::{Trouble, diagnose};

/// How long replicas may be missing before somebody looks, and how long nobody looks again at most.
const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);

/// What the last look has shown of each component.
pub struct PodWatcher {
    client: Client,
    seen: Mutex<HashMap<String, Seen>>,
}

#[derive(Clone, Debug)]
struct Seen {
    at: Instant,
    trouble: Option<Trouble>,
}

impl PodWatcher {
    /// Has seen nothing yet.
    pub fn new(client: Client) -> Self {
        Self { client, seen: Mutex::default() }
    }

    /// Why the pods of a component do not serve, as far as is known, and when to look again. `age` is for how long replicas
    /// have been missing. Without an answer from the API server, the last one stands.
    pub async fn look(&self, component: &DynamoComponentDeployment, age: Duration) -> (Option<Trouble>, Duration) {
        let uid = component.metadata.uid.clone().unwrap_or_default();
        let last = self.seen().get(&uid).cloned();
        match due(age, last.as_ref().map(|last| last.at.elapsed())) {
            Some(wait) => (last.and_then(|last| last.trouble), wait),
            None => {
                let known = last.and_then(|last| last.trouble);
                let trouble = self.read(component).await.unwrap_or(known);
                let seen = Seen { at: Instant::now(), trouble: trouble.clone() };
                let mut all = self.seen();
                // Components that went without a word.
                all.retain(|_, seen| seen.at.elapsed() < 2 * LONGEST);
                all.insert(uid, seen);
                (trouble, age.clamp(FIRST, LONGEST))
            }
        }
    }

    /// All replicas are there: what was seen is of the past.
    pub fn forget(&self, component: &DynamoComponentDeployment) {
        self.seen().remove(component.metadata.uid.as_deref().unwrap_or_default());
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, HashMap<String, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if the API server did not answer.
    async fn read(&self, component: &DynamoComponentDeployment) -> Option<Option<Trouble>> {
        let Key { namespace, name } = Key::of(component);
        let selector = match WorkloadKind::of(component) {
            WorkloadKind::Deployment => format!("{}={name}", labels::SELECTOR),
            WorkloadKind::LeaderWorkerSet => {
                format!("{}={}", labels::LEADER_WORKER_SET, names::leader_worker_set(&name))
            }
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let params = ListParams::default().labels(&selector).match_any();
        match read(|| format!("list the pods of {namespace}/{name}"), pods.list(&params)).await {
            Ok(pods) => Some(diagnose(&pods.items)),
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
