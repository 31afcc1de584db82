//! Objects that were stored in v1alpha1, as the Go operator did for a year.

use futures::{StreamExt, stream};
use http::Request;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Client, ResourceExt,
    api::{Api, Patch, PatchParams},
};
use serde_json::{Value, json};
use test_cluster::{Cluster, Controllers, Options};

use crate::{apply, converter::Converter, stdout};

pub const PLURALS: [&str; 4] = [
    "dynamographdeployments",
    "dynamocomponentdeployments",
    "dynamographdeploymentrequests",
    "dynamographdeploymentscalingadapters",
];
/// More than the program reads at a time.
const ADAPTERS: usize = 510;

/// The definitions as they were: v1alpha1 only, and models in a second version that is not served any more.
pub fn former() -> Vec<CustomResourceDefinition> {
    let mut crds = api_types::crds::all().unwrap();
    for crd in &mut crds {
        crd.spec.conversion = None;
        crd.spec.versions.retain(|version| version.name == "v1alpha1");
        crd.spec.versions[0].storage = true;
        crd.spec.versions[0].deprecated = None;
        crd.spec.versions[0].deprecation_warning = None;
        if crd.spec.names.plural == "dynamomodels" {
            let mut second = crd.spec.versions[0].clone();
            second.name = "v0".to_owned();
            second.storage = false;
            crd.spec.versions.push(second);
        }
    }
    crds
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": kind, "metadata": { "name": name }, "spec": spec })
}

fn objects() -> Vec<(&'static str, Value)> {
    let service = json!({
        "componentType": "main", "envFromSecret": "s", "resources": { "limits": { "gpu": "1" } },
        "extraPodSpec": { "mainContainer": { "image": "i", "env": [{ "name": "A", "value": "1" }] } },
    });
    let adapter = |i: usize| {
        let spec = json!({ "replicas": 1, "dgdRef": { "name": "g", "serviceName": "w" } });
        (PLURALS[3], object("DynamoGraphDeploymentScalingAdapter", &format!("a-{i}"), &spec))
    };
    let request = json!({ "model": "m", "backend": "vllm", "profilingConfig": { "profilerImage": "p" } });
    let others = [
        (PLURALS[0], object("DynamoGraphDeployment", "g", &json!({ "services": { "W": service } }))),
        (PLURALS[1], object("DynamoComponentDeployment", "c", &service)),
        (PLURALS[2], object("DynamoGraphDeploymentRequest", "r", &request)),
    ];
    others.into_iter().chain((0..ADAPTERS).map(adapter)).collect()
}

struct Server(Client);

impl Server {
    async fn send(&self, request: http::request::Builder, body: Vec<u8>) -> Value {
        self.0.request(request.body(body).unwrap()).await.unwrap()
    }

    fn path(version: &str, plural: &str) -> String {
        format!("/apis/nvidia.com/{version}/namespaces/default/{plural}")
    }

    async fn create(&self, plural: &str, object: &Value) {
        let request = Request::post(Self::path("v1alpha1", plural)).header("content-type", "application/json");
        self.send(request, serde_json::to_vec(object).unwrap()).await;
    }

    async fn list(&self, version: &str, plural: &str) -> Vec<Value> {
        let list = self.send(Request::get(Self::path(version, plural)), Vec::new()).await;
        list["items"].as_array().unwrap().clone()
    }

    async fn apply(&self, version: &str, plural: &str, name: &str, body: &Value) -> Value {
        let request = Request::patch(format!("{}/{name}?fieldManager=test&force=true", Self::path(version, plural)));
        let request = request.header("content-type", "application/apply-patch+yaml");
        self.send(request, serde_json::to_vec(body).unwrap()).await
    }
}

/// A model that was written in a version which is gone; the API server cannot merge fields of it any more.
async fn model_of_a_version_that_is_gone(server: &Server, api: &Api<CustomResourceDefinition>) -> Value {
    let mut model = object("DynamoModel", "m", &json!({ "modelName": "m", "baseModelName": "b", "modelType": "base" }));
    model["apiVersion"] = json!("nvidia.com/v0");
    server.apply("v0", "dynamomodels", "m", &model).await;
    let gone = json!([{ "op": "remove", "path": "/spec/versions/1" }]);
    let gone = Patch::Json::<()>(serde_json::from_value(gone).unwrap());
    let crd = api.patch("dynamomodels.nvidia.com", &PatchParams::default(), &gone).await.unwrap();
    assert_eq!(crd.spec.versions[0].name, "v1alpha1");
    model["apiVersion"] = json!("nvidia.com/v1alpha1");
    model
}

async fn stored_versions(api: &Api<CustomResourceDefinition>, plural: &str) -> Vec<String> {
    api.get_status(&format!("{plural}.nvidia.com")).await.unwrap().status.unwrap().stored_versions.unwrap()
}

/// Returns data that must not change when an object is stored anew.
fn identity(object: &Value) -> Value {
    json!([object["metadata"]["name"], object["metadata"]["uid"], object["metadata"]["generation"], object["spec"]])
}

async fn identities(server: &Server) -> Vec<Value> {
    let mut all = Vec::new();
    for plural in PLURALS {
        all.extend(server.list("v1alpha1", plural).await.iter().map(identity));
    }
    all
}

#[tokio::test]
async fn objects_are_stored_anew_and_the_old_version_is_forgotten() {
    let crds: Vec<Value> = former().iter().map(|crd| json!(crd)).collect();
    let options = Options { controllers: Controllers::Off, crds, ..Options::default() };
    let cluster = Cluster::start(options).await.unwrap();
    let client: Client = cluster.client().unwrap();
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let server = Server(client.clone());
    stream::iter(objects())
        .for_each_concurrent(16, async |(plural, object)| server.create(plural, &object).await)
        .await;
    let model = model_of_a_version_that_is_gone(&server, &api).await;
    let before = identities(&server).await;

    // Definitions alone need no webhook, which cannot be there before they are.
    let converter = Converter::start();
    let mut definitions = apply(cluster.kubeconfig());
    definitions.args(["--skip-migration", "--timeout", "120", "--webhook-service", &converter.service().to_string()]);
    stdout(&definitions.output().unwrap());
    for plural in PLURALS {
        assert_eq!(stored_versions(&api, plural).await, ["v1alpha1", "v1beta1"], "{plural}");
    }

    // Two at once. Both wait for the webhook, whose certificate is not known yet.
    converter.expose(&client).await;
    let apply = || {
        let mut command = apply(cluster.kubeconfig());
        command.args(["--timeout", "120", "--webhook-service", &converter.service().to_string()]);
        command
    };
    let at_once: Vec<_> = (0..2).map(|_| apply().spawn().unwrap()).collect();
    converter.inject(&client).await;
    let outputs: Vec<_> = at_once.into_iter().map(|child| stdout(&child.wait_with_output().unwrap())).collect();
    let rewritten =
        outputs.iter().filter(|out| out.contains("dynamographdeploymentscalingadapters.nvidia.com migrated:"));
    assert!(rewritten.count() > 0, "{outputs:?}");

    for plural in PLURALS {
        assert_eq!(stored_versions(&api, plural).await, ["v1beta1"], "{plural}");
    }
    assert_eq!(identities(&server).await, before);
    let again = stdout(&apply().output().unwrap());
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");

    // Without a webhook nothing can be converted; what is stored in v1beta1 is read all the same.
    drop(converter);
    let mut read = 0;
    for plural in PLURALS {
        read += server.list("v1beta1", plural).await.len();
    }
    assert_eq!(read, before.len());

    let applied = server.apply("v1alpha1", "dynamomodels", "m", &model).await;
    assert_eq!(applied["spec"], model["spec"]);
    let managers: Vec<_> =
        applied["metadata"]["managedFields"].as_array().unwrap().iter().map(|f| &f["apiVersion"]).collect();
    assert!(managers.iter().all(|version| *version == "nvidia.com/v1alpha1"), "{managers:?}");
    assert!(
        api.get("dynamomodels.nvidia.com")
            .await
            .unwrap()
            .annotations()
            .contains_key("crd-migration.nvidia.com/observed-generation")
    );
}
