//! The examples of the legacy API on one machine, with the stand-in for its API store and registry.

use api_types::conversion::{ApiVersion, convert};
use end_to_end::{BoxError, COMPONENT_CONTROLLER, GRAPH_CONTROLLER, executable, harness, program};
use serde_json::Value;
use test_cluster::{Program, free_port};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples/2025");

#[tokio::test]
async fn disagg_becomes_ready_without_another_host_and_llm_agg_waits_for_its_volume() -> Result<(), BoxError> {
    let harness = harness("legacy-examples").await?;
    let address = format!("127.0.0.1:{}", free_port()?);
    let store = Program {
        name: "legacy-store".to_owned(),
        executable: executable("legacy-store")?,
        args: vec![address.clone(), format!("{EXAMPLES}/archives")],
        env: Vec::new(),
    };
    harness.cluster.run(&store).await?;
    harness.cluster.run(&program(GRAPH_CONTROLLER, harness.ns(), harness.cluster.kubeconfig())?).await?;
    let mut components = program(COMPONENT_CONTROLLER, harness.ns(), harness.cluster.kubeconfig())?;
    for (name, value) in [
        ("API_STORE_ENDPOINT", format!("http://{address}").as_str()),
        ("DOCKER_REGISTRY_SERVER", &address),
        ("DOCKER_REGISTRY_INSECURE_HOSTS", &address),
        ("DOCKER_REGISTRY_SECURE", "false"),
    ] {
        components.env.push((name.to_owned(), value.to_owned()));
    }
    harness.cluster.run(&components).await?;
    for name in ["disagg", "llm-agg"] {
        let text = std::fs::read_to_string(format!("{EXAMPLES}/{name}.yaml"))?;
        let alpha: Value = serde_saphyr::from_str(&text)?;
        harness.apply(&convert(alpha, ApiVersion::V1Beta1)?).await?;
    }
    harness.ready("disagg").await?;
    // Nothing provisions volumes here.
    let message = harness.condition("llm-agg", "Reconciling", "True", "Unschedulable").await?;
    assert!(message.contains("PersistentVolumeClaims"), "{message}");
    assert_eq!(harness.components().await?.len(), 10, "each graph has the five services of the archive");
    Ok(())
}
