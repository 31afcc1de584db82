//! The caches of requests and of what belongs to them.

use api_types::v1beta1::{DynamoGraphDeployment, DynamoGraphDeploymentRequest};
use controller_kit::store::{Packed, Store};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, ServiceAccount},
    rbac::v1::RoleBinding,
};

/// The caches of requests.
#[derive(Clone)]
pub struct RequestCaches {
    /// Requests.
    pub requests: Store<Packed<DynamoGraphDeploymentRequest>>,
    /// Graphs.
    pub graphs: Store<Packed<DynamoGraphDeployment>>,
    /// Jobs that profile.
    pub jobs: Store<Packed<Job>>,
    /// ConfigMaps that were made for requests.
    pub config_maps: Store<Packed<ConfigMap>>,
    /// Accounts that the operator made.
    pub accounts: Store<Packed<ServiceAccount>>,
    /// RoleBindings of these accounts.
    pub bindings: Store<Packed<RoleBinding>>,
}
