//! Replicas of the graph controller share the namespaces, however they end, and when the API server is away. The audit
//! log proves: no two of them write in a namespace out of order, every graph is reconciled, no namespace is without a
//! replica for long, and namespaces of other replicas see no pause.
//!
//! `DYNAMO_SHARD_CHANGES` is how many changes there are (default 4), with bounds as in production; without it the
//! bounds leave a busy machine some time.

mod judge;

use std::{
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use api_types::v1beta1::DynamoGraphDeployment;
use end_to_end::{BoxError, GRAPH_CONTROLLER, Harness, executable, private_harness};
use judge::{Assignments, Audit, MEMBER};
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Namespace},
    jiff::Timestamp,
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use test_cluster::{Program, Signal, wait};

const PATIENCE: Duration = Duration::from_secs(120);
const MEMBERS: usize = 4;
const NAMESPACES: usize = 16;
/// Time between two edits; each namespace has one in less than a second.
const PACE: Duration = Duration::from_millis(40);
const ELECTED: &str = "dynamo-graph-controller.dynamo.nvidia.com";
const ACCOUNTS: &str = "operators";

/// Change of a replica, or of all.
#[derive(Clone, Copy, Debug)]
enum Change {
    Orderly,
    Frozen,
    Killed,
    /// The API server is killed, and started again after so long.
    Outage(Duration),
}

/// In turn; the elected one and another by turns. All Leases expire in the longer outage.
const CHANGES: [Change; 7] = [
    Change::Orderly,
    Change::Frozen,
    Change::Killed,
    Change::Outage(Duration::ZERO),
    Change::Orderly,
    Change::Killed,
    Change::Outage(Duration::from_secs(20)),
];

/// Number of changes, and longest times for namespaces without a replica.
struct Bounds {
    changes: usize,
    orderly: Duration,
    killed: Duration,
    /// Namespaces of other replicas, which are edited every 0.64 s.
    others: Duration,
}

impl Bounds {
    fn new() -> Result<Self, BoxError> {
        let seconds = Duration::from_secs;
        Ok(match std::env::var("DYNAMO_SHARD_CHANGES") {
            Ok(count) => Self { changes: count.parse()?, orderly: seconds(2), killed: seconds(20), others: seconds(5) },
            Err(_) => Self { changes: 4, orderly: seconds(10), killed: seconds(40), others: seconds(20) },
        })
    }
}

struct Members<'a> {
    harness: &'a Harness,
    programs: Vec<Program>,
    assignments: Assignments,
    audit: Audit,
    namespaces: Vec<String>,
    /// Whether the API server may be away.
    away: &'a AtomicBool,
    /// Changes after which namespaces were without a replica for longer than the bounds.
    late: Vec<String>,
}

impl<'a> Members<'a> {
    async fn start(harness: &'a Harness, namespaces: Vec<String>, away: &'a AtomicBool) -> Result<Self, BoxError> {
        let config = harness.cluster.dir().join("shards.yaml");
        let configuration = json!({
            "apiVersion": "operator.config.dynamo.nvidia.com/v1alpha1", "kind": "OperatorConfiguration",
            "leaderElection": {"enabled": true, "shards": true, "namespace": harness.ns()},
        });
        std::fs::write(&config, configuration.to_string())?;
        let mut programs = Vec::new();
        for number in 0..MEMBERS {
            programs.push(program(harness, number, &config.display().to_string()).await?);
        }
        let assignments = Assignments::follow(harness.api::<Lease>(), ELECTED);
        let audit = Audit::new(harness.cluster.audit_log()?, assignments.clone());
        let members = Self { harness, programs, assignments, audit, namespaces, away, late: Vec::new() };
        for program in &members.programs {
            members.harness.cluster.run(program).await?;
        }
        Ok(members)
    }

    fn signal(&self, member: usize, signal: &str) -> Result<(), BoxError> {
        let process = self.harness.cluster.process(&self.programs[member].name).ok_or("it does not run")?;
        let status = Command::new("kill").args([signal, &process.pid.to_string()]).status()?;
        assert!(status.success(), "kill {signal} of member {member}");
        Ok(())
    }

    async fn elected(&self) -> Result<usize, BoxError> {
        let lease = self.harness.api::<Lease>().get(ELECTED).await?;
        let holder = lease.spec.and_then(|spec| spec.holder_identity).ok_or("no member is elected")?;
        Ok(judge::member(&holder).ok_or("an unknown member is elected")?)
    }

    /// Waits until every replica owns places and no former process does, and each namespace has been written in by its
    /// owner since.
    async fn until_shared(&mut self) -> Result<(), BoxError> {
        let since = Timestamp::now();
        let (assignments, namespaces, audit) = (&self.assignments, &self.namespaces, &mut self.audit);
        let probe = async || {
            for namespace in namespaces {
                let owner = assignments.owner(namespace);
                let writes = audit.writes(namespace).map_err(|error| error.to_string())?;
                let served = writes.iter().any(|write| Some(write.member) == owner && write.received > since);
                served.then_some(()).ok_or_else(|| format!("{namespace} waits for {owner:?}"))?;
            }
            let members = assignments.members();
            if members == MEMBERS { Ok(()) } else { Err(format!("{members} processes own places")) }
        };
        Ok(wait::until("all members to share the namespaces", PATIENCE, probe).await?)
    }

    /// Waits until these namespaces are served since a moment, by others than `from`. Returns how long one was not.
    async fn until_served(
        &mut self,
        namespaces: &[String],
        from: Option<usize>,
        since: Timestamp,
    ) -> Result<Duration, BoxError> {
        let audit = &mut self.audit;
        let probe = async || {
            let mut longest = Duration::ZERO;
            for namespace in namespaces {
                let writes = audit.writes(namespace).map_err(|error| error.to_string())?;
                let served = writes.iter().filter(|write| Some(write.member) != from && write.received > since);
                let first = served.map(|write| write.received).min().ok_or_else(|| format!("{namespace} waits"))?;
                longest = longest.max(first.duration_since(since).unsigned_abs());
            }
            Ok::<_, String>(longest)
        };
        Ok(wait::until("the namespaces to be served", PATIENCE, probe).await?)
    }

    fn judge(&mut self, change: Change, whose: &str, without: Duration, bound: Duration) {
        if without > bound {
            self.late.push(format!("{change:?}: {whose} namespaces without a replica for {without:.1?}"));
        }
    }

    /// The longest time between two writes in one of these namespaces since a moment.
    fn longest_pause(&mut self, namespaces: &[String], since: Timestamp) -> Result<Duration, BoxError> {
        let mut longest = Duration::ZERO;
        for namespace in namespaces {
            let writes = self.audit.writes(namespace)?.iter().map(|write| write.received);
            // A pause that lasts counts as well.
            let mut times: Vec<_> = writes.filter(|time| *time > since).chain([since, Timestamp::now()]).collect();
            times.sort();
            let pauses = times.iter().zip(times.iter().skip(1)).map(|(one, next)| next.duration_since(*one));
            longest = pauses.map(|pause| pause.unsigned_abs()).fold(longest, Duration::max);
        }
        Ok(longest)
    }

    /// One member ends, others take its namespaces, and it comes back; or the API server does.
    async fn change(&mut self, change: Change, member: usize, bounds: &Bounds) -> Result<(), BoxError> {
        let owned = |namespace: &String| self.assignments.owner(namespace) == Some(member);
        let (namespaces, others): (Vec<_>, Vec<_>) = self.namespaces.iter().cloned().partition(owned);
        let (cluster, name) = (self.harness.cluster, self.programs[member].name.clone());
        let since = Timestamp::now();
        match change {
            Change::Orderly => cluster.stop_program(&name, Signal::Terminate).await?,
            Change::Frozen => self.signal(member, "-STOP")?,
            Change::Killed => cluster.stop_program(&name, Signal::Kill).await?,
            Change::Outage(length) => {
                self.away.store(true, Ordering::SeqCst);
                cluster.stop_apiserver().await?;
                // Without an API server there is no condition to wait for.
                tokio::time::sleep(length).await;
                cluster.start_apiserver().await?;
                self.away.store(false, Ordering::SeqCst);
                let all = self.namespaces.clone();
                let without = self.until_served(&all, None, Timestamp::now()).await?;
                println!("{change:?}: namespaces were without a replica for {without:.1?} at most afterwards");
                self.judge(change, "all", without, bounds.killed);
                return self.until_shared().await;
            }
        }
        let without = self.until_served(&namespaces, Some(member), since).await?;
        let pause = self.longest_pause(&others, since)?;
        println!(
            "{change:?}: {} namespaces were without a replica for {without:.1?} at most, others for {pause:.1?}",
            namespaces.len()
        );
        let bound = if matches!(change, Change::Orderly) { bounds.orderly } else { bounds.killed };
        self.judge(change, "its", without, bound);
        self.judge(change, "other", pause, bounds.others);
        match change {
            Change::Frozen => self.signal(member, "-CONT")?,
            _ => drop(cluster.run(&self.programs[member]).await?),
        }
        self.until_shared().await
    }
}

/// A replica with an account of its own, by which the audit log names it.
async fn program(harness: &Harness, number: usize, config: &str) -> Result<Program, BoxError> {
    let account = format!("{MEMBER}{number}");
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": ACCOUNTS}],
    });
    let kubeconfig = harness.cluster.service_account_kubeconfig(ACCOUNTS, &account, &[binding]).await?;
    let kubeconfig = kubeconfig.display().to_string();
    let args = ["--kubeconfig", &kubeconfig, "--config", config, "--health-address", "127.0.0.1:0"];
    let args = args.into_iter().chain(["--metrics-address", "127.0.0.1:0", "--log-format", "text"]);
    Ok(Program {
        name: format!("{GRAPH_CONTROLLER}-{number}"),
        executable: executable(GRAPH_CONTROLLER)?,
        args: args.map(str::to_owned).collect(),
        env: vec![("HOSTNAME".to_owned(), account)],
    })
}

/// A graph of one component, with so many replicas.
fn graph(replicas: u64) -> Value {
    json!({
        "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": { "name": "busy" },
        "spec": { "components": [{
            "name": "Frontend", "type": "frontend", "replicas": replicas,
            "podTemplate": { "spec": { "containers": [{ "name": "main", "image": "registry.example/frontend:1.5.0" }] } },
        }] },
    })
}

/// Makes namespaces with a graph each, and returns their names.
async fn namespaces(harness: &Harness) -> Result<Vec<String>, BoxError> {
    let api: Api<Namespace> = Api::all(harness.client.clone());
    let names: Vec<String> = (0..NAMESPACES).map(|number| format!("load-{number}")).collect();
    for name in &names {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        api.create(&PostParams::default(), &namespace).await?;
        edit(harness, name, 1).await?;
    }
    Ok(names)
}

async fn edit(harness: &Harness, namespace: &str, replicas: u64) -> Result<(), BoxError> {
    let api: Api<DynamoGraphDeployment> = Api::namespaced(harness.client.clone(), namespace);
    api.patch("busy", &PatchParams::apply("user").force(), &Patch::Apply(graph(replicas))).await?;
    Ok(())
}

/// Waits until every graph has been reconciled as it is.
async fn until_reconciled(harness: &Harness) -> Result<(), BoxError> {
    let api: Api<DynamoGraphDeployment> = Api::all(harness.client.clone());
    let probe = async || {
        let graphs = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let behind = graphs.iter().filter(|graph| {
            let observed = graph.status.as_ref().and_then(|status| status.observed_generation);
            observed != graph.metadata.generation
        });
        let behind: Vec<_> = behind.map(|graph| graph.metadata.namespace.clone().unwrap_or_default()).collect();
        if behind.is_empty() && graphs.items.len() == NAMESPACES { Ok(()) } else { Err(format!("{behind:?}")) }
    };
    Ok(wait::until("all graphs to be reconciled", PATIENCE, probe).await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_namespaces_and_never_write_beside_each_other() -> Result<(), BoxError> {
    let (harness, bounds) = (private_harness("shards").await?, Bounds::new()?);
    let namespaces = namespaces(&harness).await?;
    let away = AtomicBool::new(false);
    let mut members = Members::start(&harness, namespaces.clone(), &away).await?;
    let edits = async {
        for (namespace, replicas) in namespaces.iter().cycle().zip((1..=5).cycle()) {
            let was_away = away.load(Ordering::SeqCst);
            if let Err(error) = edit(&harness, namespace, replicas).await
                && !was_away
                && !away.load(Ordering::SeqCst)
            {
                return error;
            }
            tokio::time::sleep(PACE).await;
        }
        "the edits ended".into()
    };
    let changes = async {
        members.until_shared().await?;
        for (number, change) in CHANGES.into_iter().cycle().take(bounds.changes).enumerate() {
            let elected = members.elected().await?;
            let member = (elected + number % 2) % MEMBERS;
            let done = members.change(change, member, &bounds).await;
            done.map_err(|error| format!("{change:?} after {number}: {error}"))?;
        }
        Ok::<_, BoxError>(())
    };
    tokio::select! { error = edits => return Err(error), done = changes => done? }
    until_reconciled(&harness).await?;
    let faults = members.audit.faults(&namespaces)?;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(members.late.is_empty(), "of {} changes: {}", bounds.changes, members.late.join("\n"));
    Ok(())
}
