//! Tests of the target revision, in every situation of live objects.

use api_types::{
    annotations::{PREVIOUS_REVISIONS, ROLLOUT},
    v1beta1::{BackendFramework, DynamoGraphDeployment},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::*;
use crate::graph::{
    fixtures::{NOW, graph, graph_with, grove, live, observed, set_image, valid},
    model::GraphPlan,
    plan::plan,
    validate::validate,
};

/// Subject of an edit, and the edit of the graph's JSON.
type Edit = (&'static str, fn(&mut Value));

fn target_of(graph: &DynamoGraphDeployment, workers: &[&DynamoComponentDeployment]) -> TargetRevision {
    target(&valid(graph), workers)
}

/// The worker that a fresh deployment of `graph` makes.
fn worker(graph: &DynamoGraphDeployment) -> DynamoComponentDeployment {
    let valid = valid(graph);
    let plan = plan(&valid, &observed(graph, vec![]), NOW);
    live(plan.components.iter().find(|d| d.spec.component.is_worker()).unwrap(), 4)
}

/// The same made by an operator without fingerprints, under its own suffix.
fn foreign_worker(graph: &DynamoGraphDeployment, suffix: &str) -> DynamoComponentDeployment {
    let own = worker(graph);
    let own_suffix = suffix_of(&own).unwrap().to_string();
    let text = serde_json::to_string(&own).unwrap().replace(&own_suffix, suffix);
    let mut foreign: DynamoComponentDeployment = serde_json::from_str(&text).unwrap();
    foreign.metadata.annotations = None;
    foreign
}

#[test]
fn a_fresh_graph_gets_the_suffix_of_its_fingerprint() {
    let got = target_of(&graph(), &[]);
    assert_eq!(got.suffix, Some(RevisionSuffix::of(&got.fingerprint, 0)));
}

#[test]
fn what_does_not_reach_pods_is_no_new_revision() {
    let base = target_of(&graph(), &[]).fingerprint;
    let edits: [Edit; 6] = [
        ("replicas", |g| g["spec"]["components"][1]["replicas"] = json!(9)),
        ("adapter", |g| g["spec"]["components"][1]["scalingAdapter"] = json!({})),
        ("version", |g| g["spec"]["components"][1]["runtimeVersionOverride"] = json!("1.5.0")),
        ("frontend image", |g| {
            g["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["image"] = json!("other:2");
        }),
        ("bookkeeping", |g| {
            g["metadata"]["annotations"] = json!({ "nvidia.com/current-worker-hash": "a7137ff9",
                "nvidia.com/dynamo-operator-origin-version": "1.4.0", "nvidia.com/workload-provider": "component" });
        }),
        ("order", |g| g["spec"]["components"].as_array_mut().unwrap().reverse()),
    ];
    for (what, edit) in edits {
        assert_eq!(target_of(&graph_with(edit), &[]).fingerprint, base, "{what}");
    }
}

/// A graph that runs as components is judged by what the cluster serves when it is applied again, and then named by its
/// status.
#[test]
fn what_only_grove_serves_stays_out_of_components() {
    let base = target_of(&graph(), &[]).fingerprint;
    let graph = graph_with(|g| {
        let fragment = json!({ "apiVersion": "grove.io/v1alpha1", "target": "PodClique", "value": {} });
        for component in g["spec"]["components"].as_array_mut().unwrap() {
            component["minAvailable"] = json!(1);
            component["providerOverride"] = fragment.clone();
            component["experimental"] = json!({ "grove": { "forceScalingGroup": true } });
        }
    });
    for d in plan(&valid(&graph), &observed(&graph, vec![]), NOW).components {
        let spec = json!(d.spec);
        for field in ["minAvailable", "providerOverride"] {
            assert_eq!(spec.get(field), None, "{}", d.name_any());
        }
        assert_eq!(spec.pointer("/experimental/grove"), None, "{}", d.name_any());
    }
    assert_eq!(target_of(&graph, &[]).fingerprint, base);

    // On Grove they make pods what they are.
    let fingerprint = |graph: &DynamoGraphDeployment| {
        let observed = grove::observed(graph);
        target(&validate(&observed, grove::settings()).unwrap(), &[]).fingerprint
    };
    let forced = graph_with(|g| {
        g["spec"]["components"][1]["experimental"] = json!({ "grove": { "forceScalingGroup": true } });
    });
    assert_ne!(fingerprint(&forced), fingerprint(&crate::graph::fixtures::graph()));
}

#[test]
fn what_reaches_worker_pods_is_a_new_revision() {
    let base = target_of(&graph(), &[]).fingerprint;
    let edits: [Edit; 5] = [
        ("image", |g| set_image(g, "1.6.0")),
        ("graph env", |g| g["spec"]["env"] = json!([{ "name": "A", "value": "b" }])),
        ("graph labels", |g| g["spec"]["labels"] = json!({ "team": "a" })),
        ("shared memory", |g| g["spec"]["components"][1]["sharedMemorySize"] = json!("1Gi")),
        ("discovery mode", |g| {
            g["metadata"]["annotations"] = json!({ "nvidia.com/dynamo-kube-discovery-mode": "container" })
        }),
    ];
    for (what, edit) in edits {
        assert_ne!(target_of(&graph_with(edit), &[]).fingerprint, base, "{what}");
    }
}

#[test]
fn a_known_fingerprint_keeps_its_suffix_even_if_contents_drifted() {
    let mut known = worker(&graph());
    known.spec.component.pod_template = None;
    assert_eq!(target_of(&graph(), &[&known]).suffix, suffix_of(&known));
}

#[test]
fn a_revision_of_another_operator_is_adopted_if_it_holds_what_is_expected() {
    let foreign = foreign_worker(&graph(), "a7137ff9");
    assert_eq!(target_of(&graph(), &[&foreign]).suffix, Some(RevisionSuffix::from_label("a7137ff9")));
    let edited = graph_with(|g| set_image(g, "1.6.0"));
    assert_ne!(target_of(&edited, &[&foreign]).suffix, Some(RevisionSuffix::from_label("a7137ff9")));
}

#[test]
fn going_back_finds_the_old_revision_again() {
    let (first, second) = (graph(), graph_with(|g| set_image(g, "1.6.0")));
    let (old, new) = (worker(&first), worker(&second));
    assert_eq!(target_of(&second, &[&old, &new]).suffix, suffix_of(&new));
    assert_eq!(target_of(&first, &[&old, &new]).suffix, suffix_of(&old));
}

#[test]
fn a_suffix_that_is_taken_by_another_revision_is_not_used_again() {
    let desired = target_of(&graph(), &[]).suffix.unwrap();
    let other = graph_with(|g| set_image(g, "0.9.0"));
    let squatter = foreign_worker(&other, desired.as_str());
    let got = target_of(&graph(), &[&squatter]);
    assert_eq!(got.suffix, Some(RevisionSuffix::of(&got.fingerprint, 1)));
}

#[test]
fn a_label_that_others_put_on_the_object_is_no_other_revision() {
    let mut foreign = foreign_worker(&graph(), "a7137ff9");
    foreign.metadata.labels.get_or_insert_default().insert("cost-center".to_owned(), "7".to_owned());
    assert_eq!(target_of(&graph(), &[&foreign]).suffix, Some(RevisionSuffix::from_label("a7137ff9")));
}

/// Older versions of the upstream operator left the engine open. What is stored stays, as its admission demands:
/// neither a new revision nor a change of what is live.
#[test]
fn an_adopted_component_keeps_the_engine_that_it_was_stored_with() {
    let graph = graph();
    for stored in [None, Some(BackendFramework::Sglang)] {
        let fresh = plan(&valid(&graph), &observed(&graph, vec![]), NOW);
        let mut frontend = live(fresh.components.iter().find(|d| !d.spec.component.is_worker()).unwrap(), 1);
        let mut worker = foreign_worker(&graph, "a7137ff9");
        for d in [&mut frontend, &mut worker] {
            assert_eq!(d.spec.backend_framework, Some(BackendFramework::Vllm), "a new member names the engine");
            d.spec.backend_framework = stored;
        }
        let adopted = plan(&valid(&graph), &observed(&graph, vec![frontend, worker.clone()]), NOW);
        assert_eq!(adopted.rollout.target, Some(RevisionSuffix::from_label("a7137ff9")), "{stored:?}");
        assert_eq!((adopted.old.len(), adopted.delete.len(), adopted.components.len()), (0, 0, 2), "{stored:?}");
        for desired in &adopted.components {
            assert_eq!(desired.spec.backend_framework, stored, "{}", desired.name_any());
        }
        let ours = adopted.components.iter().map(|d| live(d, 4)).collect();
        let later = plan(&valid(&graph), &observed(&graph, ours), NOW);
        assert_eq!(json!(later.components), json!(adopted.components), "and from then on");
    }
}

/// A new recipe, or another rendering of the same spec, would roll the workers of every graph at the next upgrade of
/// the operator. If this changes, `RECIPE` must change too, and the old rendering must still be recognised.
#[test]
fn the_fingerprint_of_a_spec_is_for_ever() {
    let rich = graph_with(|g| {
        g["spec"]["env"] = json!([{ "name": "A", "value": "b" }, { "name": "C" }]);
        g["spec"]["labels"] = json!({ "team": "a" });
        g["spec"]["components"][1]["sharedMemorySize"] = json!("1Gi");
        g["spec"]["components"][1]["podTemplate"]["spec"]["containers"][0]["resources"] =
            json!({ "limits": { "nvidia.com/gpu": "1" }, "requests": {} });
    });
    expect_test::expect!["v1:a752c86b44d0653e"].assert_eq(&target_of(&rich, &[]).fingerprint);
}

/// A change that does not reach pods, or reaches them in place, must not take away from the old revision what it has.
#[test]
fn an_old_revision_keeps_what_the_graph_gave_it() {
    let policy = json!({ "labelKey": "zone", "domain": "zone" });
    let alpha = json!({ "spec": { "services": { "Decode": { "dynamoNamespace": "shared" } } } }).to_string();
    let carrying = |g: &mut Value| {
        g["spec"]["experimental"] = json!({ "kvTransferPolicy": policy.clone() });
        g["metadata"]["annotations"] = json!({ "nvidia.com/dgd-spec": alpha.clone() });
    };
    let before = worker(&graph_with(carrying));
    let annotations = before.annotations();
    assert_eq!(annotations["nvidia.com/topology-label-key"], "zone");
    assert_eq!(annotations["nvidia.com/dcd-spec"], r#"{"spec":{"dynamoNamespace":"shared"},"version":1}"#);
    let changed = graph_with(|g| {
        carrying(g);
        set_image(g, "2");
    });
    let plan = plan(&valid(&changed), &observed(&changed, vec![before.clone()]), NOW);
    let [old] = plan.old.try_into().unwrap();
    assert_eq!(old.annotations(), annotations);
}

/// Returns the plan for the graph with that tag of the worker's image.
fn planned(tag: &str, live: &[&DynamoComponentDeployment]) -> GraphPlan {
    let graph = graph_with(|g| set_image(g, tag));
    plan(&valid(&graph), &observed(&graph, live.iter().copied().cloned().collect()), NOW)
}

/// The worker of the target revision as it would be live.
fn new_worker(plan: &GraphPlan) -> DynamoComponentDeployment {
    live(plan.components.iter().find(|d| d.spec.component.is_worker()).unwrap(), 4)
}

fn listed(d: &DynamoComponentDeployment) -> Option<&str> {
    d.annotations().get(PREVIOUS_REVISIONS).map(String::as_str)
}

#[test]
fn a_new_worker_lists_the_revisions_before_it() {
    let entry = |d: &DynamoComponentDeployment, tag: &str| {
        let (suffix, image) = (suffix_of(d).unwrap(), format!("registry.example/vllm:{tag}"));
        format!(r#"{{"revision":"{suffix}","created":"1970-01-01T00:00:00Z","images":["{image}"]}}"#)
    };
    let fresh = planned("1", &[]);
    assert!(fresh.components.iter().all(|d| listed(d).is_none()), "the first revision");
    let first = new_worker(&fresh);
    let second = new_worker(&planned("2", &[&first]));
    assert_eq!(listed(&second), Some(&*format!("[{}]", entry(&first, "1"))));
    let third = planned("3", &[&second]);
    assert!(third.components.iter().all(|d| d.spec.component.is_worker() == listed(d).is_some()));
    let third = new_worker(&third);
    assert_eq!(listed(&third), Some(&*format!("[{},{}]", entry(&second, "2"), entry(&first, "1"))));
    let again = new_worker(&planned("1", &[&third]));
    assert_eq!(again.name_any(), first.name_any());
    assert_eq!(listed(&again), Some(&*format!("[{},{}]", entry(&third, "3"), entry(&second, "2"))));
}

/// An upgrade, a restart and a takeover write nothing for it.
#[test]
fn a_live_worker_keeps_what_it_lists() {
    let first = new_worker(&planned("1", &[]));
    let second = new_worker(&planned("2", &[&first]));
    for value in [None, listed(&second), Some("malformed")] {
        let (mut old, mut new) = (first.clone(), second.clone());
        for (d, created) in [(&mut old, 1), (&mut new, 2)] {
            d.metadata.creation_timestamp = Some(Time(Timestamp::from_second(created).unwrap()));
            let all = d.metadata.annotations.get_or_insert_default();
            all.remove(PREVIOUS_REVISIONS);
            all.extend(value.map(|value| (PREVIOUS_REVISIONS.to_owned(), value.to_owned())));
        }
        let rolling = planned("2", &[&old, &new]);
        assert_eq!(rolling.rollout.target, suffix_of(&second), "no other revision by it");
        assert_eq!((listed(&new_worker(&rolling)), listed(&rolling.old[0])), (value, value));
        let undone = graph_with(|g| {
            set_image(g, "2");
            g["metadata"]["annotations"] = json!({ ROLLOUT: "undone" });
        });
        let undone = plan(&valid(&undone), &observed(&undone, vec![old, new]), NOW);
        assert!(undone.rollout.is_behind);
        let kept = undone.components.iter().chain(&undone.old).filter(|d| d.spec.component.is_worker());
        assert_eq!(kept.map(listed).collect::<Vec<_>>(), [value; 2]);
    }
}

/// A worker of another operator that is found again, and one beside it of the next revision.
#[test]
fn a_worker_of_another_operator_lists_nothing_and_is_listed() {
    let first = graph_with(|g| set_image(g, "1"));
    let foreign = foreign_worker(&first, "a7137ff9");
    assert_eq!(listed(&new_worker(&planned("1", &[&foreign]))), None);
    let next = new_worker(&planned("2", &[&foreign]));
    let found = api_types::revision_history::parse(listed(&next).unwrap());
    assert_eq!(found.iter().map(|one| one.revision.as_str()).collect::<Vec<_>>(), ["a7137ff9"]);
}
