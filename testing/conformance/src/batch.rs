//! Runs a few dozen cases at once, each in its own namespace.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use serde_json::{Value, json};

use super::{
    conformance_kit::Case,
    input,
    play::make_ready,
    quiet::Movement,
    record::{self, Applied, Course, Snapshot, is_custom, is_recorded},
    server::{Resource, Server},
};

/// Requests at the same time.
const PARALLEL: usize = 6;
/// Number of times that workloads become ready, for operators that create the next one only after that.
const ROUNDS: usize = 4;
const CONFLICT: u16 = 409;

/// Cases that run together.
pub(super) struct Batch<'a> {
    pub(super) server: &'a Server,
    pub(super) mode: &'a str,
    pub(super) cases: &'a [Case],
}

impl Batch<'_> {
    /// Runs the cases and gives their records, in their order.
    pub(super) async fn run(&self, movement: &mut Movement) -> Result<Vec<Value>> {
        let namespaces: HashSet<_> = self.cases.iter().map(Case::namespace).collect();
        stream::iter(&namespaces).map(Ok).try_for_each_concurrent(PARALLEL, |name| self.make_namespace(name)).await?;
        movement.ends().await;
        let applied: Vec<_> =
            stream::iter(self.cases).map(|case| self.apply(case)).buffered(PARALLEL).try_collect().await?;
        let quiet_after_apply = movement.ends().await;
        let pending = self.snapshots(&namespaces).await?;
        let mut course = Course { quiet_after_apply, quiet_after_ready: true, ready_rounds: 0 };
        while course.ready_rounds < ROUNDS
            && make_ready(self.server, |namespace| namespaces.contains(namespace)).await? > 0
        {
            course.ready_rounds += 1;
            course.quiet_after_ready = movement.ends().await;
        }
        let last = if course.ready_rounds > 0 { self.snapshots(&namespaces).await? } else { pending.clone() };
        let none = Snapshot::default();
        let records = self.cases.iter().zip(&applied).map(|(case, applied)| {
            let namespace = case.namespace();
            let snapshot = |of: &HashMap<String, Snapshot>| of.get(&namespace).cloned().unwrap_or_else(|| none.clone());
            record::record(case, self.mode, applied, &snapshot(&pending), &snapshot(&last), course)
        });
        Ok(records.collect())
    }

    async fn make_namespace(&self, name: &str) -> Result<()> {
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"oracle": "true"}},
        });
        let answer = self.server.send(Method::POST, "/api/v1/namespaces", Some(&namespace)).await?;
        anyhow::ensure!(answer.is_ok(), "namespace {name}: {}", answer.body);
        Ok(())
    }

    async fn apply(&self, case: &Case) -> Result<Applied> {
        let mut applied = Applied::default();
        let input = match input::read(&case.input) {
            Ok(input) => input,
            Err(error) => {
                applied.parse_error = Some(format!("{error:#}"));
                return Ok(applied);
            }
        };
        applied.hardware_filled_in = input.hardware_filled_in;
        let namespace = case.namespace();
        for name in &input.claims {
            self.make_claim(&namespace, name, &mut applied).await?;
        }
        for document in input.documents {
            self.create(document, &namespace, &mut applied).await?;
        }
        Ok(applied)
    }

    async fn make_claim(&self, namespace: &str, name: &str, applied: &mut Applied) -> Result<()> {
        let claim = json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
        let answer = self.server.send(Method::POST, &path, Some(&claim)).await?;
        let kind = "PersistentVolumeClaim";
        applied.prerequisites.push(json!({"kind": kind, "name": name, "code": answer.code}));
        applied.made.insert((kind.to_owned(), name.to_owned()));
        Ok(())
    }

    /// Creates one document and takes down what the API server says to it.
    async fn create(&self, mut document: Value, namespace: &str, applied: &mut Applied) -> Result<()> {
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let (api_version, kind, name) = (text("/apiVersion"), text("/kind"), text("/metadata/name"));
        let mut outcome = json!({"apiVersion": api_version, "kind": kind, "name": name});
        let found = self.server.find(api_version.as_deref().unwrap_or_default(), kind.as_deref().unwrap_or_default());
        let Some(resource) = found else {
            outcome["ok"] = false.into();
            outcome["code"] = 0.into();
            outcome["message"] = "kind not served here (document skipped)".into();
            applied.outcomes.push(outcome);
            return Ok(());
        };
        if resource.namespaced {
            document["metadata"]["namespace"] = namespace.into();
        }
        let path = format!("{}?fieldManager=oracle", resource.path(Some(namespace), None));
        let answer = self.server.send(Method::POST, &path, Some(&document)).await?;
        // Cluster-scoped objects may be there from another case.
        outcome["ok"] = (answer.is_ok() || answer.code == CONFLICT && !resource.namespaced).into();
        outcome["code"] = answer.code.into();
        if !answer.warnings.is_empty() {
            outcome["warnings"] = answer.warnings.join(", ").into();
        }
        if answer.is_ok() {
            let name = answer.body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            applied.made.insert((resource.kind.clone(), name.to_owned()));
        } else {
            outcome["message"] = answer.body["message"].clone();
        }
        applied.outcomes.push(outcome);
        Ok(())
    }

    /// Returns the content of each namespace.
    async fn snapshots(&self, namespaces: &HashSet<String>) -> Result<HashMap<String, Snapshot>> {
        let expected = self.server.resources().iter().filter(|resource| is_recorded(resource) || is_custom(resource));
        let lists =
            stream::iter(expected).map(async |resource| anyhow::Ok((resource, self.server.list(resource).await?)));
        let lists: Vec<(&Resource, Vec<Value>)> = lists.buffered(PARALLEL).try_collect().await?;
        let mut found: HashMap<String, Snapshot> = HashMap::new();
        for (resource, objects) in lists {
            for object in objects {
                let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
                if !namespaces.contains(namespace) {
                    continue;
                }
                let snapshot = found.entry(namespace.to_owned()).or_default();
                if is_custom(resource) {
                    let versions: &mut BTreeMap<_, _> = snapshot.customs.entry(record::id(&object)).or_default();
                    versions.insert(resource.version().to_owned(), object.clone());
                }
                if is_recorded(resource) {
                    snapshot.objects.push(object);
                }
            }
        }
        Ok(found)
    }
}
