//! Replicas of a component whose author says none.
//!
//! `DYN_DEPLOYMENT_CONFIG` of 2025 may give them. A number that it gave follows it, because those who apply a manifest
//! without one send back what was filled in before.

use api_types::{env, v1beta1::ComponentType};
use k8s_openapi::api::core::v1::EnvVar;
use rendering::legacy;

use crate::admission::{
    field::Node,
    view::{Component, Graph, Provider},
};

/// What a component gets; none if its number stands. `old` is the graph as it is stored.
pub(super) fn replicas(graph: &Graph<'_>, component: &Component<'_>, old: Option<&Graph<'_>>) -> Option<i64> {
    let before = old.and_then(|old| Some((old, old.component(component.name())?)));
    let is_scaled = |component: &Component<'_>| component.field("scalingAdapter").is_set();
    let Some(given) = component.field("replicas").number() else {
        // Replicas that a scaling adapter has set are not undone by leaving them out.
        let scaled = before.filter(|(_, before)| is_scaled(before) && is_scaled(component));
        let unless = || configured(graph, component).unwrap_or(1);
        return Some(scaled.map_or_else(unless, |(_, before)| before.replicas()));
    };
    let (old, before) = before.filter(|(_, before)| !is_scaled(before) && !is_scaled(component))?;
    let filled_in = before.field("replicas").number() == Some(given) && configured(old, &before) == Some(given);
    configured(graph, component).filter(|now| filled_in && *now != given)
}

/// What the configuration says. On Grove it is the engines' business, unless the image is built from an archive.
fn configured(graph: &Graph<'_>, component: &Component<'_>) -> Option<i64> {
    let variable = |within: &Node<'_>| within.field("env").named(env::DYN_DEPLOYMENT_CONFIG)?.parse::<EnvVar>();
    let (own, inherited) = (component.main().as_ref().and_then(variable), variable(&graph.spec()));
    if own.is_none() && inherited.is_none() {
        return None;
    }
    let names_image = component.main().is_some_and(|main| !main.field("image").text().is_empty());
    let archive = graph.archive().filter(|_| !names_image);
    if archive.is_none() && graph.provider() == Provider::Grove {
        return None;
    }
    let tag = archive.as_ref().and_then(|said| said.services.get(component.name())?.tag.as_deref());
    let is_entry = tag.is_some_and(|tag| legacy::is_entry(component.name(), tag));
    let is_frontend = component.role().map_or(is_entry, |role| role == ComponentType::Frontend);
    let workers = legacy::workers(component.name(), is_frontend, own.as_slice(), inherited.as_slice());
    workers.map(i64::from)
}
