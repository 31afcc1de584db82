//! Pods as the controllers of Deployments and LeaderWorkerSets, Grove, scheduler and kubelet would have them: in each
//! step, all pods that were made become ready.
//!
//! ResourceQuotas are compared with these pods.

pub mod grove;
#[cfg(test)]
mod tests;
mod workload;

use std::collections::{BTreeMap, BTreeSet};

use api_types::{labels, quantity::nanos};
use serde::Serialize;
use serde_json::Value;

pub use self::workload::{Amounts, PreviewWorkload};
use super::objects::{ObjectKey, PreviewObjects};

/// A pod that comes or goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PodStep {
    /// In which step, from 1.
    pub step: usize,
    /// `create` or `delete`.
    pub verb: &'static str,
    /// Its name; of one that does not exist yet, that of its workload with a number.
    pub name: String,
    /// Its component.
    pub component: String,
}

/// A pod; of a LeaderWorkerSet or a scaling group, a group of pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// Its name; of one that does not exist yet, that of its workload with a number.
    pub name: String,
    /// Its workload.
    pub workload: ObjectKey,
    /// Its component in the graph.
    pub component: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Resources that it requests.
    pub requests: Amounts,
    /// Whether it has the present template of its workload.
    pub template: String,
    /// Whether it serves.
    pub ready: bool,
}

impl Pod {
    fn step(&self, step: usize, verb: &'static str) -> PodStep {
        PodStep { step, verb, name: self.name.clone(), component: self.component.clone() }
    }
}

/// The pods of all workloads of a graph.
#[derive(Clone, Debug, Default)]
pub struct PreviewPods {
    pods: Vec<Pod>,
    made: usize,
    /// Steps in which pods were made or deleted.
    steps: usize,
    /// Workloads that change: whose spec is new, or whose pods did not all have the present template.
    moving: BTreeSet<ObjectKey>,
}

impl PreviewPods {
    /// Reads live pods. What is not known to be older counts as of the present template. Without a right to read pods,
    /// they are those that the workloads count.
    pub fn read(objects: &PreviewObjects, live: Option<&[Value]>) -> Self {
        let mut pods = Self::default();
        for workload in workload::all(objects) {
            let mut own: Vec<Pod> = live.map_or_else(|| workload.counted_pods(), |live| workload.pods(live));
            let updated = workload.updated();
            if updated < own.len() {
                pods.moving.insert(workload.key.clone());
                // The newest are those of the present template.
                own.iter_mut().skip(updated).for_each(|pod| pod.template.clear());
            }
            pods.pods.extend(own);
        }
        pods
    }

    /// All pods.
    pub fn all(&self) -> &[Pod] {
        &self.pods
    }

    /// Makes and deletes pods as the workloads are now, and deletes those whose workload is gone.
    pub fn react(&mut self, objects: &PreviewObjects) -> Vec<PodStep> {
        let workloads = workload::all(objects);
        let mut changes = Vec::new();
        self.retain(&mut changes, |pod| workloads.iter().any(|workload| workload.key == pod.workload));
        for workload in &workloads {
            if workload.is_changed(objects) {
                self.moving.insert(workload.key.clone());
            }
            if self.moving.contains(&workload.key) {
                self.replace(workload, &mut changes);
            }
        }
        self.steps += usize::from(!changes.is_empty());
        changes
    }

    /// Lets all pods of changing workloads become ready; returns whether any did.
    pub fn make_ready(&mut self) -> bool {
        let mut any = false;
        for pod in self.pods.iter_mut().filter(|pod| !pod.ready && self.moving.contains(&pod.workload)) {
            (pod.ready, any) = (true, true);
        }
        any
    }

    /// Whether pods of an older template are left, and go only when a user deletes them.
    pub fn wait_for_users(&self, objects: &PreviewObjects) -> bool {
        let waiting = workload::all(objects).into_iter().filter(|workload| workload.on_delete);
        let is_old =
            |workload: &PreviewWorkload, pod: &Pod| pod.workload == workload.key && pod.template != workload.template;
        waiting.into_iter().any(|workload| self.pods.iter().any(|pod| is_old(&workload, pod)))
    }

    /// The status of each changing workload.
    pub fn statuses(&self, objects: &PreviewObjects) -> Vec<(ObjectKey, Value)> {
        let moving = workload::all(objects).into_iter().filter(|workload| self.moving.contains(&workload.key));
        let status = |workload: PreviewWorkload| {
            let own = || self.pods.iter().filter(|pod| pod.workload == workload.key);
            let updated = own().filter(|pod| pod.template == workload.template).count();
            let status = workload.status(own().count(), updated, own().filter(|pod| pod.ready).count());
            (workload.key.clone(), status)
        };
        moving.map(status).collect()
    }

    /// One step of a rolling update, or of a change of replicas.
    fn replace(&mut self, workload: &PreviewWorkload, changes: &mut Vec<PodStep>) {
        let is_own = |pod: &Pod| pod.workload == workload.key;
        let is_old = |pod: &Pod| is_own(pod) && pod.template != workload.template && !workload.on_delete;
        if workload.recreates() && self.pods.iter().any(is_old) {
            self.retain(changes, |pod| !is_old(pod));
        }
        let count = |pods: &[Pod], which: &dyn Fn(&Pod) -> bool| pods.iter().filter(|pod| which(pod)).count();
        let updated = |pod: &Pod| is_own(pod) && !is_old(pod);
        // Surplus of the present template goes first, the pods that do not serve before the others.
        let has_old = self.pods.iter().any(is_old);
        let mut surplus = count(&self.pods, &updated).saturating_sub(workload.replicas);
        for ready in [false, true] {
            self.retain(changes, |pod| {
                let goes = surplus > 0 && updated(pod) && pod.ready == ready;
                surplus -= usize::from(goes);
                !goes
            });
        }
        let room = if has_old { workload.replicas + workload.surge } else { workload.replicas };
        let missing = workload.replicas.saturating_sub(count(&self.pods, &updated));
        for _ in 0..missing.min(room.saturating_sub(count(&self.pods, &is_own))) {
            self.made += 1;
            let pod = workload.new_pod(self.made);
            changes.push(pod.step(self.steps + 1, "create"));
            self.pods.push(pod);
        }
        let least = workload.replicas.saturating_sub(workload.unavailable);
        let serving = count(&self.pods, &|pod| is_own(pod) && pod.ready);
        let mut spare = serving.saturating_sub(least);
        self.retain(changes, |pod| {
            let goes = is_old(pod) && (!pod.ready || spare > 0);
            spare -= usize::from(goes && pod.ready);
            !goes
        });
    }

    fn retain(&mut self, changes: &mut Vec<PodStep>, mut stays: impl FnMut(&Pod) -> bool) {
        let step = self.steps + 1;
        self.pods.retain(|pod| {
            let stay = stays(pod);
            if !stay {
                changes.push(pod.step(step, "delete"));
            }
            stay
        });
    }
}

/// GPUs of a number of pods.
pub fn gpus(pods: &[Pod]) -> i64 {
    let gpus = |pod: &Pod| -> i128 {
        let devices = pod.requests.iter().filter(|(name, _)| api_types::gpus::is_gpu(name));
        devices.map(|(_, nanos)| nanos / ONE).sum()
    };
    i64::try_from(pods.iter().map(gpus).sum::<i128>()).unwrap_or(i64::MAX)
}

/// Whether the labels of a pod are those of a worker.
pub fn is_worker(labels: &BTreeMap<String, String>) -> bool {
    let type_ = labels.get(labels::COMPONENT_TYPE).and_then(|name| api_types::v1beta1::ComponentType::named(name));
    type_.is_some_and(api_types::v1beta1::ComponentType::is_worker)
}

const ONE: i128 = 1_000_000_000;

/// A limit that the pods exceed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Excess {
    /// The quota.
    pub quota: String,
    /// The resource, as the quota names it.
    pub resource: String,
    /// Its limit.
    pub hard: String,
    /// Amount in use now.
    pub used: String,
    /// Amount after the edit.
    pub needed: String,
}

/// Computes the quota usage of pods.
fn counted(resource: &str, pods: &[Pod]) -> Option<i128> {
    let requested = |name: &str| pods.iter().filter_map(|pod| pod.requests.get(name)).sum();
    match resource {
        "pods" | "count/pods" => Some(i128::try_from(pods.len()).unwrap_or(i128::MAX) * ONE),
        "cpu" | "memory" => Some(requested(resource)),
        _ => resource.strip_prefix("requests.").map(requested),
    }
}

/// The limits that pods exceed if they come in place of those of today. Quotas with a scope are left out: whether they
/// count a pod is for the API server to say.
pub fn excesses(quotas: &[Value], today: &[Pod], pods: &[Pod]) -> Vec<Excess> {
    let mut found = Vec::new();
    let is_plain =
        |quota: &&Value| quota["spec"].get("scopes").is_none() && quota["spec"].get("scopeSelector").is_none();
    for quota in quotas.iter().filter(is_plain) {
        for (resource, hard) in quota["spec"]["hard"].as_object().into_iter().flatten() {
            let used = &quota["status"]["used"][resource];
            let (Some(hard), used) = (hard.as_str(), used.as_str().unwrap_or("0")) else { continue };
            let amounts = (counted(resource, today), counted(resource, pods), nanos(hard), nanos(used));
            let (Some(before), Some(after), Some(limit), Some(now)) = amounts else { continue };
            let needed = now + after - before;
            if after > before && needed > limit {
                found.push(Excess {
                    quota: quota["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                    resource: resource.clone(),
                    hard: hard.to_owned(),
                    used: used.to_owned(),
                    needed: shown(needed),
                });
            }
        }
    }
    found
}

fn shown(nanos: i128) -> String {
    if nanos % ONE == 0 { (nanos / ONE).to_string() } else { format!("{}m", nanos / 1_000_000) }
}
