//! The simulated cluster.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    time::{Duration, Instant},
};

use super::{
    super::{member::Record, replica::Replica},
    model::{Disturbance, Event, NAMESPACES, Outcome, Process, Random},
};
use crate::{
    places::{Places, Span, place},
    shards::{LeaseAnswer, LeaseRequest, LeaseTarget},
};

/// Length of a schedule and of the quiet time at its end, in ms.
const LENGTH: u64 = 150_000;
const QUIET: u64 = 40_000;
/// Maximum time of a namespace without an owner after the last disturbance.
const BOUND: u64 = 25_000;
const TICK: u64 = 500;
const REQUEST_TIMEOUT: u64 = 3_000;
const PROCESSES: usize = 5;

pub struct SimulatedCluster {
    random: Random,
    zero: Instant,
    now: u64,
    order: u64,
    queue: BinaryHeap<Reverse<(u64, u64, usize, u64)>>,
    events: BTreeMap<u64, Event>,
    leases: BTreeMap<LeaseTarget, Record>,
    version: u64,
    away_until: u64,
    processes: Vec<Process>,
    requests: u64,
    /// End of the last disturbance.
    disturbed: u64,
    places: [u64; NAMESPACES.len()],
    owned_at: [u64; NAMESPACES.len()],
    gains: u64,
    longest: u64,
    /// Work of an earlier duty that ran when its namespace was gained again.
    stale: Option<String>,
    log: Vec<String>,
}

impl SimulatedCluster {
    pub fn new(seed: u64) -> Self {
        let mut cluster = Self {
            random: Random(seed),
            zero: Instant::now(),
            now: 0,
            order: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            leases: BTreeMap::new(),
            version: 100,
            away_until: 0,
            processes: Vec::new(),
            requests: 0,
            disturbed: 0,
            places: NAMESPACES.map(place),
            owned_at: [0; NAMESPACES.len()],
            gains: 0,
            longest: 0,
            stale: None,
            log: Vec::new(),
        };
        let members = 2 + cluster.random.below(PROCESSES as u64 - 1);
        for index in 0..members as usize {
            let process = cluster.process(0);
            cluster.processes.push(process);
            let at = cluster.random.below(20_000);
            cluster.at(at, index, Event::Start);
        }
        let mut at = 10_000;
        while at < LENGTH - QUIET {
            at += cluster.random.below(15_000);
            let index = cluster.random.below(members) as usize;
            let disturbance = match cluster.random.below(12) {
                0..=2 => Disturbance::Kill,
                3..=5 => Disturbance::Stop,
                6..=8 => Disturbance::Pause(cluster.random.below(40_000)),
                9 => Disturbance::HangingWatches(cluster.random.below(30_000)),
                10 => Disturbance::Outage(cluster.random.below(25_000)),
                _ => Disturbance::Deletion(cluster.random.below(9) as usize),
            };
            cluster.at(at, index, Event::Disturb(disturbance));
        }
        cluster
    }

    fn process(&mut self, life: u64) -> Process {
        Process {
            replica: Replica::new("unused"),
            life,
            alive: false,
            stopping: false,
            paused_until: 0,
            hangs_until: 0,
            offset: self.random.below(1_000_000),
            rate: 990 + self.random.below(21),
            shown: BTreeMap::new(),
            open: BTreeMap::new(),
            running: [0; NAMESPACES.len()],
        }
    }

    fn at(&mut self, time: u64, index: usize, event: Event) {
        self.order += 1;
        let life = self.processes.get(index).map_or(0, |process| process.life);
        self.events.insert(self.order, event);
        self.queue.push(Reverse((time.max(self.now), self.order, index, life)));
    }

    /// The clock of a process.
    fn local(&self, index: usize) -> Instant {
        let process = &self.processes[index];
        self.zero + Duration::from_micros((process.offset + self.now) * process.rate)
    }

    fn note(&mut self, text: String) {
        self.log.push(format!("{:>7} {text}", self.now));
        if self.log.len() > 400 {
            self.log.drain(..200);
        }
    }

    pub fn run(mut self) -> Outcome {
        let fault = self.play();
        if fault.is_err() {
            let leases = self.leases.iter().map(|(target, record)| format!("{target:?} {record:?}"));
            self.log.extend(leases.collect::<Vec<_>>());
            self.log.extend(self.processes.iter().map(|process| format!("{:?} {:?}", process.alive, process.replica)));
        }
        Outcome { fault, gains: self.gains, longest_without_owner: self.longest, log: self.log }
    }

    fn play(&mut self) -> Result<(), String> {
        while let Some(Reverse((time, order, index, life))) = self.queue.pop() {
            let Some(event) = self.events.remove(&order) else { continue };
            if time > LENGTH {
                return Ok(());
            }
            self.now = time;
            let process = &self.processes[index];
            let is_external = matches!(event, Event::Arrives(..) | Event::Disturb(_) | Event::Start);
            if !is_external && (!process.alive || process.life != life) {
                continue;
            }
            if !is_external && process.paused_until > time {
                let resume = process.paused_until;
                self.at(resume, index, event);
                continue;
            }
            self.handle(index, life, event);
            self.judge()?;
        }
        Ok(())
    }

    fn handle(&mut self, index: usize, life: u64, event: Event) {
        let now = self.local(index);
        match event {
            Event::Start => return self.start(index),
            Event::Disturb(disturbance) => return self.disturb(index, disturbance),
            Event::Arrives(request, started, number) => return self.arrives(index, life, request, started, number),
            Event::Resume => {}
            Event::Tick => self.at(self.now + TICK, index, Event::Tick),
            Event::Shown(target, record) => self.processes[index].replica.observe(target, record, now),
            Event::Answered(target, started, number, answer) => {
                let process = &mut self.processes[index];
                if process.open.get(&target) != Some(&number) {
                    return;
                }
                process.open.remove(&target);
                process.replica.answered(target, started, answer, now);
            }
            Event::WorkEnds(namespace) => {
                self.processes[index].running[namespace] = 0;
                // A process sends nothing because work has ended that no hand-over waits for.
                let process = &self.processes[index];
                if process.replica.duty().draining().is_empty() && !process.stopping {
                    return self.settle_work(index, now);
                }
            }
            Event::Ready => self.processes[index].replica.ready(),
            Event::Read(reading) => {
                let gained = self.processes[index].replica.loaded(reading);
                if !gained.is_empty() {
                    self.gains += 1;
                    let runs = |namespace: &usize| {
                        let process = &self.processes[index];
                        process.running[*namespace] != 0 && gained.contains(self.places[*namespace])
                    };
                    let stale = (0..NAMESPACES.len()).find(runs);
                    self.stale =
                        stale.map(|namespace| format!("{index} gained {} over old work", NAMESPACES[namespace]));
                    self.note(format!("{index} acts in {:.3}", gained.share()));
                }
            }
        }
        if self.processes[index].alive {
            self.settle(index);
        }
    }

    fn start(&mut self, index: usize) {
        if self.processes[index].alive {
            return;
        }
        let life = self.processes[index].life + 1;
        self.processes[index] = self.process(life);
        self.processes[index].alive = true;
        self.processes[index].replica = Replica::new(&format!("p{index}-{life}"));
        self.disturbed = self.disturbed.max(self.now + 5_000);
        self.note(format!("{index} starts"));
        for target in LeaseTarget::all() {
            let record = self.leases.get(&target).cloned();
            self.show(index, target, record);
        }
        let ready = self.now + self.random.below(3_000);
        self.at(ready, index, Event::Ready);
        self.at(self.now, index, Event::Tick);
    }

    fn disturb(&mut self, index: usize, disturbance: Disturbance) {
        let until = match disturbance {
            Disturbance::Pause(length) | Disturbance::HangingWatches(length) | Disturbance::Outage(length) => length,
            Disturbance::Kill | Disturbance::Stop | Disturbance::Deletion(_) => 0,
        };
        self.note(format!("{index} {disturbance:?}"));
        self.disturbed = self.disturbed.max(self.now + until);
        match disturbance {
            Disturbance::Kill => {
                self.processes[index].alive = false;
                let again = self.now + self.random.below(20_000);
                self.at(again, index, Event::Start);
            }
            Disturbance::Stop => {
                if self.processes[index].alive {
                    self.processes[index].stopping = true;
                }
                let again = self.now + 3_000 + self.random.below(10_000);
                self.at(again, index, Event::Start);
            }
            Disturbance::Pause(length) => {
                let until = self.now + length;
                self.processes[index].paused_until = until;
                self.at(until, index, Event::Resume);
            }
            Disturbance::HangingWatches(length) => self.processes[index].hangs_until = self.now + length,
            Disturbance::Outage(length) => self.away_until = self.now + length,
            Disturbance::Deletion(number) => {
                let target = LeaseTarget::all().nth(number).unwrap();
                if self.leases.remove(&target).is_some() {
                    (0..self.processes.len()).for_each(|index| self.show(index, target, None));
                }
            }
        }
    }

    /// A watch of a process delivers a change, in order, some time from now.
    fn show(&mut self, index: usize, target: LeaseTarget, record: Option<Record>) {
        let late = if self.random.one_in(200) { self.random.below(4_000) } else { self.random.below(60) };
        self.disturbed = self.disturbed.max(if late > 1_000 { self.now + late } else { 0 });
        let process = &mut self.processes[index];
        let before = process.shown.get(&target).copied().unwrap_or_default();
        let at = (self.now + late).max(before).max(process.hangs_until).max(self.away_until);
        process.shown.insert(target, at);
        self.at(at, index, Event::Shown(target, record));
    }

    fn arrives(&mut self, index: usize, life: u64, request: LeaseRequest, started: Instant, number: u64) {
        if self.away_until > self.now {
            return;
        }
        let target = request.target();
        let answer = match request {
            LeaseRequest::Read(_) => LeaseAnswer::Found(self.leases.get(&target).cloned()),
            LeaseRequest::Write { replaces, holder, acknowledged, assignment, .. } => {
                if self.leases.get(&target).map(|record| record.version) == replaces {
                    self.version += 1;
                    let record = Record { holder, version: self.version, acknowledged, assignment };
                    self.leases.insert(target, record.clone());
                    (0..self.processes.len()).for_each(|index| self.show(index, target, Some(record.clone())));
                    LeaseAnswer::Written(record)
                } else {
                    LeaseAnswer::Conflict
                }
            }
        };
        if self.processes[index].life == life && !self.random.one_in(60) {
            let at = self.now + self.delay();
            self.at(at, index, Event::Answered(target, started, number, answer));
        }
    }

    fn delay(&mut self) -> u64 {
        let delay = match self.random.below(100) {
            0 => self.random.below(8_000),
            1..=5 => self.random.below(1_000),
            _ => 1 + self.random.below(20),
        };
        self.disturbed = self.disturbed.max(if delay > 1_000 { self.now + delay } else { 0 });
        delay
    }

    /// Performs the steps of a process after each event, as its shell does.
    fn settle(&mut self, index: usize) {
        let now = self.local(index);
        self.settle_work(index, now);
        let mut requests = Vec::new();
        let fresh = self.random.below(u64::MAX / 2) + 1;
        let process = &mut self.processes[index];
        if process.stopping {
            if process.running.iter().all(|running| *running == 0) && process.open.is_empty() {
                requests = process.replica.leave();
                process.alive = false;
            }
        } else {
            requests = process.replica.requests(now, fresh);
        }
        for request in requests {
            self.requests += 1;
            let (number, target) = (self.requests, request.target());
            let at = self.now + self.delay();
            self.processes[index].open.insert(target, number);
            self.at(at, index, Event::Arrives(request, now, number));
            self.at(self.now + REQUEST_TIMEOUT, index, Event::Answered(target, now, number, LeaseAnswer::Unknown));
        }
    }

    /// Starts work where the process may, and reports to the replica where it runs.
    fn settle_work(&mut self, index: usize, now: Instant) {
        self.start_work(index, now);
        let process = &mut self.processes[index];
        let draining = process.replica.duty().draining().clone();
        let runs = |namespace: usize| process.running[namespace] != 0 && draining.contains(self.places[namespace]);
        if !draining.is_empty() && !(0..NAMESPACES.len()).any(runs) {
            process.replica.drained(&draining);
        }
        let busy = (0..NAMESPACES.len()).filter(|namespace| process.running[*namespace] != 0);
        let busy = busy.map(|namespace| self.places[namespace]);
        process.replica.runs_in(&Places::of(busy.map(|place| Span { first: place, last: place })));
        while !process.stopping
            && let Some(reading) = process.replica.begin_loading()
        {
            self.order += 1;
            let at = self.now + 20 + self.random.below(1_000);
            self.events.insert(self.order, Event::Read(reading));
            self.queue.push(Reverse((at, self.order, index, process.life)));
        }
    }

    fn start_work(&mut self, index: usize, now: Instant) {
        for namespace in 0..NAMESPACES.len() {
            let process = &self.processes[index];
            let starts = !process.stopping
                && process.running[namespace] == 0
                && process.replica.acts_until().is_some_and(|until| now < until)
                && process.replica.duty().active().contains(self.places[namespace]);
            if starts {
                self.processes[index].running[namespace] = self.now + 1;
                let length = if self.random.one_in(30) { self.random.below(6_000) } else { self.random.below(1_000) };
                self.disturbed = self.disturbed.max(if length > 1_000 { self.now + length } else { 0 });
                self.at(self.now + length, index, Event::WorkEnds(namespace));
            }
        }
    }

    fn acts(&self, index: usize, namespace: usize) -> bool {
        let process = &self.processes[index];
        let duty = process.replica.duty();
        let at = self.places[namespace];
        let is_fresh = process.replica.acts_until().is_some_and(|until| self.local(index) < until);
        let runs = process.running[namespace] != 0;
        let may = duty.active().contains(at) && (runs || !process.stopping) || duty.draining().contains(at) && runs;
        process.alive && process.paused_until <= self.now && is_fresh && may
    }

    fn judge(&mut self) -> Result<(), String> {
        self.stale.take().map_or(Ok(()), Err)?;
        for (namespace, name) in NAMESPACES.iter().enumerate() {
            let mut acting = (0..self.processes.len()).filter(|index| self.acts(*index, namespace));
            let acts = acting.next();
            if let (Some(one), Some(other)) = (acts, acting.next()) {
                return Err(format!("at {} ms {one} and {other} act in {name}", self.now));
            }
            let could = |process: &Process| process.alive && !process.stopping && process.paused_until <= self.now;
            if acts.is_some() || !self.processes.iter().any(could) {
                self.owned_at[namespace] = self.now;
                continue;
            }
            let without = self.now - self.owned_at[namespace].max(self.disturbed).min(self.now);
            self.longest = self.longest.max(without);
            if without > BOUND {
                return Err(format!("at {} ms nothing has acted in {name} for {without} ms", self.now));
            }
        }
        Ok(())
    }
}
