//! Rendering against the conformance kit: from each recorded DynamoComponentDeployment, our Deployment and Service must
//! be the recorded ones.
//!
//! The kit is not part of the repository; without it these tests say so and pass. Its records come from an API server,
//! so ours are completed with the server's defaults first. Mind the order of lists: it counts.

#![allow(clippy::unwrap_used, reason = "a panic is how helpers of tests fail")]

mod compare;
mod defaults;
mod kit;

use api_types::v1beta1::DynamoComponentDeployment;
use kit::{Case, Kit};
use serde_json::Value;
use workload::snapshot::Restore;
use workload::{
    Invalid, PodSettings, PullSecretIndex, RenderInput, legacy_type_is_worker, render_claim_template,
    render_deployment, render_service, validate,
};

/// What became of one recorded component.
enum Verdict {
    Equal,
    Different(Vec<String>),
    Rejected(Vec<Invalid>),
}

#[test]
fn every_single_node_case_is_equal() {
    let Some(kit) = Kit::find() else { return };
    let (mut equal, mut failures) = (0, Vec::new());
    let cases = kit.listed("tier1.txt");
    for case in &cases {
        let differences: Vec<String> = components(case).flat_map(|verdict| told(case, verdict)).collect();
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
    let Some(kit) = Kit::find() else { return };
    let (mut equal, mut failures) = (0, Vec::new());
    for case in kit.all() {
        for verdict in components(&case) {
            match verdict {
                Verdict::Equal => equal += 1,
                other => failures.extend(told(&case, other)),
            }
        }
    }
    println!("{equal} components equal");
    assert!(equal > 400, "only {equal} components were compared");
    assert!(failures.is_empty(), "{equal} components equal\n{}", failures.join("\n"));
}

fn told(case: &Case, verdict: Verdict) -> Vec<String> {
    let lines = match verdict {
        Verdict::Equal => return Vec::new(),
        Verdict::Different(differences) => differences,
        Verdict::Rejected(mistakes) => mistakes.iter().map(|mistake| format!("rejected: {mistake}")).collect(),
    };
    lines.into_iter().map(|line| format!("{}: {line}", case.name)).collect()
}

fn components(case: &Case) -> impl Iterator<Item = Verdict> {
    let recorded = case.objects.iter().filter(|object| object["kind"] == "DynamoComponentDeployment");
    recorded.map(|object| judge(case, object))
}

/// The owner of an object that belongs to the graph is whoever applies it.
fn without_owner(mut object: Value) -> Value {
    object["metadata"].as_object_mut().unwrap().remove("ownerReferences");
    object
}

fn judge(case: &Case, recorded: &Value) -> Verdict {
    let mut dcd: DynamoComponentDeployment = serde_json::from_value(recorded.clone()).unwrap();
    dcd.metadata.uid = Some("uid".to_owned());
    let valid = match validate(&dcd) {
        Ok(valid) => valid,
        Err(mistakes) => return Verdict::Rejected(mistakes),
    };
    let (settings, pull_secrets) = (PodSettings::default(), PullSecretIndex::default());
    let input = RenderInput {
        settings: &settings,
        pull_secrets: &pull_secrets,
        fallback_service_account: None,
        legacy_type_is_worker: legacy_type_is_worker(&valid, None, None),
        restore: Restore::None,
    };
    let deployment = defaults::deployment(serde_json::to_value(render_deployment(&input, &valid)).unwrap());
    let service = render_service(&input, &valid).map(|s| defaults::service(serde_json::to_value(s).unwrap()));
    let name = recorded["metadata"]["name"].as_str().unwrap();
    let mut differences = compare::objects(case.object("Deployment", name), Some(deployment));
    if let Some(shared) = valid.shared_gpus() {
        let (namespace, graph) = (dcd.metadata.namespace.as_deref().unwrap(), valid.graph().unwrap());
        let template = render_claim_template(namespace, graph, valid.component_name(), shared);
        let name = template.metadata.name.clone().unwrap();
        let recorded = case.object("ResourceClaimTemplate", &name).map(without_owner);
        differences.extend(compare::objects(
            recorded,
            Some(defaults::claim_template(serde_json::to_value(template).unwrap())),
        ));
    }
    differences.extend(compare::objects(case.object("Service", &name.to_lowercase().replace('.', "-")), service));
    if differences.is_empty() { Verdict::Equal } else { Verdict::Different(differences) }
}
