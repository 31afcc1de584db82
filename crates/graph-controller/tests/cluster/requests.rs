//! Requests, from the spec to a graph that serves. The profiler is played.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use api_types::{
    LEGACY_FINALIZER,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentRequest as Request, RequestPhase},
};
use controller_kit::{
    apply::{Applier, RequestError},
    conditions::find,
    controller::{Outputs, reconcile},
    metrics::Metrics,
    store::{CacheView, Packed, Store},
};
use graph_controller::{
    NAME,
    relay::run::{Relay, RelayArgs, RelayError},
    request::{
        RequestReconciler, apply as apply_plan,
        model::{RequestObserved, RequestPlan, Search},
        observe::{RequestCaches, RequestObserver, gpus::Gpus},
        settings::RequestSettings,
    },
};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{ConfigMap, Node, Pod, ResourceQuota},
    },
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::{Cluster, Controllers, Options, wait};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::harness::{Harness, LIMIT, graph, own_definitions};

const PROPOSED: &str =
    "kind: ConfigMap\napiVersion: v1\nmetadata: {name: profile-data, labels: {own: label}}\ndata: {a: b}\n";

async fn apply(harness: &Harness, edit: impl FnOnce(&mut Value)) -> Request {
    let hardware = json!({ "gpuSku": "h100_sxm", "vramMb": 81920, "numGpusPerNode": 8, "totalGpus": 8,
        "interconnect": "nvlink", "rdma": false });
    let mut request = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest", "metadata": { "name": "chat" },
        "spec": { "model": "a/model", "backend": "vllm", "image": "registry.example.com/planner:1.5.0", "hardware": hardware },
    });
    edit(&mut request);
    let params = PatchParams::apply("user").force();
    harness.api::<Request>().patch("chat", &params, &Patch::Apply(&request)).await.unwrap()
}

/// Leaves what a profiler leaves, and ends its Job.
async fn profile(harness: &Harness, request: &Request, data: Value) {
    let job: Job = harness.until("profile-chat", "made", |_: &Job| true).await;
    let mut owner = serde_json::to_value(&job.metadata.owner_references.unwrap()[0]).unwrap();
    owner["uid"] = json!(request.uid());
    let output: ConfigMap = serde_json::from_value(json!({
        "metadata": { "name": "dgdr-output-chat", "ownerReferences": [owner],
            "labels": { "dgdr.nvidia.com/name": "chat", "dgdr.nvidia.com/namespace": harness.namespace } },
        "data": data,
    }))
    .unwrap();
    harness.api::<ConfigMap>().create(&PostParams::default(), &output).await.unwrap();
    complete(harness).await;
}

/// A controller of Jobs may write beside us.
async fn complete(harness: &Harness) {
    let jobs = harness.api::<Job>();
    let attempt = async || {
        let job = jobs.get("profile-chat").await.map_err(|error| error.to_string())?;
        let now = json!(Timestamp::from_second(Timestamp::now().as_second()).unwrap());
        let start = job.status.and_then(|status| status.start_time).map_or(now.clone(), |start| json!(start));
        let condition = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now });
        let status = json!({ "startTime": start, "completionTime": now, "succeeded": 1, "active": 0, "ready": 0,
            "terminating": 0, "uncountedTerminatedPods": {},
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")] });
        let patch = Patch::Merge(json!({ "status": status }));
        jobs.patch_status("profile-chat", &PatchParams::default(), &patch).await.map_err(|error| error.to_string())
    };
    wait::until("the Job to be complete", LIMIT, attempt).await.unwrap();
}

fn proposal() -> Value {
    let graph = serde_json::to_string(&graph("theirs", |_| ())).unwrap();
    json!({ "phase": "Done", "profiler_status": "success", "final_config.yaml": format!("{graph}\n---\n{PROPOSED}") })
}

fn in_phase(phase: RequestPhase) -> impl Fn(&Request) -> bool {
    move |request| request.status.as_ref().is_some_and(|status| status.phase == Some(phase))
}

#[tokio::test]
async fn a_model_becomes_a_graph_that_outlives_its_request() {
    let harness = Harness::new("request").await;
    // The upstream operator leaves its finalizer on requests.
    let request = apply(&harness, |request| request["metadata"]["finalizers"] = json!([LEGACY_FINALIZER])).await;
    profile(&harness, &request, proposal()).await;
    harness.until("chat-dgd", "made", |_: &DynamoGraphDeployment| true).await;
    harness.ready("chat-dgd").await;
    let deployed = harness.until("chat", "deployed", in_phase(RequestPhase::Deployed)).await;
    harness.until_counted("DynamoGraphDeploymentRequest", "Deployed").await;
    assert_eq!(deployed.metadata.generation, Some(1), "the spec is the user's");
    let owned = |map: &ConfigMap| map.owner_references().first().is_some_and(|owner| owner.name == "chat-dgd");
    let map = harness.until("profile-data", "the graph's", owned).await;
    // The cache has neither.
    assert_eq!(map.data.as_ref().and_then(|data| data.get("a")).map(String::as_str), Some("b"));
    assert_eq!(map.labels().get("own").map(String::as_str), Some("label"));
    harness.api::<Request>().delete("chat", &DeleteParams::default()).await.unwrap();
    harness.gone::<Request>("chat").await;
    assert!(harness.api::<DynamoGraphDeployment>().get_opt("chat-dgd").await.unwrap().is_some());
}

#[tokio::test]
async fn a_failed_request_is_profiled_again_for_another_spec() {
    let harness = Harness::new("again").await;
    let request = apply(&harness, |_| ()).await;
    profile(&harness, &request, json!({ "profiler_status": "failed", "error": "no memory" })).await;
    harness.until("chat", "failed", in_phase(RequestPhase::Failed)).await;
    let first: Job = harness.api().get("profile-chat").await.unwrap();
    apply(&harness, |request| request["spec"]["image"] = json!("registry.example.com/planner:1.5.1")).await;
    let another = |job: &Job| job.metadata.uid != first.metadata.uid;
    harness.until("profile-chat", "another", another).await;
    harness.until("chat", "being profiled", in_phase(RequestPhase::Profiling)).await;
    assert!(harness.api::<ConfigMap>().get_opt("dgdr-output-chat").await.unwrap().is_none());
}

fn is_stalled_by_a_taken_name(request: &Request) -> bool {
    let conditions = request.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|c| c.type_ == "Stalled" && c.status == "True" && c.reason == "NameTaken")
}

/// An object that has the name of the output, and none of the labels by which the controller recognises its own.
#[tokio::test]
async fn a_config_map_of_another_owner_is_not_changed_by_controller_and_relay() {
    let harness = Harness::new("output").await;
    let (maps, name) = (harness.api::<ConfigMap>(), "dgdr-output-chat");
    let foreign = json!({ "metadata": { "name": name }, "data": { "mine": "yes" } });
    let foreign = maps.create(&PostParams::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();
    let request = apply(&harness, |_| ()).await;
    harness.until("chat", "reported: the name is taken", is_stalled_by_a_taken_name).await;
    assert!(harness.api::<Job>().get_opt("profile-chat").await.unwrap().is_none());

    let relay_of = |uid: Option<String>| {
        let args = RelayArgs {
            folder: PathBuf::new(),
            request: "chat".to_owned(),
            request_namespace: harness.namespace.clone(),
            request_uid: uid.unwrap(),
            pod: String::new(),
        };
        Relay::new(harness.client.clone(), args)
    };
    let words = |key: &str, text: &str| BTreeMap::from([(key.to_owned(), text.to_owned())]);
    let relay = relay_of(request.uid());
    let refused = relay.publish(&words("phase", "SweepingDecode")).await;
    assert!(matches!(refused, Err(RelayError::Write(RequestError::Foreign { .. }))), "{refused:?}");
    assert_eq!(maps.get(name).await.unwrap(), foreign);

    maps.delete(name, &DeleteParams::default()).await.unwrap();
    harness.until("chat", "being profiled", in_phase(RequestPhase::Profiling)).await;
    relay.publish(&words("phase", "SweepingDecode")).await.unwrap();
    relay.publish(&words("message", "3 of 8")).await.unwrap();
    let reported = maps.get(name).await.unwrap();
    assert_eq!(reported.data, Some(words("message", "3 of 8")));
    assert_eq!(reported.owner_references()[0].uid, request.uid().unwrap());
    let earlier = relay_of(Some("a-uid-of-before".to_owned())).publish(&words("message", "too late")).await;
    assert!(matches!(earlier, Err(RelayError::InTheWay { .. })), "{earlier:?}");
    assert_eq!(maps.get(name).await.unwrap().data, reported.data);
}

#[tokio::test]
async fn a_graph_of_another_owner_is_not_changed() {
    let harness = Harness::new("taken").await;
    let before = harness.apply(&graph("chat-dgd", |_| ())).await;
    let request = apply(&harness, |_| ()).await;
    profile(&harness, &request, proposal()).await;
    harness.until("chat", "reported: the name is taken", is_stalled_by_a_taken_name).await;
    let after = harness.api::<DynamoGraphDeployment>().get("chat-dgd").await.unwrap();
    assert_eq!((after.uid(), after.spec), (before.uid(), before.spec));
    assert!(after.metadata.labels.is_none_or(|labels| labels.is_empty()));
}

/// A pod of a graph that has held four GPUs for ten minutes. It waits at a gate, so no other controller writes it.
async fn holding(harness: &Harness, graph: &str) {
    let limits = json!({ "limits": { "nvidia.com/gpu": "4" } });
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": graph, "labels": { "nvidia.com/dynamo-graph-deployment-name": graph } },
        "spec": { "schedulingGates": [{ "name": "example.com/held" }], "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": "registry.example.com/engine:1", "resources": limits }] },
    }))
    .unwrap();
    let pods = harness.api::<Pod>();
    // A new namespace has no account for pods in its first moments.
    let make = async || pods.create(&PostParams::default(), &pod).await;
    wait::until("the pod to be admitted", LIMIT, make).await.unwrap();
    let start = Timestamp::from_second(Timestamp::now().as_second() - 600).unwrap();
    let status = Patch::Merge(json!({ "status": { "phase": "Running", "startTime": start } }));
    pods.patch_status(graph, &PatchParams::default(), &status).await.unwrap();
}

#[tokio::test]
async fn graphs_that_the_profiler_starts_are_counted_and_not_forgotten() {
    let harness = Harness::new("trials").await;
    let request = apply(&harness, |_| ()).await;
    harness.until("chat", "being profiled", in_phase(RequestPhase::Profiling)).await;
    holding(&harness, "trial").await;
    let owner = json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeploymentRequest", "name": "chat",
        "uid": request.uid(), "controller": false, "blockOwnerDeletion": true });
    harness.apply(&graph("trial", |graph| graph["metadata"]["ownerReferences"] = json!([owner]))).await;
    let counts = |running: &'static [&str]| {
        move |request: &Request| {
            let status = request.status.as_ref();
            let trials = status.and_then(|status| status.trial_graphs.clone()).unwrap_or_default();
            let minutes = status.and_then(|status| status.gpu_minutes).unwrap_or_default();
            trials.running == running && trials.ending.is_empty() && trials.gpu_seconds >= 2400 && minutes >= 40
        }
    };
    harness.until("chat", "counting the trial", counts(&["trial"])).await;

    harness.api::<Pod>().delete("trial", &DeleteParams::default()).await.unwrap();
    harness.gone::<Pod>("trial").await;
    harness.api::<DynamoGraphDeployment>().delete("trial", &DeleteParams::default()).await.unwrap();
    harness.until("chat", "counting what is over", counts(&[])).await;
    profile(&harness, &request, proposal()).await;
    let ended = harness.until("chat", "deploying", in_phase(RequestPhase::Deploying)).await;
    assert!(counts(&[])(&ended), "{:?}", ended.status);
}

/// The definitions of the upstream operator, which does not declare all of our status.
fn theirs() -> Vec<Value> {
    let mut definitions = own_definitions();
    let requests =
        definitions.iter_mut().find(|d| d["spec"]["names"]["kind"] == "DynamoGraphDeploymentRequest").unwrap();
    let mut versions = requests["spec"]["versions"].as_array_mut().unwrap().iter_mut();
    let version = versions.find(|version| version["name"] == "v1beta1").unwrap();
    let status = version.pointer_mut("/schema/openAPIV3Schema/properties/status/properties").unwrap();
    for field in ["hardware", "gpuMinutes", "profilerRuns", "trialGraphs"] {
        assert!(status.as_object_mut().unwrap().remove(field).is_some(), "{field}");
    }
    definitions
}

#[tokio::test]
async fn a_request_goes_its_way_under_the_definitions_of_the_go_operator() {
    let options = Options { controllers: Controllers::Off, crds: theirs(), ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let harness = Harness::on(&cluster, "theirs").await;
    let request = apply(&harness, |_| ()).await;
    let profiling = harness.until("chat", "being profiled", in_phase(RequestPhase::Profiling)).await;
    let status = profiling.status.unwrap();
    assert_eq!((status.hardware, status.observed_generation), (None, Some(1)));
    profile(&harness, &request, proposal()).await;
    harness.until("chat-dgd", "made", |_: &DynamoGraphDeployment| true).await;
    harness.ready("chat-dgd").await;
    harness.until("chat", "deployed", in_phase(RequestPhase::Deployed)).await;
    harness.until_request_reconciled("chat").await;
    let writes = harness.writes_of("DynamoGraphDeploymentRequest");
    harness.until_request_reconciled("chat").await;
    assert_eq!(harness.writes_of("DynamoGraphDeploymentRequest"), writes);
}

fn empty_caches() -> RequestCaches {
    RequestCaches {
        requests: Store::new(),
        graphs: Store::new(),
        jobs: Store::new(),
        config_maps: Store::new(),
        accounts: Store::new(),
        bindings: Store::new(),
    }
}

/// Looks at the request once, as where the whole cluster is served: profilers have an account that is bound to this
/// ClusterRole.
async fn look_once(harness: &Harness, client: Client, role: &str) {
    let caches = empty_caches();
    let settings = Arc::new(RequestSettings { profiling_role: Some(role.to_owned()), ..RequestSettings::default() });
    let applier = Applier::new(client.clone(), NAME, Metrics::new(), Vec::new());
    let observer = RequestObserver::new(client, applier.clone(), caches, settings);
    let reconciler = RequestReconciler { observer, outputs: Outputs::new(applier) };
    let request = serde_json::to_value(harness.api::<Request>().get("chat").await.unwrap()).unwrap();
    reconcile(&reconciler, &Packed::from_value(request).unwrap()).await.unwrap();
}

/// ConfigMaps are written for the graph by the applier of requests, which no event of the graph reaches.
#[tokio::test]
async fn a_hand_over_leaves_nothing_in_memory_for_the_graph() {
    let harness = Harness::without_controller("handed", false).await;
    let maps = harness.api::<ConfigMap>();
    let map = json!({ "metadata": { "name": "chat-data", "labels": { "dgdr.nvidia.com/name": "chat" } }, "data": { "a": "b" } });
    let map = maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    let graph: DynamoGraphDeployment = serde_json::from_value(graph("chat", |_| ())).unwrap();
    let graph = harness.api().create(&PostParams::default(), &graph).await.unwrap();
    let request = apply(&harness, |_| ()).await;

    let caches = empty_caches();
    let seen: Vec<Arc<dyn CacheView>> = vec![Arc::new(caches.config_maps.clone())];
    let applier = Applier::new(harness.client_of_controller(), NAME, Metrics::new(), seen);
    let spec = json!(request.spec);
    let uid = graph.uid().unwrap();
    let observed = RequestObserved { graph: Some(graph), ..RequestObserved::of(request, spec, Arc::default()) };
    let plan = RequestPlan { hand_over: vec![map], ..RequestPlan::default() };
    apply_plan::apply(&applier, &caches, &observed, plan).await.unwrap();

    let owners = maps.get("chat-data").await.unwrap().metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.iter().map(|owner| &owner.uid).collect::<Vec<_>>(), [&uid]);
    assert_eq!(applier.stale(&uid), None, "no write is remembered for the graph");
}

fn is_stalled(phase: RequestPhase, reason: &str, words: &str) -> impl Fn(&Request) -> bool {
    move |request| {
        let conditions = request.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let says = |type_| find(conditions, type_).filter(|found| found.message.contains(words));
        let stalled = says("Stalled").is_some_and(|stalled| stalled.status == "True" && stalled.reason == reason);
        in_phase(phase)(request) && stalled && says("Profiling").is_some() && says("Ready").is_some()
    }
}

#[tokio::test]
async fn a_rejected_profiler_job_is_reported_with_the_message_of_the_server() {
    let harness = Harness::without_controller("refused", false).await;
    let bindings = "count/rolebindings.rbac.authorization.k8s.io";
    let quota = json!({ "metadata": { "name": "none" }, "spec": { "hard": { bindings: "0", "pods": "0" } } });
    let quotas = harness.api::<ResourceQuota>();
    quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
    let counts = |quota: &ResourceQuota| quota.status.as_ref().is_some_and(|status| status.used.is_some());
    harness.until("none", "counting", counts).await;
    apply(&harness, |_| ()).await;

    look_once(&harness, harness.client.clone(), "profilers").await;
    let no_binding = is_stalled(RequestPhase::Pending, "Forbidden", "exceeded quota: none");
    harness.until("chat", "refused the binding", no_binding).await;
    look_once(&harness, harness.client_of_controller(), "profilers").await;
    let no_role = is_stalled(RequestPhase::Pending, "Forbidden", "there is no ClusterRole profilers");
    harness.until("chat", "reported: there is no role", no_role).await;
    assert!(harness.api::<Job>().get_opt("profile-chat").await.unwrap().is_none());

    harness.start();
    let words = "Job profile-chat: Error creating: a pod is forbidden: exceeded quota: none, requested: pods=1";
    let no_pod = is_stalled(RequestPhase::Profiling, "PodCannotStart", words);
    harness.until("chat", "refused the pod", no_pod).await;
}

/// Answers each connection with the metrics of two GPUs. Returns the address.
async fn exporter() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let gpu = |n| format!("DCGM_FI_DEV_GPU_TEMP{{gpu=\"{n}\",modelName=\"NVIDIA B200\"}} 40\n");
        let page = gpu(0) + &gpu(1);
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{page}", page.len());
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

/// Found defect: a pod of any namespace with the label of a DCGM exporter named GPUs for all tenants.
#[tokio::test]
async fn a_pod_of_a_tenant_is_no_exporter() {
    let harness = Harness::without_controller("exporter", false).await;
    let nodes: Api<Node> = Api::all(harness.client.clone());
    let node = json!({ "metadata": { "name": harness.namespace } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let pod = json!({
        "metadata": { "name": "exporter", "labels": { "app": "dcgm-exporter" } },
        "spec": { "nodeName": harness.namespace, "containers": [{ "name": "c", "image": "example.com/exporter:1" }] },
    });
    let pods = harness.api::<Pod>();
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let status = json!({ "status": { "phase": "Running", "podIP": "127.0.0.1", "podIPs": [{ "ip": "127.0.0.1" }] } });
    pods.patch_status("exporter", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();

    let address = exporter().await;
    let search = |namespaces: &[&str]| {
        let mut settings = RequestSettings::default();
        settings.args.dcgm_metrics_endpoint = format!("http://{address}/metrics");
        settings.exporter_namespaces = namespaces.iter().map(|&name| name.to_owned()).collect();
        let gpus = Gpus::new(harness.client.clone(), &settings);
        async move { gpus.search(None).await.unwrap() }
    };
    let configured = search(&[&harness.namespace]).await;
    let default = search(&["gpu-operator"]).await;
    nodes.delete(&harness.namespace, &DeleteParams::default()).await.unwrap();
    assert!(
        matches!(&configured, Search::Found(found) if found.hardware.num_gpus_per_node == Some(2)),
        "{configured:?}"
    );
    let Search::Nothing(why) = &default else { panic!("{default:?}") };
    assert!(why.contains("no DCGM exporter runs in the namespaces gpu-operator"), "{why}");
}
