//! The Deployment.

use super::desired;
use controller_kit::apply::{Desired, Error};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use workload::{RenderInput, ValidatedComponent, keep_live_pull_secrets, render_deployment};

/// The Deployment as it should be.
pub(super) fn decide(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    uid: &str,
    live: Option<&Deployment>,
) -> Result<Desired, Error> {
    let mut rendered = render_deployment(input, valid);
    keep_live_pull_secrets(&mut rendered, valid, live);
    // The selector cannot be changed: a Deployment with another one can never become ours, whatever its labels say.
    let adoptable = live.is_none_or(|live| selector(live) == selector(&rendered));
    desired(&rendered, uid, adoptable)
}

fn selector(deployment: &Deployment) -> Option<&LabelSelector> {
    deployment.spec.as_ref().map(|spec| &spec.selector)
}
