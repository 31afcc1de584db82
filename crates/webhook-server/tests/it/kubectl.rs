//! Requests of kubectl and GitOps tools, for every kind that has two versions, in both.

use kube::{
    ResourceExt,
    api::{Api, DynamicObject, Patch, PatchParams, PostParams},
};
use serde_json::{Map, Value, json};
use test_cluster::TestNamespace;

use crate::{
    common::{objects, stored},
    manifests::{KINDS, Kind},
    namespace,
    versions::{VERSIONS, other, subset},
};

pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const MANAGER: &str = "argocd-controller";

fn api(namespace: &TestNamespace, kind: &Kind, version: &str) -> Api<DynamicObject> {
    objects(namespace, kind.name, version)
}

/// Every kind in every version, and what to call it.
fn cases() -> impl Iterator<Item = (&'static Kind, &'static str, String)> {
    KINDS.iter().flat_map(|kind| VERSIONS.map(|version| (kind, version, format!("{} in {version}", kind.name))))
}

async fn server_side(api: &Api<DynamicObject>, manifest: &Value, dry_run: bool) -> DynamicObject {
    let params = PatchParams { dry_run, ..PatchParams::apply(MANAGER) };
    api.patch("chat", &params, &Patch::Apply(manifest)).await.unwrap()
}

/// Writes as `kubectl apply` without `--server-side`: creates the object with the manifest in an annotation, later
/// sends a merge patch that also removes the fields that the last manifest had and this one lacks.
async fn client_side(api: &Api<DynamicObject>, manifest: &Value, dry_run: bool) -> DynamicObject {
    let mut annotated = manifest.clone();
    annotated["metadata"]["annotations"][LAST_APPLIED] = json!(manifest.to_string());
    let Some(live) = api.get_opt("chat").await.unwrap() else {
        let object = serde_json::from_value(annotated).unwrap();
        return api.create(&PostParams { dry_run, ..PostParams::default() }, &object).await.unwrap();
    };
    let last: Value = serde_json::from_str(&live.annotations()[LAST_APPLIED]).unwrap();
    let live = serde_json::to_value(&live).unwrap();
    let patch = three_way(Some(&last), &annotated, &live).unwrap_or(json!({}));
    api.patch("chat", &PatchParams { dry_run, ..PatchParams::default() }, &Patch::Merge(&patch)).await.unwrap()
}

/// The merge patch that kubectl sends for custom resources: what the last manifest had and this one has not goes.
pub fn three_way(last: Option<&Value>, expected: &Value, live: &Value) -> Option<Value> {
    let (Value::Object(expected), Value::Object(live)) = (expected, live) else {
        return (expected != live).then(|| expected.clone());
    };
    let mut patch = Map::new();
    for (key, value) in expected {
        let last = last.and_then(|last| last.get(key));
        let change = live.get(key).map_or(Some(value.clone()), |live| three_way(last, value, live));
        patch.extend(change.map(|change| (key.clone(), change)));
    }
    let gone = last.and_then(Value::as_object).into_iter().flatten().filter(|(key, _)| !expected.contains_key(*key));
    patch.extend(gone.filter(|(key, _)| live.contains_key(*key)).map(|(key, _)| (key.clone(), Value::Null)));
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The live spec as a new object from this manifest would have it.
async fn assert_is(namespace: &TestNamespace, kind: &Kind, version: &str, manifest: &Value) {
    let live = api(namespace, kind, version).get("chat").await.unwrap();
    let mut fresh: DynamicObject = serde_json::from_value(manifest.clone()).unwrap();
    fresh.metadata.name = Some("fresh".to_owned());
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let fresh = api(namespace, kind, version).create(&dry_run, &fresh).await.unwrap();
    assert_eq!(live.data["spec"], fresh.data["spec"], "{} in {version}", kind.name);
    let both = api(namespace, kind, other(version)).get("chat").await.unwrap();
    assert_eq!(both.metadata.resource_version, live.metadata.resource_version);
}

#[tokio::test]
async fn apply_follows_the_manifest_and_changes_nothing_when_it_is_the_same() {
    let namespace = namespace("apply").await;
    for (kind, version, what) in cases() {
        let api = api(&namespace, kind, version);
        let first = (kind.manifest)(version, 2, true);
        let apply = async || client_side(&api, &first, false).await;
        apply().await;
        let created = stored(&api, "chat").await;
        let again = apply().await;
        assert_eq!(again.metadata.resource_version, created.metadata.resource_version, "{what}");
        let second = (kind.manifest)(version, 3, false);
        let changed = client_side(&api, &second, false).await;
        assert_eq!(changed.metadata.generation, created.metadata.generation.map(|generation| generation + 1));
        assert_is(&namespace, kind, version, &second).await;
        api.delete("chat", &Default::default()).await.unwrap();
    }
}

#[tokio::test]
async fn server_side_apply_follows_the_manifest_and_changes_nothing_when_it_is_the_same() {
    let namespace = namespace("ssa").await;
    for (kind, version, what) in cases() {
        let api = api(&namespace, kind, version);
        let apply = async || server_side(&api, &(kind.manifest)(version, 2, true), false).await;
        apply().await;
        let created = stored(&api, "chat").await;
        let again = apply().await;
        assert_eq!(again.metadata.resource_version, created.metadata.resource_version, "{what}");
        server_side(&api, &(kind.manifest)(version, 3, false), false).await;
        assert_is(&namespace, kind, version, &(kind.manifest)(version, 3, false)).await;
        api.delete("chat", &Default::default()).await.unwrap();
    }
}

/// Server-side apply of a manifest in the other version than the one that was applied last, with pruning of
/// what the new one leaves out, makes the API server convert parts of objects; the Go operator dropped their metadata.
#[tokio::test]
async fn a_manifest_that_moves_to_the_other_version_takes_its_fields_along() {
    let namespace = namespace("moves").await;
    for (kind, version, what) in cases() {
        let mut first = (kind.manifest)(version, 2, true);
        first["metadata"]["labels"] = json!({ "pruned": "yes", "kept": "yes" });
        server_side(&api(&namespace, kind, version), &first, false).await;
        let moved = other(version);
        let mut second = (kind.manifest)(moved, 2, false);
        second["metadata"]["labels"] = json!({ "kept": "yes" });
        let live = server_side(&api(&namespace, kind, moved), &second, false).await;
        assert_eq!(live.labels().keys().collect::<Vec<_>>(), ["kept"], "{what} to {moved}");
        assert!(subset(&second["spec"], &live.data["spec"]), "{what} to {moved}: {:#}", live.data);
        let left = kind.optional.is_some_and(|word| live.data["spec"].to_string().contains(word));
        assert!(!left, "{what} to {moved}: {:#}", live.data);
        let again = server_side(&api(&namespace, kind, moved), &second, false).await;
        assert_eq!(again.metadata.resource_version, live.metadata.resource_version);
        api(&namespace, kind, version).delete("chat", &Default::default()).await.unwrap();
    }
}

/// Two managers, each in its own version, each with fields of its own.
#[tokio::test]
async fn managers_of_different_versions_keep_their_fields() {
    let namespace = namespace("managers").await;
    for (kind, version, _) in cases() {
        server_side(&api(&namespace, kind, version), &(kind.manifest)(version, 2, true), false).await;
        let mine = json!({
            "apiVersion": format!("nvidia.com/{}", other(version)), "kind": kind.name,
            "metadata": { "name": "chat", "annotations": { "example.com/owner": "ann" } },
        });
        let params = PatchParams::apply("another-manager");
        api(&namespace, kind, other(version)).patch("chat", &params, &Patch::Apply(&mine)).await.unwrap();
        let live = server_side(&api(&namespace, kind, version), &(kind.manifest)(version, 4, false), false).await;
        assert_eq!(live.annotations()["example.com/owner"], "ann");
        assert_is(&namespace, kind, version, &(kind.manifest)(version, 4, false)).await;
        api(&namespace, kind, version).delete("chat", &Default::default()).await.unwrap();
    }
}

#[tokio::test]
async fn replace_sets_the_whole_object() {
    let namespace = namespace("replace").await;
    for (kind, version, _) in cases() {
        let api = api(&namespace, kind, version);
        let created = client_side(&api, &(kind.manifest)(version, 2, true), false).await;
        let mut second: DynamicObject = serde_json::from_value((kind.manifest)(version, 3, false)).unwrap();
        second.metadata.resource_version = created.metadata.resource_version.clone();
        api.replace("chat", &PostParams::default(), &second).await.unwrap();
        assert_is(&namespace, kind, version, &(kind.manifest)(version, 3, false)).await;
        second.metadata.resource_version = created.metadata.resource_version;
        let stale = api.replace("chat", &PostParams::default(), &second).await.unwrap_err();
        assert!(matches!(stale, kube::Error::Api(status) if status.code == 409));
        api.delete("chat", &Default::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_patch_changes_what_it_names() {
    let namespace = namespace("patch").await;
    for (kind, version, _) in cases() {
        let api = api(&namespace, kind, version);
        client_side(&api, &(kind.manifest)(version, 2, true), false).await;
        let path = kind.number_in(version);
        let operations =
            json!([{ "op": "test", "path": path, "value": 2 }, { "op": "replace", "path": path, "value": 5 }]);
        let patch = Patch::<Value>::Json(serde_json::from_value(operations).unwrap());
        api.patch("chat", &PatchParams::default(), &patch).await.unwrap();
        assert_is(&namespace, kind, version, &(kind.manifest)(version, 5, true)).await;
        let merge = json!({ "metadata": { "labels": { "a": "b" } } });
        let patched = api.patch("chat", &PatchParams::default(), &Patch::Merge(&merge)).await.unwrap();
        assert_eq!((patched.labels()["a"].as_str(), patched.metadata.generation), ("b", Some(2)));
        api.delete("chat", &Default::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_dry_run_answers_as_the_real_one_and_stores_nothing() {
    let namespace = namespace("dry-run").await;
    for (kind, version, what) in cases() {
        let api = api(&namespace, kind, version);
        for how in ["create", "apply"] {
            let manifest = (kind.manifest)(version, 2, true);
            let made = if how == "create" {
                client_side(&api, &manifest, true).await
            } else {
                server_side(&api, &manifest, true).await
            };
            assert!(subset(&manifest["spec"], &made.data["spec"]));
            assert!(api.get_opt("chat").await.unwrap().is_none(), "{what} {how}");
        }
        let created = client_side(&api, &(kind.manifest)(version, 2, true), false).await;
        let changed = (kind.manifest)(version, 3, false);
        let seen = client_side(&api, &changed, true).await;
        assert!(subset(&changed["spec"], &seen.data["spec"]));
        let mut whole: DynamicObject = serde_json::from_value(changed.clone()).unwrap();
        whole.metadata.resource_version.clone_from(&created.metadata.resource_version);
        let seen = api.replace("chat", &PostParams { dry_run: true, ..PostParams::default() }, &whole).await.unwrap();
        assert!(subset(&changed["spec"], &seen.data["spec"]));
        assert_eq!(api.get("chat").await.unwrap().metadata.resource_version, created.metadata.resource_version);
        api.delete("chat", &Default::default()).await.unwrap();
    }
}

/// `kubectl diff` shows what a dry run of apply would change: nothing, for a manifest that is applied already.
#[tokio::test]
async fn a_diff_of_what_is_applied_is_empty_and_of_a_change_is_the_change() {
    let namespace = namespace("diff").await;
    for (kind, version, what) in cases() {
        let api = api(&namespace, kind, version);
        let manifest = (kind.manifest)(version, 2, true);
        for side in ["client", "server"] {
            let mut diffs = Vec::new();
            for dry_run in [false, true] {
                diffs.push(match side {
                    "client" => client_side(&api, &manifest, dry_run).await,
                    _ => server_side(&api, &manifest, dry_run).await,
                });
            }
            let shown = |object: &DynamicObject| {
                let mut object = object.clone();
                object.metadata.managed_fields = None;
                serde_json::to_value(object).unwrap()
            };
            assert_eq!(shown(&diffs[0]), shown(&diffs[1]), "{what} {side}");
            let changed = match side {
                "client" => client_side(&api, &(kind.manifest)(version, 7, true), true).await,
                _ => server_side(&api, &(kind.manifest)(version, 7, true), true).await,
            };
            assert!(subset(&(kind.manifest)(version, 7, true)["spec"], &changed.data["spec"]), "{what} {side}");
            api.delete("chat", &Default::default()).await.unwrap();
        }
    }
}
