//! Makes a key in each namespace whose graphs need one. Nothing that exists is ever written.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use api_types::{conditions::MPI_KEY_AVAILABLE, labels, v1beta1::DynamoGraphDeployment};
use controller_kit::{
    apply::{OF_NO_OBJECT, ObjectId, timed},
    context::Context,
    failure::{ErrorType, Failure},
    scope::Fence,
    store::{Key, Store, watch_api},
};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Client, Resource,
    api::{Api, Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::{KeyError, make};
use crate::{
    NAME,
    changes::{Changes, ticks},
};

/// After something failed, and where another install acts.
const RETRY: Duration = Duration::from_secs(5);
/// After a key was made or found. The graph says that it has it much earlier, unless no controller serves the graph.
const AGAIN: Duration = Duration::from_secs(30);

/// Makes a key in each namespace whose graphs need one, and never touches a Secret that is there.
pub struct KeyMaker {
    /// Name of all Secrets.
    name: String,
    graphs: Store<Graph>,
    changes: Changes,
    client: Client,
    fence: Fence,
    /// Time of the next look at a namespace that still reports that it lacks the key.
    later: BTreeMap<String, Instant>,
}

impl KeyMaker {
    /// For the name of the configuration; `None` if there is none.
    #[must_use]
    pub fn new(context: &Context) -> Option<Self> {
        let name = Some(context.settings.mpi.ssh_secret_name.clone()).filter(|name| !name.is_empty())?;
        let (client, fence) = (context.client.clone(), context.fence.clone());
        let (graphs, changes) = watch_api::<Graph>(context.scope.api(client.clone()), None, None);
        Some(Self { name, graphs, changes: Changes::of([ticks(changes)]), client, fence, later: BTreeMap::new() })
    }

    /// Never returns.
    pub async fn run(mut self) {
        loop {
            let next = self.make_all().await;
            self.changes.next_or(sleep_until(next.unwrap_or_else(|| Instant::now() + AGAIN))).await;
        }
    }

    /// Makes the keys that are needed. Returns the time of the next pass.
    async fn make_all(&mut self) -> Option<Instant> {
        let desired = namespaces_in_need(&self.graphs);
        self.later.retain(|namespace, _| desired.contains(namespace));
        for namespace in desired {
            if self.later.get(&namespace).is_none_or(|later| *later <= Instant::now()) {
                let pause = self.make_in(&namespace).await;
                self.later.insert(namespace, Instant::now() + pause);
            }
        }
        self.later.values().min().copied()
    }

    /// Makes the key of a namespace. Returns for how long it need not be looked at.
    async fn make_in(&self, namespace: &str) -> Duration {
        if let Err(excluded) = self.fence.may_act(namespace) {
            debug!(%excluded, "made no SSH key for MPI");
            return RETRY;
        }
        let key = Key::new(namespace, &self.name);
        match create_key(&self.client, &key).await {
            Ok(true) => info!(secret = %key, "made the SSH key for MPI"),
            Ok(false) => debug!(secret = %key, "the SSH key for MPI exists"),
            Err(error) => {
                warn!(secret = %key, %error, "cannot make the SSH key for MPI; trying again");
                return RETRY;
            }
        }
        AGAIN
    }
}

/// The little of a graph that matters here, in the version that is stored: nothing has to be converted for it.
#[derive(Debug, Clone, Deserialize, Resource)]
#[resource(inherit = DynamoGraphDeployment)]
#[serde(from = "Whole")]
struct Graph {
    metadata: ObjectMeta,
    lacks_key: bool,
}

#[derive(Deserialize)]
struct Whole {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Value,
}

impl From<Whole> for Graph {
    fn from(Whole { metadata, status }: Whole) -> Self {
        let conditions = status["conditions"].as_array();
        let is_missing = |condition: &Value| condition["type"] == MPI_KEY_AVAILABLE && condition["status"] == "False";
        let lacks_key = conditions.is_some_and(|conditions| conditions.iter().any(is_missing));
        let ObjectMeta { name, namespace, uid, resource_version, .. } = metadata;
        Self { metadata: ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() }, lacks_key }
    }
}

/// The namespaces in which a graph needs a key that is not there, as of the last event.
fn namespaces_in_need(graphs: &Store<Graph>) -> BTreeSet<String> {
    let graphs = graphs.all();
    graphs.iter().filter(|graph| graph.lacks_key).filter_map(|graph| graph.metadata.namespace.clone()).collect()
}

/// Creates the Secret with a new key, by a server-side apply: its URL names the Secret, so that a right on this name
/// alone is enough. Returns whether it was created: a Secret of that name may exist already.
///
/// # Errors
/// The reason why there is no such Secret now.
async fn create_key(client: &Client, key: &Key) -> Result<bool, KeyError> {
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(key.name.clone()),
            namespace: Some(key.namespace.clone()),
            resource_version: Some(OF_NO_OBJECT.to_owned()),
            labels: Some([(labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned())].into()),
            ..ObjectMeta::default()
        },
        data: Some(make()?),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(client.clone(), &key.namespace);
    let (params, id) = (PatchParams::apply(NAME), ObjectId::of(&secret));
    match timed("create", &id, api.patch(&key.name, &params, &Patch::Apply(secret))).await {
        Ok(_) => Ok(true),
        Err(error) if error.error_type() == ErrorType::Conflict => Ok(false),
        Err(error) => Err(Box::new(error).into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_graph_says_in_its_status_that_the_key_is_missing() {
        let condition = |type_: &str, status: &str| json!({ "conditions": [{ "type": type_, "status": status }] });
        for (status, lacks_key) in [
            (condition("MPIKeyAvailable", "False"), true),
            (condition("MPIKeyAvailable", "True"), false),
            (condition("Ready", "False"), false),
            (json!({ "conditions": "garbage" }), false),
            (json!({}), false),
            (json!(null), false),
        ] {
            let metadata = json!({ "name": "g", "namespace": "n", "annotations": { "long": "text" } });
            let graph: Graph = serde_json::from_value(json!({ "metadata": metadata, "status": status })).unwrap();
            assert_eq!(graph.lacks_key, lacks_key, "{status}");
            assert_eq!((graph.metadata.name.as_deref(), graph.metadata.annotations), (Some("g"), None));
        }
    }
}
