//! Engines in simulated time, to see what a fleet does to them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use controller_kit::store::Key;

use super::{
    AdapterName, CopyTrust, DesiredAdapter, DesiredAdapters, Endpoint, EngineLimits, EngineOutcome, EngineRequest,
    PoolId,
    fleet::{EngineCall, Fleet},
    state::AdapterState,
};

/// Behavior of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// As it should.
    Healthy,
    /// Says no to loading and unloading.
    Refusing,
    /// Says yes to everything and does nothing.
    Lying,
    /// No connection.
    Gone,
    /// Answers "not found" to an unload and keeps the adapter in its list.
    Denying,
    /// Never answers.
    Mute,
    /// Has no handlers for adapters.
    Unmanaged,
    /// Takes so long to load, and continues when no client waits for the answer any more.
    Slow(Duration),
}

/// An engine.
#[derive(Clone, Debug)]
pub struct Mock {
    /// Adapters that it holds, by name; the values are sources.
    pub holds: BTreeMap<String, String>,
    pub mode: Mode,
    /// Whether it lists what it holds.
    pub lists: bool,
    /// Slow loads under way: when each ends, its name and its source.
    coming: Vec<(Instant, String, String)>,
    endpoint: Endpoint,
}

/// A fleet, its engines, and a clock.
pub struct Simulation {
    pub fleet: Fleet,
    pub engines: Vec<Mock>,
    pub desired: DesiredAdapters,
    /// Every request that was sent: engine and text, in the order in which they were sent.
    pub log: Vec<(usize, String)>,
    /// Most requests that ran at the same time, over all engines and on one.
    pub peaks: (usize, usize),
    latency: Duration,
    start: Instant,
    now: Instant,
    flights: Vec<(Instant, EngineCall)>,
    replaced: usize,
}

pub fn pool() -> PoolId {
    PoolId { namespace: "n".into(), base_model_hash: "h".into() }
}

pub fn desired_adapter(source: &str) -> DesiredAdapter {
    DesiredAdapter {
        source: source.into(),
        models: BTreeSet::from([Key::new("n", source)]),
        trust: CopyTrust::Everywhere,
    }
}

impl Simulation {
    /// So many healthy engines that answer after 50 ms.
    pub fn new(engines: usize) -> Self {
        let engine = |index: usize| {
            let index = u8::try_from(index % 250).unwrap();
            let endpoint = Endpoint {
                pod_name: format!("w-{index}").as_str().into(),
                pod: format!("uid-{index}").as_str().into(),
                address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, index + 1)),
                ready: true,
            };
            Mock { holds: BTreeMap::new(), mode: Mode::Healthy, lists: true, coming: Vec::new(), endpoint }
        };
        let now = Instant::now();
        let mut simulation = Self {
            fleet: Fleet::new(EngineLimits::default()),
            engines: (0..engines).map(engine).collect(),
            desired: DesiredAdapters::default(),
            log: Vec::new(),
            peaks: (0, 0),
            latency: Duration::from_millis(50),
            start: now,
            now,
            flights: Vec::new(),
            replaced: 0,
        };
        simulation.sync();
        simulation
    }

    /// Sets these desired adapters, as `name=source`.
    pub fn set_desired(&mut self, adapters: &[&str]) {
        self.desired.load = adapters
            .iter()
            .map(|adapter| {
                let (name, source) = adapter.split_once('=').unwrap();
                (AdapterName::from(name), desired_adapter(source))
            })
            .collect();
        self.sync();
    }

    /// Syncs the fleet with the endpoints and the desired adapters.
    pub fn sync(&mut self) {
        let endpoints: Vec<Endpoint> = self.engines.iter().map(|engine| engine.endpoint.clone()).collect();
        self.fleet.sync(&pool(), &endpoints, self.desired.clone(), self.now);
    }

    /// Kubernetes sees a pod become ready, or stop being so.
    pub fn set_ready(&mut self, engine: usize, ready: bool) {
        self.engines[engine].endpoint.ready = ready;
        self.sync();
    }

    /// A pod is replaced by another one with the same name and address.
    pub fn replace(&mut self, engine: usize) {
        self.engines[engine].holds.clear();
        self.replaced += 1;
        self.engines[engine].endpoint.pod = format!("uid-{engine}-{}", self.replaced).as_str().into();
        self.sync();
    }

    /// Another process takes over, without state.
    pub fn restart_controller(&mut self) {
        self.fleet = Fleet::new(EngineLimits::default());
        self.flights.clear();
        self.sync();
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// Lets time pass. Returns the requests of that time, and starts the log anew.
    pub fn run(&mut self, time: Duration) -> Vec<(usize, String)> {
        let end = self.now + time;
        loop {
            let (calls, wake) = self.fleet.advance(self.now);
            calls.into_iter().for_each(|call| self.launch(call));
            let landing = self.flights.iter().map(|(at, _)| *at).min();
            let Some(next) = landing.into_iter().chain(wake).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(index) = self.flights.iter().position(|(at, _)| *at <= self.now) {
                let (_, call) = self.flights.remove(index);
                let outcome = self.answer(&call);
                self.fleet.finish(&call, outcome, self.now);
            }
        }
        self.now = end;
        std::mem::take(&mut self.log)
    }

    /// State of an adapter on each engine.
    pub fn adapter_states(&self, adapter: &str) -> Vec<AdapterState> {
        let (name, source) = adapter.split_once('=').unwrap();
        let states = self.fleet.adapter_states(&pool(), &name.into(), &desired_adapter(source));
        self.engines.iter().map(|engine| states[&engine.endpoint.pod].clone()).collect()
    }

    fn launch(&mut self, call: EngineCall) {
        let engine = self.engine(&call);
        let text = match &call.request {
            EngineRequest::List { .. } => "list".to_owned(),
            EngineRequest::Load { name, source, .. } => format!("load {name}={}", source.uri()),
            EngineRequest::Unload { name } => format!("unload {name}"),
        };
        self.log.push((engine, text));
        let takes = match (self.engines[engine].mode, &call.request) {
            (Mode::Mute, request) => request.timeout(),
            (Mode::Slow(time), EngineRequest::Load { name, source, timeout }) => {
                let end = (self.now + time, name.to_string(), source.uri().to_owned());
                self.engines[engine].coming.push(end);
                time.min(*timeout)
            }
            _ => self.latency,
        };
        self.flights.push((self.now + takes, call));
        let on_one =
            self.flights.iter().filter(|(_, call)| self.engine(call) == engine && call.request.name().is_some());
        self.peaks = (self.peaks.0.max(self.flights.len()), self.peaks.1.max(on_one.count()));
    }

    fn engine(&self, call: &EngineCall) -> usize {
        self.engines.iter().position(|engine| engine.endpoint.socket() == call.socket).unwrap()
    }

    fn answer(&mut self, call: &EngineCall) -> EngineOutcome {
        let index = self.engine(call);
        let engine = &mut self.engines[index];
        for (_, name, source) in engine.coming.extract_if(.., |(end, ..)| *end <= self.now) {
            engine.holds.entry(name).or_insert(source);
        }
        let refused = EngineOutcome::Refused { status: 500, message: "no".to_owned() };
        match (engine.mode, &call.request) {
            (Mode::Gone, _) => EngineOutcome::Unreachable { reason: "refused".to_owned() },
            (Mode::Mute, _) => EngineOutcome::TimedOut,
            (Mode::Unmanaged, _) => EngineOutcome::Unmanaged,
            (_, EngineRequest::List { .. }) if !engine.lists => EngineOutcome::NoList,
            (_, EngineRequest::List { counted }) => {
                let names = engine.holds.keys().map(|name| AdapterName::from(name.as_str()));
                let (names, others): (Vec<_>, Vec<_>) = names.partition(|name| counted.contains(name));
                EngineOutcome::Listed { names, others: others.len() }
            }
            (Mode::Refusing, _) => refused,
            (Mode::Lying, _) => EngineOutcome::Done,
            (Mode::Denying, EngineRequest::Unload { .. }) => EngineOutcome::NotThere,
            (Mode::Slow(time), EngineRequest::Load { timeout, .. }) if time > *timeout => EngineOutcome::TimedOut,
            (Mode::Healthy | Mode::Denying | Mode::Slow(_), EngineRequest::Load { name, source, .. }) => {
                // As the runtime does: what is there already stays as it is.
                engine.holds.entry(name.to_string()).or_insert_with(|| source.uri().to_owned());
                EngineOutcome::Done
            }
            (Mode::Healthy | Mode::Slow(_), EngineRequest::Unload { name }) => match engine.holds.remove(name.as_str())
            {
                Some(_) => EngineOutcome::Done,
                None => EngineOutcome::NotThere,
            },
        }
    }
}
