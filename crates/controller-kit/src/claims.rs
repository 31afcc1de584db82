//! The GPUs that an engine has through claims, from what its pods' claims name.
//!
//! Claims, their templates and DeviceClasses are read when a component names them, and not watched: few do, and the specs of
//! claims and templates cannot be changed.

use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate};
use kube::{Resource, core::ApiResource};
use serde::de::DeserializeOwned;
use workload::claims::{Claim, ClaimSource, DeviceClasses, Uncountable, classes_of, count_gpus};

use crate::apply::{Applier, Error, ObjectId};
use crate::failure::{ErrorType, Failure};

/// Counts the GPUs behind claims of pods in a namespace. The inner error says what is missing.
///
/// # Errors
/// The API server does not answer, or there is no right to read claims.
pub async fn claimed_gpus(
    applier: &Applier,
    namespace: &str,
    claims: &[Claim],
) -> Result<Result<u32, Uncountable>, Error> {
    let mut specs = Vec::new();
    for claim in claims {
        let Some(spec) = spec_of(applier, namespace, &claim.source).await? else {
            return Ok(Err(Uncountable::NoClaim(claim.source.clone())));
        };
        specs.push((claim.clone(), spec));
    }
    let mut classes = DeviceClasses::new();
    for class in specs.iter().flat_map(|(claim, spec)| classes_of(claim, spec)) {
        if classes.contains_key(class) {
            continue;
        }
        match get::<DeviceClass>(applier, "", class).await {
            Ok(Some(found)) => drop(classes.insert(class.to_owned(), Some(found.spec))),
            Ok(None) => {}
            // An install for one namespace has no rights beyond it.
            Err(error) if error.error_type() == ErrorType::Forbidden => drop(classes.insert(class.to_owned(), None)),
            Err(error) => return Err(error),
        }
    }
    Ok(count_gpus(&specs, &classes))
}

/// The spec of a claim; `None` if there is no such claim, or the API is not served.
async fn spec_of(applier: &Applier, namespace: &str, source: &ClaimSource) -> Result<Option<ResourceClaimSpec>, Error> {
    Ok(match source {
        ClaimSource::Template(name) => {
            get::<ResourceClaimTemplate>(applier, namespace, name).await?.map(|template| template.spec.spec)
        }
        ClaimSource::Claim(name) => get::<ResourceClaim>(applier, namespace, name).await?.map(|claim| claim.spec),
    })
}

async fn get<K>(applier: &Applier, namespace: &str, name: &str) -> Result<Option<K>, Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let kind = ApiResource::erase::<K>(&());
    let (group, namespace) = (kind.group.clone(), namespace.to_owned());
    let id = ObjectId { group, kind: kind.kind.clone(), namespace, name: name.to_owned() };
    let Some(found) = applier.get(&kind, &id).await? else { return Ok(None) };
    serde_json::from_value(found).map(Some).map_err(|e| Error::Render { object: id, reason: e.to_string() })
}
