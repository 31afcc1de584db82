//! One namespace goes back and forth between an operator of its own and the cluster-wide one, however the former ends.
//! Judged by the audit log: no operator writes where the namespace is the other's, and it is never long without an
//! operator.
//!
//! `DYNAMO_HANDOVERS` is how many hand-overs there are (default 8), with durations as in production and to the second;
//! without it markers are short and the bounds leave a busy machine some time.

mod judge;

use std::{process::Command, time::Duration};

use end_to_end::{BoxError, GRAPH_CONTROLLER, Harness, executable, private_harness};
use judge::{Audit, Bounds, Side};
use k8s_openapi::{api::apps::v1::Deployment, jiff::Timestamp};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use test_cluster::{Program, Signal, wait};

const PATIENCE: Duration = Duration::from_secs(120);
/// Time between two edits of the graph: there is always something to write.
const PACE: Duration = Duration::from_millis(300);
const ACCOUNTS: &str = "operators";

/// End of the namespace's operator.
#[derive(Clone, Copy, Debug)]
enum End {
    Orderly,
    Killed,
    Frozen,
    Outage,
    /// In order; the cluster-wide operator is frozen while it comes back.
    Overslept,
    /// Killed; what comes back first finds a marker without a holder.
    Orphaned,
    /// The process that keeps the marker is replaced, as by an upgrade or a drain: nothing else changes.
    Replaced,
    /// All of the install is removed.
    Removed,
}

/// In turn. Those that take the length of a marker or more are rarer.
const ENDS: [End; 9] = [
    End::Replaced,
    End::Outage,
    End::Overslept,
    End::Killed,
    End::Removed,
    End::Frozen,
    End::Orderly,
    End::Orphaned,
    End::Removed,
];

impl End {
    /// There and back; after an outage no operator has to have taken over, and after a replacement none may.
    fn hand_overs(self) -> usize {
        if matches!(self, Self::Outage | Self::Replaced) { 0 } else { 2 }
    }
}

/// Durations of a run.
struct Times {
    hand_overs: usize,
    /// Validity of a marker, in whole seconds.
    marker: u64,
    frozen: Duration,
    bounds: Bounds,
}

impl Times {
    fn new() -> Result<Self, BoxError> {
        let bounds = |slack: u64, marker: u64, more: u64| Bounds {
            marker: Duration::from_secs(marker),
            late: Duration::from_secs(slack),
            gap: Duration::from_secs(marker + more),
        };
        Ok(match std::env::var("DYNAMO_HANDOVERS") {
            Ok(count) => Self {
                hand_overs: count.parse()?,
                marker: 30,
                frozen: Duration::from_secs(60),
                bounds: bounds(1, 30, 5),
            },
            Err(_) => Self { hand_overs: 8, marker: 6, frozen: Duration::from_secs(12), bounds: bounds(5, 6, 60) },
        })
    }
}

/// Both operators.
struct Operators<'a> {
    harness: &'a Harness,
    wide: Program,
    own: [Program; 2],
}

impl<'a> Operators<'a> {
    async fn start(harness: &'a Harness, times: &Times) -> Result<Self, BoxError> {
        let config = harness.cluster.dir().join("own.yaml");
        let scope = json!({
            "owner": "own", "leaseDuration": format!("{}s", times.marker), "leaseRenewInterval": format!("{}s", times.marker / 3),
        });
        let configuration = json!({
            "apiVersion": "operator.config.dynamo.nvidia.com/v1alpha1", "kind": "OperatorConfiguration",
            "namespace": {"restricted": harness.ns(), "scope": scope},
        });
        std::fs::write(&config, configuration.to_string())?;
        let config = format!("--config={}", config.display());
        let wide = program(harness, GRAPH_CONTROLLER, Side::Wide, &[]).await?;
        let own = program(harness, GRAPH_CONTROLLER, Side::Own, &[&config]).await?;
        let siblings = ["--siblings=install=own", "--install-namespace", harness.ns()];
        let marker =
            program(harness, "lease-scope", Side::Marker, &[&[config.as_str()], &siblings[..]].concat()).await?;
        harness.cluster.run(&wide).await?;
        let this = Self { harness, wide, own: [own, marker] };
        this.run_own().await?;
        Ok(this)
    }

    async fn run_own(&self) -> Result<(), BoxError> {
        for program in &self.own {
            self.harness.cluster.run(program).await?;
        }
        Ok(())
    }

    async fn stop_own(&self, signal: Signal) -> Result<(), BoxError> {
        for program in &self.own {
            self.harness.cluster.stop_program(&program.name, signal).await?;
        }
        Ok(())
    }

    /// Removes the install. The controller runs until the marker is given back: it has to stop by itself.
    async fn remove_own(&self) -> Result<(), BoxError> {
        let deployments = self.harness.api::<Deployment>();
        deployments.delete("sibling", &DeleteParams::default()).await?;
        let gone = async || deployments.get_opt("sibling").await.is_ok_and(|found| found.is_none()).then_some(());
        wait::until("the Deployment to be gone", PATIENCE, gone).await?;
        let [controller, marker] = &self.own;
        self.harness.cluster.stop_program(&marker.name, Signal::Terminate).await?;
        self.harness.cluster.stop_program(&controller.name, Signal::Terminate).await?;
        Ok(())
    }

    fn signal_own(&self, signal: &str) -> Result<(), BoxError> {
        self.own.iter().try_for_each(|program| self.signal(program, signal))
    }

    fn signal(&self, program: &Program, signal: &str) -> Result<(), BoxError> {
        let process = self.harness.cluster.process(&program.name).ok_or("it does not run")?;
        let status = Command::new("kill").args([signal, &process.pid.to_string()]).status()?;
        assert!(status.success(), "kill {signal} {}", program.name);
        Ok(())
    }

    /// The controller of the namespace starts, and starts anew, and finds each time a marker without a holder.
    async fn run_without_marker(&self, audit: &mut Audit) -> Result<(), BoxError> {
        let [controller, _] = &self.own;
        for _ in 0..2 {
            self.harness.cluster.run(controller).await?;
            let started = Timestamp::now();
            written_by(audit, Side::Wide, started).await?;
            self.harness.cluster.stop_program(&controller.name, Signal::Kill).await?;
        }
        Ok(())
    }
}

/// A program with an account of its own, by which the audit log names it.
async fn program(harness: &Harness, binary: &str, side: Side, args: &[&str]) -> Result<Program, BoxError> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": side.account()},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": side.account(), "namespace": ACCOUNTS}],
    });
    let kubeconfig = harness.cluster.service_account_kubeconfig(ACCOUNTS, side.account(), &[binding]).await?;
    let kubeconfig = kubeconfig.display().to_string();
    let common = ["--kubeconfig", &kubeconfig, "--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0"];
    let args = common.iter().chain(&["--log-format", "text"]).chain(args).map(|&arg| arg.to_owned()).collect();
    Ok(Program { name: format!("{binary}-{}", side.account()), executable: executable(binary)?, args, env: vec![] })
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

/// Creates the Deployment that the namespace's operator awaits before its takeover.
async fn sibling(harness: &Harness) -> Result<(), BoxError> {
    let deployment = json!({
        "metadata": {"name": "sibling", "labels": {"install": "own"}},
        "spec": {
            "selector": {"matchLabels": {"app": "sibling"}},
            "template": {
                "metadata": {"labels": {"app": "sibling"}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/controller:1"}]},
            },
        },
    });
    harness.api::<Deployment>().create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    Ok(())
}

/// Waits until one side has written after `since`.
async fn written_by(audit: &mut Audit, side: Side, since: Timestamp) -> Result<(), BoxError> {
    let what = format!("a write by {}", side.account());
    wait::until(what, PATIENCE, async || audit.last_write(side).is_ok_and(|last| last > Some(since)).then_some(()))
        .await?;
    Ok(())
}

/// The operator of the namespace ends, the other takes over, and then gives back.
async fn there_and_back(
    operators: &Operators<'_>,
    audit: &mut Audit,
    end: End,
    frozen: Duration,
) -> Result<(), BoxError> {
    let cluster = operators.harness.cluster;
    let begin = Timestamp::now();
    match end {
        End::Orderly | End::Overslept => operators.stop_own(Signal::Terminate).await?,
        End::Killed | End::Orphaned => operators.stop_own(Signal::Kill).await?,
        End::Removed => operators.remove_own().await?,
        End::Replaced => {
            let [_, marker] = &operators.own;
            cluster.stop_program(&marker.name, Signal::Terminate).await?;
            cluster.run(marker).await?;
            written_by(audit, Side::Own, Timestamp::now()).await?;
            assert!(audit.last_write(Side::Wide)? <= Some(begin), "the cluster-wide operator has taken the namespace");
            return Ok(());
        }
        End::Frozen => {
            operators.signal_own("-STOP")?;
            // The length of the sleep is what is tested.
            tokio::time::sleep(frozen).await;
        }
        End::Outage => {
            cluster.stop_apiserver().await?;
            tokio::time::sleep(frozen).await;
            cluster.start_apiserver().await?;
            audit.neither_side_could_write(begin, Timestamp::now());
            return written_by(audit, Side::Own, Timestamp::now()).await;
        }
    }
    written_by(audit, Side::Wide, begin).await?;
    let back = Timestamp::now();
    match end {
        End::Frozen => operators.signal_own("-CONT")?,
        End::Overslept => {
            operators.signal(&operators.wide, "-STOP")?;
            operators.run_own().await?;
            tokio::time::sleep(frozen).await;
            operators.signal(&operators.wide, "-CONT")?;
        }
        End::Orphaned => {
            operators.run_without_marker(audit).await?;
            operators.run_own().await?;
        }
        End::Removed => {
            sibling(operators.harness).await?;
            operators.run_own().await?;
        }
        _ => operators.run_own().await?,
    }
    written_by(audit, Side::Own, back).await?;
    // An operator that did not notice writes now.
    written_by(audit, Side::Own, Timestamp::now()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_goes_back_and_forth_and_never_has_two_operators() -> Result<(), BoxError> {
    let (harness, times) = (private_harness("handovers").await?, Times::new()?);
    sibling(&harness).await?;
    harness.apply(&graph(1)).await?;
    let operators = Operators::start(&harness, &times).await?;
    let mut audit = Audit::new(harness.cluster.audit_log()?, harness.ns());
    let edits = async {
        for replicas in (1..=5).cycle() {
            // No API server answers during an outage.
            let _ = harness.apply(&graph(replicas)).await;
            tokio::time::sleep(PACE).await;
        }
    };
    let hand_overs = async {
        written_by(&mut audit, Side::Own, Timestamp::now()).await?;
        let (mut ends, mut done) = (ENDS.into_iter().cycle(), 0);
        while let Some(end) = ends.next().filter(|_| done < times.hand_overs) {
            there_and_back(&operators, &mut audit, end, times.frozen)
                .await
                .map_err(|error| format!("{end:?} after {done} hand-overs: {error}"))?;
            done += end.hand_overs();
        }
        Ok::<_, BoxError>(())
    };
    tokio::select! { () = edits => {}, done = hand_overs => done? }
    let faults = audit.faults(&times.bounds)?;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}
