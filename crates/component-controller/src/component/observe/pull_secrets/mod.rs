//! Image pull secrets that a pod template names, and which of them exist.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use api_types::{conditions, v1beta1::DynamoComponentDeployment};
use controller_kit::{
    conditions::{Status, find},
    pull_secrets::PullSecrets,
    sync::locked,
};

/// Names of the image pull secrets in the pod template, each once.
pub fn named(component: &DynamoComponentDeployment) -> Vec<&str> {
    let pod = component.spec.component.pod_spec();
    let mut names: Vec<&str> = Vec::new();
    for reference in pod.into_iter().flat_map(|pod| pod.image_pull_secrets.iter().flatten()) {
        if !reference.name.is_empty() && !names.contains(&reference.name.as_str()) {
            names.push(&reference.name);
        }
    }
    names
}

/// The named Secrets whose existence must be read from the API server.
///
/// `watched` holds docker configuration Secrets. Without it, every reconcile would read them all: Secrets that the
/// status reports as found for the present spec count as existing until the spec changes.
pub fn unknown<'a>(component: &'a DynamoComponentDeployment, watched: Option<&PullSecrets>) -> Vec<&'a str> {
    let names = named(component).into_iter();
    match watched {
        Some(watched) => {
            let namespace = component.metadata.namespace.as_deref().unwrap_or_default();
            names.filter(|name| !watched.lists(namespace, name)).collect()
        }
        None => names.filter(|_| !were_found(component)).collect(),
    }
}

/// Whether the status reports, for the present spec, that all named Secrets exist.
fn were_found(component: &DynamoComponentDeployment) -> bool {
    let conditions = component.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    find(conditions, conditions::component::PULL_SECRETS_FOUND).is_some_and(|found| {
        found.status == Status::True.as_str() && found.observed_generation == component.metadata.generation
    })
}

/// Time for which a denied read counts: rights may be granted later.
const FORBIDDEN_FOR: Duration = Duration::from_secs(600);

/// Namespaces in which the API server denied reading Secrets. A denial says nothing about other namespaces.
#[derive(Debug, Default)]
pub struct ForbiddenNamespaces(Mutex<HashMap<String, Instant>>);

impl ForbiddenNamespaces {
    /// Records a denied read.
    pub fn mark(&self, namespace: &str, now: Instant) {
        let mut all = locked(&self.0);
        all.retain(|_, since| now.duration_since(*since) < FORBIDDEN_FOR);
        all.insert(namespace.to_owned(), now);
    }

    /// Whether a denied read still counts.
    pub fn is_marked(&self, namespace: &str, now: Instant) -> bool {
        let all = locked(&self.0);
        all.get(namespace).is_some_and(|since| now.duration_since(*since) < FORBIDDEN_FOR)
    }
}

#[cfg(test)]
mod tests;
