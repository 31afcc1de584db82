//! Pods that nobody else replaces although they cannot serve any more: engines whose group has lost one, and restored engines
//! whose memory is gone.

mod decide;

use std::sync::Arc;

use controller_kit::apply::{Applier, Error};
use controller_kit::controller::Action;
use controller_kit::events::{EventSink, EventType};
use controller_kit::store::{Packed, Store};
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt};
use tracing::{debug, info};

use self::decide::{has_lost_its_memory, lost_group};

/// Replaces pods by deleting them; whoever made them makes others.
#[derive(Clone)]
pub struct Recovery {
    /// The only way to write.
    pub applier: Applier,
    /// Where events go.
    pub events: EventSink,
    /// The pods.
    pub pods: Store<Packed<Pod>>,
}

impl Recovery {
    /// An engine has ended that works together with others: all of them begin anew, at once. What is left of the group holds
    /// memory and sockets that the next ones need, and serves nobody.
    ///
    /// # Errors
    /// What the API server answered.
    pub async fn restart_group(&self, packed: Arc<Packed<Pod>>) -> Result<Action, Error> {
        let Ok(pod) = packed.unpack() else { return Ok(Action::await_change()) };
        let Some(group) = lost_group(&pod) else { return Ok(Action::await_change()) };
        let uid = pod.uid().unwrap_or_default();
        let mut deleted = 0;
        for member in self.pods.all().iter().filter(|member| group.has(&member.metadata)) {
            self.applier.delete_at_once(member.as_ref(), &uid).await?;
            deleted += 1;
        }
        // The pod may be gone by now, and nobody asks for its memory again.
        self.applier.forget(&uid);
        info!(pod = %pod.name_any(), %group, deleted, "an engine has ended; its group begins anew");
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
        let note = format!("the pod has ended ({phase}); all engines of {group} begin anew");
        self.events.publish(&pod.object_ref(&()), EventType::Warning, "FailoverCascade", "Delete", &note);
        Ok(Action::await_change())
    }

    /// The server that holds a restored engine's memory has started anew: what the engine was restored with is gone, and only
    /// another restore brings it back.
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
        self.events.publish(&pod.object_ref(&()), EventType::Warning, "GpuMemoryLost", "Delete", note);
        Ok(Action::await_change())
    }
}
