//! The image pull secrets that an author names, and which of them exist.

use api_types::{conditions, v1beta1::DynamoComponentDeployment};
use controller_kit::{
    conditions::{Status, find},
    pull_secrets::PullSecrets,
};

/// The image pull secrets that an author names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedPullSecrets {
    /// Whether there are any.
    pub any: bool,
    /// Those that do not exist, in the author's order.
    pub missing: Vec<String>,
}

/// Names of the image pull secrets in the author's pod template, each once.
pub fn named(component: &DynamoComponentDeployment) -> Vec<&str> {
    let pod = component.spec.component.pod_template.as_ref().and_then(|template| template.spec.as_ref());
    let mut names: Vec<&str> = Vec::new();
    for reference in pod.into_iter().flat_map(|pod| pod.image_pull_secrets.iter().flatten()) {
        if !reference.name.is_empty() && !names.contains(&reference.name.as_str()) {
            names.push(&reference.name);
        }
    }
    names
}

/// The named Secrets of which only the API server can tell whether they exist.
///
/// `watched` answers for docker configuration Secrets. Where none are watched, every reconcile would have to ask:
/// Secrets that the status calls found for the present spec count as there, until the spec changes.
pub fn unknown<'a>(component: &'a DynamoComponentDeployment, watched: Option<&PullSecrets>) -> Vec<&'a str> {
    let names = named(component).into_iter();
    match watched {
        Some(watched) => {
            let namespace = component.metadata.namespace.as_deref().unwrap_or_default();
            names.filter(|name| !watched.knows(namespace, name)).collect()
        }
        None => names.filter(|_| !were_found(component)).collect(),
    }
}

/// Whether the status says, for the present spec, that all named Secrets exist.
fn were_found(component: &DynamoComponentDeployment) -> bool {
    let conditions = component.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    find(conditions, conditions::component::PULL_SECRETS_FOUND).is_some_and(|found| {
        found.status == Status::True.as_str() && found.observed_generation == component.metadata.generation
    })
}

#[cfg(test)]
mod tests;
