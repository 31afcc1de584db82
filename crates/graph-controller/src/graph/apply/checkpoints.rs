//! Writes the checkpoints that a graph makes, and what their captures need.

use api_types::{labels, owner, v1alpha1::DynamoCheckpoint};
use controller_kit::apply::{Desired, Error};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::ResourceExt;
use serde_json::Value;

use super::writer::{Writer, Written, unserved};
use crate::graph::{
    model::{ComponentCheckpoint, DesiredCheckpoint, Tally},
    observe::{Caches, live_value},
};

/// Writes the checkpoints.
pub(super) async fn write(writer: Writer<'_>, caches: &Caches, checkpoints: &[ComponentCheckpoint]) -> Tally {
    let mut tally = Tally::default();
    for checkpoint in checkpoints.iter().filter_map(|checkpoint| checkpoint.desired.as_ref()) {
        tally.take_waiting(write_one(writer, caches, checkpoint).await);
    }
    tally
}

/// Writes a checkpoint, and then the claim that belongs to it.
async fn write_one(
    writer: Writer<'_>,
    caches: &Caches,
    checkpoint: &DesiredCheckpoint,
) -> Result<Option<String>, Error> {
    let (namespace, name) = (checkpoint.object.namespace().unwrap_or_default(), checkpoint.object.name_any());
    let live = live_value(&caches.checkpoints, &namespace, &name);
    let now = match writer.write_checkpoint(checkpoint, live.as_ref()).await? {
        Written::As(object) => Some(*object),
        Written::Not => live,
        Written::Waits(why) => return Ok(Some(why)),
    };
    let uid = now.as_ref().and_then(|object| object.pointer("/metadata/uid")?.as_str());
    match (&checkpoint.claim, uid) {
        (Some(claim), Some(uid)) => write_claim(writer, caches, claim, &name, uid).await,
        _ => Ok(None),
    }
}

/// The claim belongs to the checkpoint, so that it goes with it.
async fn write_claim(
    writer: Writer<'_>,
    caches: &Caches,
    claim: &ResourceClaimTemplate,
    checkpoint: &str,
    uid: &str,
) -> Result<Option<String>, Error> {
    if !caches.claim_templates.is_served() {
        caches.claim_templates.need();
        return Ok(Some(unserved(claim)));
    }
    let mut claim = claim.clone();
    claim.metadata.owner_references = Some(vec![owner::controller::<DynamoCheckpoint>(checkpoint, uid)]);
    let live = live_value(&caches.claim_templates, &claim.namespace().unwrap_or_default(), &claim.name_any());
    let written = writer.send(&Desired::of(&claim, uid)?, live.as_ref()).await;
    // Nothing is decided on a cache for the checkpoint here: the memory of this write is not needed.
    writer.applier.forget(uid);
    Ok(written?.reason())
}

/// Deletes checkpoints that nothing starts from any more. Their data are removed by the component controller.
pub(super) async fn prune(writer: Writer<'_>, stale: &[DynamoCheckpoint]) -> Tally {
    let mut tally = Tally::default();
    for checkpoint in stale {
        tally.take(writer.applier.delete(checkpoint, writer.uid()).await);
    }
    tally
}

impl Writer<'_> {
    /// One that is kept when the graph goes has no owner; its labels say whose it is. It loses the owner before
    /// anything else is said of it: whatever happens in between, it is there still.
    async fn write_checkpoint(&self, checkpoint: &DesiredCheckpoint, live: Option<&Value>) -> Result<Written, Error> {
        let object =
            if checkpoint.goes_with_graph { self.owned(&checkpoint.object) } else { checkpoint.object.clone() };
        let mut desired = Desired::of(&object, self.uid())?;
        for key in [labels::CHECKPOINT_ID, labels::GRAPH] {
            if let Some(value) = object.labels().get(key) {
                desired = desired.adopt_if_labelled(key, value);
            }
        }
        if let Some(live) = live.filter(|_| !checkpoint.goes_with_graph) {
            self.applier.release(&desired, live).await?;
        }
        self.send(&desired, live).await
    }
}
