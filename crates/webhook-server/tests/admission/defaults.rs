//! Tests of the defaults.

use serde_json::{Value, json};
use webhook_server::admission::{AdmissionPath, Answer, Facts, Request, review};

use crate::support::*;

fn bare() -> Value {
    edited(&graph(), |g| {
        g["metadata"]["annotations"] = json!(null);
        for index in [0, 1] {
            g["spec"]["components"][index]["replicas"] = json!(null);
        }
    })
}

fn defaulted(request: &Request, facts: &Facts) -> Value {
    patched(AdmissionPath::DefaultGraph, request, facts)
}

fn annotations(graph: &Value) -> (&Value, &Value) {
    let all = &graph["metadata"]["annotations"];
    (&all["nvidia.com/workload-provider"], &all["nvidia.com/dynamo-operator-origin-version"])
}

#[test]
fn new_graphs_are_stamped() {
    let opted_out =
        |value: &str| edited(&bare(), |g| g["metadata"]["annotations"] = json!({ "nvidia.com/enable-grove": value }));
    let forged = edited(&bare(), |g| {
        g["metadata"]["annotations"] =
            json!({ "nvidia.com/workload-provider": "grove", "nvidia.com/dynamo-operator-origin-version": "1.2.0" });
    });
    for (graph, facts, provider, origin) in [
        (bare(), facts(), "component", "1.5.0"),
        (bare(), grove(), "grove", "1.5.0"),
        (opted_out("FALSE"), grove(), "component", "1.5.0"),
        (opted_out("no"), grove(), "grove", "1.5.0"),
        (forged, facts(), "component", "1.2.0"),
    ] {
        assert_eq!(annotations(&defaulted(&creation(graph), &facts)), (&json!(provider), &json!(origin)));
    }
    let unstamped = edited(&bare(), |g| g["metadata"]["annotations"] = json!({}));
    let updated = defaulted(&change(unstamped.clone(), unstamped), &grove());
    assert_eq!(annotations(&updated), (&Value::Null, &Value::Null), "old graphs are adopted by the controller");
    assert_eq!(updated["spec"]["components"][0]["minAvailable"], Value::Null);
    assert_eq!(updated["spec"]["components"][0]["replicas"], 1);
}

#[test]
fn components_get_replicas_and_on_grove_availability() {
    for (facts, available) in [(facts(), Value::Null), (grove(), json!(1))] {
        let graph = edited(&bare(), |g| g["spec"]["components"][1]["replicas"] = json!(0));
        let graph = defaulted(&creation(graph), &facts);
        assert_eq!(graph["spec"]["components"][0]["replicas"], 1);
        assert_eq!(graph["spec"]["components"][1]["replicas"], 0);
        assert_eq!(graph["spec"]["components"][1]["minAvailable"], available);
    }
}

/// A manifest without replicas does not undo what an adapter has set.
#[test]
fn replicas_that_an_adapter_has_set_are_kept() {
    let with = |replicas: Value, adapter: Value| {
        edited(&graph(), |g| {
            g["spec"]["components"][1]["replicas"] = replicas;
            g["spec"]["components"][1]["scalingAdapter"] = adapter;
        })
    };
    let replicas =
        |old: Value, new: Value| defaulted(&change(old, new), &facts())["spec"]["components"][1]["replicas"].clone();
    assert_eq!(replicas(with(json!(5), json!({})), with(json!(null), json!({}))), 5);
    assert_eq!(replicas(with(json!(5), json!(null)), with(json!(null), json!(null))), 1);
    assert_eq!(replicas(with(json!(5), json!({})), with(json!(2), json!({}))), 2);
}

/// The graph with workers of the second component in its configuration.
fn with_workers(graph: &Value, workers: Value) -> Value {
    let config =
        json!({ graph["spec"]["components"][1]["name"].as_str().unwrap(): { "ServiceArgs": { "workers": workers } } });
    edited(graph, |g| g["spec"]["env"] = json!([{ "name": "DYN_DEPLOYMENT_CONFIG", "value": config.to_string() }]))
}

fn replicas(request: &Request, facts: &Facts) -> Value {
    defaulted(request, facts)["spec"]["components"][1]["replicas"].clone()
}

/// The main container of the second component.
fn main(graph: &mut Value) -> &mut Value {
    let containers = graph["spec"]["components"][1]["podTemplate"]["spec"]["containers"].as_array_mut().unwrap();
    containers.iter_mut().find(|container| container["name"] == "main").unwrap()
}

/// `DYN_DEPLOYMENT_CONFIG` of the legacy API sets replicas where no field does.
#[test]
fn workers_of_the_configuration_become_replicas() {
    let three = with_workers(&bare(), json!(3));
    assert_eq!(replicas(&creation(three.clone()), &facts()), 3);
    let first = defaulted(&creation(three.clone()), &facts())["spec"]["components"][0]["replicas"].clone();
    assert_eq!(first, 1, "it is about another");
    for unusable in [json!(-1), json!("3"), json!(null)] {
        assert_eq!(replicas(&creation(with_workers(&bare(), unusable.clone())), &facts()), 1, "{unusable}");
    }
    let given = edited(&three, |g| g["spec"]["components"][1]["replicas"] = json!(2));
    assert_eq!(replicas(&creation(given), &facts()), 2, "the user's number takes precedence");

    let name = bare()["spec"]["components"][1]["name"].as_str().unwrap().to_owned();
    let own = edited(&three, |g| {
        let config = json!({ name.as_str(): { "ServiceArgs": { "workers": 5 } } }).to_string();
        main(g)["env"] = json!([{ "name": "DYN_DEPLOYMENT_CONFIG", "value": config }]);
    });
    assert_eq!(replicas(&creation(own), &facts()), 5, "the component's own configuration wins");

    // On Grove engines read it themselves, unless the image is built from an archive.
    assert_eq!(replicas(&creation(three.clone()), &grove()), 1);
    let built = edited(&three, |g| {
        let said = json!({ "dynamoComponent": "chat:v1" }).to_string();
        g["metadata"]["annotations"] = json!({ "nvidia.com/dgd-spec": said });
        main(g)["image"] = json!(null);
    });
    assert_eq!(replicas(&creation(built), &grove()), 3);
}

#[test]
fn replicas_of_the_configuration_follow_it() {
    let with = |workers: i64, replicas: Value| {
        let bare = edited(&bare(), |g| g["metadata"]["annotations"] = graph()["metadata"]["annotations"].clone());
        edited(&with_workers(&bare, json!(workers)), |g| g["spec"]["components"][1]["replicas"] = replicas)
    };
    let updated = |old: &Value, new: Value| replicas(&change(old.clone(), new), &facts());
    let stored = with(3, json!(3));
    assert_eq!(updated(&stored, with(3, json!(null))), 3, "a manifest without replicas says nothing new");
    assert_eq!(updated(&stored, with(5, json!(null))), 5);
    assert_eq!(updated(&stored, with(5, json!(3))), 5, "what was filled in comes back with an apply");
    assert_eq!(updated(&stored, with(3, json!(4))), 4, "it is being scaled");
    assert_eq!(updated(&with(3, json!(4)), with(5, json!(4))), 4, "it has been scaled");
    let scaled = |graph: &Value| edited(graph, |g| g["spec"]["components"][1]["scalingAdapter"] = json!({}));
    assert_eq!(updated(&scaled(&stored), scaled(&with(5, json!(3)))), 3, "the adapter's count has precedence");
    assert_eq!(updated(&scaled(&with(3, json!(7))), scaled(&with(5, json!(null)))), 7);
}

#[test]
fn fragments_get_their_target() {
    let graph = edited(&bare(), |g| {
        let fragment = json!({ "apiVersion": "grove.io/v1alpha1", "value": {} });
        g["spec"]["providerOverride"] = fragment.clone();
        g["spec"]["components"][0]["providerOverride"] = json!({ "apiVersion": "grove.io/v9", "value": {} });
        g["spec"]["components"][1]["providerOverride"] = fragment.clone();
        g["spec"]["components"][1]["multinode"] =
            json!({ "nodeCount": 2, "leader": { "providerOverride": fragment }, "worker": {} });
    });
    let on_grove = defaulted(&creation(graph.clone()), &grove());
    assert_eq!(on_grove["spec"]["providerOverride"]["target"], "PodCliqueSet");
    assert_eq!(on_grove["spec"]["components"][0]["providerOverride"]["target"], Value::Null);
    assert_eq!(on_grove["spec"]["components"][1]["providerOverride"]["target"], "PodCliqueScalingGroupConfig");
    let leader = &on_grove["spec"]["components"][1]["multinode"]["leader"];
    assert_eq!(leader["providerOverride"]["target"], "PodCliqueTemplateSpec");
    assert_eq!(on_grove["spec"]["components"][1]["multinode"]["worker"], json!({}));
    let plain = defaulted(&creation(graph), &facts());
    assert_eq!(plain["spec"]["providerOverride"]["target"], Value::Null);
}

#[test]
fn graphs_of_v1alpha1_get_the_same() {
    let alpha = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
        "metadata": { "name": "llama", "namespace": "team" },
        "spec": { "services": { "Frontend": { "componentType": "frontend" }, "gone": null } },
    });
    let graph = defaulted(&creation(alpha), &grove());
    assert_eq!(annotations(&graph), (&json!("grove"), &json!("1.5.0")));
    let frontend = json!({ "componentType": "frontend", "replicas": 1, "minAvailable": 1 });
    assert_eq!(graph["spec"]["services"], json!({ "Frontend": frontend, "gone": null }));
}

#[test]
fn components_on_their_own_have_the_name_of_their_object() {
    let unnamed = edited(&component(), |c| c["spec"]["name"] = json!(null));
    let path = AdmissionPath::DefaultComponent;
    assert_eq!(patched(path, &creation(unnamed.clone()), &facts())["spec"]["name"], "decode");
    assert_eq!(patched(path, &creation(component()), &facts()), component());
    assert_eq!(patched(path, &change(unnamed.clone(), unnamed.clone()), &facts()), unnamed);
    let generated = edited(&unnamed, |c| c["metadata"] = json!({ "generateName": "decode-" }));
    assert_eq!(patched(path, &creation(generated.clone()), &facts()), generated);
}

#[test]
fn requests_get_an_image() {
    let request = json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": { "name": "profile", "namespace": "team" }, "spec": { "model": "m" },
    });
    let repository = "nvcr.io/nvidia/ai-dynamo/dynamo-planner";
    for (version, given, expected) in [
        ("1.5.0", None, json!(format!("{repository}:1.5.0"))),
        ("v1.5", None, json!(format!("{repository}:1.5.0"))),
        ("1.5.0-rc.1+abc", None, json!(format!("{repository}:1.5.0-rc.1"))),
        ("unknown", None, Value::Null),
        ("unknown", Some("mine:1"), json!("mine:1")),
        ("1.5.0", Some(""), json!(format!("{repository}:1.5.0"))),
    ] {
        let facts = Facts { operator_version: version.to_owned(), request_image: given.map(str::to_owned), ..facts() };
        let path = AdmissionPath::DefaultRequest;
        assert_eq!(patched(path, &creation(request.clone()), &facts)["spec"]["image"], expected, "{version} {given:?}");
        assert_eq!(patched(path, &change(request.clone(), request.clone()), &facts), request, "only new ones");
    }
}

#[test]
fn what_is_being_deleted_gets_nothing() {
    let deleting = edited(&bare(), |g| g["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"));
    assert_eq!(defaulted(&change(bare(), deleting.clone()), &facts()), deleting);
}

#[test]
fn another_kind_is_refused_with_a_word_for_the_administrator() {
    let answer = review(AdmissionPath::DefaultGraph, &creation(component()), &facts());
    let Answer::Deny { violations, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(violations[0].path, "kind");
    assert!(violations[0].remedy.contains("webhook configurations"), "{}", violations[0]);
}
