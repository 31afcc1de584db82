//! Remedies: by the reason of a condition, by the words of Kubernetes where one reason has several remedies, and for
//! objects that the API server rejects.

mod pods;

use api_types::{
    conditions,
    conditions::{checkpoint, component, graph, image_build, infrastructure, model, request},
};
pub use pods::{ENDS, IMAGES, LOGS, NODE, PRESSURE, SCHEDULING, SETUP, VOLUMES, is_of_runtime};

/// A cause that is recognized by words of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CauseRule {
    /// All of them are in the message, in whatever case.
    pub words: &'static [&'static str],
    /// Code of the cause.
    pub code: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

/// The first rule that fits a message.
pub fn matching(rules: &'static [CauseRule], message: &str) -> Option<&'static CauseRule> {
    let message = message.to_lowercase();
    rules.iter().find(|rule| rule.words.iter().all(|word| message.contains(word)))
}

/// The remedy of the first rule with a code.
pub fn by_code(rules: &'static [CauseRule], code: &str) -> Option<&'static str> {
    rules.iter().find(|rule| rule.code == code).map(|rule| rule.remedy)
}

/// Constructor for the tables.
const fn rule(words: &'static [&'static str], code: &'static str, remedy: &'static str) -> CauseRule {
    CauseRule { words, code, remedy }
}

/// The API server rejects an object.
pub const REJECTIONS: &[CauseRule] = &[
    rule(&["exceeded quota"], "QuotaExceeded", QUOTA),
    rule(
        &["failed quota"],
        "QuotaNeedsRequests",
        "set the requests and limits that the quota requires in the pod template",
    ),
    rule(
        &["violates podsecurity"],
        "PodSecurity",
        "correct the security context of the pod template, or relax the label pod-security.kubernetes.io/enforce \
        of the namespace",
    ),
    rule(&["serviceaccount", "not found"], "ServiceAccountMissing", ACCOUNT),
    rule(&["error looking up service account"], "ServiceAccountMissing", ACCOUNT),
    rule(
        &["runtimeclass", "not found"],
        "RuntimeClassMissing",
        "create the RuntimeClass, or correct runtimeClassName of the pod template",
    ),
    rule(&["no priorityclass"], "PriorityClassMissing", "create the PriorityClass, or correct priorityClassName"),
    rule(&["maximum", "usage per"], "LimitRange", LIMIT_RANGE),
    rule(&["minimum", "usage per"], "LimitRange", LIMIT_RANGE),
    rule(&["failed calling webhook", "x509"], "WebhookCertificate", CERTIFICATE),
    rule(&["failed calling webhook", "certificate"], "WebhookCertificate", CERTIFICATE),
    rule(
        &["failed calling webhook", "deadline exceeded"],
        "WebhookUnreachable",
        "let the API server reach the pods of the webhook; on managed clusters open its port from the control \
        plane to the nodes",
    ),
    rule(&["failed calling webhook", "no endpoints"], "WebhookDown", WEBHOOK),
    rule(&["failed calling webhook", "connection refused"], "WebhookDown", WEBHOOK),
    rule(
        &["failed calling webhook", "not found"],
        "WebhookServiceMissing",
        "install the program of the webhook again, or delete its webhook configuration",
    ),
    rule(&["failed calling webhook"], "WebhookDown", WEBHOOK),
    rule(
        &["conversion webhook for"],
        "ConversionDown",
        "look at the pods of the webhook server: they convert between API versions",
    ),
    rule(&["admission webhook", "denied the request"], "PolicyDenied", POLICY),
    rule(&["validatingadmissionpolicy", "denied"], "PolicyDenied", POLICY),
    rule(
        &["is forbidden: user"],
        "RightMissing",
        "grant the account of the controller the right; `helm upgrade` of the operator's chart sets its roles right",
    ),
    rule(&["namespace", "being terminated"], "NamespaceTerminating", "the namespace is being deleted; use another one"),
    rule(
        &["request is too large"],
        "ObjectTooLarge",
        "make the object smaller: put data into ConfigMaps, volumes or images",
    ),
];

const QUOTA: &str = "raise the ResourceQuota of the namespace, lower replicas or resources of the component, or delete \
                     what is not needed; during a rollout, surge counts too";
const LIMIT_RANGE: &str =
    "set requests and limits of the pod template within the LimitRange of the namespace, or change it";
const ACCOUNT: &str = "create the ServiceAccount, or correct serviceAccountName of the pod template";
const CERTIFICATE: &str = "renew the certificate of the webhook, or set its CA in the webhook configuration (caBundle)";
const POLICY: &str = "change the object as the policy requires, or the policy";
const WEBHOOK: &str = "mend the Deployment of the webhook, or delete its webhook configuration; the object is tried \
                       again every 15 s";
const UNDONE: &str = "correct the spec of the workers, or set it back; the message says what did not come up";
const PROFILER: &str = "look at the log of the profiler's pod: `kubectl logs --selector job-name=JOB`";
const FIELD: &str = "change the field that the message names, and apply again";

/// Returns the remedy for a condition of a kind, by its reason.
pub fn by_reason(reason: &str) -> Option<&'static str> {
    let pairs = REMEDIES.iter().find(|(known, _)| *known == reason);
    pairs.map(|(_, remedy)| *remedy)
}

const REMEDIES: &[(&str, &str)] = &[
    (graph::INVALID_SPEC, FIELD),
    (
        graph::NAME_TAKEN,
        "rename the component or the graph, or remove the object that has the name; the operator never changes it",
    ),
    (
        graph::NO_MULTINODE_ORCHESTRATOR,
        "install LeaderWorkerSet (leaderworkerset.x-k8s.io) or Grove, or remove multinode; it is looked for every 15 s",
    ),
    (
        graph::PROVIDER_UNAVAILABLE,
        "install Grove, or enable it in the operator's configuration; it is looked for every 15 s",
    ),
    (graph::PROVIDER_UNSUPPORTED, "set the annotation nvidia.com/workload-provider to component or grove"),
    (graph::API_MISSING, "install the API that the message names; it is looked for every 15 s"),
    (graph::CONFLICTING_PROVIDERS, "delete the objects of one of the two workload providers that the message names"),
    (
        graph::QUEUE_MISSING,
        "create the queue of the KAI scheduler, or name another one in the annotation nvidia.com/kai-scheduler-queue",
    ),
    (graph::TOPOLOGY_NOT_FOUND, "create the ClusterTopologyBinding, or correct its name in the graph"),
    (graph::TOPOLOGY_LEVELS_UNAVAILABLE, "add the levels to the ClusterTopologyBinding, or use one that it has"),
    (
        graph::CHECKPOINT_FAILED,
        "see `kubectl dynamo why checkpoint/NAME`; correct the pod of the checkpoint, or set startupPolicy to \
        Immediate",
    ),
    (graph::WAITING_FOR_CHECKPOINT, "wait until the checkpoint is ready, or set startupPolicy to Immediate"),
    (graph::ROLLOUT_PAUSED, "let the rollout go on by `kubectl dynamo rollout resume GRAPH`"),
    (
        graph::ROLLOUT_HELD,
        "raise the step by `kubectl dynamo rollout step GRAPH PERCENTAGE`, or end it by `... step GRAPH none`",
    ),
    (graph::ROLLOUT_UNDONE, UNDONE),
    (graph::DEADLINE_EXCEEDED, UNDONE),
    (graph::FIELDS_WITHOUT_EFFECT, "remove the fields, or change the operator's configuration as the message says"),
    (component::SECRET_MISSING, "create the Secret in the namespace, or correct its name"),
    (
        component::ENGINE_NOT_FOUND,
        "start the engine by `python … -m dynamo.<engine>`, or let your program join the nodes itself",
    ),
    (
        graph::FORBIDDEN,
        "grant the account of the controller the right that the message names; `helm upgrade` sets its roles right",
    ),
    (conditions::WEBHOOK_UNAVAILABLE, WEBHOOK),
    (
        graph::GPUS_UNKNOWN,
        "create the claim or its DeviceClass, or grant the operator `get` on deviceclasses.resource.k8s.io",
    ),
    (graph::IMAGE_AWAITED, "wait for the build; `kubectl get dynamocomponents` shows it"),
    (infrastructure::UNREACHABLE, "check that NATS and etcd run, and their addresses in the operator's configuration"),
    (infrastructure::UNUSABLE, "correct the addresses or the Secret with the login in the operator's configuration"),
    (component::CONTAINER_CONFIG, "correct what the container refers to, as the message says"),
    (component::VOLUME_NOT_MOUNTED, "create what the volume is made from, as the message says"),
    (component::IMAGE_PULL_FAILED, "correct the image, or its pull secret"),
    (component::OUT_OF_MEMORY, "raise the memory limit of the component"),
    (component::CRASH_LOOP, "look at the log of the container: `kubectl dynamo logs NAME`"),
    (component::POD_FAILED, "look at the pod and its events"),
    (component::UNSCHEDULABLE, "free what the nodes lack, or add nodes"),
    (component::PODS_REFUSED, "change what the quota or policy refuses"),
    (component::PODS_STARTING, "wait"),
    (component::PROBE_NOT_PASSED, "wait until the model is loaded"),
    (component::SCHEDULING_GATED, "wait until all pods of the gang have a place; the first that has none shows why"),
    (model::NO_SERVICES_FOUND, "set modelRef.name of the workers to spec.baseModelName of the model"),
    (model::NO_ENDPOINTS, "start workers of the base model: `kubectl dynamo why GRAPH` shows why they do not run"),
    (
        model::LOAD_FAILED,
        "correct spec.source.uri, and the access of the workers to it; start the engine with LoRA enabled",
    ),
    (model::NOT_READY, "wait; workers that refuse the adapter are named in the message"),
    (image_build::BUILD_FAILED, "look at the log of the build's pod, and correct what it builds"),
    (image_build::TIMEOUT, "look at the log of the build's pod; raise its time limit"),
    (image_build::BLOCKED, "remove the object that has the name, or grant the right that the message names"),
    (
        checkpoint::JOB_FAILED,
        "look at the log of the checkpoint's pod, correct it, and change nvidia.com/snapshot-artifact-version",
    ),
    (
        checkpoint::CAPTURE_FAILED,
        "look at the PodSnapshot and at the agent of its node, and change nvidia.com/snapshot-artifact-version",
    ),
    (checkpoint::CAPTURE_NAME_TAKEN, "delete the PodSnapshot of that name, or use another identity"),
    (checkpoint::CAPTURE_REFUSED, "change what the API server rejects of the PodSnapshot"),
    (checkpoint::JOB_DELETED, "change nvidia.com/snapshot-artifact-version to capture again"),
    (checkpoint::JOB_DELETED_EARLY, "change nvidia.com/snapshot-artifact-version to capture again"),
    (checkpoint::DUPLICATE, "delete the older checkpoint, or wait until it is gone"),
    (checkpoint::NOT_PREPARED, "use a pod template with the containers that share GPU memory"),
    (checkpoint::DISABLED, "enable checkpoints in the operator's configuration (checkpoint.enabled)"),
    (
        checkpoint::NO_STORAGE,
        "create the claim for checkpoints, or correct checkpoint.storage of the operator's configuration",
    ),
    (request::VALIDATION_FAILED, FIELD),
    (request::JOB_CREATION_FAILED, "change what the message names; the Job is tried again"),
    (request::PROFILING_FAILED, PROFILER),
    ("InitializingFailed", PROFILER),
    ("SweepingPrefillFailed", PROFILER),
    ("SweepingDecodeFailed", PROFILER),
    ("SelectingConfigFailed", PROFILER),
    ("BuildingCurvesFailed", PROFILER),
    ("GeneratingDGDFailed", PROFILER),
    (request::GENERATION_FAILED, "look at the log of the profiler's pod: its output is not a graph"),
    (request::POD_CANNOT_START, "change what keeps the pod of the profiler from starting, as the message says"),
    (request::DEPLOYMENT_DEGRADED, "see `kubectl dynamo why GRAPH` for the graph of the request"),
    (request::DEPLOYMENT_DELETED, "create the request again: its graph was deleted"),
    (request::DEPLOYMENT_REJECTED, "change the request or the policy that rejects its graph"),
    (request::SPEC_CHANGE_REJECTED, "create a new request: a spec cannot change after profiling has begun"),
];
