//! A DynamoModel, and what becomes of it.

pub mod claim;
pub mod decide;
pub mod endpoints;
pub mod events;
pub mod fallback;
pub mod note;
pub mod observe;
pub mod status;
pub mod survey;
pub mod validate;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use api_types::{
    annotations,
    v1alpha1::{DynamoModel, DynamoModelStatus},
};
use claim::FINALIZER;
use controller_kit::{
    apply::{Applier, MetadataPatch, Reported},
    controller::Action,
    events::EventSink,
    failure::Class,
    read::Interruption,
    store::{Packed, UnpackError},
};
use decide::{Decision, Farewell};
use jiff::Timestamp;
use kube::Resource;
use note::Keep;
use observe::Observer;
use status::{Facts, Standing};

/// How long after the API server refused a write it is tried again.
const REFUSED_RETRY: Duration = Duration::from_secs(15);

/// Reconciles models.
pub struct Reconciler {
    /// Reads, and tells the engines what is wished.
    pub observer: Arc<Observer>,
    /// Writes.
    pub applier: Applier,
    /// Tells.
    pub events: EventSink,
    /// How long a deleted model waits for engines that do not let go of its adapter.
    pub farewell: Duration,
    /// Since when models wait to go, by uid. Measured here, because the clocks of others may be wrong.
    pub leaving: Mutex<HashMap<String, Instant>>,
}

impl Reconciler {
    /// Brings the status of one model up to date. The engines are not waited for: they are told what is wished, and the
    /// model is looked at again when something has come of it.
    ///
    /// # Errors
    /// What goes away by itself; everything else is told in the status.
    pub async fn reconcile(&self, packed: Arc<Packed<DynamoModel>>) -> Result<Action, Interruption> {
        if packed.metadata.deletion_timestamp.is_some() {
            return self.release(&packed).await;
        }
        let model = match packed.unpack() {
            Ok(model) => model,
            Err(error) => return self.report_unreadable(&packed, &error).await,
        };
        let observed = self.observer.observe(&model).await?;
        let decision = decide::decide(&observed, Timestamp::now());
        if decision.needs_finalizer {
            match self.applier.add_finalizer(packed.as_ref(), FINALIZER).await {
                Err(error) if error.class() != Class::Transient => {
                    let status = status::refused(decision.status, observed.live.as_ref(), &error, Timestamp::now());
                    self.report(&packed, observed.live.as_ref(), &status).await?;
                    return Ok(Action::requeue(REFUSED_RETRY));
                }
                answer => answer?,
            };
        }
        let action = self.report(&packed, observed.live.as_ref(), &decision.status).await?;
        if action == Action::await_change() {
            self.note(&packed, &model, &decision).await?;
        }
        Ok(action)
    }

    /// Keeps the memory of what is loaded on the model where its status cannot hold it. After the status: the endpoints in there
    /// that are ready hold what the memory says.
    async fn note(
        &self,
        packed: &Packed<DynamoModel>,
        model: &DynamoModel,
        decision: &Decision,
    ) -> Result<(), Interruption> {
        let refused = self.applier.cannot_store::<DynamoModel>(note::FIELD);
        let patch = match note::decide(model, decision.status.adapter.as_ref(), refused) {
            Keep::AsItIs => return Ok(()),
            Keep::Say(text) => MetadataPatch::default().annotation(annotations::ADAPTER, Some(&text)),
            // Nothing was loaded since the status was read that has the memory.
            Keep::Nothing => MetadataPatch::default().annotation(annotations::ADAPTER, None).only_if_unchanged(),
        };
        let uid = packed.metadata.uid.as_deref().unwrap_or_default();
        self.applier.patch_metadata(packed, uid, &patch).await?;
        Ok(())
    }

    /// The model is being deleted: its adapter is unloaded first. Nothing is loaded any more, and nothing waits for ever.
    async fn release(&self, packed: &Packed<DynamoModel>) -> Result<Action, Interruption> {
        if !packed.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER) {
            return Ok(Action::await_change());
        }
        // Of a model that cannot be read, nothing was ever loaded.
        let model = packed.unpack().ok();
        let loaded = model.as_ref().is_some_and(|model| !claim::Claim::of(model).leftovers().is_empty());
        let uid = packed.metadata.uid.clone().unwrap_or_default();
        let waited = self.waited(&uid);
        let holders = match &model {
            Some(model) => match self.observer.holders(model).await {
                Err(error) if waited < self.farewell => return Err(error),
                holders => holders.unwrap_or_default(),
            },
            None => BTreeSet::new(),
        };
        match decide::farewell(holders.len(), waited, self.farewell) {
            Farewell::Wait(rest) => return Ok(Action::requeue(rest)),
            Farewell::Done | Farewell::GiveUp => {}
        }
        self.applier.remove_finalizer(packed, FINALIZER).await?;
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        if loaded {
            self.publish(packed, [events::farewell(&holders)]);
        }
        Ok(Action::await_change())
    }

    fn waited(&self, uid: &str) -> Duration {
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.entry(uid.to_owned()).or_insert_with(Instant::now).elapsed()
    }

    /// The object is not what its kind should be. Nothing of it can be relied on but its metadata.
    async fn report_unreadable(
        &self,
        packed: &Packed<DynamoModel>,
        error: &UnpackError,
    ) -> Result<Action, Interruption> {
        let live: Option<DynamoModelStatus> = serde_json::from_value(packed.status()).ok();
        let facts = Facts {
            generation: packed.metadata.generation,
            is_adapter: false,
            standing: Standing::Invalid(error.to_string()),
            services: 0,
            endpoints: Vec::new(),
            memory: live.as_ref().and_then(|live| live.adapter.clone()),
        };
        let status = status::status(live.as_ref(), &facts, Timestamp::now());
        self.report(packed, live.as_ref(), &status).await
    }

    /// Writes the status, tells what changed, and says when to look again.
    async fn report(
        &self,
        packed: &Packed<DynamoModel>,
        live: Option<&DynamoModelStatus>,
        status: &DynamoModelStatus,
    ) -> Result<Action, Interruption> {
        match self.applier.report_status(packed, status).await? {
            Reported::Written => self.publish(packed, events::between(live, status)),
            Reported::Unchanged => {}
            Reported::Later(rest) => return Ok(Action::requeue(rest)),
        }
        Ok(Action::await_change())
    }

    fn publish(&self, packed: &Packed<DynamoModel>, events: impl IntoIterator<Item = events::Event>) {
        let parent = packed.object_ref(&());
        for event in events {
            self.events.publish(&parent, event.type_, event.reason, event.action, &event.note);
        }
    }
}
