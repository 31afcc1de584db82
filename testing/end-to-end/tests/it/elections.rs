//! Of several replicas of a controller one acts, or all share the work.

use std::{collections::BTreeMap, time::Duration};

use end_to_end::{BoxError, COMPONENT_CONTROLLER, GRAPH_CONTROLLER, Harness, MODEL_CONTROLLER, harness, program};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use test_cluster::{Program, Signal, wait};

use crate::steady_state::requests;

const LIMIT: Duration = Duration::from_secs(60);
/// Several renewals.
const IDLE: Duration = Duration::from_secs(20);

async fn until_held(harness: &Harness, lease: &str, held: bool) -> Result<(), BoxError> {
    let leases = Api::<Lease>::namespaced(harness.client.clone(), harness.ns());
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

/// A controller of the namespace that takes part in an election.
fn electing(harness: &Harness, controller: &str) -> Result<Program, BoxError> {
    configured(harness, controller, false)
}

fn configured(harness: &Harness, controller: &str, shards: bool) -> Result<Program, BoxError> {
    let config = harness.cluster.dir().join(format!("{}.yaml", harness.ns()));
    let text = format!(
        "apiVersion: operator.config.dynamo.nvidia.com/v1alpha1\nkind: OperatorConfiguration\n\
         leaderElection:\n  enabled: true\n  shards: {shards}\n  namespace: {}\n",
        harness.ns()
    );
    std::fs::write(&config, text)?;
    let mut process = program(controller, harness.ns(), harness.cluster.kubeconfig())?;
    process.args.extend(["--config".to_owned(), config.display().to_string()]);
    Ok(process)
}

#[tokio::test]
async fn every_controller_takes_part_and_lets_go_when_it_ends() -> Result<(), BoxError> {
    let harness = harness("elections").await?;
    for controller in [GRAPH_CONTROLLER, COMPONENT_CONTROLLER, MODEL_CONTROLLER] {
        let process = electing(&harness, controller)?;
        harness.cluster.run(&process).await?;
        let lease = format!("dynamo-{controller}.dynamo.nvidia.com");
        until_held(&harness, &lease, true).await?;
        harness.cluster.stop_program(&process.name, Signal::Terminate).await?;
        until_held(&harness, &lease, false).await?;
    }
    Ok(())
}

/// Found defect: the leader read and wrote its Lease every two seconds, and each replica that waited read it as often.
#[tokio::test]
async fn an_election_costs_one_write_in_five_seconds() -> Result<(), BoxError> {
    let harness = harness("election-cost").await?;
    let leader = electing(&harness, MODEL_CONTROLLER)?;
    let waiting = Program { name: format!("{}-waiting", leader.name), ..electing(&harness, MODEL_CONTROLLER)? };
    harness.cluster.run(&leader).await?;
    until_held(&harness, &format!("dynamo-{MODEL_CONTROLLER}.dynamo.nvidia.com"), true).await?;
    let count =
        |verb: &str| Ok::<_, BoxError>(requests(&harness)?.get(&format!("{verb} leases")).copied().unwrap_or_default());
    let before_second = count("get")?;
    harness.cluster.run(&waiting).await?;
    let has_read = async || {
        count("get")
            .map_err(|e| e.to_string())
            .and_then(|now| if now > before_second { Ok(()) } else { Err(format!("{now} reads")) })
    };
    wait::until("the second replica to read the Lease", LIMIT, has_read).await?;
    let before = requests(&harness)?;
    // Silence can only be observed by listening for a while.
    tokio::time::sleep(IDLE).await;
    let mut after = requests(&harness)?;
    let writes =
        after.remove("update leases").unwrap_or_default() - before.get("update leases").copied().unwrap_or_default();
    assert!((2..=5).contains(&writes), "{writes} renewals in {} s", IDLE.as_secs());
    let rest = before.into_iter().filter(|(request, _)| request != "update leases");
    assert_eq!(after, rest.collect::<BTreeMap<_, _>>(), "nothing else is sent");
    harness.cluster.stop_program(&leader.name, Signal::Terminate).await?;
    until_held(&harness, &format!("dynamo-{MODEL_CONTROLLER}.dynamo.nvidia.com"), true).await
}

/// An object that one controller reconciles alone.
fn object_of(controller: &str, name: &str) -> Value {
    let pod = json!({ "spec": { "containers": [{ "name": "main", "image": "registry.example/frontend:1.5.0" }] } });
    let component = json!({ "name": "Frontend", "type": "frontend", "replicas": 1, "podTemplate": pod });
    let (version, kind, spec) = match controller {
        GRAPH_CONTROLLER => ("v1beta1", "DynamoGraphDeployment", json!({ "components": [component] })),
        COMPONENT_CONTROLLER => ("v1beta1", "DynamoComponentDeployment", component),
        _ => ("v1alpha1", "DynamoModel", json!({ "modelName": "x", "baseModelName": "x" })),
    };
    let version = format!("nvidia.com/{version}");
    json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec })
}

/// Applies an object, and waits until it has been reconciled.
async fn reconciled(harness: &Harness, object: &Value) -> Result<(), BoxError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    let version = text(&object["apiVersion"]).replace("nvidia.com/", "");
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("nvidia.com", &version, &kind));
    let api: Api<DynamicObject> = Api::namespaced_with(harness.client.clone(), harness.ns(), &resource);
    api.patch(&name, &PatchParams::apply("user").force(), &Patch::Apply(object)).await?;
    let look = async || match api.get(&name).await {
        Ok(found) if found.data["status"]["observedGeneration"] == json!(found.metadata.generation) => Ok(()),
        Ok(found) => Err(found.data["status"].to_string()),
        Err(error) => Err(error.to_string()),
    };
    Ok(wait::until(format!("{kind} {name} to be reconciled"), LIMIT, look).await?)
}

/// A replica gains a namespace only after all its caches have been read anew, so each cache has to take part.
#[tokio::test]
async fn two_replicas_of_every_controller_hand_over_in_both_directions() -> Result<(), BoxError> {
    let harness = harness("shared").await?;
    for controller in [GRAPH_CONTROLLER, COMPONENT_CONTROLLER, MODEL_CONTROLLER] {
        let first = configured(&harness, controller, true)?;
        let second = Program { name: format!("{}-second", first.name), ..configured(&harness, controller, true)? };
        let members = [0, 1].map(|number| format!("dynamo-{controller}.dynamo.nvidia.com-member-{number}"));
        harness.cluster.run(&first).await?;
        until_held(&harness, &members[0], true).await?;
        reconciled(&harness, &object_of(controller, "alone")).await?;
        for (number, (ends, stays)) in [(&first, &second), (&second, &first)].into_iter().enumerate() {
            harness.cluster.run(stays).await?;
            for member in &members {
                until_held(&harness, member, true).await?;
            }
            reconciled(&harness, &object_of(controller, &format!("both-{number}"))).await?;
            harness.cluster.stop_program(&ends.name, Signal::Terminate).await?;
            reconciled(&harness, &object_of(controller, &format!("one-{number}"))).await?;
        }
        harness.cluster.stop_program(&first.name, Signal::Terminate).await?;
        for member in &members {
            until_held(&harness, member, false).await?;
        }
    }
    Ok(())
}
