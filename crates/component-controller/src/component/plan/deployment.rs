//! Plans the Deployment.

use controller_kit::{apply::Desired, read::Interruption};
use k8s_openapi::{api::apps::v1::Deployment, apimachinery::pkg::apis::meta::v1::LabelSelector};
use rendering::{RenderInput, ValidatedComponent, keep_live_pull_secrets, render_deployment};

use super::{desired::desired, model_service};

/// Plans the Deployment of the component `uid`. `accounts` are labelled for its pods.
pub(super) fn plan(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    (uid, accounts): (&str, &[String]),
    live: Option<&Deployment>,
) -> Result<Desired, Interruption> {
    let mut rendered = model_service::render(input, valid, accounts, live, render_deployment);
    keep_live_pull_secrets(&mut rendered, valid, live);
    desired(&rendered, uid, live.is_none_or(|live| has_selector_of(live, &rendered)))
}

/// Selectors are immutable: a Deployment with another one is never adopted, whatever its labels.
fn has_selector_of(live: &Deployment, rendered: &Deployment) -> bool {
    selector(live) == selector(rendered)
}

fn selector(deployment: &Deployment) -> Option<&LabelSelector> {
    deployment.spec.as_ref().map(|spec| &spec.selector)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::apps::v1::DeploymentSpec;

    use super::*;

    #[test]
    fn only_a_deployment_with_the_same_selector_is_adopted() {
        let deployment = |value: &str| Deployment {
            spec: Some(DeploymentSpec {
                selector: LabelSelector {
                    match_labels: Some(BTreeMap::from([("app".to_owned(), value.to_owned())])),
                    match_expressions: None,
                },
                ..DeploymentSpec::default()
            }),
            ..Deployment::default()
        };
        assert!(has_selector_of(&deployment("a"), &deployment("a")));
        assert!(!has_selector_of(&deployment("a"), &deployment("b")));
    }
}
