//! The LeaderWorkerSet.

use super::{account, desired};
use api_types::annotations;
use controller_kit::apply::Desired;
use controller_kit::read::Interruption;
use workload::{LeaderWorkerSet, RenderInput, ValidatedComponent, keep_live_pull_secrets, render_leader_worker_set};

/// The LeaderWorkerSet as it should be, of the component `uid`. `accounts` are labelled for its pods.
pub(super) fn decide(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    (uid, accounts): (&str, &[String]),
    live: Option<&LeaderWorkerSet>,
) -> Result<Desired, Interruption> {
    let mut rendered = account::render(input, valid, accounts, live, render_leader_worker_set);
    keep_live_pull_secrets(&mut rendered, valid, live);
    desired(&rendered, uid, true)
}

/// The live LeaderWorkerSet with the replicas that it shall have. Its templates cannot be rendered for now.
pub(super) fn scaled(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    uid: &str,
    live: &LeaderWorkerSet,
) -> Result<Desired, Interruption> {
    let mut rendered = render_leader_worker_set(input, valid);
    rendered.spec.leader_worker_template.clone_from(&live.spec.leader_worker_template);
    let marks = rendered.metadata.annotations.get_or_insert_default();
    marks.remove(annotations::TEMPLATE_DIGEST);
    let digest = live.metadata.annotations.iter().find_map(|all| all.get_key_value(annotations::TEMPLATE_DIGEST));
    marks.extend(digest.map(|(key, digest)| (key.clone(), digest.clone())));
    desired(&rendered, uid, true)
}
