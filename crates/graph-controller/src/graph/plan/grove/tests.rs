//! Tests of the plan for a graph on Grove, situation by situation.

use api_types::{
    grove::PodCliqueTemplate,
    labels,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentStatus, RestartPhase},
};
use serde_json::{Value, json};

use super::*;
use crate::graph::{
    fixtures,
    fixtures::{
        NOW, graph, graph_with,
        grove::{as_live, clique, group, live_set, observed, observed_with, planned},
        set_image,
    },
    grove::revision_of,
    model::{Child, GroveScale},
    validate::validate,
};

fn set_of(observed: &GraphObserved) -> PodCliqueSet {
    planned(observed).grove.unwrap().set
}

fn find<'a>(set: &'a PodCliqueSet, clique: &str) -> &'a PodCliqueTemplate {
    set.spec.template.cliques.iter().find(|found| found.name == clique).unwrap()
}

fn revision(set: &PodCliqueSet) -> Option<String> {
    revision_of(find(set, "decode")).map(|suffix| suffix.to_string())
}

/// Returns the set that another operator would have created: the same, without the bookkeeping of this operator.
fn made_elsewhere(graph: &DynamoGraphDeployment) -> PodCliqueSet {
    let mut set = live_set(graph);
    set.metadata.annotations = None;
    for clique in &mut set.spec.template.cliques {
        if clique.labels.contains_key(labels::WORKER_HASH) {
            clique.labels.insert(labels::WORKER_HASH.to_owned(), "0ther000".to_owned());
            for variable in clique.spec.pod_spec.containers[0].env.iter_mut().flatten() {
                if variable.name == api_types::env::DYN_NAMESPACE_WORKER_SUFFIX {
                    variable.value = Some("0ther000".to_owned());
                }
            }
        }
    }
    set
}

#[test]
fn a_graph_becomes_one_set_with_a_clique_and_a_service_for_each_component() {
    let plan = planned(&observed(&graph()));
    assert!(plan.components.is_empty(), "no object of the other provider");
    let set = &plan.grove.as_ref().unwrap().set;
    assert_eq!(set.name_any(), "chat");
    let names: Vec<_> = set.spec.template.cliques.iter().map(|clique| clique.name.as_str()).collect();
    assert_eq!(names, ["frontend", "decode"]);
    assert_eq!(find(set, "decode").spec.replicas, 4);
    let services: Vec<_> = plan.objects.services.iter().map(ResourceExt::name_any).collect();
    assert_eq!(services, ["chat-frontend", "chat-decode"]);
    let service = &plan.objects.services[0];
    assert_eq!(service.labels()["operator.dynamo/component"], "Frontend", "the reference's Services lack it");
}

/// Defect of the upstream operator: the Service of a component without a type selects an empty one, and thereby no
/// pod.
#[test]
fn a_service_selects_the_pods_of_its_component() {
    let untyped = graph_with(|g| drop(g["spec"]["components"][1].as_object_mut().unwrap().remove("type")));
    for graph in [graph(), untyped] {
        let plan = planned(&observed(&graph));
        let set = plan.grove.unwrap().set;
        for (service, clique) in plan.objects.services.iter().zip(["frontend", "decode"]) {
            let selector = service.spec.as_ref().unwrap().selector.as_ref().unwrap();
            let labels = &find(&set, clique).labels;
            assert!(selector.iter().all(|(key, value)| labels.get(key) == Some(value)), "{selector:?} and {labels:?}");
        }
    }
}

#[test]
fn a_frontend_has_a_way_in_that_is_the_graphs_where_one_is_configured() {
    let way_in = |class: Option<&str>, gateway: Option<&str>| {
        let mut settings = fixtures::grove::settings().clone();
        settings.pods.exposure.ingress_class = class.map(str::to_owned);
        settings.pods.exposure.gateway = gateway.map(str::to_owned);
        let observed = observed(&graph());
        let valid = validate(&observed, &settings).unwrap();
        let objects = crate::graph::plan::plan(&valid, &observed, NOW).objects;
        let ingresses = objects.ingresses.iter().map(|ingress| json!(ingress));
        let routes = objects.virtual_services.iter().map(|route| json!(route));
        ingresses.chain(routes).collect::<Vec<_>>()
    };
    assert!(way_in(None, None).is_empty());
    let (ingresses, routes) = (way_in(Some("nginx"), None), way_in(None, Some("istio-system/ingress")));
    let rule = &ingresses[0]["spec"]["rules"][0];
    let backend = &rule["http"]["paths"][0]["backend"]["service"]["name"];
    assert_eq!((ingresses.len(), &rule["host"], backend), (1, &json!("chat.local"), &json!("chat-frontend")));
    let gateways = &routes[0]["spec"]["gateways"];
    assert_eq!((routes.len(), gateways), (1, &json!(["istio-system/ingress"])));
    for object in ingresses.iter().chain(&routes) {
        let metadata = &object["metadata"];
        assert_eq!((&metadata["name"], &metadata["ownerReferences"]), (&json!("chat-frontend"), &Value::Null));
        // The component controller watches what is of a component.
        assert_eq!(metadata["labels"], json!({ "operator.dynamo/graph": "chat" }));
    }
}

/// Several quick changes of replicas once made Grove replace a whole gang, because they came as changes of the
/// template.
#[test]
fn replicas_change_through_scale_and_never_through_the_template() {
    let set = live_set(&graph());
    for replicas in [0, 1, 7] {
        let scaled = graph_with(|g| g["spec"]["components"][1]["replicas"] = json!(replicas));
        let mut observed = observed_with(&scaled, set.clone());
        observed.grove.cliques = vec![clique("Frontend", 1), clique("Decode", 4)];
        let plan = planned(&observed).grove.unwrap();
        assert_eq!(plan.set.spec, set.spec, "{replicas}");
        let [GroveScale { child: Child::PodClique(child), from: 4, to }] = &plan.scale[..] else {
            panic!("{:?}", plan.scale)
        };
        assert_eq!((child.name_any().as_str(), *to), ("chat-0-decode", replicas));
    }
    let mut observed = observed_with(&graph(), set);
    assert!(planned(&observed).grove.unwrap().scale.is_empty(), "Grove has not made it yet");
    observed.grove.cliques = vec![clique("Frontend", 1), clique("Decode", 4)];
    assert!(planned(&observed).grove.unwrap().scale.is_empty(), "nothing to do");
}

#[test]
fn a_component_of_several_cliques_is_scaled_as_a_group() {
    let graph = graph_with(|g| g["spec"]["components"][1]["multinode"] = json!({ "nodeCount": 2 }));
    let mut observed = observed_with(&graph, live_set(&graph));
    observed.grove.groups = vec![group("Decode", 1)];
    let plan = planned(&observed).grove.unwrap();
    assert_eq!(plan.set.spec.template.pod_clique_scaling_groups[0].clique_names, ["decode-ldr", "decode-wkr"]);
    let [GroveScale { child: Child::PodCliqueScalingGroup(group), from: 1, to: 4 }] = &plan.scale[..] else {
        panic!("{:?}", plan.scale)
    };
    assert_eq!(group.name_any(), "chat-0-decode");
}

/// Zero is a normal state, and Grove refuses it in a template.
#[test]
fn a_graph_that_begins_with_no_replicas_is_made_with_the_least_and_scaled_down() {
    let graph = graph_with(|g| {
        g["spec"]["components"][0]["replicas"] = json!(0);
        g["spec"]["components"][1]["replicas"] = json!(0);
        g["spec"]["components"][1]["multinode"] = json!({ "nodeCount": 2 });
    });
    let set = live_set(&graph);
    assert_eq!(find(&set, "frontend").spec.replicas, 1);
    assert_eq!(set.spec.template.pod_clique_scaling_groups[0].replicas, Some(1));
    let mut observed = observed_with(&graph, set);
    observed.grove.cliques = vec![clique("Frontend", 1)];
    observed.grove.groups = vec![group("Decode", 1)];
    let desired: Vec<_> = planned(&observed).grove.unwrap().scale.iter().map(|scale| scale.to).collect();
    assert_eq!(desired, [0, 0]);
}

#[test]
fn an_edit_makes_a_new_revision_and_nothing_else_does() {
    let before = graph();
    let set = live_set(&before);
    let first = revision(&set);
    assert!(first.is_some() && revision_of(find(&set, "frontend")).is_none());

    let edited = graph_with(|g| set_image(g, "1.6.0"));
    let after = as_live(set_of(&observed_with(&edited, set.clone())));
    assert_ne!(revision(&after), first);
    assert_eq!(revision(&set_of(&observed_with(&before, after.clone()))), first, "back again");

    let frontend =
        graph_with(|g| g["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]["image"] = json!("i:2"));
    assert_eq!(revision(&set_of(&observed_with(&frontend, set))), first);
}

/// A graph whose annotations were replaced goes on as it was.
#[test]
fn nothing_is_remembered_on_the_graph() {
    let stamped = graph_with(|g| {
        g["metadata"]["annotations"] =
            json!({ annotations::ORIGIN_VERSION: "0.9.0", annotations::WORKLOAD_PROVIDER: "grove" });
    });
    let set = live_set(&stamped);
    let wiped = graph();
    assert_eq!(set_of(&observed_with(&wiped, set.clone())).spec, set.spec);
}

#[test]
fn what_another_operator_made_keeps_its_revision() {
    let graph = graph();
    let theirs = made_elsewhere(&graph);
    let ours = set_of(&observed_with(&graph, theirs.clone()));
    assert_eq!(ours.spec, theirs.spec);
    assert_eq!(revision(&ours).as_deref(), Some("0ther000"));

    let edited = graph_with(|g| set_image(g, "1.6.0"));
    assert_ne!(revision(&set_of(&observed_with(&edited, theirs))).as_deref(), Some("0ther000"));
}

/// While a revision follows the other, the pods that go must not count.
#[test]
fn spread_constraints_count_the_pods_of_one_revision_on_grove_too() {
    let spread_with = |tag: &str| {
        graph_with(|g| {
            set_image(g, tag);
            for component in g["spec"]["components"].as_array_mut().unwrap() {
                component["podTemplate"]["spec"]["topologySpreadConstraints"] = json!([{ "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": { "matchLabels": { "app": "w" } } }]);
            }
        })
    };
    let keys = |set: &PodCliqueSet, clique: &str| {
        let constraints = find(set, clique).spec.pod_spec.topology_spread_constraints.as_ref().unwrap();
        constraints[0].match_label_keys.clone()
    };
    let scoped = Some(vec![labels::WORKER_HASH.to_owned()]);
    let graph = spread_with("1.5.0");
    let ours = live_set(&graph);
    assert_eq!((keys(&ours, "decode"), keys(&ours, "frontend")), (scoped.clone(), None));
    assert_eq!(set_of(&observed_with(&graph, ours.clone())).spec, ours.spec);

    let mut theirs = made_elsewhere(&graph);
    let pod = &mut theirs.spec.template.cliques[1].spec.pod_spec;
    pod.topology_spread_constraints.as_mut().unwrap()[0].match_label_keys = None;
    let adopted = as_live(set_of(&observed_with(&graph, theirs.clone())));
    assert_eq!(adopted.spec, theirs.spec, "what another operator made stays");
    assert_eq!(set_of(&observed_with(&graph, adopted.clone())).spec, theirs.spec, "and from then on");
    assert_eq!(
        keys(&set_of(&observed_with(&spread_with("1.6.0"), adopted)), "decode"),
        scoped,
        "until its next change"
    );
}

#[test]
fn workers_older_than_revisions_get_one_with_their_next_change() {
    let graph = graph();
    let mut older = made_elsewhere(&graph);
    let clique = &mut older.spec.template.cliques[1];
    clique.labels.remove(labels::WORKER_HASH);
    let env = clique.spec.pod_spec.containers[0].env.as_mut().unwrap();
    env.retain(|variable| variable.name != api_types::env::DYN_NAMESPACE_WORKER_SUFFIX);
    assert_eq!(set_of(&observed_with(&graph, older.clone())).spec, older.spec);
    let edited = graph_with(|g| set_image(g, "1.6.0"));
    assert!(revision(&set_of(&observed_with(&edited, older))).is_some());
}

#[test]
fn programs_of_another_operator_stay_as_long_as_the_author_changes_nothing() {
    let multinode = |revision: i64, model: &str| {
        let mut graph = graph_with(|g| {
            let worker = &mut g["spec"]["components"][1];
            worker["multinode"] = json!({ "nodeCount": 2 });
            worker["podTemplate"]["spec"]["containers"][0]["command"] = json!(["python3", "-m", "dynamo.trtllm"]);
            worker["podTemplate"]["spec"]["containers"][0]["args"] = json!(["--model", model]);
        });
        graph.metadata.generation = Some(revision);
        graph.status = Some(DynamoGraphDeploymentStatus { observed_generation: Some(1), ..Default::default() });
        graph
    };
    let mut theirs = made_elsewhere(&multinode(1, "m"));
    for clique in theirs.spec.template.cliques.iter_mut().filter(|clique| clique.name.starts_with("decode-")) {
        clique.spec.pod_spec.containers[0].args = Some(vec!["theirs\n/ssh-pk/private.key".to_owned()]);
    }
    assert_eq!(set_of(&observed_with(&multinode(1, "m"), theirs.clone())).spec, theirs.spec);
    let kept = as_live(set_of(&observed_with(&multinode(1, "m"), theirs.clone())));
    assert_eq!(set_of(&observed_with(&multinode(1, "m"), kept.clone())).spec, theirs.spec, "and from then on");
    for (graph, live, why) in [
        (multinode(2, "m"), theirs, "no operator has carried out this spec"),
        (multinode(1, "other"), kept, "the status records what was carried out"),
    ] {
        let set = set_of(&observed_with(&graph, live));
        let args = find(&set, "decode-ldr").spec.pod_spec.containers[0].args.clone();
        assert!(!args.unwrap()[0].starts_with("theirs"), "{why}");
    }
}

fn with_secrets(
    graph: &DynamoGraphDeployment,
    secrets: &[&str],
    live: Option<PodCliqueSet>,
    ready: i32,
) -> GraphObserved {
    let config = |host: &str| format!(r#"{{"auths":{{"{host}":{{"auth":"eA=="}}}}}}"#);
    let hosts = rendering::RegistryHosts::parse(config("registry.example").as_bytes()).unwrap();
    let index = rendering::PullSecretIndex::new(secrets.iter().map(|name| ((*name).to_owned(), hosts.clone())));
    let mut observed = observed(graph);
    observed.grove.sets = live.into_iter().collect();
    observed.grove.pull_secrets = std::sync::Arc::new(index);
    let mut worker = clique("Decode", 4);
    worker.status.as_mut().unwrap().ready_replicas = ready;
    observed.grove.cliques = vec![worker];
    observed
}

fn secrets_of(set: &PodCliqueSet) -> Vec<String> {
    let secrets = find(set, "decode").spec.pod_spec.image_pull_secrets.iter().flatten();
    secrets.map(|secret| secret.name.clone()).collect()
}

#[test]
fn a_pull_secret_that_appears_reaches_pods_that_do_not_serve_and_no_others() {
    let graph = graph();
    let set = as_live(set_of(&with_secrets(&graph, &["one"], None, 0)));
    assert_eq!(secrets_of(&set), ["one"]);
    let after = |secrets: &[&str], ready| secrets_of(&set_of(&with_secrets(&graph, secrets, Some(set.clone()), ready)));
    assert_eq!(after(&["one", "two"], 4), ["one"]);
    assert_eq!(after(&["one", "two"], 0), ["one", "two"]);
    assert_eq!(after(&[], 4), ["one"], "nor do they lose one");
    let edited = graph_with(|g| set_image(g, "1.6.0"));
    assert_eq!(secrets_of(&set_of(&with_secrets(&edited, &["two"], Some(set.clone()), 4))), ["two"]);
}

/// The upstream operator leaves it out on Grove, and then a service mesh breaks the gateway's calls.
#[test]
fn the_endpoint_picker_keeps_out_of_the_mesh_and_running_ones_are_not_replaced_for_it() {
    let graph = graph_with(|g| {
        g["spec"]["components"][0]["type"] = json!("epp");
        g["spec"]["components"][0]["eppConfig"] = json!({ "configMapRef": { "name": "c", "key": "k" } });
    });
    let set = live_set(&graph);
    let switch = |set: &PodCliqueSet| find(set, "frontend").annotations.get(annotations::ISTIO_INJECT).cloned();
    assert_eq!(switch(&set).as_deref(), Some("false"));
    let mut theirs = set.clone();
    theirs.spec.template.cliques[0].annotations.remove(annotations::ISTIO_INJECT);
    assert_eq!(switch(&set_of(&observed_with(&graph, theirs.clone()))), None);
    theirs.spec.template.cliques[0].spec.pod_spec.containers[0].image = Some("older:1".to_owned());
    assert_eq!(switch(&set_of(&observed_with(&graph, theirs))).as_deref(), Some("false"));
}

/// The upstream operator leaves the account of a planner to the user on Grove.
#[test]
fn a_running_planner_keeps_its_account_until_its_pods_are_replaced_for_another_reason() {
    let graph = graph_with(|g| {
        g["spec"]["components"][0]["type"] = json!("planner");
        g["spec"]["components"][0]["podTemplate"]["spec"]["serviceAccountName"] = json!("mine");
    });
    let account = |set: &PodCliqueSet| find(set, "frontend").spec.pod_spec.service_account_name.clone();
    let mut theirs = live_set(&graph);
    assert_eq!(account(&theirs).as_deref(), Some("planner-serviceaccount"));
    theirs.spec.template.cliques[0].spec.pod_spec.service_account_name = Some("mine".to_owned());
    assert_eq!(account(&set_of(&observed_with(&graph, theirs.clone()))).as_deref(), Some("mine"));
    theirs.spec.template.cliques[0].spec.pod_spec.containers[0].image = Some("older:1".to_owned());
    assert_eq!(account(&set_of(&observed_with(&graph, theirs))).as_deref(), Some("planner-serviceaccount"));
}

#[test]
fn a_live_order_and_restarts_stay() {
    let graph = graph();
    let mut set = live_set(&graph);
    set.spec.template.cliques.reverse();
    for clique in &mut set.spec.template.cliques {
        clique.annotations.insert(annotations::RESTART_AT.to_owned(), "r1".to_owned());
    }
    assert_eq!(set_of(&observed_with(&graph, set.clone())).spec, set.spec);
}

#[test]
fn a_restart_goes_from_component_to_component_and_scales_and_regenerates_nothing() {
    let restarting = graph_with(|g| g["spec"]["restart"] = json!({ "id": "r1" }));
    let set = live_set(&graph());
    let marked = |observed: &GraphObserved| {
        let plan = planned(observed);
        let set = plan.grove.unwrap().set;
        let marks = set.spec.template.cliques.iter().filter(|c| c.annotations.contains_key(annotations::RESTART_AT));
        let names: Vec<_> = marks.map(|clique| clique.name.clone()).collect();
        assert_eq!(revision(&set), revision(&live_set(&graph())));
        (names, plan.restart.unwrap().phase.unwrap(), set)
    };
    let looked_at = |mut set: PodCliqueSet, hash: &str| {
        let status = json!({ "observedGeneration": 1, "currentGenerationHash": hash });
        set.status = serde_json::from_value(status).unwrap();
        as_live(set)
    };
    let mut observed = observed_with(&restarting, looked_at(set, "hash"));
    observed.grove.cliques = vec![clique("Frontend", 1), clique("Decode", 4)];
    let (names, phase, set) = marked(&observed);
    assert_eq!((names, phase), (vec!["decode".to_owned()], RestartPhase::Restarting));
    observed.grove.sets = vec![looked_at(set.clone(), "newer")];
    assert_eq!(marked(&observed).0, ["decode"], "its pods are of the older template still");
    observed.grove.sets = vec![looked_at(set, "hash")];
    let (names, _, set) = marked(&observed);
    assert_eq!(names, ["frontend", "decode"]);
    observed.grove.sets = vec![looked_at(set, "hash")];
    assert_eq!(marked(&observed).1, RestartPhase::Completed);
}

/// A restart that was dropped for an edit would leave out all but the workers: Grove replaces no other pods for it.
#[test]
fn a_restart_that_comes_with_an_edit_of_workers_is_carried_out() {
    let in_order = |names: &[&str]| {
        graph_with(|g| {
            g["spec"]["restart"] = json!({ "id": "r1", "strategy": { "type": "Sequential", "order": names } });
            set_image(g, "2");
        })
    };
    let looked_at = |mut set: PodCliqueSet, hash: &str| {
        let status = json!({ "observedGeneration": 1, "currentGenerationHash": hash });
        set.status = serde_json::from_value(status).unwrap();
        as_live(set)
    };
    for order in [["Decode", "Frontend"], ["Frontend", "Decode"]] {
        let mut observed = observed_with(&in_order(&order), looked_at(live_set(&graph()), "hash"));
        observed.grove.cliques = vec![clique("Frontend", 1), clique("Decode", 4)];
        let mut step = |hash: &str| {
            let plan = planned(&observed);
            let set = plan.grove.unwrap().set;
            assert_ne!(revision(&set), revision(&live_set(&graph())), "the edit comes with the first step");
            let reported: Vec<_> = order.iter().filter(|name| is_marked(&set, name)).copied().collect();
            observed.grove.sets = vec![looked_at(set, hash)];
            (reported, plan.restart.unwrap().phase.unwrap())
        };
        let first = (vec![order[0]], RestartPhase::Restarting);
        assert_eq!(step("newer"), first);
        assert_eq!(step("hash"), first, "its pods are of the older template still");
        let both = order.to_vec();
        assert_eq!(step("newer"), (both.clone(), RestartPhase::Restarting));
        assert_eq!(step("hash"), (both.clone(), RestartPhase::Restarting), "so are those of the other");
        assert_eq!(step("hash"), (both, RestartPhase::Completed));
    }
}

fn is_marked(set: &PodCliqueSet, component: &str) -> bool {
    find(set, &component.to_lowercase()).annotations.get(annotations::RESTART_AT).is_some_and(|id| id == "r1")
}

#[test]
fn a_graph_without_workers_is_restarted_too() {
    let frontend_only = |restart: Value| {
        graph_with(|g| {
            g["spec"]["components"].as_array_mut().unwrap().truncate(1);
            g["spec"]["restart"] = restart;
        })
    };
    let restarting = frontend_only(json!({ "id": "r1" }));
    let looked_at = |mut set: PodCliqueSet| {
        let status = json!({ "observedGeneration": 1, "currentGenerationHash": "hash" });
        set.status = serde_json::from_value(status).unwrap();
        as_live(set)
    };
    let mut observed = observed_with(&restarting, looked_at(live_set(&frontend_only(Value::Null))));
    observed.grove.cliques = vec![clique("Frontend", 1)];
    let reported = planned(&observed);
    assert_eq!(reported.restart.unwrap().phase, Some(RestartPhase::Restarting));
    let set = reported.grove.unwrap().set;
    assert_eq!(find(&set, "frontend").annotations[annotations::RESTART_AT], "r1");
    observed.grove.sets = vec![looked_at(set)];
    assert_eq!(planned(&observed).restart.unwrap().phase, Some(RestartPhase::Completed));
}

#[test]
fn a_constraint_of_an_older_grove_gets_its_topology_before_its_form_changes() {
    let graph =
        graph_with(|g| g["spec"]["topologyConstraint"] = json!({ "clusterTopologyName": "t", "packDomain": "rack" }));
    let constraint = |live: Value| {
        let mut set = live_set(&graph);
        set.spec.template.topology_constraint = Some(live);
        set_of(&observed_with(&graph, set)).spec.template.topology_constraint
    };
    let repaired = json!({ "packDomain": "rack", "topologyName": "t" });
    assert_eq!(constraint(json!({ "packDomain": "rack" })), Some(repaired.clone()));
    assert_eq!(constraint(repaired), Some(json!({ "topologyName": "t", "pack": { "required": "rack" } })));
}

#[test]
fn the_name_of_a_live_set_stays() {
    let long = graph_with(|g| g["metadata"]["name"] = json!("a-graph-with-a-name-that-is-rather-long-for-grove"));
    let mut set = live_set(&long);
    set.metadata.name = Some("as-it-was-cut-before".to_owned());
    assert_eq!(set_of(&observed_with(&long, set)).name_any(), "as-it-was-cut-before");
}
