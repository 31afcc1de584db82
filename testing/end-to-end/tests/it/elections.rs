//! Of several replicas of a controller one acts.

use std::time::Duration;

use end_to_end::{BoxError, COMPONENT_CONTROLLER, GRAPH_CONTROLLER, MODEL_CONTROLLER, World, program, world};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use test_cluster::{Signal, wait};

const LIMIT: Duration = Duration::from_secs(60);

async fn until_held(world: &World, lease: &str, held: bool) -> Result<(), BoxError> {
    let leases = Api::<Lease>::namespaced(world.client.clone(), world.ns());
    let what = format!("Lease {lease} to be {}", if held { "held" } else { "free" });
    let look = async || match leases.get_opt(lease).await {
        Ok(found) => {
            let holder = found.and_then(|lease| lease.spec?.holder_identity).filter(|holder| !holder.is_empty());
            if holder.is_some() == held { Ok(()) } else { Err(format!("{holder:?}")) }
        }
        Err(error) => Err(error.to_string()),
    };
    Ok(wait::until(what, LIMIT, look).await?)
}

#[tokio::test]
async fn every_controller_takes_part_and_lets_go_when_it_ends() -> Result<(), BoxError> {
    let world = world("elections").await?;
    let config = world.cluster.dir().join(format!("{}.yaml", world.ns()));
    let text = format!(
        "apiVersion: operator.config.dynamo.nvidia.com/v1alpha1\nkind: OperatorConfiguration\n\
         leaderElection:\n  enabled: true\n  namespace: {}\n",
        world.ns()
    );
    std::fs::write(&config, text)?;
    for controller in [GRAPH_CONTROLLER, COMPONENT_CONTROLLER, MODEL_CONTROLLER] {
        let mut process = program(controller, world.ns(), world.cluster.kubeconfig())?;
        process.args.extend(["--config".to_owned(), config.display().to_string()]);
        world.cluster.run(&process).await?;
        let lease = format!("dynamo-{controller}.dynamo.nvidia.com");
        until_held(&world, &lease, true).await?;
        world.cluster.stop_program(&process.name, Signal::Terminate).await?;
        until_held(&world, &lease, false).await?;
    }
    Ok(())
}
