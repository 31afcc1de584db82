//! All engines with desired adapters. Limits concurrent requests, and collects the models whose state changed. Pure:
//! time is an argument.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::SocketAddr,
    time::Instant,
};

use controller_kit::{fairness::FairQueue, store::Key};

use super::{
    AdapterName, DesiredAdapter, DesiredAdapters, Endpoint, EngineId, EngineLimits, EngineOutcome, EngineRequest,
    PoolId,
    plan::plan,
    record::{record, sent},
    state::{AdapterStates, Engine, adapter_state},
};

/// A request to one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineCall {
    /// The engine.
    pub engine: EngineId,
    /// Its address.
    pub socket: SocketAddr,
    /// Name of its pod, for logs.
    pub pod_name: String,
    /// The request.
    pub request: EngineRequest,
}

/// All engines with adapters to load or to unload.
#[derive(Debug)]
pub struct Fleet {
    pace: EngineLimits,
    pools: HashMap<PoolId, Pool>,
    /// Engines to plan, by namespace. The places of the queue are the requests under way.
    waiting: FairQueue<EngineId>,
    queued: HashSet<EngineId>,
    wakes: BTreeSet<(Instant, EngineId)>,
    wake_of: HashMap<EngineId, Instant>,
    /// Models whose adapter changed its state on an engine.
    changed: BTreeSet<Key>,
}

#[derive(Debug, Default)]
struct Pool {
    desired: DesiredAdapters,
    engines: BTreeMap<EngineId, Engine>,
}

impl Fleet {
    /// A fleet without engines.
    pub fn new(pace: EngineLimits) -> Self {
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

    /// Pools with desired adapters.
    pub fn pools(&self) -> Vec<PoolId> {
        self.pools.keys().cloned().collect()
    }

    /// Number of engines.
    pub fn engines(&self) -> usize {
        self.pools.values().map(|pool| pool.engines.len()).sum()
    }

    /// Sets the engines and the desired adapters of a pool. Returns whether anything changed.
    pub fn sync(&mut self, id: &PoolId, endpoints: &[Endpoint], desired: DesiredAdapters, now: Instant) -> bool {
        if desired.is_empty() && !desired.pending {
            return self.pools.remove(id).is_some();
        }
        let pool = self.pools.entry(id.clone()).or_default();
        let all = pool.desired != desired;
        if all {
            self.changed.extend(concerned(&pool.desired, &desired));
            pool.desired = desired;
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
                Engine::new(engine_id.clone(), endpoint.clone(), self.pace, now)
            });
            if engine.update_endpoint(endpoint, now) || new || all {
                touched.insert(engine_id);
            }
        }
        let before = pool.engines.len();
        pool.engines.retain(|id, _| present.contains(id));
        let any = all || !touched.is_empty() || before != pool.engines.len();
        touched.into_iter().for_each(|id| self.enqueue(id));
        any
    }

    /// Drops the engines of these namespaces until they are synced again.
    pub fn forget_namespaces(&mut self, foreign: impl Fn(&str) -> bool) {
        self.pools.retain(|pool, _| !foreign(&pool.namespace));
    }

    /// Returns the requests to send now, and when to call again.
    pub fn advance(&mut self, now: Instant) -> (Vec<EngineCall>, Option<Instant>) {
        while let Some((at, id)) = self.wakes.first().cloned().filter(|(at, _)| *at <= now) {
            self.wakes.remove(&(at, id.clone()));
            self.wake_of.remove(&id);
            self.enqueue(id);
        }
        let mut calls = Vec::new();
        while let Some(id) = self.waiting.pop() {
            self.queued.remove(&id);
            self.plan_engine(&id, now, &mut calls);
        }
        (calls, self.wakes.first().map(|(at, _)| *at))
    }

    fn plan_engine(&mut self, id: &EngineId, now: Instant, calls: &mut Vec<EngineCall>) {
        self.set_wake(id, None);
        let room = self.waiting.room(&id.pool.namespace);
        let Some(pool) = self.pools.get_mut(&id.pool) else { return };
        let Some(engine) = pool.engines.get_mut(id) else { return };
        let step = plan(engine, &pool.desired, room, now);
        for request in step.start {
            sent(engine, &request, now);
            self.waiting.take(&id.pool.namespace, 1);
            let pod_name = engine.endpoint.pod_name.to_string();
            calls.push(EngineCall { engine: id.clone(), socket: engine.endpoint.socket(), pod_name, request });
        }
        self.set_wake(id, step.wake);
    }

    /// Records the outcome of a request.
    pub fn finish(&mut self, call: &EngineCall, outcome: EngineOutcome, now: Instant) {
        self.waiting.give_back(&call.engine.pool.namespace);
        let Some(pool) = self.pools.get_mut(&call.engine.pool) else { return };
        let Some(engine) = pool.engines.get_mut(&call.engine) else { return };
        let state = |engine: &Engine| (engine.list, engine.outage.is_some(), engine.is_lost(), engine.stale);
        let before = state(engine);
        let names = record(engine, &call.request, outcome, now);
        if state(engine) == before {
            self.changed.extend(names.iter().flat_map(|name| pool.desired.models(name)).cloned());
        } else {
            self.changed.extend(pool.desired.names().flat_map(|name| pool.desired.models(name)).cloned());
        }
        self.enqueue(call.engine.clone());
    }

    /// The models whose state changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<Key> {
        std::mem::take(&mut self.changed)
    }

    /// State of an adapter on each engine of a pool, by the uid of the pod.
    pub fn adapter_states(&self, pool: &PoolId, name: &AdapterName, adapter: &DesiredAdapter) -> AdapterStates {
        let engines = self.pools.get(pool).into_iter().flat_map(|pool| &pool.engines);
        engines.map(|(id, engine)| (id.pod.clone(), adapter_state(engine, name, adapter))).collect()
    }

    /// The state of one engine.
    #[cfg(test)]
    pub fn engine(&self, id: &EngineId) -> Option<&Engine> {
        self.pools.get(&id.pool)?.engines.get(id)
    }

    /// Pods whose engine may hold an adapter.
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

/// The models that a change of desired adapters concerns.
fn concerned(before: &DesiredAdapters, after: &DesiredAdapters) -> BTreeSet<Key> {
    let names: BTreeSet<&AdapterName> = before.names().chain(after.names()).collect();
    let same = |name: &AdapterName| {
        before.load.get(name) == after.load.get(name) && before.unload.get(name) == after.unload.get(name)
    };
    let other = names.into_iter().filter(|name| !same(name));
    other.flat_map(|name| before.models(name).chain(after.models(name))).cloned().collect()
}
