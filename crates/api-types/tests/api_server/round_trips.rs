//! Real objects, written in one version and read in the other: nothing changes, however they are written back.

use http::Method;
use serde_json::{Value, json};

use crate::{
    server::{Answer, GRAPHS, Server, plural},
    support,
};

const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];

const REQUEST: &str = "DynamoGraphDeploymentRequest";

/// The kinds of the kit's files that have two versions, and requests as they were first written.
const KINDS: [(&str, &str); 5] = [
    ("v1alpha1", "DynamoGraphDeployment"),
    ("v1beta1", "DynamoGraphDeployment"),
    ("v1beta1", "DynamoComponentDeployment"),
    ("v1alpha1", REQUEST),
    ("v1beta1", REQUEST),
];

/// One object on the API server.
struct Stored<'a> {
    server: &'a Server,
    plural: &'a str,
    name: String,
}

impl Stored<'_> {
    fn path(&self, version: &str) -> String {
        format!("{}/{}", self.server.collection_in(version, self.plural), self.name)
    }

    async fn get(&self, version: &str) -> Value {
        self.server.get(&self.path(version)).await.granted()
    }

    async fn replace(&self, version: &str, object: &Value) -> Answer {
        self.server.send(Method::PUT, &self.path(version), "application/json", object).await
    }

    async fn patch(&self, version: &str, patch: &Value) -> Answer {
        self.server.send(Method::PATCH, &self.path(version), "application/merge-patch+json", patch).await
    }

    async fn apply(&self, version: &str, object: &Value) -> Answer {
        let path = format!("{}?fieldManager=user&fieldValidation=Strict", self.path(version));
        self.server.send(Method::PATCH, &path, "application/apply-patch+yaml", object).await
    }
}

/// Returns the part of the output of `kubectl get -o yaml` that a user keeps in a file.
fn manifest(read: &Value) -> Value {
    let mut metadata = json!({ "name": read["metadata"]["name"] });
    for key in ["labels", "annotations"] {
        if let Some(value) = read["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    let mut manifest = json!({ "apiVersion": read["apiVersion"], "kind": read["kind"], "metadata": metadata });
    if let Some(spec) = read.get("spec") {
        manifest["spec"] = spec.clone();
    }
    manifest
}

/// Returns the data that must not change.
fn unmoved(read: &Value) -> Value {
    json!([read["metadata"]["generation"], read["metadata"]["annotations"], read["spec"]])
}

/// Requests of v1alpha1, of which the kit has none: one that says the least, and one that leaves parts of a part to
/// defaults.
fn old_requests() -> Vec<support::Input> {
    let least = json!({ "model": "m", "backend": "vllm", "profilingConfig": { "profilerImage": "p" } });
    let mut partly = least.clone();
    partly["profilingConfig"]["config"] = json!({
        "sla": { "isl": 3000, "ttft": 200.5 }, "deployment": { "modelCache": { "pvcName": "models" } }, "engine": { "a": 1 },
    });
    let request =
        |spec: &Value| json!({ "apiVersion": "nvidia.com/v1alpha1", "kind": REQUEST, "metadata": {}, "spec": spec });
    let input = |spec| support::Input { origin: format!("a request of {spec}"), object: request(spec) };
    [&least, &partly].map(input).into()
}

/// The manifests of the kit, each under a name of its own.
fn manifests(version: &str, kind: &str) -> Vec<support::Input> {
    let named = |(index, mut input): (usize, support::Input)| {
        input.object["metadata"]["name"] = json!(format!("{version}-{index}"));
        input.object["metadata"].as_object_mut().unwrap().remove("namespace");
        input
    };
    let inputs = match (version, kind) {
        ("v1alpha1", REQUEST) => old_requests(),
        _ => support::inputs(version, kind),
    };
    inputs.into_iter().enumerate().map(named).collect()
}

/// Whether the API server is right to refuse an input: two of the recipes have numbers where text must be.
fn is_wrong(input: &support::Input) -> bool {
    input.origin.contains("dynamo-fd")
}

/// Fields with nothing but comments below them are null. When an object is created, the API server takes that as
/// absent; server-side apply refuses it.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

#[tokio::test]
async fn replacing_an_object_by_itself_changes_nothing_in_either_version() {
    let server = Server::new().await;
    for (version, kind) in KINDS {
        let plural = plural(kind);
        for input in manifests(version, kind) {
            let created = server.create_in(version, &plural, &input.object).await;
            if is_wrong(&input) {
                assert_eq!(created.code, 422, "{}", input.origin);
                continue;
            }
            let stored = Stored {
                server: &server,
                plural: &plural,
                name: created.granted()["metadata"]["name"].as_str().unwrap().to_owned(),
            };
            // The API server stores the default of the status with the first write after the creation.
            stored.patch("v1beta1", &json!({})).await.granted();
            let mut read = Vec::new();
            for version in VERSIONS {
                read.push(stored.get(version).await);
            }
            for (version, object) in VERSIONS.iter().zip(&read) {
                let replaced = stored.replace(version, object).await.granted();
                assert_eq!(replaced, *object, "{} in {version}", input.origin);
                let patched = stored.patch(version, &json!({ "spec": object["spec"] })).await.granted();
                assert_eq!(patched, *object, "{} in {version}", input.origin);
            }
            for (version, object) in VERSIONS.iter().zip(&read) {
                assert_eq!(stored.get(version).await, *object, "{} in {version}", input.origin);
            }
        }
    }
}

#[tokio::test]
async fn applying_what_was_read_changes_nothing_in_either_version() {
    let server = Server::new().await;
    for (version, kind) in KINDS {
        let plural = plural(kind);
        let other = VERSIONS.into_iter().find(|other| *other != version).unwrap();
        for mut input in manifests(version, kind).into_iter().filter(|input| !is_wrong(input)) {
            without_nulls(&mut input.object);
            let name = input.object["metadata"]["name"].as_str().unwrap().to_owned();
            let stored = Stored { server: &server, plural: &plural, name };
            stored.apply(version, &input.object).await.granted();
            let (here, there) = (stored.get(version).await, stored.get(other).await);
            for (step, version, object) in [
                ("the same again", version, &input.object),
                ("what was read", version, &manifest(&here)),
                ("what was read in the other version", other, &manifest(&there)),
                ("the same again, after the other version", version, &input.object),
            ] {
                stored.apply(version, object).await.granted();
                let what = format!("{}: {step}", input.origin);
                for before in [&here, &there] {
                    let version = before["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
                    assert_eq!(unmoved(&stored.get(version).await), unmoved(before), "{what}, in {version}");
                }
            }
        }
    }
}

/// An object that is stored through one version can be created anew in the other; users move to another cluster in this
/// way: v1alpha1 never limited the standby engines in pods of their own.
#[tokio::test]
async fn standby_engines_can_be_made_again_in_either_version() {
    let server = Server::new().await;
    let graph = |version: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": format!("nvidia.com/{version}"), "kind": "DynamoGraphDeployment",
            "metadata": { "name": name }, "spec": spec,
        })
    };
    let alpha = json!({ "services": { "decode": {
        "componentType": "worker", "replicas": 1,
        "gpuMemoryService": { "enabled": true, "mode": "interPod" },
        "failover": { "enabled": true, "mode": "interPod", "numShadows": 3 },
    } } });
    let beta = json!({ "components": [{
        "name": "decode", "type": "worker", "replicas": 1,
        "experimental": {
            "gpuMemoryService": { "mode": "InterPod" }, "failover": { "mode": "InterPod", "numShadows": 3 },
        },
    }] });
    for (version, spec) in [("v1alpha1", alpha), ("v1beta1", beta)] {
        let other = VERSIONS.into_iter().find(|other| *other != version).unwrap();
        let stored = |name: &str| Stored { server: &server, plural: GRAPHS, name: format!("{name}-{version}") };
        let (first, second) = (stored("first"), stored("second"));
        server.create_in(version, GRAPHS, &graph(version, &first.name, spec)).await.granted();
        let there = first.get(other).await;
        assert!(there["spec"].to_string().contains("\"numShadows\":3"), "{there:#}");
        server.create_in(other, GRAPHS, &graph(other, &second.name, there["spec"].clone())).await.granted();
        assert_eq!(second.get(version).await["spec"], first.get(version).await["spec"], "{version}");
    }
}

/// The reference's schema takes any word for the phase of a restart, and so must ours: a status that another version of
/// an operator wrote is written back whenever anything else of it changes.
#[tokio::test]
async fn a_restart_may_be_in_an_unknown_phase() {
    let server = Server::new().await;
    for version in VERSIONS {
        let stored = Stored { server: &server, plural: GRAPHS, name: format!("phase-{version}") };
        let graph = json!({
            "apiVersion": format!("nvidia.com/{version}"), "kind": "DynamoGraphDeployment",
            "metadata": { "name": stored.name }, "spec": {},
        });
        server.create_in(version, GRAPHS, &graph).await.granted();
        let status = json!({ "state": "pending", "restart": { "observedID": "1", "phase": "Thinking" } });
        server.patch_status(&stored.path(version), &status).await.granted();
        for read in VERSIONS {
            let live = stored.get(read).await;
            assert_eq!(live["status"]["restart"]["phase"], "Thinking", "{version} read in {read}");
            stored.replace(read, &live).await.granted();
        }
        let typed: api_types::v1beta1::DynamoGraphDeployment =
            serde_json::from_value(stored.get("v1beta1").await).unwrap();
        assert_eq!(json!(typed.status)["restart"], status["restart"]);
    }
}
