//! How many builds run at a time: one count for all reconciles. Each of them asks registries long before it makes its Job, and what
//! it saw of the others at first is not what is there by then.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use api_types::v1alpha1::DynamoComponent;
use controller_kit::{
    controller::owner_key,
    fairness,
    store::{CacheView, Key, Packed, Store, controller_owner},
};
use k8s_openapi::api::batch::v1::Job;

use super::decide::has_ended;

/// A Job that no cache has shown after this long was never made, or is gone.
const LOST: Duration = Duration::from_secs(60);

/// Leave to build, for as many as may at a time. Namespaces share it: one alone gets three quarters, and of those that wait comes first
/// whose namespace builds least, then who came first.
pub struct Slots {
    most: usize,
    jobs: Store<Packed<Job>>,
    components: Store<Packed<DynamoComponent>>,
    /// Whether another operator looks after a namespace: nobody there asks us again.
    taken: Box<dyn Fn(&str) -> bool + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Jobs that are made, and that the cache has not shown. It may show one of the same name that has ended.
    given: HashMap<Key, Given>,
    /// Components that have to wait, in the order in which they came. They keep their places however long it takes until they ask
    /// again: the queue may be long, and the registries slow.
    waiting: Vec<Key>,
}

struct Given {
    since: Instant,
    /// Of the Job, once it is known.
    version: Option<u64>,
}

impl Slots {
    /// Counts in these caches. `taken` says whether another operator looks after a namespace.
    pub fn new(
        most: usize,
        jobs: Store<Packed<Job>>,
        components: Store<Packed<DynamoComponent>>,
        taken: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { most, jobs, components, taken: Box::new(taken), state: Mutex::default() }
    }

    /// How many builds may run at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Whether a component may have this Job made now; if not, it is among those that wait. A Job that counts already has its
    /// place.
    pub fn take(&self, component: &Key, job: &Key, now: Instant) -> bool {
        let mut state = self.state(now);
        let counts = state.given.contains_key(job) || self.shows_running(job);
        let may = counts || self.turns(&state, Some(component)).contains(component);
        if may {
            state.waiting.retain(|waiting| waiting != component);
            state.given.insert(job.clone(), Given { since: now, version: None });
        } else if !state.waiting.contains(component) {
            state.waiting.push(component.clone());
        }
        may
    }

    /// The Job is made, in this version: it counts by itself as soon as the cache has seen that.
    pub fn made(&self, job: &Key, version: Option<u64>, now: Instant) {
        if let Some(given) = self.state(now).given.get_mut(job) {
            *given = Given { since: now, version };
        }
    }

    /// The Job was not made, and is not going to be.
    pub fn give_back(&self, job: &Key, now: Instant) {
        self.state(now).given.remove(job);
    }

    /// The component does not wait: it has no Job to make.
    pub fn leave(&self, component: &Key, now: Instant) {
        self.state(now).waiting.retain(|waiting| waiting != component);
    }

    /// The components whose turn it is.
    pub fn next(&self, now: Instant) -> Vec<Key> {
        let state = self.state(now);
        if state.waiting.is_empty() {
            return Vec::new();
        }
        self.turns(&state, None)
    }

    /// The components that may build now, of those that wait and the one that asks.
    fn turns(&self, state: &State, asks: Option<&Key>) -> Vec<Key> {
        let mut in_use = self.in_use(state);
        let mut total: usize = in_use.values().sum();
        let asks = asks.filter(|asks| !state.waiting.contains(asks));
        let mut waiting: Vec<&Key> = state.waiting.iter().chain(asks).collect();
        let mut turns = Vec::new();
        loop {
            let own = |key: &Key| in_use.get(&key.namespace).copied().unwrap_or_default();
            let next = waiting.iter().enumerate().min_by_key(|(place, key)| (own(key), *place));
            let Some((place, key)) = next.filter(|(_, key)| fairness::room(own(key), total, self.most) > 0) else {
                break;
            };
            *in_use.entry(key.namespace.clone()).or_default() += 1;
            total += 1;
            turns.push((*key).clone());
            waiting.remove(place);
        }
        turns
    }

    /// Builds by namespace: those that run, and those that are being made. A label makes no build, nor does the name of an owner: the Job
    /// has to be that of a component that is there.
    fn in_use(&self, state: &State) -> HashMap<String, usize> {
        let mut in_use: HashMap<String, usize> = HashMap::new();
        for job in self.jobs.all().iter().filter(|job| self.is_build(job)) {
            if job.unpack().is_ok_and(|job| runs(&job)) {
                *in_use.entry(job.metadata.namespace.clone().unwrap_or_default()).or_default() += 1;
            }
        }
        for job in state.given.keys() {
            *in_use.entry(job.namespace.clone()).or_default() += 1;
        }
        in_use
    }

    fn is_build(&self, job: &Packed<Job>) -> bool {
        let Some(key) = owner_key::<DynamoComponent, _>(job) else { return false };
        let owner = self.components.get(&key).and_then(|component| component.metadata.uid.clone());
        !(self.taken)(&key.namespace)
            && owner.is_some()
            && owner == controller_owner(job).map(|owner| owner.uid.clone())
    }

    /// Whether the cache shows a Job of that name that counts by itself.
    fn shows_running(&self, job: &Key) -> bool {
        let found = self.jobs.get(job).and_then(|job| job.unpack().ok());
        found.is_some_and(|job| runs(&job))
    }

    /// What is given and who waits, without what is over.
    fn state(&self, now: Instant) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.given.retain(|job, given| {
            let passed = given.version.is_some_and(|version| self.jobs.latest() >= version);
            !passed && !self.shows_running(job) && now.duration_since(given.since) < LOST
        });
        state.waiting.retain(|component| {
            let found = self.components.get(component);
            let lives = found.is_some_and(|found| found.metadata.deletion_timestamp.is_none());
            lives && !(self.taken)(&component.namespace)
        });
        state
    }
}

/// Whether a Job has pods, or gets some. One that is suspended waits for whoever did that, and holds up nobody.
fn runs(job: &Job) -> bool {
    !has_ended(job) && job.spec.as_ref().and_then(|spec| spec.suspend) != Some(true)
}

#[cfg(test)]
mod tests;
