//! Simulation of the kubelets of all nodes. The nodes have no machines, so this replaces them: each pod that the
//! scheduler places becomes Ready, unless a fault specifies another report of its node. Status and events have the form
//! and the texts that a kubelet with containerd writes.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use futures::{StreamExt, future::ready};
use k8s_openapi::{
    api::core::v1::{Event, Pod},
    jiff::{Span, Timestamp},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};

/// Report of a kubelet about the first container of a pod that does not serve. In all texts `{image}`, `{pod}`,
/// `{namespace}` and `{uid}` are replaced by those of the pod.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// `status.phase`.
    pub phase: &'static str,
    /// `status.reason` and `status.message` of the pod.
    pub pod: Option<(&'static str, &'static str)>,
    /// `state` of the container.
    pub state: Value,
    /// Its `lastState`.
    pub last_state: Value,
    /// Its `started`.
    pub started: bool,
    /// Whether it is the first init container.
    pub is_init: bool,
    /// Warnings about the pod: reason and message.
    pub events: Vec<(&'static str, &'static str)>,
    /// Output of the container.
    pub log: &'static str,
}

/// A time so many minutes ago.
pub fn minutes_ago(minutes: i64) -> String {
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap();
    (now - Span::new().minutes(minutes)).to_string()
}

impl Report {
    /// An image that cannot be pulled, in the words of containerd.
    pub fn pull(error: &'static str) -> Self {
        let message = format!("Back-off pulling image \"{{image}}\": ErrImagePull: {error}");
        Self {
            phase: "Pending",
            state: json!({ "waiting": { "reason": "ImagePullBackOff", "message": message } }),
            events: vec![("Failed", "Error: ErrImagePull"), ("Failed", "Error: ImagePullBackOff")],
            ..Self::default()
        }
    }

    /// The same by a kubelet that does not say why in the status.
    pub fn backing_off() -> Self {
        let message = "Back-off pulling image \"{image}\"";
        Self { state: json!({ "waiting": { "reason": "ImagePullBackOff", "message": message } }), ..Self::pull("") }
    }

    /// A container that is not started.
    pub fn waiting(reason: &'static str, message: &'static str) -> Self {
        Self {
            phase: "Pending",
            state: json!({ "waiting": { "reason": reason, "message": message } }),
            events: vec![("Failed", message)],
            ..Self::default()
        }
    }

    /// A pod whose sandbox or volumes are not there yet.
    pub fn creating(reason: &'static str, message: &'static str) -> Self {
        Self {
            phase: "Pending",
            state: json!({ "waiting": { "reason": "ContainerCreating" } }),
            events: vec![(reason, message)],
            ..Self::default()
        }
    }

    /// A container that ends again and again.
    pub fn ended(reason: &'static str, exit_code: i32, message: &'static str, log: &'static str) -> Self {
        let back_off = "back-off 1m20s restarting failed container=main pod={pod}_{namespace}({uid})";
        let mut end = json!({ "exitCode": exit_code, "reason": reason, "containerID": "containerd://5f3a",
            "startedAt": minutes_ago(1), "finishedAt": minutes_ago(1) });
        if !message.is_empty() {
            end["message"] = json!(message);
        }
        Self {
            phase: "Running",
            state: json!({ "waiting": { "reason": "CrashLoopBackOff", "message": back_off } }),
            last_state: json!({ "terminated": end }),
            events: vec![("BackOff", "Back-off restarting failed container main in pod {pod}_{namespace}({uid})")],
            log,
            ..Self::default()
        }
    }

    /// A container that runs for some minutes and fails a probe.
    pub fn unready(started: bool, minutes: i64, message: &'static str) -> Self {
        Self {
            phase: "Running",
            state: json!({ "running": { "startedAt": minutes_ago(minutes) } }),
            started,
            events: vec![("Unhealthy", message)],
            ..Self::default()
        }
    }

    /// A pod that its node has ended.
    pub fn failed(reason: &'static str, message: &'static str) -> Self {
        Self { phase: "Failed", pod: Some((reason, message)), events: vec![(reason, message)], ..Self::default() }
    }

    /// The same of a pod that is not started again, whose container ended with an exit code.
    pub fn exited(mut self, exit_code: i32) -> Self {
        (self.pod, self.events) = (None, Vec::new());
        self.state = json!({ "terminated": { "exitCode": exit_code, "reason": "Error", "containerID": "containerd://5f3a",
            "startedAt": minutes_ago(1), "finishedAt": minutes_ago(0) } });
        self
    }

    /// The same with one more event.
    pub fn event(mut self, reason: &'static str, message: &'static str) -> Self {
        self.events.push((reason, message));
        self
    }

    /// The same of the first init container.
    pub fn of_init(mut self) -> Self {
        self.is_init = true;
        self
    }
}

/// The kubelets. Clones share what they report.
#[derive(Clone)]
pub struct Kubelets {
    client: Client,
    /// Reports about pods, by namespace.
    reports: Arc<Mutex<BTreeMap<String, Report>>>,
    addresses: Arc<AtomicU32>,
}

impl Kubelets {
    pub fn new(client: Client) -> Self {
        Self { client, reports: Arc::default(), addresses: Arc::default() }
    }

    /// From now on pods of a namespace that are placed do not become ready.
    pub fn report(&self, namespace: &str, report: Report) {
        self.reports.lock().unwrap().insert(namespace.to_owned(), report);
    }

    /// Returns the output of a container of a namespace.
    pub fn log(&self, namespace: &str) -> String {
        self.reports.lock().unwrap().get(namespace).map(|report| report.log.to_owned()).unwrap_or_default()
    }

    /// Acts on each pod that is placed, until the process ends.
    pub async fn run(self) {
        let placed =
            watcher(Api::<Pod>::all(self.client.clone()), watcher::Config::default().fields("spec.nodeName!="));
        // A watch that ends begins again.
        let pods = placed.default_backoff().applied_objects().filter_map(|pod| ready(pod.ok()));
        let each = pods.for_each_concurrent(8, |pod| {
            let kubelets = self.clone();
            async move {
                // A pod that goes meanwhile is of no concern.
                if let Err(error) = kubelets.act(&pod).await
                    && !matches!(&error, kube::Error::Api(_))
                {
                    eprintln!("the played kubelet: {error}");
                }
            }
        });
        each.await;
    }

    async fn act(&self, pod: &Pod) -> Result<(), kube::Error> {
        let (name, namespace) = (pod.name_any(), pod.namespace().unwrap());
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        if pod.metadata.deletion_timestamp.is_some() {
            return pods.delete(&name, &DeleteParams::default().grace_period(0)).await.map(drop);
        }
        if pod.status.as_ref().is_some_and(|status| status.start_time.is_some()) {
            return Ok(());
        }
        let report = self.reports.lock().unwrap().get(&namespace).cloned();
        let status = match &report {
            None => self.ready(pod),
            Some(report) => self.failing(pod, report),
        };
        for (reason, message) in report.iter().flat_map(|report| &report.events) {
            self.warn(pod, reason, message).await?;
        }
        let patch = Patch::Strategic(json!({ "status": status }));
        pods.patch_status(&name, &PatchParams::default(), &patch).await.map(drop)
    }

    fn base(&self, phase: &str, ready: bool) -> Value {
        let address = self.addresses.fetch_add(1, Ordering::Relaxed);
        let ip = format!("10.244.{}.{}", address / 250, address % 250 + 1);
        let word = if ready { "True" } else { "False" };
        let condition = |type_: &str, status: &str, reason: Option<&str>| {
            json!({ "type": type_, "status": status, "reason": reason,
            "lastTransitionTime": minutes_ago(0) })
        };
        let reason = (!ready).then_some("ContainersNotReady");
        json!({
            "phase": phase, "startTime": minutes_ago(0), "hostIP": "127.0.0.1", "podIP": ip, "podIPs": [{ "ip": ip }],
            "conditions": [condition("Initialized", "True", None), condition("ContainersReady", word, reason),
                condition("Ready", word, reason), condition("PodReadyToStartContainers", "True", None)],
        })
    }

    fn ready(&self, pod: &Pod) -> Value {
        let mut status = self.base("Running", true);
        let spec = pod.spec.as_ref().unwrap();
        let serving = |name: &str, image: &Option<String>| {
            json!({ "name": name, "image": image, "imageID": "", "ready": true,
            "started": true, "restartCount": 0, "state": { "running": { "startedAt": minutes_ago(0) } } })
        };
        let all: Vec<Value> = spec.containers.iter().map(|one| serving(&one.name, &one.image)).collect();
        status["containerStatuses"] = json!(all);
        let done = |name: &str, image: &Option<String>| {
            json!({ "name": name, "image": image, "imageID": "", "ready": true,
            "restartCount": 0, "state": { "terminated": { "exitCode": 0, "reason": "Completed" } } })
        };
        let init: Vec<Value> = spec.init_containers.iter().flatten().map(|one| done(&one.name, &one.image)).collect();
        status["initContainerStatuses"] = json!(init);
        status
    }

    fn failing(&self, pod: &Pod, report: &Report) -> Value {
        let spec = pod.spec.as_ref().unwrap();
        let mut status = self.base(report.phase, false);
        if let Some((reason, message)) = report.pod {
            status["reason"] = json!(reason);
            status["message"] = json!(filled(message, pod));
            return status;
        }
        let fill = |value: &Value| serde_json::from_str::<Value>(&filled(&value.to_string(), pod)).unwrap();
        let container = |name: &str, image: &Option<String>| {
            let restarts = i32::from(!report.last_state.is_null()) * 4;
            let mut one = json!({ "name": name, "image": image, "imageID": "", "ready": false, "restartCount": restarts,
                "started": report.started, "state": fill(&report.state) });
            if !report.last_state.is_null() {
                one["lastState"] = fill(&report.last_state);
            }
            one
        };
        let waits = |name: &str, image: &Option<String>| {
            json!({ "name": name, "image": image, "imageID": "", "ready": false,
            "started": false, "restartCount": 0, "state": { "waiting": { "reason": "PodInitializing" } } })
        };
        let init: Vec<_> = spec.init_containers.iter().flatten().collect();
        if report.is_init {
            status["phase"] = json!("Pending");
            let first = container(&init[0].name, &init[0].image);
            status["initContainerStatuses"] = json!([first]);
            let all: Vec<Value> = spec.containers.iter().map(|one| waits(&one.name, &one.image)).collect();
            status["containerStatuses"] = json!(all);
        } else {
            let all: Vec<Value> = spec.containers.iter().map(|one| container(&one.name, &one.image)).collect();
            status["containerStatuses"] = json!(all);
        }
        status
    }

    async fn warn(&self, pod: &Pod, reason: &str, message: &str) -> Result<(), kube::Error> {
        let namespace = pod.namespace().unwrap();
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        let event: Event = serde_json::from_value(json!({
            "metadata": { "generateName": format!("{}.", pod.name_any()) },
            "type": "Warning", "reason": reason, "message": filled(message, pod), "count": 3,
            "firstTimestamp": minutes_ago(1), "lastTimestamp": minutes_ago(0),
            "source": { "component": "kubelet", "host": node },
            "involvedObject": { "apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "namespace": namespace,
                "uid": pod.uid() },
        }))
        .unwrap();
        Api::<Event>::namespaced(self.client.clone(), &namespace).create(&PostParams::default(), &event).await.map(drop)
    }
}

fn filled(text: &str, pod: &Pod) -> String {
    let image = pod.spec.as_ref().and_then(|spec| spec.containers[0].image.clone()).unwrap_or_default();
    let namespace = pod.namespace().unwrap_or_default();
    let words = [("{image}", image), ("{pod}", pod.name_any()), ("{namespace}", namespace)];
    let text = words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value));
    text.replace("{uid}", &pod.uid().unwrap_or_default())
}
