//! The LeaderWorkerSet.

use api_types::annotations;
use controller_kit::{
    apply::{Desired, includes},
    read::Interruption,
};
use rendering::{
    LeaderWorkerSet, RenderInput, ValidatedComponent, keep_live_pull_secrets, note_status_before,
    render_leader_worker_set,
};
use serde_json::json;

use super::{desired::desired, model_service};

/// Plans the LeaderWorkerSet of the component `uid`. `accounts` are labelled for its pods.
pub(super) fn plan(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    (uid, accounts): (&str, &[String]),
    live: Option<&LeaderWorkerSet>,
) -> Result<Desired, Interruption> {
    let mut rendered = model_service::render(input, valid, accounts, live, render_leader_worker_set);
    keep_live_pull_secrets(&mut rendered, valid, live);
    let noted = match live {
        Some(live) => {
            let same = has_templates_of(live, &rendered);
            note_status_before(&mut rendered, live, same)
        }
        None => false,
    };
    let desired = desired(&rendered, uid, true)?;
    Ok(if noted { desired.only_if_unchanged() } else { desired })
}

/// Whether the templates are semantically equal.
fn has_templates_of(live: &LeaderWorkerSet, rendered: &LeaderWorkerSet) -> bool {
    let (live, rendered) = (json!(live.spec.leader_worker_template), json!(rendered.spec.leader_worker_template));
    includes(&live, &rendered) && includes(&rendered, &live)
}

/// The live LeaderWorkerSet with the desired replicas, while its templates cannot be rendered.
pub(super) fn scaled(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    uid: &str,
    live: &LeaderWorkerSet,
) -> Result<Desired, Interruption> {
    let mut rendered = render_leader_worker_set(input, valid);
    rendered.spec.leader_worker_template.clone_from(&live.spec.leader_worker_template);
    let marks = rendered.metadata.annotations.get_or_insert_default();
    for key in [annotations::TEMPLATE_DIGEST, annotations::STATUS_BEFORE] {
        marks.remove(key);
        let kept = live.metadata.annotations.iter().find_map(|all| all.get_key_value(key));
        marks.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
    }
    desired(&rendered, uid, true)
}
