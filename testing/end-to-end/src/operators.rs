//! The two controllers as processes.

use std::path::{Path, PathBuf};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{Api, ResourceExt};
use test_cluster::{Cluster, Program, Signal};

use crate::{BoxError, Harness};

/// Binary of the graph controller.
pub const GRAPH_CONTROLLER: &str = "graph-controller";
/// Binary of the component controller.
pub const COMPONENT_CONTROLLER: &str = "component-controller";
/// Binary of the model controller.
pub const MODEL_CONTROLLER: &str = "model-controller";

/// A graph controller and a component controller for one namespace. They end with the control plane.
pub struct Operators {
    cluster: &'static Cluster,
    programs: [Program; 2],
}

impl Operators {
    /// Starts both for a namespace, with all rights.
    ///
    /// # Errors
    /// As [`Operators::start`].
    pub async fn of(harness: &Harness) -> Result<Self, BoxError> {
        Self::start(harness, harness.cluster.kubeconfig(), harness.cluster.kubeconfig()).await
    }

    /// Starts both for a namespace, with all rights and the configuration of an install.
    ///
    /// # Errors
    /// As [`Operators::start`].
    pub async fn configured(harness: &Harness) -> Result<Self, BoxError> {
        let path = harness.cluster.dir().join(format!("{}.json", harness.ns()));
        let configuration = serde_json::json!({
            "apiVersion": "operator.config.dynamo.nvidia.com/v1alpha1", "kind": "OperatorConfiguration",
            "rbac": {"discoveryRoleName": "dynamo-operator-discovery"},
        });
        std::fs::write(&path, configuration.to_string())?;
        let kubeconfig = harness.cluster.kubeconfig();
        let configured = |binary| {
            let mut program = program(binary, harness.ns(), kubeconfig)?;
            program.args.push(format!("--config={}", path.display()));
            Ok::<_, BoxError>(program)
        };
        let programs = [configured(GRAPH_CONTROLLER)?, configured(COMPONENT_CONTROLLER)?];
        Self::run(harness, programs).await
    }

    /// Starts both with a kubeconfig each.
    ///
    /// # Errors
    /// A binary is missing, or a process ends at once.
    pub async fn start(harness: &Harness, graph: &Path, component: &Path) -> Result<Self, BoxError> {
        let programs =
            [program(GRAPH_CONTROLLER, harness.ns(), graph)?, program(COMPONENT_CONTROLLER, harness.ns(), component)?];
        Self::run(harness, programs).await
    }

    async fn run(harness: &Harness, programs: [Program; 2]) -> Result<Self, BoxError> {
        for program in &programs {
            harness.cluster.run(program).await?;
        }
        Ok(Self { cluster: harness.cluster, programs })
    }

    /// Kills both with SIGKILL and returns when they are gone.
    ///
    /// # Errors
    /// A process does not end.
    pub async fn stop(&self) -> Result<(), BoxError> {
        for program in &self.programs {
            self.cluster.stop_program(&program.name, Signal::Kill).await?;
        }
        Ok(())
    }

    /// Starts both again.
    ///
    /// # Errors
    /// A process ends at once.
    pub async fn start_again(&self) -> Result<(), BoxError> {
        for program in &self.programs {
            self.cluster.run(program).await?;
        }
        Ok(())
    }

    /// Whether both still run.
    #[must_use]
    pub fn running(&self) -> bool {
        self.programs.iter().all(|p| self.cluster.process(&p.name).is_some())
    }
}

/// Returns the program that runs a controller for one namespace.
///
/// # Errors
/// The binary has not been built.
pub fn program(binary: &str, namespace: &str, kubeconfig: &Path) -> Result<Program, BoxError> {
    let mut program = cluster_wide(binary, kubeconfig)?;
    program.name = format!("{binary}-{namespace}");
    program.args.extend(["--namespace", namespace].map(str::to_owned));
    Ok(program)
}

/// Returns the program that runs a controller for all namespaces.
///
/// # Errors
/// The binary has not been built.
pub fn cluster_wide(binary: &str, kubeconfig: &Path) -> Result<Program, BoxError> {
    let text = |path: &Path| path.display().to_string();
    Ok(Program {
        name: binary.to_owned(),
        executable: executable(binary)?,
        args: ["--kubeconfig", &text(kubeconfig), "--health-address", "127.0.0.1:0"]
            .into_iter()
            .chain(["--metrics-address", "127.0.0.1:0", "--log-format", "text"])
            .map(str::to_owned)
            .collect(),
        env: vec![("RUST_BACKTRACE".to_owned(), "1".to_owned())],
    })
}

/// The binary beside this test's own: `target/<profile>/deps/<test>` → `target/<profile>/<binary>`.
///
/// # Errors
/// The binary has not been built.
pub fn executable(binary: &str) -> Result<PathBuf, BoxError> {
    let own = std::env::current_exe()?;
    let profile = own.parent().and_then(Path::parent).ok_or("the test binary has no target folder")?;
    let path = profile.join(binary);
    if !path.exists() {
        let package = if binary == "crds" { "api-types --features cli" } else { binary };
        return Err(format!("{} is missing; run: cargo build -p {package}", path.display()).into());
    }
    Ok(path)
}

/// The program of a Deployment of a release, as its pod would run it: with the token of its ServiceAccount and the
/// configuration that the release gave it.
///
/// # Errors
/// The release has no such account or configuration, or the binary has not been built.
pub async fn program_of(cluster: &Cluster, deployment: &Deployment) -> Result<Program, BoxError> {
    let namespace = deployment.namespace().ok_or("no namespace")?;
    let name = format!("{namespace}-{}", deployment.name_any());
    let pod = deployment.spec.clone().and_then(|spec| spec.template.spec).ok_or("no pod")?;
    let token = cluster.token(&namespace, &pod.service_account_name.ok_or("no account")?).await?;
    let kubeconfig = cluster.kubeconfig_for_token(&name, &token)?;
    let container = pod.containers.into_iter().next().ok_or("no container")?;
    let replaced = |arg: &String| ["--config=", "--health-address="].iter().any(|flag| arg.starts_with(flag));
    let mut args: Vec<String> = container.args.unwrap_or_default().into_iter().filter(|arg| !replaced(arg)).collect();
    args.push(format!("--kubeconfig={}", kubeconfig.display()));
    args.push("--health-address=127.0.0.1:0".to_owned());
    let mut volumes = pod.volumes.into_iter().flatten();
    if let Some(map) = volumes.find_map(|volume| volume.config_map) {
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client()?, &namespace);
        let configuration = maps.get(&map.name).await?.data.and_then(|mut data| data.remove("config.yaml"));
        let path = cluster.dir().join(format!("{name}.yaml"));
        std::fs::write(&path, configuration.ok_or("no configuration")?)?;
        args.extend([format!("--config={}", path.display()), "--metrics-address=127.0.0.1:0".to_owned()]);
    }
    let env = vec![("POD_NAMESPACE".to_owned(), namespace)];
    Ok(Program { name, executable: executable(&container.name)?, args, env })
}
