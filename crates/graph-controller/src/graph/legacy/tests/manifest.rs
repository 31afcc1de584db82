//! Tests of graphs whose services run what the manifest in the archive says.

use super::*;

/// As the document of the legacy API has it: services with replicas and environment alone.
fn silent() -> Value {
    let service = |replicas: i32| json!({ "replicas": replicas, "envs": [{ "name": "B", "value": "own" }] });
    json!({ "dynamoComponent": "chat:v1", "services": { "Frontend": service(1), "Router": service(0) } })
}

/// A build whose manifest was read, or why not.
fn with_manifest(mut build: DynamoComponent, read: (&str, &str, &str)) -> DynamoComponent {
    let mut condition = condition("ManifestRead", read.0, read.1, read.2);
    condition["observedGeneration"] = json!(1);
    let manifest = json!({ "dynamoTag": "graphs.agg:Frontend", "services": [
        { "name": "Frontend", "workers": 3 }, { "name": "Router" },
        { "name": "Worker", "workers": 2, "resources": { "nvidia.com/gpu": "1" } },
        { "name": "Planner", "componentType": "planner" },
    ] });
    let status = build.status.as_mut().unwrap();
    status.conditions.push(serde_json::from_value(condition).unwrap());
    status.manifest = (read.0 == "True").then(|| serde_json::from_value(manifest).unwrap());
    build
}

const READ: (&str, &str, &str) = ("True", "Reconciling", "");

/// Defect: the graphs of the document of the legacy API were refused, because nothing said what their services run.
#[test]
fn the_manifest_says_what_services_run_that_do_not() {
    for (spec, frontends) in [(silent(), 1), (json!({ "dynamoComponent": "chat:v1" }), 3)] {
        let (plan, _) = planned(&graph(spec), Some(with_manifest(ready("v1"), READ)), vec![]);
        assert_eq!(plan.obstacle, None);
        let of = |name: &str| &plan.components.iter().find(|d| d.spec.component.name == name).unwrap().spec.component;
        assert_eq!(of("Frontend").desired_replicas(), frontends, "the graph wins over the manifest");
        assert_eq!(of("Worker").desired_replicas(), 2);
        assert_eq!(of("Frontend").type_.unwrap().as_str(), "frontend");
        let worker = main_of(&plan.components, "Worker");
        let start = &worker.args.as_ref().unwrap()[0];
        assert!(start.contains("--service-name Worker graphs.agg:Frontend "), "{start}");
        let resources = json!(worker.resources);
        assert_eq!(resources, json!({ "limits": { "nvidia.com/gpu": "1" }, "requests": { "nvidia.com/gpu": "1" } }));
        assert_eq!(of("Planner").type_.unwrap().as_str(), "planner");
    }
}

#[test]
fn a_graph_waits_for_the_manifest_and_requests_it() {
    let unreachable = with_manifest(ready("v1"), ("False", "Unreachable", "store answered 503"));
    let invalid = with_manifest(ready("v1"), ("False", "InvalidSpec", "no dynamo.yaml"));
    for (build, progress, message) in [
        (None, ObstacleProgress::Reconciling("ImageAwaited"), "it does not exist yet"),
        (Some(ready("v1")), ObstacleProgress::Reconciling("ImageAwaited"), "it was not read yet"),
        (Some(unreachable), ObstacleProgress::Reconciling("ImageAwaited"), "store answered 503"),
        (Some(invalid), ObstacleProgress::Stalled("InvalidSpec"), "no dynamo.yaml"),
        (Some(failed("v1")), ObstacleProgress::Stalled("BuildFailed"), "the log: E404"),
    ] {
        for spec in [silent(), json!({ "dynamoGraph": "chat:v1" })] {
            let (plan, _) = planned(&graph(spec), build.clone(), vec![]);
            let obstacle = plan.obstacle.unwrap();
            assert_eq!(obstacle.progress, progress, "{}", obstacle.message);
            assert!(obstacle.message.contains(message), "{}", obstacle.message);
            let requested = plan.objects.build.unwrap().metadata.annotations.unwrap();
            assert_eq!(requested["nvidia.com/read-archive-manifest"], "true");
            assert!(plan.components.is_empty() && plan.delete.is_empty() && plan.objects.manifest_of.is_none());
        }
    }
    let mut theirs = ready("v1");
    theirs.metadata.owner_references = None;
    let is_requested = |build: &DynamoComponent| {
        let (plan, _) = planned(&graph(silent()), Some(build.clone()), vec![]);
        (plan.objects.build.is_some(), plan.objects.manifest_of.is_some())
    };
    assert_eq!(is_requested(&theirs), (false, true), "a build of another owner is annotated");
    theirs.metadata.annotations = Some([("nvidia.com/read-archive-manifest".to_owned(), "true".to_owned())].into());
    assert_eq!(is_requested(&theirs), (false, false), "once");
}

#[test]
fn a_service_that_the_manifest_lacks_is_refused_unless_it_says_what_it_runs() {
    let mut wrong = silent();
    wrong["services"]["Ruter"] = json!({ "replicas": 1 });
    let build = with_manifest(ready("v1"), READ);
    let obstacle = translate(&graph(wrong.clone()), Some(&build)).unwrap_err();
    assert!(obstacle.message.contains("spec.services[Ruter]"), "{}", obstacle.message);
    wrong["services"]["Ruter"]["dynamoTag"] = json!("m:Ruter");
    let (plan, _) = planned(&graph(wrong), Some(build), vec![]);
    assert_eq!(plan.components.len(), 5);
}

/// Upgrades roll no pod: a graph whose services say what they run is not changed by a manifest.
#[test]
fn a_manifest_changes_no_graph_that_needs_none() {
    let plan = |build| planned(&graph(spec("v1")), Some(build), vec![]).0;
    assert_eq!(plan(with_manifest(ready("v1"), READ)).components, plan(ready("v1")).components);
}
