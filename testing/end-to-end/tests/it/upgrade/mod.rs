//! The chart is upgraded and rolled back while graphs run: neither they nor what runs for them change, rights are those
//! of the version that is installed, and in the end nothing of the operator is left.

mod release;

use std::time::Duration;

use api_types::v1beta1::{DynamoComponentDeployment, DynamoGraphDeployment};
use end_to_end::{BoxError, Harness, private_harness};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        apps::v1::Deployment,
        batch::v1::Job,
        core::v1::{Service, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
};
use kube::{
    ResourceExt,
    api::{Api, ListParams},
};
use release::{NAMESPACE, PREFIX, RELEASE, Release};
use serde_json::{Value, json};
use test_cluster::wait;

use crate::graphs::disaggregated;

const LIMIT: Duration = Duration::from_secs(120);
/// No webhook server answers here: its pods run nothing.
const VALUES: [&str; 4] =
    ["--set", "dynamo-operator.webhook.failurePolicy=Ignore", "--set", "dynamo-operator.webhook.timeoutSeconds=1"];

/// Returns the constant parts of all objects of a kind whose names begin with `prefix`: their identity, generation and
/// spec.
async fn of_kind<K>(harness: &Harness, prefix: &str) -> Result<Vec<Value>, BoxError>
where
    K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + std::fmt::Debug,
    K: k8s_openapi::serde::de::DeserializeOwned + k8s_openapi::serde::Serialize,
{
    let objects = harness.api::<K>().list(&ListParams::default()).await?;
    let own = objects.iter().filter(|object| object.name_any().starts_with(prefix));
    let kept = own.map(|object| {
        let spec = serde_json::to_value(object)?["spec"].take();
        let meta = object.meta();
        Ok(json!({ "kind": K::kind(&()), "name": meta.name, "uid": meta.uid, "generation": meta.generation, "spec": spec }))
    });
    kept.collect()
}

/// Lists the constant parts of a graph and its workloads.
async fn workloads(harness: &Harness, graph: &str) -> Result<Vec<Value>, BoxError> {
    let mut all = of_kind::<DynamoGraphDeployment>(harness, graph).await?;
    all.extend(of_kind::<DynamoComponentDeployment>(harness, graph).await?);
    all.extend(of_kind::<Deployment>(harness, graph).await?);
    all.extend(of_kind::<Service>(harness, graph).await?);
    Ok(all)
}

/// Whether the graph controller has the right that only the older version has.
async fn has_old_right(harness: &Harness) -> Result<bool, BoxError> {
    let role = Api::<ClusterRole>::all(harness.client.clone()).get(&format!("{PREFIX}graph-controller")).await?;
    Ok(role.rules.unwrap_or_default().iter().any(|rule| rule.verbs.contains(&"deletecollection".to_owned())))
}

/// The controllers of the present release look at everything, and a graph that comes now is served, its planner's
/// account bound.
async fn serves(harness: &Harness, release: &Release<'_>, name: &str) -> Result<(), BoxError> {
    release.start_controllers().await?;
    let mut graph = disaggregated(name, "1.0.0", 1, 1);
    let planner = json!({
        "name": "Planner", "type": "planner", "replicas": 1,
        "podTemplate": { "spec": { "containers": [{ "name": "main", "image": "registry.example/planner:1.5.0" }] } },
    });
    graph["spec"]["components"].as_array_mut().ok_or("no components")?.push(planner);
    harness.apply(&graph).await?;
    harness.ready(name).await?;
    let bindings = harness.api::<RoleBinding>();
    wait::until("the planner's account to be bound", LIMIT, async || {
        let found = bindings.get("planner-serviceaccount-binding").await.map_err(|error| error.to_string())?;
        let role = found.role_ref.name;
        if role == format!("{PREFIX}planner") { Ok(()) } else { Err(role) }
    })
    .await?;
    Ok(())
}

/// Returns the remaining objects of the release.
async fn left(release: &Release<'_>) -> Result<Vec<String>, BoxError> {
    let mut left = release.objects::<ClusterRole>().await?;
    left.extend(release.objects::<ClusterRoleBinding>().await?);
    left.extend(release.objects::<ValidatingWebhookConfiguration>().await?);
    left.extend(release.objects::<MutatingWebhookConfiguration>().await?);
    left.extend(release.objects::<Role>().await?);
    left.extend(release.objects::<RoleBinding>().await?);
    left.extend(release.objects::<ServiceAccount>().await?);
    left.extend(release.objects::<Deployment>().await?);
    left.extend(release.objects::<Job>().await?);
    Ok(left)
}

#[tokio::test]
async fn an_upgrade_and_the_way_back_change_nothing_that_runs() -> Result<(), BoxError> {
    let harness = private_harness("upgrade").await?;
    let release = Release::prepare(&harness).await?;
    let (older, newer) = (release.older.display().to_string(), release.newer.display().to_string());
    release.helm(&[&["install", RELEASE, &older][..], &VALUES].concat()).await?;
    let (old_image, old_objects) = (release.image().await?, left(&release).await?);
    assert!(has_old_right(&harness).await? && !old_objects.is_empty(), "{old_objects:?}");
    serves(&harness, &release, "chat").await?;
    let before = workloads(&harness, "chat").await?;

    release.helm(&["upgrade", RELEASE, &newer, "--reset-then-reuse-values"]).await?;
    assert_ne!(release.image().await?, old_image, "each version has images of its own");
    assert!(!has_old_right(&harness).await?, "a right that is no longer needed is gone");
    assert_eq!(
        left(&release).await?,
        old_objects,
        "the same objects, and none of the Job that applied the definitions"
    );
    serves(&harness, &release, "later").await?;
    assert_eq!(workloads(&harness, "chat").await?, before);

    release.helm(&["rollback", RELEASE, "1"]).await?;
    assert_eq!(release.image().await?, old_image);
    assert!(has_old_right(&harness).await?);
    assert_eq!(left(&release).await?, old_objects);
    serves(&harness, &release, "last").await?;
    assert_eq!(workloads(&harness, "chat").await?, before);

    release.helm(&["uninstall", RELEASE]).await?;
    // Pods of graphs go on discovering each other.
    let kept = ["ClusterRole dynamo-operator-discovery"];
    assert_eq!(left(&release).await?, kept, "in {NAMESPACE}, elsewhere and in the cluster");
    assert_eq!(workloads(&harness, "chat").await?, before);
    Ok(())
}
