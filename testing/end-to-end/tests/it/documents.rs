//! The commands of the operator's documentation, run in a shell against an API server. What has another name here is
//! substituted; docs/coming-from.md lists the same substitutions.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use end_to_end::{BoxError, program_of};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt, api::ListParams};
use test_cluster::{
    Cluster, Options, Signal,
    assets::{Assets, Tool},
    wait,
};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const LIMIT: Duration = Duration::from_secs(120);
const RELEASE: &str = "dynamo-platform";

/// Text in a document, and the text that is typed here.
const SUBSTITUTIONS: &[(&str, &str)] = &[
    ("RELEASE_VERSION=0.x.x", concat!("RELEASE_VERSION=", env!("CARGO_PKG_VERSION"))),
    (
        "helm fetch https://helm.ngc.nvidia.com/nvidia/ai-dynamo/charts/dynamo-platform-${RELEASE_VERSION}.tgz",
        "helm package $REPOSITORY/deploy/helm/dynamo-platform",
    ),
    ("your-registry.com/", "registry.example.com"),
    ("deploy/cloud/operator", "$REPOSITORY"),
    (
        "docker build -t $DOCKER_SERVER/dynamo-operator:$IMAGE_TAG .",
        "for program in $PROGRAMS; do docker build --target $program --tag $DOCKER_SERVER/$program:$IMAGE_TAG .; done",
    ),
    (
        "docker push $DOCKER_SERVER/dynamo-operator:$IMAGE_TAG",
        "for program in $PROGRAMS; do docker push $DOCKER_SERVER/$program:$IMAGE_TAG; done",
    ),
    ("deploy/cloud/helm", "$REPOSITORY/deploy/helm"),
    ("./crds/", "./dynamo-crds"),
    ("./platform/", "./dynamo-platform"),
    ("${DOCKER_SERVER}/dynamo-operator", "${DOCKER_SERVER}"),
    ("examples/backends/vllm/deploy/agg.yaml", "$REPOSITORY/deploy/examples/vllm-agg.yaml"),
];

const FROM_SOURCE: &str = r#"
export NAMESPACE=dynamo-system
export DOCKER_SERVER=your-registry.com/
export IMAGE_TAG=latest
cd deploy/cloud/operator
docker build -t $DOCKER_SERVER/dynamo-operator:$IMAGE_TAG .
docker push $DOCKER_SERVER/dynamo-operator:$IMAGE_TAG
cd -
cd deploy/cloud/helm
helm install dynamo-crds ./crds/ --namespace default
helm install dynamo-platform ./platform/ \
  --namespace ${NAMESPACE} \
  --create-namespace \
  --set "dynamo-operator.controllerManager.manager.image.repository=${DOCKER_SERVER}/dynamo-operator" \
  --set "dynamo-operator.controllerManager.manager.image.tag=${IMAGE_TAG}"
"#;
const QUICK_INSTALL: &str = "
export NAMESPACE=dynamo-system
export RELEASE_VERSION=0.x.x
helm fetch https://helm.ngc.nvidia.com/nvidia/ai-dynamo/charts/dynamo-platform-${RELEASE_VERSION}.tgz
helm install dynamo-platform dynamo-platform-${RELEASE_VERSION}.tgz --namespace ${NAMESPACE} --create-namespace
";
const CERTIFICATE: &str = "kubectl -n dynamo-system get secret webhook-server-cert";
const ONE_NAMESPACE: &str = "
export RELEASE_VERSION=0.x.x
helm install dynamo-platform dynamo-platform-${RELEASE_VERSION}.tgz \\
  --namespace my-namespace \\
  --create-namespace \\
  --set dynamo-operator.namespaceRestriction.enabled=true
";
const GRAPH: &str = "kubectl apply -n my-namespace -f examples/backends/vllm/deploy/agg.yaml";
const HYBRID: &str = "
export RELEASE_VERSION=0.x.x
helm install dynamo-platform dynamo-platform-${RELEASE_VERSION}.tgz \\
  --namespace dynamo-system \\
  --create-namespace
helm install dynamo-test dynamo-platform-${RELEASE_VERSION}.tgz \\
  --namespace test-namespace \\
  --create-namespace \\
  --set dynamo-operator.namespaceRestriction.enabled=true \\
  --set dynamo-operator.controllerManager.manager.image.tag=v2.0.0-beta
";
const MARKERS: &str = "kubectl get lease -A --field-selector metadata.name=dynamo-operator-namespace-scope";
const HOLDER: &str =
    "kubectl get lease -n my-namespace dynamo-operator-namespace-scope -o jsonpath='{.spec.holderIdentity}'";

/// A shell with helm, kubectl and a docker that only writes down its arguments.
struct Shell {
    cluster: Cluster,
    dir: PathBuf,
}

impl Shell {
    async fn start() -> Result<Self, BoxError> {
        let cluster = Cluster::start(Options { audit: true, ..Options::with_nodes(2) }).await?;
        let dir = cluster.dir().join("shell");
        let bin = dir.join("bin");
        fs::create_dir_all(&bin)?;
        let tools = tokio::task::spawn_blocking(|| {
            let assets = Assets::from_env()?;
            assets.find(Tool::Helm).and_then(|helm| Ok((helm, assets.find(Tool::Kubectl)?)))
        });
        let (helm, kubectl) = tools.await??;
        symlink(helm, bin.join("helm"))?;
        symlink(kubectl, bin.join("kubectl"))?;
        let docker = bin.join("docker");
        fs::write(&docker, "#!/bin/sh\necho \"$@\" >> \"$DOCKER_LOG\"\n")?;
        fs::set_permissions(&docker, fs::Permissions::from_mode(0o755))?;
        Ok(Self { cluster, dir })
    }

    /// Runs commands of a document.
    async fn run(&self, block: &str) -> Result<String, BoxError> {
        let text = SUBSTITUTIONS.iter().fold(block.to_owned(), |text, (there, here)| text.replace(there, here));
        let mut bash = Command::new("bash");
        bash.args(["-euo", "pipefail", "-c", &text]).current_dir(&self.dir);
        let path = std::env::var("PATH").unwrap_or_default();
        bash.env("PATH", format!("{}:{path}", self.dir.join("bin").display()));
        bash.env("KUBECONFIG", self.cluster.kubeconfig()).env("REPOSITORY", REPOSITORY);
        bash.env("PROGRAMS", programs()?.join(" ")).env("DOCKER_LOG", self.docker_log());
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            bash.env(variable, self.dir.join("helm"));
        }
        let output = tokio::task::spawn_blocking(move || bash.output()).await??;
        let error = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            Ok(String::from_utf8(output.stdout)?)
        } else {
            Err(format!("{text}\n{error}").into())
        }
    }

    fn docker_log(&self) -> PathBuf {
        self.dir.join("docker.log")
    }

    async fn deployments(&self, namespace: &str) -> Result<Vec<Deployment>, BoxError> {
        let api: Api<Deployment> = Api::namespaced(self.cluster.client()?, namespace);
        Ok(api.list(&ListParams::default()).await?.items)
    }

    /// Starts the programs that a release has in a namespace; gives their names.
    async fn start_programs(&self, namespace: &str) -> Result<Vec<String>, BoxError> {
        let mut names = Vec::new();
        for deployment in self.deployments(namespace).await? {
            let program = program_of(&self.cluster, &deployment).await?;
            self.cluster.run(&program).await?;
            names.push(program.name);
        }
        Ok(names)
    }

    /// Repeats a command until its output contains a text.
    async fn until(&self, command: &str, text: &str) -> Result<(), BoxError> {
        wait::until(command, LIMIT, async || match self.run(command).await {
            Ok(output) if output.contains(text) => Ok(()),
            Ok(output) => Err(output),
            Err(error) => Err(error.to_string()),
        })
        .await?;
        Ok(())
    }
}

/// The programs that have an image: the stages of the Dockerfile from which nothing else is made.
fn programs() -> Result<Vec<String>, BoxError> {
    let text = fs::read_to_string(Path::new(REPOSITORY).join("Dockerfile"))?;
    Ok(text.lines().filter_map(|line| line.strip_prefix("FROM scratch AS ")).map(str::to_owned).collect())
}

fn images(deployments: &[Deployment]) -> BTreeSet<String> {
    let pods = deployments.iter().filter_map(|deployment| deployment.spec.as_ref()?.template.spec.as_ref());
    pods.flat_map(|pod| &pod.containers).filter_map(|container| container.image.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_that_build_and_install_from_source_work() -> Result<(), BoxError> {
    let shell = Shell::start().await?;
    shell.run(FROM_SOURCE).await?;
    let log = fs::read_to_string(shell.docker_log())?;
    let pushed: BTreeSet<_> = log.lines().filter_map(|line| line.strip_prefix("push ")).map(str::to_owned).collect();
    let deployed = images(&shell.deployments("dynamo-system").await?);
    assert!(!deployed.is_empty() && deployed.is_subset(&pushed), "{deployed:?} of {pushed:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_install_commands_of_the_operators_page_work() -> Result<(), BoxError> {
    let shell = Shell::start().await?;
    shell.run(QUICK_INSTALL).await?;
    let programs = shell.start_programs("dynamo-system").await?;
    for definition in api_types::crds::all()? {
        let established = format!("kubectl wait --for=condition=Established crd/{}", definition.name_any());
        shell.until(&established, "condition met").await?;
    }
    shell.until(CERTIFICATE, "kubernetes.io/tls").await?;
    for program in programs {
        shell.cluster.stop_program(&program, Signal::Terminate).await?;
    }
    shell.run(&format!("helm uninstall {RELEASE} --namespace dynamo-system")).await?;

    shell.run(ONE_NAMESPACE).await?;
    shell.start_programs("my-namespace").await?;
    shell.run(GRAPH).await?;
    let ready = "kubectl wait -n my-namespace --for=condition=Ready --timeout=120s dynamographdeployment --all";
    shell.run(ready).await?;

    shell.run(HYBRID).await?;
    shell.start_programs("test-namespace").await?;
    shell.until(MARKERS, "test-namespace").await?;
    shell.until(MARKERS, "my-namespace").await?;
    shell.until(HOLDER, env!("CARGO_PKG_VERSION")).await?;
    shell.until(&HOLDER.replace("my-namespace", "test-namespace"), "v2.0.0-beta").await?;
    Ok(())
}
