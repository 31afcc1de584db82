//! The controllers as processes of this machine, each with the token of its own ServiceAccount and only its own rights,
//! as in production. Another operator can take their place.

mod alone;
mod build;
mod health;
pub mod http;
mod install;
pub mod manifests;
mod sources;
mod webhook;
mod withdraw;

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

pub use alone::{UNCHECKED_NAMESPACE, WebhookServer};
use anyhow::{Context, Result, ensure};
pub use build::Binaries;
use futures::future::try_join_all;
use serde_json::{Value, json};
pub use sources::Sources;
use test_cluster::{Cluster, Program, Signal};
pub use withdraw::{refuse_installed, withdraw};

/// Namespace of the operator.
pub const NAMESPACE: &str = "dynamo-system";
/// A controller is ready in well under a second; this is for machines that are very busy.
const READY_LIMIT: Duration = Duration::from_secs(60);
const RBAC: &str = "rbac.authorization.k8s.io";
/// Name of another operator here.
const OTHER: &str = "operator-under-test";

/// A controller of this repository. Its package, binary and ServiceAccount have the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Controller {
    /// The name of all three.
    pub name: &'static str,
    /// Arguments on top of those that every controller gets.
    args: &'static [&'static str],
}

/// The image of the operator with which the expectations of the conformance kit were recorded. Pods of this cluster run
/// nothing.
const OPERATOR_IMAGE: &str = "--operator-image=nvcr.io/nvidia/ai-dynamo/kubernetes-operator:1.5.0";

/// All controllers. A new one is one more line.
pub const CONTROLLERS: [Controller; 4] = [
    Controller { name: "graph-controller", args: &[OPERATOR_IMAGE] },
    Controller { name: "component-controller", args: &[] },
    Controller { name: "model-controller", args: &[] },
    Controller { name: webhook::NAME, args: &[] },
];

/// The process that is there in installs restricted to one namespace.
const SCOPE_KEEPER: Controller = Controller { name: "lease-scope", args: &[] };

/// Substitute for the API store and the image registry of the legacy API.
const STORE: Controller = Controller { name: "legacy-store", args: &[] };
/// The manifests of the archives that it has.
const ARCHIVES: &str = "deploy/examples/2025/archives";

/// Selection and build of the operator
#[derive(Debug, Clone, clap::Args)]
pub struct OperatorArgs {
    /// Cargo profile of the controllers
    #[arg(long, value_name = "PROFILE", default_value = "dev")]
    profile: String,
    /// The same as --profile release
    #[arg(long, conflicts_with = "profile")]
    release: bool,
    /// Shell command that starts another operator in place of ours
    ///
    /// It must stay in the foreground. `{kubeconfig}` becomes the path of a file with the token of a cluster
    /// administrator; `{health}` and `{metrics}` become addresses that are free. If `{health}` is used, /readyz there answers when the
    /// operator is ready.
    #[arg(long, value_name = "COMMAND")]
    operator: Option<String>,
    /// Whether checkpoints are switched on.
    #[arg(skip)]
    checkpoints: bool,
    /// Whether archives of the legacy API have a store.
    #[arg(skip)]
    legacy_store: bool,
    /// Replicas that share the namespaces, in place of one process of each controller.
    #[arg(skip)]
    replicas: Option<Replicas>,
}

/// Number of processes of each controller, and their settings.
#[derive(Debug, Clone)]
pub struct Replicas {
    /// Processes of each controller that can share namespaces.
    pub count: usize,
    /// Objects that each reconciles at the same time.
    pub concurrency: usize,
    /// The port of 127.0.0.1 on which they find the API server.
    pub port: u16,
}

impl OperatorArgs {
    /// The profile of the controllers.
    pub fn profile(&self) -> &str {
        if self.release { "release" } else { &self.profile }
    }

    /// The same with checkpoints switched on, or off.
    pub fn with_checkpoints(self, checkpoints: bool) -> Self {
        Self { checkpoints, ..self }
    }

    /// The same with a store for archives of the legacy API.
    pub fn with_legacy_store(self) -> Self {
        Self { legacy_store: true, ..self }
    }

    /// The same with replicas of the controllers.
    #[must_use]
    pub fn with_replicas(self, replicas: Replicas) -> Self {
        Self { replicas: Some(replicas), ..self }
    }

    /// The command of another operator.
    pub fn other(&self) -> Option<&str> {
        self.operator.as_deref()
    }

    /// The programs of this repository beside `crds`.
    fn programs(&self) -> Vec<Controller> {
        let ours = CONTROLLERS.into_iter().chain(Some(STORE).filter(|_| self.legacy_store));
        ours.filter(|_| self.operator.is_none()).collect()
    }

    /// Builds what is needed. Cargo's messages go to standard error.
    pub fn build(&self) -> Result<Binaries> {
        Ok(Binaries::build(&self.programs(), self.profile(), build::Messages::Show, webhook::free_address()?, None)?)
    }

    /// Builds what is needed, and the process of restricted installs.
    pub fn build_all(&self) -> Result<Binaries> {
        if self.operator.is_some() {
            return self.build();
        }
        let all: Vec<_> = CONTROLLERS.into_iter().chain([SCOPE_KEEPER]).collect();
        Ok(Binaries::build(&all, self.profile(), build::Messages::Show, webhook::free_address()?, None)?)
    }

    /// Starts the process that belongs to installs restricted to one namespace, for a namespace in which there is
    /// nothing. It waits there for its siblings.
    pub async fn start_scope_keeper(&self, cluster: &Cluster, binaries: &Binaries) -> Result<Option<Running>> {
        if self.operator.is_some() {
            return Ok(None);
        }
        let path = cluster.dir().join("restricted.json");
        std::fs::write(&path, install::restricted().to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
        let args =
            vec![format!("--namespace={}", install::RESTRICTED), format!("--health-address={}", free_address()?)];
        let (program, user) = program(cluster, SCOPE_KEEPER, binaries, &path, None, args).await?;
        cluster.run(&program).await?;
        let executable = Some(program.executable.clone());
        Ok(Some(Running { program, health: None, user, executable, start: Duration::ZERO }))
    }

    /// Builds again, and restarts what has become another program. Returns what was done, and what failed.
    pub async fn renew(&self, cluster: &Cluster, running: &mut [Running], binaries: &mut Binaries) -> Result<String> {
        let (begin, own, before) = (Instant::now(), self.clone(), binaries.clone());
        let build = move || {
            Binaries::build(&own.programs(), own.profile(), build::Messages::Keep, before.webhook, Some(&before))
        };
        let mut built = match tokio::task::spawn_blocking(build).await.context("the build was cancelled")? {
            Ok(built) => built,
            Err(error) => return Ok(error.to_string()),
        };
        let mut done = Vec::new();
        if built.differs(binaries, webhook::CRDS) {
            done.push(match install_crds(cluster, &built).await {
                Ok(()) => "the CRDs were applied".to_owned(),
                Err(error) => built.failed(webhook::CRDS, binaries, &error),
            });
        }
        for operator in running {
            if built.differs(binaries, operator.name()) {
                done.push(match operator.restart(cluster).await {
                    Ok(()) => format!("{} was restarted", operator.name()),
                    Err(error) => built.failed(operator.name(), binaries, &error),
                });
            }
        }
        *binaries = built;
        if done.is_empty() {
            done.push("no program has changed".to_owned());
        }
        Ok(format!("{} after {:.1} s", done.join(", "), begin.elapsed().as_secs_f64()))
    }

    /// Starts the operator and returns when it is ready.
    pub async fn start(&self, cluster: &Cluster, binaries: &Binaries) -> Result<Vec<Running>> {
        let graph_controller =
            if self.operator.is_some() { None } else { Some(binaries.controller("graph-controller")?) };
        let configuration =
            install::prepare(cluster, graph_controller, binaries.webhook, self.checkpoints, self.replicas.is_some())
                .await?;
        if let Some(command) = &self.operator {
            return Ok(vec![start_other(cluster, command).await?]);
        }
        cluster.apply(&webhook::objects(binaries.controller(webhook::NAME)?, binaries.webhook)?).await?;
        let crds = start_crds(cluster, binaries).await?;
        let store = if self.legacy_store { Some(start_store(cluster, binaries).await?) } else { None };
        let start = async |controller: &Controller| {
            let replicas = self.replicas.as_ref().filter(|_| controller.name != webhook::NAME);
            let mut running = Vec::new();
            for number in 0..replicas.map_or(1, |replicas| replicas.count) {
                let number = replicas.map(|replicas| (replicas, number));
                running.push(
                    start_controller(cluster, *controller, binaries, &configuration, store.as_ref(), number).await?,
                );
            }
            anyhow::Ok(running)
        };
        let mut running = try_join_all(CONTROLLERS.iter().map(start)).await?.concat();
        running.push(crds);
        running.extend(store);
        webhook::until_answering(cluster).await?;
        Ok(running)
    }
}

/// An operator process.
#[derive(Debug, Clone)]
pub struct Running {
    program: Program,
    health: Option<SocketAddr>,
    /// The user that it acts as.
    pub user: String,
    /// The binary, if it is one of ours.
    pub executable: Option<PathBuf>,
    /// Time from its start until it was ready.
    pub start: Duration,
}

impl Running {
    /// The name of the program in the cluster.
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Returns the time until it was ready, if it reports that.
    pub fn ready_after(&self) -> Option<Duration> {
        self.health.map(|_| self.start)
    }

    /// Fails, with the end of its log, once the process has ended.
    pub fn check(&self, cluster: &Cluster) -> Result<()> {
        ensure!(
            cluster.process(self.name()).is_some(),
            "{} ended by itself; {}",
            self.name(),
            last_words(cluster, self.name())
        );
        Ok(())
    }

    /// Stops the process, starts it anew, and returns when it is ready.
    pub async fn restart(&mut self, cluster: &Cluster) -> Result<()> {
        self.stop(cluster).await?;
        self.start_again(cluster).await
    }

    /// Stops the process.
    pub async fn stop(&self, cluster: &Cluster) -> Result<()> {
        Ok(cluster.stop_program(self.name(), Signal::Terminate).await?)
    }

    /// Starts the stopped process, and returns when it is ready.
    pub async fn start_again(&mut self, cluster: &Cluster) -> Result<()> {
        self.start = start(cluster, &self.program, self.health).await?;
        Ok(())
    }
}

async fn install_crds(cluster: &Cluster, binaries: &Binaries) -> Result<()> {
    Ok(cluster.install_crds(&binaries.crds()?).await?)
}

async fn start_controller(
    cluster: &Cluster,
    controller: Controller,
    binaries: &Binaries,
    configuration: &Path,
    store: Option<&Running>,
    replica: Option<(&Replicas, usize)>,
) -> Result<Running> {
    let health = free_address()?;
    let mut args = vec![format!("--health-address={health}")];
    if controller.name == webhook::NAME {
        args.extend(webhook::args());
    }
    let (mut program, user) = program(cluster, controller, binaries, configuration, replica, args).await?;
    if let Some(address) = store.filter(|_| controller.name == "component-controller").and_then(|store| store.health) {
        let store = [("API_STORE_ENDPOINT", format!("http://{address}"))];
        let registry =
            ["DOCKER_REGISTRY_SERVER", "DOCKER_REGISTRY_INSECURE_HOSTS"].map(|name| (name, address.to_string()));
        let insecure = [("DOCKER_REGISTRY_SECURE", "false".to_owned())];
        let all = store.into_iter().chain(registry).chain(insecure);
        program.env.extend(all.map(|(name, value)| (name.to_owned(), value)));
    }
    let took = start(cluster, &program, Some(health)).await?;
    let executable = Some(program.executable.clone());
    Ok(Running { program, health: Some(health), user, executable, start: took })
}

async fn start_store(cluster: &Cluster, binaries: &Binaries) -> Result<Running> {
    let (address, executable) = (free_address()?, binaries.controller(STORE.name)?.to_owned());
    let archives = repository::root().join(ARCHIVES).display().to_string();
    let args = vec![address.to_string(), archives];
    let program = Program { name: STORE.name.to_owned(), executable: executable.clone(), args, env: vec![] };
    let took = start(cluster, &program, Some(address)).await?;
    Ok(Running { program, health: Some(address), user: String::new(), executable: Some(executable), start: took })
}

/// Starts the program without which the API server does not trust the webhook server for conversion.
async fn start_crds(cluster: &Cluster, binaries: &Binaries) -> Result<Running> {
    let executable = binaries.controller(webhook::CRDS)?.to_owned();
    let kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, webhook::CRDS, &webhook::crds_rules()?).await?;
    let mut args = webhook::crds_args(binaries.webhook).to_vec();
    args.push(format!("--kubeconfig={}", kubeconfig.display()));
    let program = Program { name: webhook::CRDS.to_owned(), executable: executable.clone(), args, env: vec![] };
    let took = start(cluster, &program, None).await?;
    Ok(Running { program, health: None, user: user(webhook::CRDS), executable: Some(executable), start: took })
}

/// One of our processes with a ServiceAccount of its own, and the user that it acts as.
async fn program(
    cluster: &Cluster,
    controller: Controller,
    binaries: &Binaries,
    configuration: &Path,
    replica: Option<(&Replicas, usize)>,
    more: Vec<String>,
) -> Result<(Program, String)> {
    let executable = binaries.controller(controller.name)?;
    let mut rules = rules(controller.name, &role(executable, &[])?).to_vec();
    if controller.name == webhook::NAME {
        rules.extend(webhook::own_rules(executable)?);
    }
    if replica.is_some() {
        rules.extend(of_leases(controller.name));
    }
    let mut kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, controller.name, &rules).await?;
    let mut name = controller.name.to_owned();
    if let Some((replicas, number)) = replica {
        name = format!("{name}-{number}");
        kubeconfig = cluster.kubeconfig_of_port(&kubeconfig, &format!("{name}.kubeconfig"), replicas.port)?;
    }
    let mut args = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--config={}", configuration.display()),
        format!("--metrics-address={}", free_address()?),
        "--log-format=text".to_owned(),
    ];
    args.extend(controller.args.iter().map(|&arg| arg.to_owned()));
    args.extend(replica.map(|(replicas, _)| format!("--concurrency={}", replicas.concurrency)));
    args.extend(more);
    let program = Program { name, executable: executable.to_owned(), args, env: vec![] };
    Ok((program, user(controller.name)))
}

async fn start_other(cluster: &Cluster, command: &str) -> Result<Running> {
    let rules = [binding(OTHER, "cluster-admin")];
    let kubeconfig = cluster.service_account_kubeconfig(NAMESPACE, OTHER, &rules).await?;
    let (health, metrics) = (free_address()?, free_address()?);
    let filled = command
        .replace("{kubeconfig}", &kubeconfig.to_string_lossy())
        .replace("{health}", &health.to_string())
        .replace("{metrics}", &metrics.to_string());
    let health = command.contains("{health}").then_some(health);
    // The supervisor runs programs in the directory of the cluster; a command is meant for where it was typed.
    let here = std::env::current_dir().context("cannot read the current directory")?;
    let args = ["-c", r#"cd "$1" && eval "exec $2""#, "sh", &here.to_string_lossy(), &filled];
    let args = args.into_iter().map(str::to_owned).collect();
    let program = Program { name: OTHER.to_owned(), executable: "sh".into(), args, env: vec![] };
    let took = start(cluster, &program, health).await?;
    Ok(Running { program, health, user: user(OTHER), executable: None, start: took })
}

/// Runs a program and waits until it is ready. Gives the time that took.
async fn start(cluster: &Cluster, program: &Program, health: Option<SocketAddr>) -> Result<Duration> {
    let name = &program.name;
    let begin = Instant::now();
    cluster.run(program).await?;
    let Some(address) = health else { return Ok(begin.elapsed()) };
    let ready = health::until_ready(address, READY_LIMIT, || cluster.process(name).is_some()).await;
    ready.with_context(|| format!("{name} does not become ready; {}", last_words(cluster, name)))?;
    Ok(begin.elapsed())
}

/// The end of a program's log, and where the rest is.
fn last_words(cluster: &Cluster, name: &str) -> String {
    const LINES: usize = 15;
    let path = cluster.log(name);
    let log = std::fs::read_to_string(&path).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
    if end.is_empty() { "it logged nothing".to_owned() } else { format!("the end of its log:\n{end}") }
}

/// A role that a controller prints: the one it needs, unless `args` say otherwise.
fn role(executable: &Path, args: &[&str]) -> Result<Value> {
    let output = Command::new(executable).arg("access").args(args).output();
    let output = output.with_context(|| format!("cannot run {}", executable.display()))?;
    let what = || format!("{} access", executable.display());
    ensure!(output.status.success(), "{} failed: {}", what(), String::from_utf8_lossy(&output.stderr));
    serde_saphyr::from_slice(&output.stdout).with_context(|| format!("{} printed no YAML", what()))
}

fn rules(account: &str, role: &Value) -> [Value; 2] {
    let name = role.pointer("/metadata/name").and_then(Value::as_str).unwrap_or(account);
    [role.clone(), binding(account, name)]
}

fn binding(account: &str, role: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": account},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    })
}

/// The rights to the Leases by which replicas find each other.
fn of_leases(account: &str) -> [Value; 2] {
    let verbs = ["get", "list", "watch", "create", "update", "patch"];
    let rules = json!([{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}]);
    granted(account, "Role", &format!("{account}-leases"), &rules)
}

/// A role, of the cluster or of the operator's namespace, and a binding of its name to an account.
fn granted(account: &str, kind: &str, name: &str, rules: &Value) -> [Value; 2] {
    let metadata = match kind {
        "ClusterRole" => json!({"name": name}),
        _ => json!({"name": name, "namespace": NAMESPACE}),
    };
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": format!("{kind}Binding"),
        "metadata": metadata,
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
    });
    [json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules}), binding]
}

fn user(account: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{account}")
}

/// A free address on loopback. The kernel gives the same one again only after many others.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_bound_to_its_account_by_name() {
        let role = json!({"kind": "ClusterRole", "metadata": {"name": "some-role"}, "rules": []});
        let [first, binding] = rules("graph-controller", &role);
        assert_eq!(first, role);
        assert_eq!(binding["roleRef"]["name"], "some-role");
        assert_eq!(binding["subjects"][0]["name"], "graph-controller");
        assert_eq!(user("graph-controller"), "system:serviceaccount:dynamo-system:graph-controller");
    }
}
