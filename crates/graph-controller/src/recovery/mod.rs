//! Replaces pods that cannot serve any more and that no controller replaces: engines of a group that lost one, and
//! restored engines that lost their GPU memory.

mod plan;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use controller_kit::{
    apply::{Applier, Error},
    controller::Action,
    events::{Event, EventSink},
    store::{Key, Packed, Store},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};
use tracing::{debug, info, warn};

use self::plan::{GroupRestarts, lost_gpu_memory, lost_group};

/// Replaces pods by deleting them; their controllers create new ones.
#[derive(Clone)]
pub struct Recovery {
    /// Writes.
    applier: Applier,
    /// Records events.
    events: EventSink,
    /// The pods.
    pods: Store<Packed<Pod>>,
    /// Groups that restart.
    restarts: Arc<Mutex<GroupRestarts>>,
}

impl Recovery {
    /// Writes through `applier`, and reads `pods`.
    pub fn new(applier: Applier, events: EventSink, pods: Store<Packed<Pod>>) -> Self {
        Self { applier, events, pods, restarts: Arc::default() }
    }

    fn restarts(&self) -> MutexGuard<'_, GroupRestarts> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restarts all engines of a group of which one has ended. The rest of the group serves no requests, and holds
    /// memory and sockets that the next engines need.
    ///
    /// # Errors
    /// What the API server answered.
    pub async fn restart_group(&self, packed: Arc<Packed<Pod>>) -> Result<Action, Error> {
        let Ok(pod) = packed.unpack() else { return Ok(Action::await_change()) };
        let Some(group) = lost_group(&pod) else { return Ok(Action::await_change()) };
        let uid = pod.uid().unwrap_or_default();
        let all = self.pods.all();
        let members: Vec<_> = all.iter().filter(|member| group.has(&member.metadata)).collect();
        let uids = members.iter().filter_map(|member| member.uid()).collect();
        let to_delete = self.restarts().pods_to_delete(&group, &uid, &uids);
        let mut to_delete: Vec<_> =
            members.into_iter().filter(|member| member.uid().is_some_and(|uid| to_delete.contains(&uid))).collect();
        // The ended one is deleted last: while it exists, a rejected deletion is retried.
        to_delete.sort_by_key(|member| member.uid().as_deref() == Some(&uid));
        let mut refused = None;
        let deleted = to_delete.len();
        for member in to_delete {
            if member.uid().as_deref() == Some(&uid)
                && let Some(error) = refused.take()
            {
                return Err(error);
            }
            if let Err(error) = self.applier.delete_at_once(member.as_ref(), &uid).await {
                warn!(pod = %member.name_any(), %group, %error, "failed to delete a pod of a group that begins anew");
                refused.get_or_insert(error);
            }
        }
        if let Some(error) = refused {
            return Err(error);
        }
        self.restarts().end(&group);
        // Deletions of a pod that the cache does not have any more are not waited for.
        let cached = self.pods.get(&Key::of(packed.as_ref())).and_then(|cached| cached.uid());
        if cached.as_deref() != Some(&uid) {
            self.applier.forget(&uid);
        }
        info!(pod = %pod.name_any(), %group, deleted, "an engine has ended; its group begins anew");
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let note = format!("the pod has ended ({phase}); all engines of {group} begin anew");
        self.events.publish(&pod.object_ref(&()), Event::warning("FailoverCascade", "Delete", note));
        Ok(Action::await_change())
    }

    /// The server that holds a restored engine's memory has started anew: what the engine was restored with is gone,
    /// and only another restore brings it back.
    ///
    /// # Errors
    /// What the API server answered.
    pub async fn replace_after_gms_restart(&self, packed: Arc<Packed<Pod>>) -> Result<Action, Error> {
        let Ok(pod) = packed.unpack() else { return Ok(Action::await_change()) };
        if !lost_gpu_memory(&pod) {
            return Ok(Action::await_change());
        }
        self.applier.delete(&pod, &pod.uid().unwrap_or_default()).await?;
        debug!(pod = %pod.name_any(), "replaced: its memory server started anew");
        let note = "the server of its GPU memory has started anew; the pod is replaced";
        self.events.publish(&pod.object_ref(&()), Event::warning("GpuMemoryLost", "Delete", note));
        Ok(Action::await_change())
    }
}
