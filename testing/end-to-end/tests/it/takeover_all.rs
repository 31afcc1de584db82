//! Everything that the conformance kit has recorded of the Go operator, taken over at once: nothing that runs pods is
//! written.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, Instant},
};

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use end_to_end::{BoxError, COMPONENT_CONTROLLER, GRAPH_CONTROLLER, program};
use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Namespace},
    apimachinery::pkg::apis::meta::v1::Condition,
};
use kube::{
    Client, ResourceExt,
    api::{Api, ListParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::{Cluster, Controllers, Options, Program, conformance_kit, open_definition, wait};
use tokio::task::JoinSet;

use crate::recorded::Case;

/// Limit of the time until everything has been looked at: some 5,000 requests, beside other tests.
const LIMIT: Duration = Duration::from_secs(900);
/// Limit of the time from then until the last write.
const LAST_WRITES: Duration = Duration::from_secs(120);
/// Time without a write after which everything counts as carried out.
const QUIET: Duration = Duration::from_secs(4);
/// A look reads everything, and the machine has other things to do.
const BETWEEN_LOOKS: Duration = Duration::from_millis(700);
/// Cases whose objects are made at the same time.
const AT_ONCE: usize = 8;

fn cases(kit: &Path) -> Result<Vec<Case>, BoxError> {
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(kit.join("expected/base"))? {
        let path = entry?.path();
        let name = path.file_stem().ok_or("no name")?.to_string_lossy().into_owned();
        cases.extend(Some(Case::read(kit, "base", &name, None)?).filter(Case::has_deployments_of_graphs));
    }
    Ok(cases)
}

/// Makes the objects of all cases, each in its namespace.
async fn load(client: &Client, cases: Vec<Case>) -> Result<(), BoxError> {
    let mut loading = JoinSet::new();
    for case in cases {
        if loading.len() >= AT_ONCE
            && let Some(done) = loading.join_next().await
        {
            done??;
        }
        let client = client.clone();
        loading.spawn(async move {
            let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": case.namespace } }))?;
            Api::<Namespace>::all(client.clone()).create(&PostParams::default(), &namespace).await?;
            case.load(&client).await
        });
    }
    while let Some(done) = loading.join_next().await {
        done??;
    }
    Ok(())
}

/// A controller for all namespaces.
fn everywhere(binary: &str, kubeconfig: &Path) -> Result<Program, BoxError> {
    let mut program = program(binary, "everywhere", kubeconfig)?;
    let namespace = program.args.iter().position(|arg| arg == "--namespace").ok_or("no namespace")?;
    program.args.drain(namespace..namespace + 2);
    Ok(program)
}

/// Identity and spec of every Deployment. Its generation also counts annotations, of which we add one.
async fn deployments(client: &Client) -> Result<BTreeMap<String, Value>, BoxError> {
    let all = Api::<Deployment>::all(client.clone()).list(&ListParams::default()).await?;
    let of = |d: &Deployment| {
        let name = format!("{}/{}", d.namespace().unwrap_or_default(), d.name_any());
        (name, json!({ "spec": d.spec, "uid": d.uid() }))
    };
    Ok(all.iter().map(of).collect())
}

fn first_difference(one: &Value, other: &Value, path: String) -> String {
    let below = |key: String, one: &Value, other: &Value| first_difference(one, other, format!("{path}/{key}"));
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            let mut keys = keys.into_iter().filter(|key| one[*key] != other[*key]);
            keys.next().map_or(path.clone(), |key| below(key.clone(), &one[key], &other[key]))
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let mut indices = (0..a.len()).filter(|index| a[*index] != b[*index]);
            indices.next().map_or(path.clone(), |index| below(index.to_string(), &a[index], &b[index]))
        }
        _ => format!("{path}: {one} became {other}"),
    }
}

/// After a pause, returns the objects that our controllers have not yet reported on, and the versions of all objects.
async fn look(client: &Client) -> Result<(Vec<String>, Vec<Option<String>>), String> {
    tokio::time::sleep(BETWEEN_LOOKS).await;
    let all = ListParams::default();
    let read = async || {
        let graphs = Api::<DynamoGraphDeployment>::all(client.clone()).list(&all).await?;
        let components = Api::<DynamoComponentDeployment>::all(client.clone()).list(&all).await?;
        let deployments = Api::<Deployment>::all(client.clone()).list_metadata(&all).await?;
        Ok::<_, kube::Error>((graphs, components, deployments))
    };
    let (graphs, components, deployments) = read().await.map_err(|e| e.to_string())?;
    // The Go operator has no such condition.
    let is_ours = |conditions: &[Condition]| conditions.iter().any(|c| c.type_ == "Reconciling");
    let name = |kind: &str, namespace: Option<String>, name: String| {
        format!("{kind} {}/{name}", namespace.unwrap_or_default())
    };
    let mut unseen = Vec::new();
    for d in graphs.iter().filter(|d| !d.status.as_ref().is_some_and(|status| is_ours(&status.conditions))) {
        unseen.push(name("graph", d.namespace(), d.name_any()));
    }
    for d in components.iter().filter(|d| !d.status.as_ref().is_some_and(|status| is_ours(&status.conditions))) {
        unseen.push(name("component", d.namespace(), d.name_any()));
    }
    let versions = graphs.iter().map(ResourceExt::resource_version);
    let versions = versions.chain(components.iter().map(ResourceExt::resource_version));
    Ok((unseen, versions.chain(deployments.iter().map(ResourceExt::resource_version)).collect()))
}

fn all_seen(unseen: &[String]) -> Result<(), String> {
    unseen.first().map_or(Ok(()), |first| Err(format!("{} are unseen: {first}, …", unseen.len())))
}

/// Waits until our controllers have looked at everything and write no more.
async fn until_quiet(client: &Client) -> Result<(), BoxError> {
    wait::until("everything to be looked at", LIMIT, async || {
        let (unseen, _) = look(client).await?;
        all_seen(&unseen)
    })
    .await?;
    let mut last = (Instant::now(), Vec::new());
    wait::until("the last write", LAST_WRITES, async || {
        let (unseen, versions) = look(client).await?;
        if versions != last.1 {
            last = (Instant::now(), versions);
        }
        // Components can be made after all graphs have a status.
        all_seen(&unseen)?;
        if last.0.elapsed() < QUIET { Err("something is still being written".to_owned()) } else { Ok(()) }
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn everything_that_was_recorded_is_taken_over_without_a_write_to_what_runs_pods() -> Result<(), BoxError> {
    let Some(kit) = conformance_kit() else { return Ok(()) };
    let cases = cases(&kit)?;
    assert!(cases.len() > 150, "only {} cases have Deployments", cases.len());
    let mut crds = api_types::crds::all()?.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
    crds.push(open_definition("inference.networking.k8s.io", "v1", "InferencePool", "inferencepools"));
    // No kubelet runs pods here: what would be rolled shows in the Deployments.
    let options = Options { crds, controllers: Controllers::Off, ..Options::default() };
    let cluster = Cluster::start(options).await?;
    let client = cluster.client()?;
    load(&client, cases).await?;
    let before = deployments(&client).await?;
    for binary in [GRAPH_CONTROLLER, COMPONENT_CONTROLLER] {
        cluster.run(&everywhere(binary, cluster.kubeconfig())?).await?;
    }
    until_quiet(&client).await?;
    let after = deployments(&client).await?;
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter_map(|name| match (before.get(name), after.get(name)) {
        (Some(one), Some(other)) if one == other => None,
        (Some(one), Some(other)) => Some(format!("{name}: {}", first_difference(one, other, String::new()))),
        (one, _) => Some(format!("{name} was {}", if one.is_some() { "deleted" } else { "made" })),
    });
    let changed: Vec<_> = changed.collect();
    let shown = changed.iter().take(12).map(|line| format!("\n{line}")).collect::<String>();
    assert!(
        changed.is_empty(),
        "{} of {} Deployments were written, made or deleted:{shown}",
        changed.len(),
        before.len()
    );
    println!("{} Deployments taken over", before.len());
    Ok(cluster.stop().await?)
}
