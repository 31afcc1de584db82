//! Commands of the plugin on a real API server. What the controllers would write is played.

mod formats;
mod harness;
mod session;
mod shell;

use std::{
    net::TcpListener,
    process::Command,
    time::{Duration, Instant},
};

use api_types::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Pod, ResourceQuota},
};
use kube::{Api, api::ListParams};
use kubectl_dynamo::{CommandOutcome, complete};
use serde_json::{Value, json};
use test_cluster::wait;

use self::harness::{LIMIT, Team};

#[tokio::test]
async fn a_graph_that_serves_is_ready_and_its_tree_has_its_pods() {
    let team = Team::new("plugin-ready").await;
    team.graph(true, json!({})).await;
    let (outcome, text) = team.run(&["why", "chat"]).await;
    assert_eq!(outcome, CommandOutcome::Fine, "{text}");
    assert_eq!(text, format!("DynamoGraphDeployment {}/chat is ready.\n", team.namespace));
    let pods: Api<Pod> = Api::namespaced(team.client.clone(), &team.namespace);
    let pod = wait::until("a pod that is ready", LIMIT, async || {
        let all = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let ready = all.into_iter().find(|pod| {
            let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True")
        });
        ready.ok_or_else(|| "none is ready".to_owned())
    });
    let name = pod.await.unwrap().metadata.name.unwrap();
    let (_, names) = team.run(&["tree", "chat", "-o", "name"]).await;
    let expected = format!(
        "dynamographdeployment/chat\ndynamocomponentdeployment/chat-decode\ndeployment/chat-decode\npod/{name}\n"
    );
    assert_eq!(names, expected);
    let (_, usage) = team.run(&["top", "chat"]).await;
    assert!(usage.contains("decode      1      0"), "{usage}");
    assert!(usage.ends_with("note: usage is not known: the cluster does not serve metrics.k8s.io\n"), "{usage}");
    let (outcome, table) = team.run(&["status"]).await;
    assert_eq!(outcome, CommandOutcome::Fine);
    assert!(table.starts_with("NAME   STATE   COMPONENTS") && table.contains("chat   ready   1/1"), "{table}");
}

#[tokio::test]
async fn a_quota_is_named_with_the_deployment_that_it_stops() {
    let team = Team::new("plugin-quota").await;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "few", "namespace": team.namespace },
        "spec": { "hard": { "pods": "0" } },
    });
    team.access.apply(&[quota]).await.unwrap();
    // A quota counts from its first status on.
    let quotas: Api<ResourceQuota> = Api::namespaced(team.client.clone(), &team.namespace);
    let counts = wait::until("a quota that counts", LIMIT, async || {
        let status = quotas.get("few").await.map_err(|error| error.to_string())?.status;
        status.and_then(|status| status.hard).map(drop).ok_or_else(|| "it has no status".to_owned())
    });
    counts.await.unwrap();
    team.graph(false, json!({})).await;
    let deployments: Api<Deployment> = Api::namespaced(team.client.clone(), &team.namespace);
    let refused = wait::until("a Deployment without pods", LIMIT, async || {
        let status =
            deployments.get("chat-decode").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        let failed = status.conditions.iter().flatten().any(|one| one.type_ == "ReplicaFailure");
        failed.then_some(()).ok_or_else(|| format!("{status:?}"))
    });
    refused.await.unwrap();
    let causes = team.causes("chat").await;
    assert_eq!(causes[0]["code"], "QuotaExceeded", "{causes}");
    assert_eq!(causes[0]["chain"][2], json!({ "kind": "Deployment", "name": "chat-decode" }));
    assert_eq!(causes[0]["evidence"][0], "ResourceQuota few: 0 of 0 pods are used");
}

#[tokio::test]
async fn a_pod_without_a_node_is_named_with_what_the_nodes_lack() {
    let team = Team::new("plugin-gpu").await;
    team.graph(false, json!({ "limits": { "nvidia.com/gpu": "4000" } })).await;
    let causes = team.causes_with("chat", "NoGpu").await;
    let kinds: Vec<_> =
        causes[0]["chain"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["DynamoGraphDeployment", "DynamoComponentDeployment", "Deployment", "Pod"]);
    assert_eq!(causes[0]["evidence"][0], "the pod requests 4000 GPUs");
    let (outcome, text) = team.run(&["why", "dcd/chat-decode"]).await;
    assert_eq!(outcome, CommandOutcome::Unwell);
    assert!(text.contains("DynamoComponentDeployment/chat-decode -> Deployment/chat-decode -> Pod/"), "{text}");
}

#[tokio::test]
async fn a_component_is_scaled_by_its_adapter_and_by_nothing_else() {
    let team = Team::new("plugin-scale").await;
    team.graph(true, json!({})).await;
    let (outcome, text) = team.run(&["scale", "chat", "decode=3"]).await;
    assert_eq!(outcome, CommandOutcome::Unwell);
    assert!(text.contains("spec.components[0].replicas: 3"), "{text}");
    let adapter = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentScalingAdapter",
        "metadata": { "name": "chat-decode", "namespace": team.namespace },
        "spec": { "replicas": 1, "dgdRef": { "name": "chat", "componentName": "decode" } },
    });
    team.access.apply(&[adapter]).await.unwrap();
    let (outcome, text) = team.run(&["scale", "chat", "decode=3"]).await;
    assert_eq!((outcome, text.as_str()), (CommandOutcome::Fine, "component decode scaled from 1 to 3 replicas\n"));
    let adapters: Api<DynamoGraphDeploymentScalingAdapter> = Api::namespaced(team.client.clone(), &team.namespace);
    assert_eq!(adapters.get("chat-decode").await.unwrap().spec.replicas, 3);
    let error = team.try_run(&["scale", "chat", "nothing=1"]).await.unwrap_err();
    assert_eq!(error.to_string(), "graph chat has no component nothing; it has decode");
}

#[tokio::test]
async fn a_restart_sets_the_field_of_the_api_and_nothing_else() {
    let team = Team::new("plugin-restart").await;
    team.graph(true, json!({})).await;
    let graphs: Api<DynamoGraphDeployment> = Api::namespaced(team.client.clone(), &team.namespace);
    let before = graphs.get("chat").await.unwrap();
    let (outcome, text) = team.run(&["rollout", "restart", "chat", "--id", "today"]).await;
    assert_eq!((outcome, text.as_str()), (CommandOutcome::Fine, "restart today of graph chat requested\n"));
    let after = graphs.get("chat").await.unwrap();
    assert_eq!(after.spec.restart.as_ref().unwrap().id, "today");
    assert_eq!(after.spec.components, before.spec.components);
    assert_eq!(after.metadata.annotations, before.metadata.annotations);
    // No controller has reconciled it yet.
    let (outcome, text) = team.run(&["rollout", "status", "chat", "--timeout", "0"]).await;
    assert_eq!(outcome, CommandOutcome::Unwell, "{text}");
    team.set_status(true).await;
    let (outcome, text) = team.run(&["rollout", "status", "chat"]).await;
    assert_eq!(outcome, CommandOutcome::Fine);
    assert_eq!(text, format!("{}/chat ready: decode 1/1\n", team.namespace));
}

#[tokio::test]
async fn a_rollout_is_held_and_resumed_by_annotations_alone() {
    let team = Team::new("plugin-rollout").await;
    team.graph(true, json!({})).await;
    let graphs: Api<DynamoGraphDeployment> = Api::namespaced(team.client.clone(), &team.namespace);
    let first = graphs.get("chat").await.unwrap();
    let set = async || {
        let graph = graphs.get("chat").await.unwrap();
        assert_eq!((&graph.spec, graph.metadata.generation), (&first.spec, first.metadata.generation));
        let all = graph.metadata.annotations.unwrap_or_default();
        let value = |key: &str| all.get(key).cloned().unwrap_or_default();
        (value("operator.dynamo/rollout"), value("operator.dynamo/rollout-step"))
    };
    let name = "dynamographdeployment.nvidia.com/chat";
    for (args, text, annotations) in [
        (&["step", "chat", "25%"][..], format!("{name} held at 25%\n"), ("", "25%")),
        (&["pause", "chat"], format!("{name} paused\n"), ("paused", "25%")),
        (
            &["resume", "chat"],
            format!(
                "{name} resumed\nnote: new workers are held at 25%; `kubectl dynamo rollout step chat none` lets them \
                 go on\n"
            ),
            ("", "25%"),
        ),
        (&["step", "chat", "none"], format!("{name} no longer held at a step\n"), ("", "")),
    ] {
        let (outcome, printed) = team.run(&[&["rollout"], args].concat()).await;
        assert_eq!((outcome, printed), (CommandOutcome::Fine, text), "{args:?}");
        let (rollout, step) = set().await;
        assert_eq!((rollout.as_str(), step.as_str()), annotations, "{args:?}");
    }
    for (args, text) in [
        (&["resume", "chat"][..], "is not paused"),
        (&["undo", "chat"], "has no rollout in progress"),
        (&["step", "chat", "half"], "is neither a count above 0 nor a percentage"),
    ] {
        let (outcome, printed) = team.run(&[&["rollout"], args].concat()).await;
        assert!(outcome == CommandOutcome::Unwell && printed.contains(text), "{args:?}: {printed}");
        assert_eq!(set().await, (String::new(), String::new()));
    }
}

#[tokio::test]
async fn the_program_has_kubectls_exit_codes() {
    let team = Team::new("plugin-exit").await;
    team.graph(false, json!({})).await;
    let program = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-dynamo"));
        let output = command.arg("--kubeconfig").arg(team.access.kubeconfig()).args(["-n", &team.namespace]).args(args);
        let output = output.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(program(&["why", "chat"]).0, Some(1));
    team.set_status(true).await;
    assert_eq!(program(&["why", "chat"]), (Some(0), String::new()));
    let (code, text) = program(&["why", "nothing"]);
    assert_eq!(code, Some(2));
    assert!(text.starts_with("error: there is no DynamoGraphDeployment nothing in namespace"), "{text}");
    assert_eq!(program(&["no-such-command"]).0, Some(2));
}

#[tokio::test]
async fn names_of_objects_complete_the_words_of_kubectl() {
    let team = Team::new("plugin-names").await;
    team.graph(true, json!({})).await;
    let kubeconfig = team.access.kubeconfig().to_string_lossy().into_owned();
    let cluster = ["--kubeconfig", &kubeconfig, "-n", &team.namespace];
    let lines = |words: &[&str]| {
        let words: Vec<_> = cluster.iter().chain(words).map(|&word| word.to_owned()).collect();
        complete(&words)
    };
    assert_eq!(lines(&["tree", ""]), "chat\n:4\n");
    assert_eq!(lines(&["tree", "d"]), ":4\n");
    assert_eq!(lines(&["logs", "chat", ""]), "decode\n:4\n");
    assert_eq!(lines(&["scale", "chat", "d"]), "decode=\n:6\n");
    assert_eq!(lines(&["why", "dcd/"]), "dcd/chat-decode\n:4\n");
    assert_eq!(lines(&["logs", "nothing", ""]), ":4\n");
    assert_eq!(lines(&["tree", "-n", &team.namespace]), format!("{}\n:4\n", team.namespace));
}

#[test]
fn words_are_completed_without_a_cluster() {
    let completed = |kubeconfig: &str| {
        let words = ["--kubeconfig", kubeconfig, "why", "d"].map(str::to_owned);
        assert_eq!(complete(&words), "dcd/\ndgd/\ndgdr/\ndynamomodel/\n:6\n");
    };
    completed("no-such-file");
    // It accepts connections and does not answer.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let kubeconfig = json!({
        "clusters": [{ "name": "silent", "cluster": { "server": format!("http://{}", silent.local_addr().unwrap()) } }],
        "contexts": [{ "name": "silent", "context": { "cluster": "silent", "user": "anonymous" } }],
        "users": [{ "name": "anonymous", "user": {} }],
        "current-context": "silent",
    });
    let file = std::env::temp_dir().join(format!("kubectl-dynamo-{}.kubeconfig", std::process::id()));
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let begin = Instant::now();
    completed(&file.to_string_lossy());
    let elapsed = begin.elapsed();
    std::fs::remove_file(&file).unwrap();
    // One request of another command may take 15 s.
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
}

#[test]
fn the_program_completes_words_under_its_other_name() {
    let folder = std::env::temp_dir().join(format!("kubectl-dynamo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("kubectl_complete-dynamo");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-dynamo"), &program).unwrap();
    let output = Command::new(&program).args(["rollout", "re"]).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<_> = text.lines().map(|line| line.split('\t').next().unwrap()).collect();
    assert_eq!(words, ["restart", "resume", ":4"], "{text}");
    assert!(output.status.success() && output.stderr.is_empty());
}

#[tokio::test]
async fn an_install_without_programs_fails_its_checks() {
    let team = Team::new("plugin-doctor").await;
    let (outcome, text) = team.run(&["doctor", "-o", "json"]).await;
    assert_eq!(outcome, CommandOutcome::Unwell);
    let checks: Vec<Value> = serde_json::from_str(&text).unwrap();
    let state = |name: &str| checks.iter().find(|one| one["check"] == name).map(|one| one["state"].clone());
    assert_eq!(state("definition dynamographdeployments"), Some(json!("ok")), "{text}");
    assert_eq!(state("program graph-controller"), Some(json!("failed")));
    let right = format!("your right to list pods in {}", team.namespace);
    assert_eq!(state(&right), Some(json!("ok")));
}
