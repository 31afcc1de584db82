//! Writes of the applier, and above all the writes that it omits.

use controller_kit::{
    apply::{ApplyOutcome, Desired, Removed, RequestError},
    failure::{Class, ErrorType, Failure},
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use kube::{
    Resource, ResourceExt,
    api::{ApiResource, DeleteParams, PostParams},
};
use serde_json::{Value, json};

use crate::{Bench, D, deployment};

#[tokio::test]
async fn what_is_as_desired_is_never_written_again() {
    let bench = Bench::new("skip").await;
    let desired = bench.desired::<D>(deployment(0, "i:1"));
    let ApplyOutcome::Created(created) = bench.apply::<D>(&desired).await else { panic!("not created") };
    assert_eq!(bench.apply::<D>(&desired).await, ApplyOutcome::Unchanged);
    assert_eq!(bench.live::<D>("d").await.unwrap()["metadata"]["generation"], created["metadata"]["generation"]);
    let text = bench.metrics.text();
    assert!(text.contains("api_writes_total{verb=\"create\",kind=\"Deployment\",accepted=\"true\"} 1\n"), "{text}");
    assert!(!text.contains("verb=\"update\""), "{text}");
    assert!(text.contains("api_writes_skipped_total{kind=\"Deployment\"} 1\n"), "{text}");
}

#[tokio::test]
async fn drift_is_repaired_and_what_others_add_stays() {
    let bench = Bench::new("drift").await;
    let desired = bench.desired::<D>(deployment(0, "i:1"));
    bench.apply::<D>(&desired).await;
    let containers = json!([{ "name": "main", "image": "wrong" }, { "name": "sidecar", "image": "s" }]);
    let labels = json!({ "ours": null, "theirs": "x" });
    bench
        .meddle::<D>("d", json!({ "metadata": { "labels": labels }, "spec": { "template": { "spec": { "containers": containers } } } }))
        .await;
    let ApplyOutcome::Updated(repaired) = bench.apply::<D>(&desired).await else { panic!("not repaired") };
    assert_eq!(repaired["metadata"]["labels"], json!({ "ours": "yes", "theirs": "x" }));
    let images: Vec<&Value> =
        repaired["spec"]["template"]["spec"]["containers"].as_array().unwrap().iter().map(|c| &c["image"]).collect();
    assert_eq!(images, ["i:1", "s"]);
    assert_eq!(bench.apply::<D>(&desired).await, ApplyOutcome::Unchanged);
}

/// Found defect: a controller that changes a field back each time was answered at once each time, for ever.
#[tokio::test]
async fn an_object_that_another_controller_changes_back_each_time_is_left_for_a_while() {
    let bench = Bench::new("contested").await;
    let desired = bench.desired::<D>(deployment(0, "i:1"));
    bench.apply::<D>(&desired).await;
    let mut corrected = 0;
    let error = loop {
        bench.meddle::<D>("d", json!({ "spec": { "replicas": 3 } })).await;
        let live = bench.live::<D>("d").await;
        match bench.applier.apply(&desired, live.as_ref()).await {
            Ok(ApplyOutcome::Updated(_)) if corrected < 100 => corrected += 1,
            Err(error) => break error,
            answer => panic!("{corrected}: {answer:?}"),
        }
    };
    assert_eq!((corrected, error.class()), (10, Class::Forbidden));
    assert!(error.to_string().contains("spec.replicas was corrected 10 times within 60s"), "{error}");
    assert_eq!(bench.live::<D>("d").await.unwrap()["spec"]["replicas"], 3);
    // Another plan is no correction.
    let desired = bench.desired::<D>(deployment(1, "i:1"));
    assert!(matches!(bench.apply::<D>(&desired).await, ApplyOutcome::Updated(_)));
}

#[tokio::test]
async fn a_field_that_is_no_longer_desired_goes() {
    let bench = Bench::new("shrink").await;
    let mut before = deployment(0, "i:1");
    before["metadata"]["labels"]["old"] = json!("x");
    before["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["--old"]);
    bench.apply::<D>(&bench.desired::<D>(before)).await;
    let desired = bench.desired::<D>(deployment(0, "i:1"));
    let ApplyOutcome::Updated(after) = bench.apply::<D>(&desired).await else { panic!("not updated") };
    assert_eq!(after["metadata"]["labels"], json!({ "ours": "yes" }));
    assert_eq!(after["spec"]["template"]["spec"]["containers"][0].get("args"), None);
    assert_eq!(bench.apply::<D>(&desired).await, ApplyOutcome::Unchanged);
}

#[tokio::test]
async fn an_object_of_another_owner_is_not_touched_even_if_the_cache_lacks_it() {
    let bench = Bench::new("foreign").await;
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": "d" } })).unwrap();
    bench.api().create(&PostParams::default(), &account).await.unwrap();
    let mut other = deployment(3, "theirs");
    other["spec"]["selector"]["matchLabels"] = json!({ "app": "theirs" });
    other["spec"]["template"]["metadata"]["labels"] = json!({ "app": "theirs" });
    let other: D = serde_json::from_value(other).unwrap();
    bench.api().create(&PostParams::default(), &other).await.unwrap();

    let account = bench.live::<ServiceAccount>("d").await.unwrap();
    let deployed = bench.api::<D>().get("d").await.unwrap();
    for desired in [
        bench.desired::<ServiceAccount>(json!({ "metadata": { "name": "d", "labels": { "ours": "yes" } } })),
        bench.desired::<D>(deployment(0, "i:1")),
    ] {
        let error = bench.applier.apply(&desired, None).await.unwrap_err();
        assert!(matches!(error, RequestError::Foreign { .. }), "{error}");
        assert_eq!(error.class(), Class::Foreign);
        let words = format!("{} already exists and is not managed by this object: it has no controller", desired.id());
        assert!(error.to_string().starts_with(&words), "{error}");
    }
    assert_eq!(bench.live::<ServiceAccount>("d").await.unwrap(), account);
    let now = bench.api::<D>().get("d").await.unwrap();
    assert_eq!((now.spec, now.metadata.labels), (deployed.spec, deployed.metadata.labels));
}

#[tokio::test]
async fn a_stale_cache_costs_a_request_and_no_object() {
    let bench = Bench::new("stale").await;
    let desired = bench.desired::<D>(deployment(0, "i:1"));
    let ApplyOutcome::Created(first) = bench.apply::<D>(&desired).await else { panic!("not created") };
    let newer = bench.desired::<D>(deployment(0, "i:2"));
    let ApplyOutcome::Updated(second) = bench.applier.apply(&newer, None).await.unwrap() else { panic!("not applied") };
    assert_eq!(second["metadata"]["uid"], first["metadata"]["uid"]);
    assert_eq!(second["spec"]["template"]["spec"]["containers"][0]["image"], "i:2");
}

#[tokio::test]
async fn two_parents_that_desire_one_name_do_not_take_it_from_each_other() {
    let bench = Bench::new("collide").await;
    let service = |app: &str| json!({ "metadata": { "name": "s" }, "spec": { "selector": { "app": app }, "ports": [{ "port": 80 }] } });
    let ours = bench.desired::<Service>(service("ours"));
    bench.applier.apply(&ours, None).await.unwrap();
    let mut theirs = ours.object().clone();
    theirs["spec"]["selector"] = json!({ "app": "theirs" });
    theirs["metadata"]["ownerReferences"][0]["name"] = json!("another");
    theirs["metadata"]["ownerReferences"][0]["uid"] = json!("another-uid");
    let theirs = Desired::dynamic(ApiResource::erase::<Service>(&()), theirs, "another-uid").unwrap();
    let error = bench.applier.apply(&theirs, None).await.unwrap_err();
    assert!(error.to_string().contains("its controller is ConfigMap parent"), "{error}");
    assert_eq!(bench.live::<Service>("s").await.unwrap()["spec"]["selector"], json!({ "app": "ours" }));
}

#[tokio::test]
async fn an_update_never_creates_and_never_hits_a_successor() {
    let bench = Bench::new("uid").await;
    let desired = |value: &str| json!({ "metadata": { "name": "c" }, "data": { "k": value } });
    bench.apply::<ConfigMap>(&bench.desired::<ConfigMap>(desired("1"))).await;
    let seen = bench.live::<ConfigMap>("c").await.unwrap();
    bench.api::<ConfigMap>().delete("c", &DeleteParams::default()).await.unwrap();

    let newer = bench.desired::<ConfigMap>(desired("2"));
    let error = bench.applier.apply(&newer, Some(&seen)).await.unwrap_err();
    assert_eq!((error.error_type(), error.class()), (ErrorType::Conflict, Class::Transient), "{error}");
    assert_eq!(bench.live::<ConfigMap>("c").await, None, "an update must not create");

    let theirs: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "c" } })).unwrap();
    bench.api().create(&PostParams::default(), &theirs).await.unwrap();
    let successor = bench.live::<ConfigMap>("c").await.unwrap();
    let error = bench.applier.apply(&newer, Some(&seen)).await.unwrap_err();
    assert!(matches!(error, RequestError::Changed { .. }), "{error}");
    assert_eq!(bench.live::<ConfigMap>("c").await.unwrap(), successor);
}

#[tokio::test]
async fn an_orphan_of_the_same_graph_is_adopted_and_no_other() {
    let bench = Bench::new("adopt").await;
    let orphan = |graph: &str| -> ServiceAccount {
        serde_json::from_value(json!({ "metadata": { "name": "a", "labels": { "graph": graph } } })).unwrap()
    };
    let account = bench.api().create(&PostParams::default(), &orphan("g")).await.unwrap();
    let desired = json!({ "metadata": { "name": "a", "labels": { "graph": "g" } } });
    let strict = bench.desired::<ServiceAccount>(desired.clone());
    assert!(bench.applier.apply(&strict, None).await.is_err(), "it is not declared that it may be adopted");
    let wrong = strict.clone().adopt_if_labelled("graph", "other");
    assert!(bench.applier.apply(&wrong, None).await.is_err());
    let desired = strict.adopt_if_labelled("graph", "g");
    let ApplyOutcome::Updated(adopted) = bench.applier.apply(&desired, None).await.unwrap() else {
        panic!("not adopted")
    };
    assert_eq!(adopted["metadata"]["uid"], json!(account.uid()), "the same object");
    assert_eq!(adopted["metadata"]["ownerReferences"][0]["uid"], json!(bench.uid()));
    assert_eq!(bench.apply::<ServiceAccount>(&desired).await, ApplyOutcome::Unchanged);
}

#[tokio::test]
async fn a_field_that_the_server_never_shows_is_not_sent_for_ever() {
    let bench = Bench::new("settle").await;
    let desired = json!({ "metadata": { "name": "s" }, "stringData": { "k": "v" } });
    let desired = bench.desired::<Secret>(desired);
    bench.apply::<Secret>(&desired).await;
    assert_eq!(bench.apply::<Secret>(&desired).await, ApplyOutcome::Unchanged, "the server would only drop it again");
    let forged = json!({ "metadata": { "annotations": { "operator.dynamo/applied": "something-else" } } });
    bench.meddle::<Secret>("s", forged).await;
    assert!(matches!(bench.apply::<Secret>(&desired).await, ApplyOutcome::Updated(_)), "a new difference is repaired");
}

#[tokio::test]
async fn a_rejected_object_is_reported_with_the_message_of_the_server() {
    let bench = Bench::new("invalid").await;
    let mut desired = deployment(0, "i:1");
    desired["spec"]["template"]["metadata"]["labels"] = json!({ "app": "another" });
    let error = bench.applier.apply(&bench.desired::<D>(desired), None).await.unwrap_err();
    assert_eq!(error.class(), Class::Invalid);
    assert!(error.to_string().contains("`selector` does not match template `labels`"), "{error}");
}

#[tokio::test]
async fn a_deletion_hits_exactly_one_object() {
    let bench = Bench::new("delete").await;
    let desired = bench.desired::<ConfigMap>(json!({ "metadata": { "name": "c" } }));
    bench.apply::<ConfigMap>(&desired).await;
    let first = bench.api::<ConfigMap>().get("c").await.unwrap();
    assert_eq!(bench.applier.delete(&first, &bench.uid()).await.unwrap(), Removed::Accepted);
    assert_eq!(bench.applier.delete(&first, &bench.uid()).await.unwrap(), Removed::Gone);
    bench.apply::<ConfigMap>(&desired).await;
    assert_eq!(bench.applier.delete(&first, &bench.uid()).await.unwrap(), Removed::Gone, "another uid");
    assert_ne!(bench.api::<ConfigMap>().get("c").await.unwrap().meta().uid, first.metadata.uid);
}

#[tokio::test]
async fn a_plan_on_an_older_version_is_not_applied() {
    let bench = Bench::new("unchanged").await;
    // A Service: no controller writes to it.
    let service = |port: u16| json!({ "metadata": { "name": "s" }, "spec": { "selector": { "app": "a" }, "ports": [{ "port": port }] } });
    let ApplyOutcome::Created(seen) = bench.apply::<Service>(&bench.desired::<Service>(service(1))).await else {
        panic!("not created")
    };
    bench.meddle::<Service>("s", json!({ "metadata": { "labels": { "theirs": "x" } } })).await;
    let desired = bench.desired::<Service>(service(2)).only_if_unchanged();
    for view in [Some(&seen), None] {
        let error = bench.applier.apply(&desired, view).await.unwrap_err();
        assert_eq!((error.error_type(), error.class()), (ErrorType::Conflict, Class::Transient), "{error}");
        assert_eq!(bench.live::<Service>("s").await.unwrap()["spec"]["ports"][0]["port"], 1);
    }
    let ApplyOutcome::Updated(after) = bench.apply::<Service>(&desired).await else { panic!("not updated") };
    assert_eq!(after["spec"]["ports"][0]["port"], 2);
}

/// The cache may be behind by any number of versions, in both directions, or lack the object.
#[tokio::test]
async fn a_field_is_written_only_on_the_version_that_it_was_planned_on() {
    let bench = Bench::new("planned-on").await;
    let config =
        |count: &str, other: &str| json!({ "metadata": { "name": "c" }, "data": { "count": count, "other": other } });
    let desired = |count: &str, other: &str, version: &str| {
        bench.desired::<ConfigMap>(config(count, other)).based_on(version, "/data/count")
    };
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let ApplyOutcome::Created(first) = bench.applier.apply(&desired("4", "a", ""), None).await.unwrap() else {
        panic!("not created")
    };
    bench.meddle::<ConfigMap>("c", json!({ "data": { "count": "6" } })).await;
    let now = bench.live::<ConfigMap>("c").await.unwrap();
    // Planned on the first version; the cache has it, or has come to the newer one since, or lost the object.
    for view in [Some(&first), Some(&now), None] {
        for count in ["3", "5"] {
            let error = bench.applier.apply(&desired(count, "a", &version(&first)), view).await.unwrap_err();
            assert_eq!((error.error_type(), error.class()), (ErrorType::Conflict, Class::Transient), "{error}");
            assert_eq!(bench.live::<ConfigMap>("c").await.unwrap()["data"]["count"], "6");
        }
    }
    // Planned without the object: everything else is written.
    let error = bench.applier.apply(&desired("4", "b", ""), None).await.unwrap_err();
    assert_eq!(error.class(), Class::Transient, "{error}");
    let found = bench.live::<ConfigMap>("c").await.unwrap();
    assert_eq!(found["data"], json!({ "count": "6", "other": "b" }));
    let outcome = bench.applier.apply(&desired("3", "b", &version(&found)), Some(&found)).await.unwrap();
    assert!(matches!(outcome, ApplyOutcome::Updated(after) if after["data"]["count"] == "3"));
}

#[tokio::test]
async fn an_object_that_changed_is_not_deleted_on_an_older_view() {
    let bench = Bench::new("deleteold").await;
    bench.apply::<ConfigMap>(&bench.desired::<ConfigMap>(json!({ "metadata": { "name": "c" } }))).await;
    let seen = bench.api::<ConfigMap>().get("c").await.unwrap();
    bench.meddle::<ConfigMap>("c", json!({ "data": { "k": "v" } })).await;
    let error = bench.applier.delete_unchanged(&seen, &bench.uid()).await.unwrap_err();
    assert!(matches!(error, RequestError::Changed { .. }), "{error}");
    assert_eq!(error.class(), Class::Transient);
    let now = bench.api::<ConfigMap>().get("c").await.unwrap();
    assert_eq!(bench.applier.delete_unchanged(&now, &bench.uid()).await.unwrap(), Removed::Accepted);
    assert_eq!(bench.applier.delete_unchanged(&now, &bench.uid()).await.unwrap(), Removed::Gone);
}

/// Found defect: a resource limit that was taken back to `{}` on Grove was rejected for ever.
#[tokio::test]
async fn an_object_of_a_custom_resource_may_lose_all_its_fields() {
    let bench = Bench::new("emptied").await;
    let things = |name: &str, properties: Value| json!({ name: { "type": "object", "properties": properties } });
    let limits = json!({ "limits": { "type": "object", "additionalProperties": { "type": "string" } } });
    let schema = json!({ "type": "object", "properties": things("spec", things("resources", limits)) });
    let version = json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "limited.emptied.example" },
        "spec": { "group": "emptied.example", "scope": "Namespaced", "versions": [version],
            "names": { "kind": "Limited", "plural": "limited" } },
    });
    test_cluster::shared(&[]).await.unwrap().install_crds(&[definition]).await.unwrap();
    let resource = ApiResource {
        group: "emptied.example".to_owned(),
        version: "v1".to_owned(),
        api_version: "emptied.example/v1".to_owned(),
        kind: "Limited".to_owned(),
        plural: "limited".to_owned(),
    };
    let apply = async |spec: Value| {
        let owner = bench.parent.controller_owner_ref(&()).unwrap();
        let object = json!({ "spec": spec, "metadata": {
            "name": "one", "namespace": bench.namespace.name(), "ownerReferences": [owner] } });
        let desired = Desired::dynamic(resource.clone(), object, &bench.uid()).unwrap();
        let live = bench.applier.read(&resource, desired.id()).await.unwrap();
        let outcome = bench.applier.apply(&desired, live.as_ref()).await.unwrap();
        (outcome, bench.applier.read(&resource, desired.id()).await.unwrap().unwrap()["spec"].take())
    };
    for spec in [json!({ "resources": { "limits": {} } }), json!({ "resources": {} })] {
        apply(json!({ "resources": { "limits": { "cpu": "1" } } })).await;
        let (outcome, live) = apply(spec.clone()).await;
        assert!(matches!(outcome, ApplyOutcome::Updated(_)), "{outcome:?}");
        assert_eq!(live, spec);
        assert_eq!(apply(spec).await.0, ApplyOutcome::Unchanged);
        // What was applied meanwhile has no other owner: it goes when it is no longer desired.
        assert_eq!(apply(json!({})).await.1, json!({}));
    }
}
