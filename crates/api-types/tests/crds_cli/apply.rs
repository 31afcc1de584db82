//! `crds apply` on clusters of its own.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Client, ResourceExt,
    api::{Api, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use test_cluster::{Cluster, Controllers, Options};

use crate::{apply, converter::Converter, failure, stdout};

/// A foreign definition that already has the kind of our graphs.
fn rival() -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "rivals.nvidia.com" },
        "spec": {
            "group": "nvidia.com",
            "scope": "Namespaced",
            "names": { "plural": "rivals", "kind": "DynamoGraphDeployment" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } },
            }],
        },
    }))
    .unwrap()
}

async fn versions(api: &Api<CustomResourceDefinition>) -> Vec<(String, Option<String>)> {
    let crds = api.list(&ListParams::default()).await.unwrap();
    crds.iter().map(|crd| (crd.name_any(), crd.resource_version())).collect()
}

async fn is_established(api: &Api<CustomResourceDefinition>, name: &str) -> bool {
    let crd = api.get_opt(name).await.unwrap();
    let conditions = crd.and_then(|crd| crd.status).and_then(|status| status.conditions).unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "Established" && c.status == "True")
}

/// Names that are taken: the definition is there, and its API is not served.
#[tokio::test]
async fn apply_reports_that_a_rival_has_the_names() {
    let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client().unwrap());
    api.create(&PostParams::default(), &rival()).await.unwrap();
    wait(async || is_established(&api, "rivals.nvidia.com").await).await;
    let (code, text) = failure(apply(cluster.kubeconfig()));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("dynamographdeployments.nvidia.com was applied but is not served"), "{text}");
    assert!(text.contains("already in use"), "{text}");
}

/// The life of an installation on a cluster of its own: installed by several at once, kept unchanged, repaired.
#[tokio::test]
async fn apply_installs_once_and_repairs() {
    let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
    let client: Client = cluster.client().unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client);
    let kubeconfig = cluster.kubeconfig().to_owned();

    let at_once: Vec<_> = (0..4).map(|_| apply(&kubeconfig).spawn().unwrap()).collect();
    for child in at_once {
        stdout(&child.wait_with_output().unwrap());
    }
    let installed = versions(&api).await;
    let count = api_types::crds::all().unwrap().len();
    assert_eq!(installed.len(), count, "{installed:?}");
    for (name, _) in &installed {
        assert!(is_established(&api, name).await, "{name}");
    }

    let again = stdout(&apply(&kubeconfig).output().unwrap());
    assert!(again.lines().count() == count && again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    assert_eq!(versions(&api).await, installed, "nothing was written");

    let mut changed = api.get("dynamographdeployments.nvidia.com").await.unwrap();
    changed.spec.versions[0].schema = rival().spec.versions[0].schema.clone();
    api.replace("dynamographdeployments.nvidia.com", &PostParams::default(), &changed).await.unwrap();
    let repaired = stdout(&apply(&kubeconfig).output().unwrap());
    assert!(repaired.contains("dynamographdeployments.nvidia.com updated\n"), "{repaired}");
    let schema = api.get("dynamographdeployments.nvidia.com").await.unwrap().spec.versions[0].schema.clone();
    assert_eq!(json!(schema), json!(api_types::crds::all().unwrap()[0].spec.versions[0].schema));
}

pub async fn wait(condition: impl AsyncFn() -> bool) {
    let what = "the API server to follow";
    test_cluster::wait::until(what, Duration::from_secs(300), async || -> Result<(), &str> {
        if condition().await { Ok(()) } else { Err("not yet") }
    })
    .await
    .unwrap();
}

const GRAPHS: &str = "dynamographdeployments.nvidia.com";
const MODELS: &str = "dynamomodels.nvidia.com";

/// Definitions that already have content: of another program, of a later release.
#[tokio::test]
async fn apply_respects_what_others_wrote() {
    let cluster = Cluster::start(Options { controllers: Controllers::Off, ..Options::default() }).await.unwrap();
    let client: Client = cluster.client().unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let kubeconfig = cluster.kubeconfig().to_owned();
    let params = PatchParams { field_manager: Some("another-manager".to_owned()), ..PatchParams::default() };

    // A later release stores models in a version that this one lacks.
    let mut later = api_types::crds::all().unwrap().into_iter().find(|crd| crd.name_any() == MODELS).unwrap();
    let mut version = later.spec.versions[0].clone();
    version.name = "v1beta1".to_owned();
    later.spec.versions[0].storage = false;
    later.spec.versions.push(version);
    api.create(&PostParams::default(), &later).await.unwrap();
    wait(async || is_established(&api, MODELS).await).await;
    let before = versions(&api).await;
    let (code, text) = failure(apply(&kubeconfig));
    assert_eq!(code, 1, "{text}");
    for part in [MODELS, "v1beta1", "v1alpha1", "older", "newer one"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(versions(&api).await, before, "nothing was written");

    // It is rolled back the right way: it stores models in the old version again, and serves the new one.
    later.spec.versions[0].storage = true;
    later.spec.versions[1].storage = false;
    later.metadata.managed_fields = None;
    let rolled_back = Patch::Apply(&later);
    api.patch(MODELS, &PatchParams::apply("another-manager").force(), &rolled_back).await.unwrap();
    stdout(&apply(&kubeconfig).output().unwrap());
    let served = api.get(MODELS).await.unwrap().spec.versions;
    let served: Vec<_> = served.iter().map(|version| (version.name.as_str(), version.served)).collect();
    assert_eq!(served, [("v1alpha1", true), ("v1beta1", true)]);

    // The owner of the certificate added its CA bundle.
    let converter = Converter::start();
    converter.inject(&client).await;
    let conversion = async || json!(api.get(GRAPHS).await.unwrap().spec.conversion)["webhook"]["clientConfig"].clone();
    let injected = conversion().await["caBundle"].clone();
    assert!(injected.is_string());
    let again = stdout(&apply(&kubeconfig).output().unwrap());
    assert!(again.contains(&format!("{GRAPHS} unchanged\n")), "{again}");
    let moved = stdout(&apply(&kubeconfig).args(["--webhook-service", "here/there:8443"]).output().unwrap());
    assert!(moved.contains(&format!("{GRAPHS} updated\n")), "{moved}");
    let service = json!({ "namespace": "here", "name": "there", "path": "/convert", "port": 8443 });
    assert_eq!(conversion().await, json!({ "service": service, "caBundle": injected }));
    let kept = stdout(&apply(&kubeconfig).output().unwrap());
    assert!(kept.contains(&format!("{GRAPHS} unchanged\n")), "the Service stays where no flag names another: {kept}");

    // Another program's annotations stay as well.
    let note = json!({ "metadata": { "annotations": { "cert-manager.io/inject-ca-from": "a/b" } } });
    api.patch(GRAPHS, &params, &Patch::Merge(note)).await.unwrap();
    stdout(&apply(&kubeconfig).output().unwrap());
    assert_eq!(api.get(GRAPHS).await.unwrap().annotations()["cert-manager.io/inject-ca-from"], "a/b");
    stdout(&apply(&kubeconfig).args(["--webhook-service", "here/there"]).output().unwrap());
    assert_eq!(conversion().await["service"]["port"], 443, "a port that is not given goes");
}
