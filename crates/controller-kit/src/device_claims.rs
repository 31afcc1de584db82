//! The GPUs that an engine has through claims, from what its pods' claims name.
//!
//! Claims, their templates and DeviceClasses are read when a component names them, and not watched: few do, and the
//! specs of claims and templates cannot be changed. Only the specs are read: the rest of these kinds is large and not
//! needed.

use k8s_openapi::api::resource::v1::{
    DeviceClass, DeviceClassSpec, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate,
};
use kube::Resource;
use rendering::device_claims::{ClaimSource, ContainerClaim, DeviceClasses, classes_of, count_gpus};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    access::{Access, Verb},
    apply::Applier,
    failure::{ErrorType, Failure},
    request::{ObjectId, RequestError, parse},
};

/// Rights to count the devices that pods have through claims.
pub const READS_TEMPLATES: Access = reads("resourceclaimtemplates", "counts the GPUs that pods have through claims");
/// See [`READS_TEMPLATES`].
pub const READS_CLAIMS: Access = reads("resourceclaims", "counts the GPUs that pods have through claims");
/// See [`READS_TEMPLATES`]. Done without in installs for one namespace.
pub const READS_CLASSES: Access = reads("deviceclasses", "determines which claimed devices are GPUs");

const fn reads(resource: &'static str, why: &'static str) -> Access {
    Access::new("resource.k8s.io", resource, &[Verb::Get], why)
}

/// Counts the GPUs behind claims of pods in a namespace. The inner error says what is missing.
///
/// # Errors
/// The API server does not answer, or there is no right to read claims.
pub async fn claimed_gpus(
    applier: &Applier,
    namespace: &str,
    claims: &[ContainerClaim],
) -> Result<Result<u32, String>, RequestError> {
    let mut specs = Vec::new();
    for claim in claims {
        let Some(spec) = spec_of(applier, namespace, &claim.source).await? else {
            return Ok(Err(format!("{} does not exist; create it", claim.source)));
        };
        specs.push((claim.clone(), spec));
    }
    let mut classes = DeviceClasses::new();
    for class in specs.iter().flat_map(|(claim, spec)| classes_of(claim, spec)) {
        if classes.contains_key(class) {
            continue;
        }
        match get::<DeviceClass, DeviceClassSpec>(applier, "", class, "/spec").await {
            Ok(Some(spec)) => drop(classes.insert(class.to_owned(), Some(spec))),
            Ok(None) => {}
            // An install for one namespace has no rights beyond it.
            Err(error) if error.error_type() == ErrorType::Forbidden => drop(classes.insert(class.to_owned(), None)),
            Err(error) => return Err(error),
        }
    }
    Ok(count_gpus(&specs, &classes))
}

/// The spec of a claim; `None` if there is no such claim, or the API is not served.
///
/// # Errors
/// The API server does not answer, or there is no right to read claims.
pub async fn spec_of(
    applier: &Applier,
    namespace: &str,
    source: &ClaimSource,
) -> Result<Option<ResourceClaimSpec>, RequestError> {
    match source {
        ClaimSource::Template(name) => get::<ResourceClaimTemplate, _>(applier, namespace, name, "/spec/spec").await,
        ClaimSource::Claim(name) => get::<ResourceClaim, _>(applier, namespace, name, "/spec").await,
    }
}

/// The part `at` of an object.
async fn get<K, S>(applier: &Applier, namespace: &str, name: &str, at: &str) -> Result<Option<S>, RequestError>
where
    K: Resource<DynamicType = ()>,
    S: DeserializeOwned,
{
    let Some(mut found) = applier.find::<K>(namespace, name).await? else { return Ok(None) };
    let part = found.pointer_mut(at).map(Value::take).unwrap_or_default();
    parse(&ObjectId::named::<K>(namespace, name), part).map(Some)
}
