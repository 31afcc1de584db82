//! `schemas/kubernetes.json` is what the pinned API server publishes about Kubernetes' types.

use std::{collections::BTreeMap, path::Path};

use api_types::schema::kubernetes::{REFERENCE_PREFIX, ROOTS, built_in};
use serde_json::{Map, Value};

use crate::server::Server;

/// The API server's documents that hold the definitions.
const DOCUMENTS: [&str; 3] = ["/openapi/v3/api/v1", "/openapi/v3/apis/batch/v1", "/openapi/v3/apis/autoscaling/v2"];

/// With `UPDATE_EXPECT=1` the test writes the file; `cargo xtask crds schemas` runs it so.
#[tokio::test]
async fn they_are_the_api_servers_own() {
    let update = std::env::var_os("UPDATE_EXPECT").is_some();
    // Our definitions cannot be made before the file has all that they refer to.
    let server = if update { Server::with(&[]).await } else { Server::new().await };
    let mut published = Map::new();
    for path in DOCUMENTS {
        let mut document = server.get(path).await.granted();
        published.extend(document["components"]["schemas"].as_object_mut().map(std::mem::take).unwrap());
    }
    let mut definitions = BTreeMap::new();
    for root in ROOTS {
        collect(root, &published, &mut definitions);
    }
    let published = serde_json::to_string(&definitions).unwrap() + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/kubernetes.json");
    if update {
        std::fs::write(&path, published).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == published, "{} is out of date; run `cargo xtask crds schemas`", path.display());
}

/// Takes the definition `name` and those that it refers to.
fn collect(name: &str, all: &Map<String, Value>, into: &mut BTreeMap<String, Value>) {
    if built_in(name).is_some() || into.contains_key(name) {
        return;
    }
    let definition = trimmed(&all[name]);
    let references = references(&definition);
    into.insert(name.to_owned(), definition);
    for reference in references {
        collect(&reference, all, into);
    }
}

fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(fields) => {
            let own = fields.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix(REFERENCE_PREFIX));
            own.map(str::to_owned).into_iter().chain(fields.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

/// The schema without descriptions and without what only strategic merge patches and client generators read.
fn trimmed(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => Value::Object(trimmed_fields(fields)),
        Value::Array(items) => items.iter().map(trimmed).collect(),
        other => other.clone(),
    }
}

fn trimmed_fields(fields: &Map<String, Value>) -> Map<String, Value> {
    let unneeded = |keyword: &str| {
        matches!(keyword, "description" | "x-kubernetes-unions" | "x-kubernetes-group-version-kind")
            || keyword.starts_with("x-kubernetes-patch-")
    };
    let kept = fields.iter().filter(|(keyword, _)| !unneeded(keyword));
    let mut sorted: BTreeMap<String, Value> = BTreeMap::new();
    for (keyword, value) in kept {
        let value = match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                let properties: BTreeMap<_, _> =
                    properties.iter().map(|(name, p)| (name.clone(), trimmed(p))).collect();
                Value::Object(properties.into_iter().collect())
            }
            _ => trimmed(value),
        };
        sorted.insert(keyword.clone(), value);
    }
    sorted.into_iter().collect()
}
