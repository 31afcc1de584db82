//! Replicas of a component that states none.
//!
//! `DYN_DEPLOYMENT_CONFIG` of the legacy API may give them. A number that it gave follows it, because those who apply a
//! manifest without one send back what was filled in before.

use api_types::{
    conversion::preserved::archive::PreservedGraph,
    env,
    v1beta1::{ComponentSpec, ComponentType, DynamoGraphDeployment},
};
use k8s_openapi::api::core::v1::EnvVar;
use rendering::{legacy, rules::ProviderChoice};

/// What a component gets; none if its number stands. `old` is the graph as it is stored.
pub(super) fn replicas(
    graph: &DynamoGraphDeployment,
    component: &ComponentSpec,
    old: Option<&DynamoGraphDeployment>,
) -> Option<i32> {
    let before =
        old.and_then(|old| Some((old, old.spec.components.iter().find(|before| before.name == component.name)?)));
    let is_scaled = |component: &ComponentSpec| component.scaling_adapter.is_some();
    let Some(given) = component.replicas else {
        // Replicas that a scaling adapter has set are not undone by leaving them out.
        let scaled = before.filter(|(_, before)| is_scaled(before) && is_scaled(component));
        let unless = || configured(graph, component).unwrap_or(1);
        return Some(scaled.map_or_else(unless, |(_, before)| before.wanted_replicas()));
    };
    let (old, before) = before.filter(|(_, before)| !is_scaled(before) && !is_scaled(component))?;
    let filled_in = before.replicas == Some(given) && configured(old, before) == Some(given);
    configured(graph, component).filter(|now| filled_in && *now != given)
}

/// What the configuration says. On Grove it is the engines' business, unless the image is built from an archive.
fn configured(graph: &DynamoGraphDeployment, component: &ComponentSpec) -> Option<i32> {
    let variable =
        |list: Option<&Vec<EnvVar>>| list?.iter().find(|variable| variable.name == env::DYN_DEPLOYMENT_CONFIG).cloned();
    let main = component.main_container();
    let own = main.and_then(|main| variable(main.env.as_ref()));
    let inherited = variable(graph.spec.env.as_ref());
    if own.is_none() && inherited.is_none() {
        return None;
    }
    let names_image = main.is_some_and(|main| main.image.as_deref().is_some_and(|image| !image.is_empty()));
    let preserved = graph.metadata.annotations.as_ref().and_then(PreservedGraph::of);
    let archive = preserved.filter(|preserved| preserved.source.is_some() && !names_image);
    if archive.is_none() && ProviderChoice::of(&graph.metadata).is_grove() {
        return None;
    }
    let tag = archive.as_ref().and_then(|archive| archive.services.get(&component.name)?.tag.as_deref());
    let is_entry = tag.is_some_and(|tag| legacy::is_entry(&component.name, tag));
    let is_frontend = component.type_.map_or(is_entry, |role| role == ComponentType::Frontend);
    legacy::workers(&component.name, is_frontend, own.as_slice(), inherited.as_slice())
}
