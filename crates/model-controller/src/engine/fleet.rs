//! All engines that shall hold adapters. Bounds how many requests run at the same time, and knows which models to tell.
//! Pure: time is an argument.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::SocketAddr,
    time::Instant,
};

use controller_kit::{fairness::FairQueue, store::Key};

use super::{
    AdapterName, Endpoint, EngineId, Outcome, Pace, PoolId, Request,
    decide::decide,
    record::{record, sent},
    state::Engine,
    view::{Stand, stand},
    wishes::{Wanted, Wishes},
};

/// A request to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// To whom.
    pub engine: EngineId,
    /// Where it is.
    pub socket: SocketAddr,
    /// Name of its pod, for logs.
    pub pod_name: String,
    /// What to ask.
    pub request: Request,
}

/// All engines that shall hold adapters, or shall be rid of some.
#[derive(Debug)]
pub struct Fleet {
    pace: Pace,
    pools: HashMap<PoolId, Pool>,
    /// Engines to look at, by namespace. Its places are the requests.
    waiting: FairQueue<EngineId>,
    queued: HashSet<EngineId>,
    wakes: BTreeSet<(Instant, EngineId)>,
    wake_of: HashMap<EngineId, Instant>,
    /// Models that something changed for.
    changed: BTreeSet<Key>,
}

#[derive(Debug, Default)]
struct Pool {
    wishes: Wishes,
    engines: BTreeMap<EngineId, Engine>,
}

impl Fleet {
    /// No engines.
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            pools: HashMap::new(),
            waiting: FairQueue::new(pace.requests),
            queued: HashSet::new(),
            wakes: BTreeSet::new(),
            wake_of: HashMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// How fast things go.
    pub fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Pools with something to do or to watch.
    pub fn pools(&self) -> Vec<PoolId> {
        self.pools.keys().cloned().collect()
    }

    /// Number of engines.
    pub fn engines(&self) -> usize {
        self.pools.values().map(|pool| pool.engines.len()).sum()
    }

    /// Requests under way.
    pub fn running(&self) -> usize {
        self.waiting.in_use()
    }

    /// Takes in which engines a pool has, and what they shall hold. Returns whether anything is new.
    pub fn sync(&mut self, id: &PoolId, endpoints: &[Endpoint], wishes: Wishes, now: Instant) -> bool {
        if wishes.is_empty() && !wishes.pending {
            return self.pools.remove(id).is_some();
        }
        let pool = self.pools.entry(id.clone()).or_default();
        let all = pool.wishes != wishes;
        if all {
            self.changed.extend(concerned(&pool.wishes, &wishes));
            pool.wishes = wishes;
        }
        let mut touched = BTreeSet::new();
        let mut present = HashSet::new();
        for endpoint in endpoints {
            let engine_id = EngineId { pool: id.clone(), pod: endpoint.pod.clone() };
            present.insert(engine_id.clone());
            let known = pool.engines.entry(engine_id.clone());
            let mut new = false;
            let engine = known.or_insert_with(|| {
                new = true;
                Engine::new(engine_id.clone(), endpoint.clone(), now)
            });
            if engine.meet(endpoint, now) || new || all {
                touched.insert(engine_id);
            }
        }
        let before = pool.engines.len();
        pool.engines.retain(|id, _| present.contains(id));
        let any = all || !touched.is_empty() || before != pool.engines.len();
        touched.into_iter().for_each(|id| self.enqueue(id));
        any
    }

    /// Leaves the engines of these namespaces alone, until they are synced again.
    pub fn leave(&mut self, foreign: impl Fn(&str) -> bool) {
        self.pools.retain(|pool, _| !foreign(&pool.namespace));
    }

    /// The requests to send now, and when to look again.
    pub fn advance(&mut self, now: Instant) -> (Vec<Job>, Option<Instant>) {
        while let Some((at, id)) = self.wakes.first().cloned().filter(|(at, _)| *at <= now) {
            self.wakes.remove(&(at, id.clone()));
            self.wake_of.remove(&id);
            self.enqueue(id);
        }
        let mut jobs = Vec::new();
        while let Some(id) = self.waiting.pop() {
            self.queued.remove(&id);
            self.look_at(&id, now, &mut jobs);
        }
        (jobs, self.wakes.first().map(|(at, _)| *at))
    }

    fn look_at(&mut self, id: &EngineId, now: Instant, jobs: &mut Vec<Job>) {
        self.set_wake(id, None);
        let room = self.waiting.room(&id.pool.namespace);
        let Some(pool) = self.pools.get_mut(&id.pool) else { return };
        let Some(engine) = pool.engines.get_mut(id) else { return };
        let step = decide(engine, &pool.wishes, &self.pace, room, now);
        for request in step.start {
            sent(engine, &request, now);
            self.waiting.take(&id.pool.namespace, 1);
            let pod_name = engine.endpoint.pod_name.to_string();
            jobs.push(Job { engine: id.clone(), socket: engine.endpoint.socket(), pod_name, request });
        }
        self.set_wake(id, step.wake);
    }

    /// Takes in what became of a request.
    pub fn finish(&mut self, job: &Job, outcome: Outcome, now: Instant) {
        self.waiting.give_back(&job.engine.pool.namespace);
        let Some(pool) = self.pools.get_mut(&job.engine.pool) else { return };
        let Some(engine) = pool.engines.get_mut(&job.engine) else { return };
        let state = |engine: &Engine| (engine.list, engine.outage.is_some(), engine.is_lost(), engine.doubtful);
        let before = state(engine);
        let names = record(engine, &job.request, outcome, &self.pace, now);
        if state(engine) == before {
            self.changed.extend(names.iter().flat_map(|name| pool.wishes.models(name)).cloned());
        } else {
            self.changed.extend(everybody(&pool.wishes));
        }
        self.enqueue(job.engine.clone());
    }

    /// The models that something changed for since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.changed)
    }

    /// How an adapter stands on each engine of a pool, by the uid of its pod.
    pub fn stands(&self, pool: &PoolId, name: &AdapterName, wanted: &Wanted) -> HashMap<std::sync::Arc<str>, Stand> {
        let engines = self.pools.get(pool).into_iter().flat_map(|pool| &pool.engines);
        engines.map(|(id, engine)| (id.pod.clone(), stand(engine, name, wanted))).collect()
    }

    /// What is known of one engine.
    #[cfg(test)]
    pub fn engine(&self, id: &EngineId) -> Option<&Engine> {
        self.pools.get(&id.pool)?.engines.get(id)
    }

    /// Pods whose engine might hold an adapter.
    pub fn may_hold(&self, pool: &PoolId, name: &AdapterName) -> Vec<String> {
        let engines = self.pools.get(pool).into_iter().flat_map(|pool| pool.engines.values());
        engines.filter(|engine| engine.may_hold(name)).map(|engine| engine.endpoint.pod_name.to_string()).collect()
    }

    fn enqueue(&mut self, id: EngineId) {
        if self.queued.insert(id.clone()) {
            self.waiting.push(&id.pool.namespace.clone(), id);
        }
    }

    fn set_wake(&mut self, id: &EngineId, at: Option<Instant>) {
        if let Some(old) = self.wake_of.remove(id) {
            self.wakes.remove(&(old, id.clone()));
        }
        if let Some(at) = at {
            self.wakes.insert((at, id.clone()));
            self.wake_of.insert(id.clone(), at);
        }
    }
}

/// The models for which a change of wishes changes something.
fn concerned(before: &Wishes, after: &Wishes) -> BTreeSet<Key> {
    let names: BTreeSet<&AdapterName> =
        [before, after].into_iter().flat_map(|wishes| wishes.load.keys().chain(wishes.unload.keys())).collect();
    let same = |name: &AdapterName| {
        before.load.get(name) == after.load.get(name) && before.unload.get(name) == after.unload.get(name)
    };
    let other = names.into_iter().filter(|name| !same(name));
    other.flat_map(|name| before.models(name).chain(after.models(name))).cloned().collect()
}

fn everybody(wishes: &Wishes) -> BTreeSet<Key> {
    let loading = wishes.load.values().flat_map(|wanted| &wanted.models);
    loading.chain(wishes.unload.values().flatten()).cloned().collect()
}
