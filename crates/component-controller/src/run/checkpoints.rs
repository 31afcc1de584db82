//! The loop of checkpoints.

use std::sync::Arc;

use api_types::{annotations, external::PodSnapshot, labels, v1alpha1::DynamoCheckpoint};
use controller_kit::{
    context::Context,
    controller::{Outputs, Wiring, owner_key},
    pods::{NOT_ENDED, PodDiagnostics},
    store::{Key, Packed, ServedApis, Store, Watch, keep},
};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod};
use kube::{Resource, core::PartialObjectMeta};
use rendering::checkpoint::checkpoint_id;

use crate::{
    NAME,
    checkpoint::{
        CheckpointReconciler,
        observe::{CheckpointCaches, CheckpointObserver},
    },
};

/// Follows checkpoints until the process is to stop.
pub(super) async fn run(
    context: &Context,
    apis: &ServedApis,
    caches: CheckpointCaches,
    root: Watch<Packed<DynamoCheckpoint>>,
) {
    let (root, twins) = root.and_keys(twins(&caches));
    let checkpoints = caches.checkpoints.clone();
    let source = format!("{}={}", labels::CHECKPOINT_SOURCE, labels::TRUE);
    let mut wiring = Wiring::new(context, apis, root);
    let keys = move |job: &_| keys_of_job(&checkpoints, job);
    let jobs = wiring.watched::<Job>(Some(labels::CHECKPOINT_ID), keep::owned_or_orphaned::<DynamoCheckpoint>, keys);
    let captured = wiring.metadata::<Pod>(Some(&source), Some(NOT_ENDED), keys_of_pod);
    let captures = wiring.watched_if_served::<PodSnapshot>(None, keep::any, |capture| vec![Key::of(capture)]);
    let (controller, applier) = wiring.finish(NAME);
    let controller = controller.also(twins);
    let reconciler = Arc::new(CheckpointReconciler {
        observer: CheckpointObserver {
            applier: applier.clone(),
            jobs,
            captured,
            captures,
            checkpoints: caches,
            pods: PodDiagnostics::new(context.client.clone()),
        },
        outputs: Outputs::new(applier),
    });
    controller.drive(context, reconciler).await;
}

/// The other checkpoints with the identifier of one: when that goes, it is their turn.
fn twins(caches: &CheckpointCaches) -> impl Fn(&Packed<DynamoCheckpoint>) -> Vec<Key> + Send + use<> {
    let caches = caches.clone();
    move |packed| {
        let (own, Ok(checkpoint)) = (Key::of(packed), packed.unpack()) else { return Vec::new() };
        let all = caches.with_id(&own.namespace, &checkpoint_id(&checkpoint));
        all.iter().map(Key::of).filter(|key| *key != own).collect()
    }
}

/// The checkpoint of a Job: its owner, or the one for which it removes what was kept.
fn keys_of_job(checkpoints: &Store<Packed<DynamoCheckpoint>>, job: &Packed<Job>) -> Vec<Key> {
    let uid = job.meta().annotations.as_ref().and_then(|all| all.get(annotations::CLEANUP_FOR));
    let cleaned = uid.and_then(|uid| {
        let here = checkpoints.in_namespace(job.meta().namespace.as_deref().unwrap_or_default());
        here.iter().find(|found| found.metadata.uid.as_ref() == Some(uid)).map(|found| Key::of(found.as_ref()))
    });
    owner_key::<DynamoCheckpoint, Packed<Job>>(job).into_iter().chain(cleaned).collect()
}

fn keys_of_pod(pod: &PartialObjectMeta<Pod>) -> Vec<Key> {
    let owner = pod.metadata.labels.as_ref().and_then(|all| all.get(labels::SNAPSHOT_OWNER));
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    owner.map(|owner| Key::new(namespace, owner)).into_iter().collect()
}
