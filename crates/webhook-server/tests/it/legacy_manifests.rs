//! The manifests and commands of the documentation of the legacy API, by kubectl.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use test_cluster::assets::{Assets, Tool};

use crate::{harness, namespace};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples/2025");
/// The manifests that are no examples here, with JSON in place of "a long configuration".
const PARTS: &str = "
apiVersion: nvidia.com/v1alpha1
kind: DynamoComponentDeployment
metadata:
  name: test-41fa991-vllmworker
spec:
  dynamoNamespace: dynamo
  dynamoComponent: frontend:jh2o6dqzpsgfued4
  dynamoTag: graphs.disagg:Frontend
  envs:
  - name: DYN_DEPLOYMENT_CONFIG
    value: '{}'
  externalServices:
    PrefillWorker:
      deploymentSelectorKey: dynamo
      deploymentSelectorValue: PrefillWorker/dynamo
  resources:
    limits: {cpu: '10', gpu: '1', memory: 20Gi}
    requests: {cpu: 500m, gpu: '1', memory: 20Gi}
  serviceName: Frontend
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoComponent
metadata:
  name: frontend--jh2o6dqzpsgfued4
spec:
  dynamoComponent: frontend:jh2o6dqzpsgfued4
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata:
  name: as-archived
spec:
  dynamoComponent: frontend:jh2o6dqzpsgfued4
";
/// Steps 1 and 3 of the GitOps workflow.
const BUILD: &str = r#"
export PROJECT_ROOT=$(pwd)
export KUBE_NS=dynamo-cloud
export DYNAMO_CLOUD=http://localhost:8080
cd $PROJECT_ROOT/examples/llm
DYNAMO_TAG=$(dynamo build --push graphs.agg:Frontend | grep "Successfully built" | awk '{ print $NF }' | sed 's/\.$//')
"#;
/// Texts of the document, and their replacements here: the replaced builder of the legacy API prints what the commands
/// search for.
const SUBSTITUTIONS: [(&str, &str); 2] = [
    ("cd $PROJECT_ROOT/examples/llm", "cd $PROJECT_ROOT"),
    ("dynamo build --push graphs.agg:Frontend", "echo Successfully built frontend:$BUILT."),
];

/// The tag of a pipeline that was built and pushed by the commands of the document.
fn build(version: &str) -> String {
    let text = SUBSTITUTIONS.iter().fold(BUILD.to_owned(), |text, (there, here)| text.replace(there, here));
    let mut bash = Command::new("bash");
    let output =
        bash.args(["-euo", "pipefail", "-c", &format!("{text}echo $DYNAMO_TAG")]).env("BUILT", version).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test]
async fn kubectl_applies_the_manifests_of_the_legacy_document() {
    let namespace = namespace("legacy").await;
    let kubeconfig = harness().await.install.cluster.kubeconfig();
    let tool = Assets::from_env().unwrap().find(Tool::Kubectl).unwrap();
    let kubectl = |words: &[&str], input: &str| {
        let mut kubectl = Command::new(&tool);
        kubectl.args(words).args(["--namespace", namespace.name(), "--kubeconfig"]).arg(kubeconfig);
        let piped = kubectl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let read = |name: &str| std::fs::read_to_string(format!("{EXAMPLES}/{name}.yaml")).unwrap();

    assert_eq!(build("jh2o6dqzpsgfued4"), "frontend:jh2o6dqzpsgfued4");
    kubectl(&["apply", "-f", "-"], PARTS);
    for name in ["disagg", "graph", "component", "llm-agg"] {
        kubectl(&["apply", "-f", "-"], &read(name));
    }
    // As a GitOps controller applies it, and after the pipeline was built anew.
    let flux = ["apply", "--server-side", "--force-conflicts", "--field-manager=kustomize-controller", "-f", "-"];
    kubectl(&flux, &read("llm-agg"));
    let updated = read("llm-agg").replace("frontend:jh2o6dqzpsgfued4", &build("new_tag_here"));
    kubectl(&flux, &updated);

    let graph = kubectl(&["get", "dynamographdeployment", "llm-agg"], "");
    assert!(graph.contains("llm-agg"), "{graph}");
    let components = kubectl(&["get", "dynamocomponentdeployment"], "");
    assert!(components.contains("test-41fa991-vllmworker"), "{components}");
    let stored = ["get", "dynamographdeployments.v1alpha1.nvidia.com", "llm-agg", "-o"];
    let tag = kubectl(&[&stored[..], &["jsonpath={.spec.dynamoComponent}"]].concat(), "");
    assert_eq!(tag, "frontend:new_tag_here");
    let pvc = "jsonpath={.spec.services.VllmWorker.pvc.name} {.spec.services.VllmWorker.pvc.size}";
    assert_eq!(kubectl(&[&stored[..], &[pvc]].concat(), ""), "vllm-model-storage 100Gi");
}
