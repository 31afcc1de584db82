//! Collects the facts that the rules of admission depend on.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use api_types::{GROUP, labels, v1alpha1::DynamoCheckpoint, v1beta1::DynamoGraphDeployment};
use controller_kit::{scope::Fence, settings::OperatorConfiguration};
use futures::future::join_all;
use k8s_openapi::api::{
    apps::v1::DaemonSet,
    authentication::v1::UserInfo,
    authorization::v1::{LocalSubjectAccessReview, ResourceAttributes, SubjectAccessReviewSpec},
};
use kube::{
    Client, Error,
    api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams},
};
use rendering::ExposureObject;
use serde_json::Value;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};
use tracing::{info, warn};

use super::{ISTIO, Offer, POD_SNAPSHOTS, features, missing};
use crate::admission::{self, AdmissionPath, Facts, Features, Lookup, LookupResult, Request};

/// Time between two reads of what the API server serves. A new install of Grove is noticed after it.
const REFRESH: Duration = Duration::from_secs(15);
/// After a first look that failed.
const FIRST_AGAIN: Duration = Duration::from_secs(1);
/// The longest one lookup may take.
const LOOKUP: Duration = Duration::from_secs(3);
/// Lookups at the same time. Each is an answer of the API server in memory, and a part of what it grants this account.
const LOOKUPS: usize = 16;
/// Time limit of a read of what the API server serves. A connection that was cut raises no error.
const LOOK: Duration = Duration::from_secs(10);

/// Source of the facts. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct FactSource {
    client: Client,
    /// Reviews of access are no writes: they pass without the fence.
    reviews: Client,
    settings: Arc<OperatorConfiguration>,
    fence: Fence,
    /// Facts that do not change while the process runs.
    fixed: Arc<Facts>,
    features: Arc<RwLock<Features>>,
    places: Arc<Semaphore>,
}

impl FactSource {
    /// `fixed` holds everything but features and what is looked up; `reviews` is a client without fence.
    #[must_use]
    pub fn new(
        client: Client,
        reviews: Client,
        settings: Arc<OperatorConfiguration>,
        fence: Fence,
        fixed: Facts,
    ) -> Self {
        let found = features(&Offer::default(), &settings);
        let (features, places) = (Arc::new(RwLock::new(found)), Arc::new(Semaphore::new(LOOKUPS)));
        Self { client, reviews, settings, fence, fixed: Arc::new(fixed), features, places }
    }

    /// Whether another install has taken the namespace.
    #[must_use]
    pub fn is_taken(&self, namespace: &str) -> bool {
        self.fence.is_taken(namespace)
    }

    /// All facts for one request.
    pub async fn facts(&self, path: AdmissionPath, request: &Request) -> Facts {
        let features = *self.features.read().unwrap_or_else(PoisonError::into_inner);
        let mut facts = Facts { features, ..(*self.fixed).clone() };
        facts.another_operator = self.fence.is_open(&request.namespace);
        let lookups = admission::lookups(path, request, &facts);
        let found = join_all(lookups.into_iter().map(|lookup| async {
            let found = self.look_up(&lookup, &request.user_info).await;
            (lookup, found)
        }));
        facts.found = found.await.into_iter().collect();
        facts
    }

    /// Looks at what the API server serves, again and again. `ready` is called after the first look that succeeds: what
    /// is set on a new graph without one would stay.
    pub async fn follow(&self, ready: impl FnOnce()) {
        let mut ready = Some(ready);
        let mut last = None;
        loop {
            match in_time(LOOK, offer(&self.client)).await {
                Ok(offer) => {
                    if last.as_ref() != Some(&offer) {
                        self.take_in(&offer);
                    }
                    last = Some(offer);
                    if let Some(ready) = ready.take() {
                        ready();
                    }
                }
                Err(error) => warn!(%error, "cannot read the served APIs; the last answer still holds"),
            }
            sleep(if ready.is_some() { FIRST_AGAIN } else { REFRESH }).await;
        }
    }

    fn take_in(&self, offer: &Offer) {
        let found = features(offer, &self.settings);
        let before = std::mem::replace(&mut *self.features.write().unwrap_or_else(PoisonError::into_inner), found);
        if before != found {
            info!(features = ?found, "the features that can be used have changed");
        }
        let missing = missing(offer, &self.settings);
        if !missing.is_empty() {
            warn!(keys = missing.join(", "), "the configuration requires APIs that are not served (yet)");
        }
    }

    async fn look_up(&self, lookup: &Lookup, user: &UserInfo) -> LookupResult {
        // It fails on a semaphore that is closed, and this one never is.
        let in_turn = async {
            let _place = self.places.acquire().await;
            self.get(lookup, user).await
        };
        in_time(LOOKUP, in_turn).await
    }

    async fn get(&self, lookup: &Lookup, user: &UserInfo) -> Result<Option<Value>, Error> {
        let (api, name): (Api<DynamicObject>, _) = match lookup {
            Lookup::SnapshotAgents { namespace } => return self.agents(namespace).await.map(Some),
            Lookup::CreateRight { namespace, object } => return self.review(namespace, *object, user).await.map(Some),
            Lookup::TopologyBinding { name } => {
                let kind = GroupVersionKind::gvk(super::GROVE, "v1alpha1", "ClusterTopologyBinding");
                let resource = ApiResource::from_gvk_with_plural(&kind, "clustertopologybindings");
                (Api::all_with(self.client.clone(), &resource), name)
            }
            Lookup::Checkpoint { namespace, name } => {
                let resource = ApiResource::erase::<DynamoCheckpoint>(&());
                (Api::namespaced_with(self.client.clone(), namespace, &resource), name)
            }
            // Read as it is stored: nothing of it is converted.
            Lookup::Graph { namespace, name } => {
                let resource = ApiResource::erase::<DynamoGraphDeployment>(&());
                (Api::namespaced_with(self.client.clone(), namespace, &resource), name)
            }
        };
        let Some(object) = api.get_opt(name).await? else { return Ok(None) };
        Ok(Some(serde_json::to_value(object).map_err(Error::SerdeError)?))
    }

    /// The API server's answer on whether the user may create such objects in the namespace.
    async fn review(&self, namespace: &str, object: ExposureObject, user: &UserInfo) -> Result<Value, Error> {
        let (group, resource) = object.resource();
        let mut review = LocalSubjectAccessReview::default();
        review.metadata.namespace = Some(namespace.to_owned());
        review.spec = SubjectAccessReviewSpec {
            user: user.username.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                verb: Some("create".to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        };
        let api: Api<LocalSubjectAccessReview> = Api::namespaced(self.reviews.clone(), namespace);
        serde_json::to_value(api.create(&PostParams::default(), &review).await?).map_err(Error::SerdeError)
    }

    /// The DaemonSets of the snapshot agents of a namespace, as a list.
    async fn agents(&self, namespace: &str) -> Result<Value, Error> {
        let selector = format!("{}={}", labels::APP_COMPONENT, labels::SNAPSHOT_AGENT);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &ApiResource::erase::<DaemonSet>(&()));
        serde_json::to_value(api.list(&ListParams::default().labels(&selector)).await?).map_err(Error::SerdeError)
    }
}

/// The answer to a request, or the reason why there is none within the time limit.
async fn in_time<T>(limit: Duration, request: impl Future<Output = Result<T, Error>>) -> Result<T, String> {
    match timeout(limit, request).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
    }
}

/// Asks the API server what it serves.
async fn offer(client: &Client) -> Result<Offer, Error> {
    let mut offer = Offer::default();
    for group in client.list_api_groups().await?.groups {
        offer.versions.extend(group.versions.into_iter().map(|version| version.group_version));
    }
    offer.istio = serves(client, &offer, ISTIO.0, ISTIO.1).await?;
    offer.pod_snapshots = serves(client, &offer, &format!("{GROUP}/{}", POD_SNAPSHOTS.0), POD_SNAPSHOTS.1).await?;
    Ok(offer)
}

async fn serves(client: &Client, offer: &Offer, version: &str, plural: &str) -> Result<bool, Error> {
    if !offer.versions.contains(version) {
        return Ok(false);
    }
    let resources = client.list_api_group_resources(version).await?.resources;
    Ok(resources.iter().any(|resource| resource.name == plural))
}

#[cfg(test)]
mod tests {
    use kube::Config;
    use tokio::net::TcpListener;

    use super::*;

    /// Defect of ours: one connection that had died without an error, and what is served was never read, or
    /// never again.
    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_does_not_answer_gets_the_request_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::try_from(Config::new(url.parse().unwrap())).unwrap();
        let source = FactSource::new(client.clone(), client, Arc::default(), Fence::unfenced(), Facts::default());
        let sent_twice = async {
            let first = listener.accept().await.unwrap();
            let second = listener.accept().await.unwrap();
            drop((first, second));
        };
        tokio::select! {
            () = sent_twice => {}
            () = source.follow(|| ()) => panic!("it ends"),
            () = sleep(Duration::from_secs(3600)) => panic!("it waits for ever"),
        }
    }
}
