//! Rendering against the conformance kit: from each recorded DynamoComponentDeployment, our Deployment and Service must
//! be the recorded ones.
//!
//! The kit is not part of the repository; without it these tests say so and pass. Its records come from an API server,
//! so ours are completed with the server's defaults first. Mind the order of lists: it counts.

#![allow(clippy::unwrap_used, reason = "a panic is how helpers of tests fail")]

mod compare;
mod conformance_kit;
mod defaults;

use api_types::{v1alpha1::DynamoCheckpoint, v1beta1::DynamoComponentDeployment, violations::Violation};
use conformance_kit::{Case, ConformanceKit};
use rendering::{
    PodSettings, PullSecretIndex, RenderInput,
    checkpoint::{CaptureSettings, DEFAULT_SECCOMP_PROFILE, Start, checkpoint_id, render_capture_job},
    legacy_type_is_worker, render_claim_template, render_deployment, render_leader_worker_set, render_service,
    validate, validate_leader_worker_set,
};
use serde_json::Value;

/// Result for one recorded component.
enum CaseResult {
    Equal,
    Different(Vec<String>),
    Rejected(Vec<Violation>),
}

#[test]
fn every_single_node_case_is_equal() {
    let Some(kit) = ConformanceKit::find() else { return };
    let (mut equal, mut failures) = (0, Vec::new());
    let cases = kit.listed("tier1.txt");
    for case in &cases {
        let differences: Vec<String> = components(case).flat_map(|(_, outcome)| reported(case, outcome)).collect();
        equal += usize::from(differences.is_empty());
        failures.extend(differences);
    }
    println!("{equal} of {} cases equal", cases.len());
    assert!(!cases.is_empty(), "the list of cases is empty");
    assert!(failures.is_empty(), "{equal} of {} cases equal\n{}", cases.len(), failures.join("\n"));
}

/// All cases of the plain cluster.
#[test]
fn every_component_is_equal() {
    let Some(kit) = ConformanceKit::find() else { return };
    let (mut equal, mut failures) = (0, Vec::new());
    for case in kit.all("base") {
        for (_, outcome) in components(&case) {
            match outcome {
                CaseResult::Equal => equal += 1,
                other => failures.extend(reported(&case, other)),
            }
        }
    }
    println!("{equal} components equal");
    assert!(equal > 400, "only {equal} components were compared");
    assert!(failures.is_empty(), "{equal} components equal\n{}", failures.join("\n"));
}

/// Components whose replicas span nodes become LeaderWorkerSets where that API is available.
///
/// One thing is different on purpose: the first rank of a node that runs several engines side by side. The upstream
/// operator has the shell call a program `LWS_WORKER_INDEX`, which there is none of.
#[test]
fn every_leader_worker_set_is_equal() {
    let Some(kit) = ConformanceKit::find() else { return };
    let (mut equal, mut failures) = (0, Vec::new());
    for mut case in kit.all("lws") {
        let text = serde_json::to_string(&case.objects).unwrap();
        case.objects = serde_json::from_str(&text.replace("$(LWS_WORKER_INDEX) ))", "LWS_WORKER_INDEX ))")).unwrap();
        let sets = components(&case).filter(|(dcd, _)| dcd.spec.component.is_multinode());
        for (dcd, outcome) in sets.collect::<Vec<_>>() {
            let is_recorded = case.objects.iter().any(|object| {
                object["kind"] == "LeaderWorkerSet"
                    && object["metadata"]["labels"]["nvidia.com/dynamo-component"] == dcd.spec.component.name
            });
            match outcome {
                CaseResult::Equal => equal += 1,
                // The upstream operator makes nothing of a component without a command line either.
                CaseResult::Rejected(_) if !is_recorded => {}
                other => failures.extend(reported(&case, other)),
            }
        }
    }
    println!("{equal} LeaderWorkerSets equal");
    assert!(equal > 30, "only {equal} LeaderWorkerSets were compared");
    assert!(failures.is_empty(), "{equal} LeaderWorkerSets equal\n{}", failures.join("\n"));
}

/// In a cluster that can make checkpoints, a component that waits for one has no replicas, and is otherwise as it is
/// without it.
#[test]
fn every_component_is_equal_where_checkpoints_are_made() {
    let Some(kit) = ConformanceKit::find() else { return };
    let failures: Vec<String> = kit
        .all("ckpt")
        .flat_map(|case| components(&case).flat_map(|(_, v)| reported(&case, v)).collect::<Vec<_>>())
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The Job whose pod is captured for a checkpoint that a user wrote.
#[test]
fn the_job_of_a_checkpoint_is_equal() {
    let Some(kit) = ConformanceKit::find() else { return };
    let mut compared = 0;
    for case in kit.all("ckpt") {
        for mut checkpoint in kit.inputs(&case).into_iter().filter(|document| document["kind"] == "DynamoCheckpoint") {
            checkpoint["metadata"]["namespace"] = case.namespace.clone().into();
            let checkpoint: DynamoCheckpoint = serde_json::from_value(checkpoint).unwrap();
            let id = checkpoint_id(&checkpoint);
            let seccomp_profile = Some(DEFAULT_SECCOMP_PROFILE);
            let settings = CaptureSettings { seccomp_profile, storage: None, claimed_gpus: 0 };
            let job = serde_json::to_value(render_capture_job(&checkpoint, &id, settings).unwrap()).unwrap();
            let name = job["metadata"]["name"].as_str().unwrap().to_owned();
            let recorded = case.object("Job", &name).map(without_owner).map(defaults::without_names_of_the_server);
            let differences = compare::objects(recorded, Some(defaults::job(job)));
            assert!(differences.is_empty(), "{}: {}", case.name, differences.join("\n"));
            compared += 1;
        }
    }
    assert_eq!(compared, 1);
}

fn reported(case: &Case, outcome: CaseResult) -> Vec<String> {
    let lines = match outcome {
        CaseResult::Equal => return Vec::new(),
        CaseResult::Different(differences) => differences,
        CaseResult::Rejected(violations) => {
            violations.iter().map(|violation| format!("rejected: {violation}")).collect()
        }
    };
    lines.into_iter().map(|line| format!("{}: {line}", case.name)).collect()
}

fn components(case: &Case) -> impl Iterator<Item = (DynamoComponentDeployment, CaseResult)> {
    let recorded = case.objects.iter().filter(|object| object["kind"] == "DynamoComponentDeployment");
    recorded.map(|object| {
        let mut dcd: DynamoComponentDeployment = serde_json::from_value(object.clone()).unwrap();
        dcd.metadata.uid = Some("uid".to_owned());
        let outcome = judge(case, &dcd);
        (dcd, outcome)
    })
}

/// The owner of an object that belongs to the graph is set by its writer.
fn without_owner(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    object
}

fn judge(case: &Case, dcd: &DynamoComponentDeployment) -> CaseResult {
    let valid = match validate(dcd) {
        Ok(valid) => valid,
        Err(violations) => return CaseResult::Rejected(violations),
    };
    let (settings, pull_secrets) = (PodSettings::default(), PullSecretIndex::default());
    let input = RenderInput {
        settings: &settings,
        pull_secrets: &pull_secrets,
        fallback_service_account: None,
        legacy_type_is_worker: legacy_type_is_worker(&valid, None, None),
        restore: &Start::Cold,
        claimed_gpus: 0,
    };
    let name = dcd.metadata.name.as_deref().unwrap();
    let mut differences = if case.name.starts_with("lws/") && dcd.spec.component.is_multinode() {
        if let Err(violations) = validate_leader_worker_set(&valid, false) {
            return CaseResult::Rejected(violations);
        }
        let set = serde_json::to_value(render_leader_worker_set(&input, &valid)).unwrap();
        compare::objects(case.object("LeaderWorkerSet", &format!("{name}-0")), Some(defaults::leader_worker_set(set)))
    } else {
        let deployment = serde_json::to_value(render_deployment(&input, &valid)).unwrap();
        compare::objects(case.object("Deployment", name), Some(defaults::deployment(deployment)))
    };
    if let Some(shared) = valid.shared_gpus {
        let (namespace, graph) = (dcd.metadata.namespace.as_deref().unwrap(), valid.graph().unwrap());
        let template = render_claim_template(namespace, graph, valid.component_name(), shared);
        let name = template.metadata.name.clone().unwrap();
        let recorded = case.object("ResourceClaimTemplate", &name).map(without_owner);
        differences.extend(compare::objects(
            recorded,
            Some(defaults::claim_template(serde_json::to_value(template).unwrap())),
        ));
    }
    let service = render_service(&input, &valid).map(|s| defaults::service(serde_json::to_value(s).unwrap()));
    let recorded = case.object("Service", &name.to_lowercase().replace('.', "-"));
    differences.extend(compare::objects(recorded.map(compare::without_empty_type), service));
    if differences.is_empty() { CaseResult::Equal } else { CaseResult::Different(differences) }
}
