//! The LeaderWorkerSet.

use super::desired;
use controller_kit::apply::Desired;
use controller_kit::read::Interruption;
use workload::{LeaderWorkerSet, RenderInput, ValidatedComponent, keep_live_pull_secrets, render_leader_worker_set};

/// The LeaderWorkerSet as it should be.
pub(super) fn decide(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    uid: &str,
    live: Option<&LeaderWorkerSet>,
) -> Result<Desired, Interruption> {
    let mut rendered = render_leader_worker_set(input, valid);
    keep_live_pull_secrets(&mut rendered, valid, live);
    desired(&rendered, uid, true)
}
