//! The chart on a control plane whose pods run nothing: helm installs it, and its programs run beside, with the rights
//! that helm made for them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use end_to_end::{BoxError, Harness, executable};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace},
};
use kube::{
    ResourceExt,
    api::{Api, PostParams},
};
use serde_json::json;
use test_cluster::{
    Program, Signal,
    assets::{Assets, Tool},
};

/// Release and namespace.
pub const RELEASE: &str = "dynamo";
pub const NAMESPACE: &str = "dynamo-system";
/// Prefix of the names of its objects.
pub const PREFIX: &str = "dynamo-dynamo-operator-";
/// The version before.
const OLDER: &str = "0.0.9";
/// A right that the version before had, and this one has not.
const OLDER_RULE: &str = "- apiGroups: ['']\n  resources: [pods]\n  verbs: [deletecollection]\n";
/// The programs that act on graphs.
const CONTROLLERS: [&str; 2] = ["graph-controller", "component-controller"];

pub struct Release<'a> {
    harness: &'a Harness,
    helm: PathBuf,
    /// The chart of this version, and that of the version before.
    pub newer: PathBuf,
    pub older: PathBuf,
}

impl<'a> Release<'a> {
    /// Prepares the charts and the namespace.
    pub async fn prepare(harness: &'a Harness) -> Result<Self, BoxError> {
        let newer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/helm/dynamo-platform");
        let older = harness.cluster.dir().join("older-chart");
        copy_older(&newer, &older)?;
        let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
        Api::<Namespace>::all(harness.client.clone()).create(&PostParams::default(), &namespace).await?;
        let helm = tokio::task::spawn_blocking(|| Assets::from_env()?.find(Tool::Helm)).await??;
        Ok(Self { harness, helm, newer, older })
    }

    /// Runs helm on the release; returns when what it made is ready or gone.
    pub async fn helm(&self, words: &[&str]) -> Result<(), BoxError> {
        let home = self.harness.cluster.dir().join("helm");
        let mut command = Command::new(&self.helm);
        command.args(words).args(["--namespace", NAMESPACE, "--wait", "--timeout=300s", "--kubeconfig"]);
        command.arg(self.harness.cluster.kubeconfig());
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, &home);
        }
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let error = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("helm {}: {error}", words.join(" ")).into()) }
    }

    /// Starts the controllers as the pods of the release would, in place of those that run.
    pub async fn start_controllers(&self) -> Result<(), BoxError> {
        let cluster = self.harness.cluster;
        let maps: Api<ConfigMap> = Api::namespaced(self.harness.client.clone(), NAMESPACE);
        let map = maps.get(&format!("{PREFIX}config")).await?;
        let text = map.data.and_then(|mut data| data.remove("config.yaml")).ok_or("the chart has no configuration")?;
        let config = cluster.dir().join("release.yaml");
        fs::write(&config, text)?;
        for name in CONTROLLERS {
            if cluster.process(name).is_some() {
                cluster.stop_program(name, Signal::Terminate).await?;
            }
            let account = format!("{PREFIX}{name}");
            let token = cluster.token(NAMESPACE, &account).await?;
            let kubeconfig = cluster.kubeconfig_for_token(&account, &token)?;
            let args = [
                format!("--kubeconfig={}", kubeconfig.display()),
                format!("--config={}", config.display()),
                "--health-address=127.0.0.1:0".to_owned(),
                "--metrics-address=127.0.0.1:0".to_owned(),
                "--log-format=text".to_owned(),
            ];
            let env = vec![("POD_NAMESPACE".to_owned(), NAMESPACE.to_owned())];
            let program = Program { name: name.to_owned(), executable: executable(name)?, args: args.into(), env };
            cluster.run(&program).await?;
        }
        Ok(())
    }

    /// The image of the graph controller, as installed.
    pub async fn image(&self) -> Result<String, BoxError> {
        let deployments: Api<Deployment> = Api::namespaced(self.harness.client.clone(), NAMESPACE);
        let deployment = deployments.get(&format!("{PREFIX}graph-controller")).await?;
        let pod = deployment.spec.and_then(|spec| spec.template.spec).ok_or("it has no pods")?;
        pod.containers.into_iter().find_map(|container| container.image).ok_or_else(|| "it has no image".into())
    }

    /// Names of objects of a kind that belong to the release.
    pub async fn objects<K>(&self) -> Result<Vec<String>, BoxError>
    where
        K: kube::Resource<DynamicType = ()> + Clone + k8s_openapi::serde::de::DeserializeOwned + std::fmt::Debug,
    {
        let own = kube::api::ListParams::default().labels(&format!("app.kubernetes.io/instance={RELEASE}"));
        let all: Api<K> = Api::all(self.harness.client.clone());
        Ok(all.list(&own).await?.iter().map(|object| format!("{} {}", K::kind(&()), object.name_any())).collect())
    }
}

/// The chart as the version before would have it: another version throughout, and a role that is not the same.
fn copy_older(from: &Path, to: &Path) -> Result<(), BoxError> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (source, target) = {
            let entry = entry?;
            (entry.path(), to.join(entry.file_name()))
        };
        if source.is_dir() {
            copy_older(&source, &target)?;
            continue;
        }
        let mut text = fs::read_to_string(&source)?;
        if source.ends_with("Chart.yaml") {
            let version = text.lines().find_map(|line| line.strip_prefix("version: ")).ok_or("no version")?.to_owned();
            text = text.replace(&version, OLDER);
        } else if source.ends_with("graph-controller/files/role.yaml") {
            text.push_str(OLDER_RULE);
        }
        fs::write(target, text)?;
    }
    Ok(())
}
