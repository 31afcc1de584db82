//! Scaling adapters that have no effect, by the rules of their controller. A graph may be ready in spite of them.

use api_types::{
    conversion::preserved::add_implied_adapters,
    v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentScalingAdapter as Adapter},
};
use graph_controller::scaling_adapter::{model, observe::first_of, validate::validate};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

use super::{
    model::{Cause, DiagnosisInputs, ObjectName, Weight},
    rules::{self, REJECTIONS},
};

/// Reason of the event about a rejected change of a graph.
const REJECTED: &str = "UpdateFailed";
/// Reason of an adapter that shares its component with another one.
const RIVAL: &str = "AnotherAdapterScales";

/// Causes in the adapters of a graph.
pub fn causes(observed: &DiagnosisInputs) -> Vec<Cause> {
    let Some(mut graph) = observed.graph.clone() else { return Vec::new() };
    add_implied_adapters(&mut graph);
    observed.adapters.iter().filter_map(|adapter| of_adapter(observed, &graph, adapter)).collect()
}

fn of_adapter(observed: &DiagnosisInputs, graph: &DynamoGraphDeployment, adapter: &Adapter) -> Option<Cause> {
    let is_rival = |other: &&Adapter| other.spec.dgd_ref == adapter.spec.dgd_ref;
    let rivals: Vec<ObjectMeta> =
        observed.adapters.iter().filter(is_rival).map(|other| other.metadata.clone()).collect();
    let first = first_of(&rivals, graph.metadata.uid.as_deref());
    let preceded_by = first.filter(|name| *name != adapter.name_any()).map(str::to_owned);
    let pass = model::ScalingAdapterObserved {
        adapter: adapter.clone(),
        graph: Some(graph.clone()),
        preceded_by,
        pause: None,
    };
    let kind = Adapter::kind(&()).into_owned();
    let chain = vec![observed.root.object(), ObjectName::new(&kind, &adapter.name_any())];
    let target = match validate(&pass) {
        Ok(target) => target,
        Err(no_effect) if no_effect.reason == RIVAL => {
            let remedy = "delete one of the two adapters; an autoscaler that scales the other one has no effect";
            return Some(Cause::new(RIVAL, Weight::Blocks, chain, no_effect.message, remedy));
        }
        Err(no_effect) => {
            let remedy = "correct spec.dgdRef.componentName of the adapter, set scalingAdapter of the component, or delete \
                          the adapter";
            return Some(Cause::new("AdapterWithoutComponent", Weight::Blocks, chain, no_effect.message, remedy));
        }
    };
    let (live, desired) = (target.component.desired_replicas(), adapter.spec.replicas);
    let is_about = |name: &str, reason: &str| name == adapter.name_any() && reason == REJECTED;
    let mut warnings = observed.warnings.iter().filter(|one| one.kind == kind);
    let warning = warnings.find(|one| is_about(&one.name, &one.reason)).filter(|_| live != desired)?;
    let rule = rules::matching(REJECTIONS, &warning.message);
    let evidence =
        vec![format!("component {} has {live} replicas, and its adapter requests {desired}", target.component.name)];
    let code = rule.map_or("ScalingRejected", |rule| rule.code);
    let remedy = rule.map_or("change the replicas of the adapter, or what rejects them", |rule| rule.remedy);
    Some(Cause { evidence, ..Cause::new(code, Weight::Blocks, chain, &warning.message, remedy) })
}
