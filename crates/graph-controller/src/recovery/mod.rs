//! Pods that nobody else replaces although they cannot serve any more: engines whose group has lost one, and restored
//! engines whose memory is gone.

mod decide;

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

use self::decide::{Episodes, has_lost_its_memory, lost_group};

/// Replaces pods by deleting them; whoever made them makes others.
#[derive(Clone)]
pub struct Recovery {
    /// The only way to write.
    applier: Applier,
    /// Where events go.
    events: EventSink,
    /// The pods.
    pods: Store<Packed<Pod>>,
    /// Groups that begin anew.
    episodes: Arc<Mutex<Episodes>>,
}

impl Recovery {
    /// Writes through `applier`, and reads `pods`.
    pub fn new(applier: Applier, events: EventSink, pods: Store<Packed<Pod>>) -> Self {
        Self { applier, events, pods, episodes: Arc::default() }
    }

    fn episodes(&self) -> MutexGuard<'_, Episodes> {
        self.episodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An engine has ended that works together with others: all of them begin anew, at once. What is left of the group
    /// holds memory and sockets that the next ones need, and serves nobody.
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
        let doomed = self.episodes().doomed(&group, &uid, &uids);
        let mut doomed: Vec<_> =
            members.into_iter().filter(|member| member.uid().is_some_and(|uid| doomed.contains(&uid))).collect();
        // The one that has ended goes last: while it is there, a deletion that was refused is tried again.
        doomed.sort_by_key(|member| member.uid().as_deref() == Some(&uid));
        let mut refused = None;
        let deleted = doomed.len();
        for member in doomed {
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
        self.episodes().end(&group);
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
    pub async fn replace_forgetful(&self, packed: Arc<Packed<Pod>>) -> Result<Action, Error> {
        let Ok(pod) = packed.unpack() else { return Ok(Action::await_change()) };
        if !has_lost_its_memory(&pod) {
            return Ok(Action::await_change());
        }
        self.applier.delete(&pod, &pod.uid().unwrap_or_default()).await?;
        debug!(pod = %pod.name_any(), "replaced: its memory server started anew");
        let note = "the server of its GPU memory has started anew; the pod is replaced";
        self.events.publish(&pod.object_ref(&()), Event::warning("GpuMemoryLost", "Delete", note));
        Ok(Action::await_change())
    }
}
