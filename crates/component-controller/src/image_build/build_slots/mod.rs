//! FIFO semaphore for image builds, shared by all reconciles. Each queries registries long before it creates its
//! Job, so the builds that it observed are outdated by then.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

use api_types::v1alpha1::DynamoComponent;
use controller_kit::{
    controller::owner_key,
    fairness,
    store::{CacheView, Key, Packed, Store, controller_owner},
    sync::locked,
};
use k8s_openapi::api::batch::v1::Job;

use super::model::has_ended;

/// A Job that no cache has shown after this long was never created, or is deleted.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A semaphore with a queue. Namespaces share it: one alone gets three quarters. The next in the queue is of the
/// namespace with the fewest builds, then the first in order.
pub struct BuildSlots {
    /// Maximum number of builds at a time.
    pub(super) limit: usize,
    jobs: Store<Packed<Job>>,
    components: Store<Packed<DynamoComponent>>,
    server: Box<dyn Fn(&str) -> BuildServer + Send + Sync>,
    state: Mutex<SlotsState>,
}

/// Process that runs the builds of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildServer {
    /// This process.
    This,
    /// Another replica, whose builds count.
    Replica,
    /// Another operator, whose builds do not.
    Operator,
}

#[derive(Default)]
struct SlotsState {
    /// Jobs that are being created, and that the cache has not shown. It may show an ended one of the same name.
    permits: HashMap<Key, BuildPermit>,
    /// Waiting components in order. They keep their places until the next try: the queue may be long, and registries
    /// slow.
    waiting: Vec<Key>,
}

struct BuildPermit {
    since: Instant,
    /// resourceVersion of the Job, once it is known.
    version: Option<u64>,
}

impl BuildSlots {
    /// Counts builds in these caches: those of other replicas too, and none of another operator.
    pub fn new(
        limit: usize,
        jobs: Store<Packed<Job>>,
        components: Store<Packed<DynamoComponent>>,
        server: impl Fn(&str) -> BuildServer + Send + Sync + 'static,
    ) -> Self {
        Self { limit, jobs, components, server: Box::new(server), state: Mutex::default() }
    }

    /// Whether a component may create this Job now; if not, the component is queued. A Job that counts already has its
    /// slot.
    pub fn try_acquire(&self, component: &Key, job: &Key, now: Instant) -> bool {
        let mut state = self.state(now);
        let counts = state.permits.contains_key(job) || self.shows_running(job);
        let may = counts || self.turns(&state, Some(component)).contains(component);
        if may {
            state.waiting.retain(|waiting| waiting != component);
            state.permits.insert(job.clone(), BuildPermit { since: now, version: None });
        } else if !state.waiting.contains(component) {
            state.waiting.push(component.clone());
        }
        may
    }

    /// Records that the Job was created, in this version: it counts by itself once the cache shows it.
    pub fn confirm(&self, job: &Key, version: Option<u64>, now: Instant) {
        if let Some(permit) = self.state(now).permits.get_mut(job) {
            *permit = BuildPermit { since: now, version };
        }
    }

    /// Releases the slot of a Job that was not created.
    pub fn release(&self, job: &Key, now: Instant) {
        self.state(now).permits.remove(job);
    }

    /// Removes a component from the queue.
    pub fn dequeue(&self, component: &Key, now: Instant) {
        self.state(now).waiting.retain(|waiting| waiting != component);
    }

    /// The waiting components that may build now.
    pub fn next_in_turn(&self, now: Instant) -> Vec<Key> {
        let state = self.state(now);
        if state.waiting.is_empty() {
            return Vec::new();
        }
        self.turns(&state, None)
    }

    /// The components that may build now, of the queue and the given one.
    fn turns(&self, state: &SlotsState, candidate: Option<&Key>) -> Vec<Key> {
        let mut in_use = self.in_use(state);
        let mut total: usize = in_use.values().sum();
        let candidate = candidate.filter(|key| !state.waiting.contains(key));
        let mut waiting: Vec<&Key> = state.waiting.iter().chain(candidate).collect();
        let mut turns = Vec::new();
        loop {
            let own = |key: &Key| in_use.get(&key.namespace).copied().unwrap_or_default();
            let next = waiting.iter().enumerate().min_by_key(|(place, key)| (own(key), *place));
            let Some((place, key)) = next.filter(|(_, key)| fairness::room(own(key), total, self.limit) > 0) else {
                break;
            };
            *in_use.entry(key.namespace.clone()).or_default() += 1;
            total += 1;
            turns.push((*key).clone());
            waiting.remove(place);
        }
        turns
    }

    /// Builds by namespace: running ones, and those that are being created. A label does not make a Job a build, nor
    /// does the name of an owner: the Job must be owned by an existing component.
    fn in_use(&self, state: &SlotsState) -> HashMap<String, usize> {
        let mut in_use: HashMap<String, usize> = HashMap::new();
        for job in self.jobs.all().iter().filter(|job| self.is_build(job)) {
            if job.unpack().is_ok_and(|job| runs(&job)) {
                *in_use.entry(job.metadata.namespace.clone().unwrap_or_default()).or_default() += 1;
            }
        }
        for job in state.permits.keys() {
            *in_use.entry(job.namespace.clone()).or_default() += 1;
        }
        in_use
    }

    fn is_build(&self, job: &Packed<Job>) -> bool {
        let Some(key) = owner_key::<DynamoComponent, _>(job) else { return false };
        let owner = self.components.get(&key).and_then(|component| component.metadata.uid.clone());
        (self.server)(&key.namespace) != BuildServer::Operator
            && owner.is_some()
            && owner == controller_owner(job).map(|owner| owner.uid.clone())
    }

    /// Whether the cache shows a Job of that name that counts by itself.
    fn shows_running(&self, job: &Key) -> bool {
        let found = self.jobs.get(job).and_then(|job| job.unpack().ok());
        found.is_some_and(|job| runs(&job))
    }

    /// The state without outdated permits and components.
    fn state(&self, now: Instant) -> MutexGuard<'_, SlotsState> {
        let mut state = locked(&self.state);
        state.permits.retain(|job, permit| {
            let passed = permit.version.is_some_and(|version| self.jobs.latest() >= version);
            !passed && !self.shows_running(job) && now.duration_since(permit.since) < PERMIT_TIMEOUT
        });
        state.waiting.retain(|component| {
            let found = self.components.get(component);
            let lives = found.is_some_and(|found| found.metadata.deletion_timestamp.is_none());
            // Elsewhere, it makes no further attempt.
            lives && (self.server)(&component.namespace) == BuildServer::This
        });
        state
    }
}

/// Whether a Job has pods, or gets some. A suspended one does not count.
fn runs(job: &Job) -> bool {
    !has_ended(job) && job.spec.as_ref().and_then(|spec| spec.suspend) != Some(true)
}

#[cfg(test)]
mod tests;
