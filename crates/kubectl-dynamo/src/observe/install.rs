//! Reads what belongs to the operator's install.

use std::collections::BTreeMap;

use api_types::{GROUP, annotations};
use futures::future::join_all;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
        discovery::v1::EndpointSlice,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    jiff::Timestamp,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use x509_parser::pem::Pem;

use super::{
    cluster::{self, OF_OPERATOR},
    connection::{Connection, LIMIT, Read, list},
};
use crate::install::{Install, InstalledDefinition, InstalledWebhook, Right};

/// Rights that commands need: verb, group, resource, subresource, commands.
const RIGHTS: [(&str, &str, &str, &str, &str); 8] = [
    ("list", GROUP, "dynamographdeployments", "", "all commands"),
    ("list", GROUP, "dynamocomponentdeployments", "", "why, tree, status, history"),
    ("list", "", "pods", "", "why, tree, status, logs"),
    ("get", "", "pods", "log", "logs, why (last lines), bundle"),
    ("list", "", "events", "", "why (volumes, probes, rejected pods)"),
    ("list", "apps", "deployments", "", "why, tree"),
    ("patch", GROUP, "dynamographdeployments", "", "rollout restart"),
    ("patch", GROUP, "dynamographdeploymentscalingadapters", "scale", "scale"),
];

/// Observes the install.
pub async fn install(connection: &Connection) -> Install {
    let client = &connection.client;
    let of_operator = ListParams::default().labels(OF_OPERATOR);
    let (validating, mutating) = (Api::all(client.clone()), Api::all(client.clone()));
    let (definitions, slices) = (Api::all(client.clone()), Api::<EndpointSlice>::all(client.clone()));
    let nothing = ListParams::default();
    let (definitions, validating, mutating, slices, programs, markers, groups, rights) = tokio::join!(
        list::<CustomResourceDefinition>(&definitions, &nothing),
        list::<ValidatingWebhookConfiguration>(&validating, &of_operator),
        list::<MutatingWebhookConfiguration>(&mutating, &of_operator),
        list(&slices, &nothing),
        cluster::programs(client),
        cluster::markers(client),
        cluster::groups(client),
        rights(client, &connection.namespace),
    );
    let own = |all: Vec<CustomResourceDefinition>| all.into_iter().filter(|one| one.spec.group == GROUP).collect();
    let definitions: Option<Vec<_>> = definitions.found().map(own);
    let webhooks = webhooks(validating, mutating, definitions.as_deref().unwrap_or_default(), slices);
    Install {
        definitions: definitions.map(|all| all.iter().map(definition).collect()),
        webhooks,
        programs: programs.found(),
        markers: markers.found(),
        groups,
        rights,
    }
}

fn definition(one: &CustomResourceDefinition) -> InstalledDefinition {
    let conditions = one.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let served = one.spec.versions.iter().filter(|version| version.served);
    InstalledDefinition {
        name: one.name_any(),
        served: served.map(|version| version.name.clone()).collect(),
        stored: one.status.as_ref().and_then(|status| status.stored_versions.clone()).unwrap_or_default(),
        storage: one.spec.versions.iter().find(|version| version.storage).map(|v| v.name.clone()).unwrap_or_default(),
        release: one.annotations().get(annotations::DEFINITION_RELEASE).cloned(),
        established: conditions.into_iter().any(|one| one.type_ == "Established" && one.status == "True"),
    }
}

/// One entry for each configuration or definition and Service; none if configurations cannot be read.
fn webhooks(
    validating: Read<Vec<ValidatingWebhookConfiguration>>,
    mutating: Read<Vec<MutatingWebhookConfiguration>>,
    definitions: &[CustomResourceDefinition],
    slices: Read<Vec<EndpointSlice>>,
) -> Option<Vec<InstalledWebhook>> {
    let mut clients: Vec<(String, String, Option<ByteString>)> = Vec::new();
    let mut add = |owner: String, config: &WebhookClientConfig| {
        let service = config.service.as_ref().map(|service| format!("{}/{}", service.namespace, service.name));
        clients.extend(service.map(|service| (owner, service, config.ca_bundle.clone())));
    };
    for one in validating.found()? {
        one.webhooks.iter().flatten().for_each(|webhook| add(one.name_any(), &webhook.client_config));
    }
    for one in mutating.found()? {
        one.webhooks.iter().flatten().for_each(|webhook| add(one.name_any(), &webhook.client_config));
    }
    for one in definitions {
        let config =
            one.spec.conversion.as_ref().and_then(|conversion| conversion.webhook.as_ref()?.client_config.as_ref());
        let service = config.and_then(|config| config.service.as_ref());
        if let (Some(config), Some(service)) = (config, service) {
            let owner = format!("of the conversion of {}", one.name_any());
            clients.push((owner, format!("{}/{}", service.namespace, service.name), config.ca_bundle.clone()));
        }
    }
    clients.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    clients.dedup_by(|one, other| (&one.0, &one.1) == (&other.0, &other.1));
    let ready = slices.found().map(|slices| ready_endpoints(&slices));
    let of_client = |(owner, service, ca): (String, String, Option<ByteString>)| InstalledWebhook {
        owner,
        ready: ready.as_ref().map(|ready| ready.get(&service).copied().unwrap_or_default()),
        service,
        has_ca: ca.as_ref().is_some_and(|ca| !ca.0.is_empty()),
        ca_expires: ca.and_then(|ca| expiry(&ca.0)),
    };
    Some(clients.into_iter().map(of_client).collect())
}

/// Ready endpoints by namespace and name of the Service.
fn ready_endpoints(slices: &[EndpointSlice]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for slice in slices {
        let Some(service) = slice.labels().get("kubernetes.io/service-name") else { continue };
        let is_ready = |ready: Option<bool>| ready != Some(false);
        let ready =
            slice.endpoints.iter().flatten().filter(|one| is_ready(one.conditions.as_ref().and_then(|c| c.ready)));
        *counts.entry(format!("{}/{service}", slice.namespace().unwrap_or_default())).or_default() += ready.count();
    }
    counts
}

/// Returns the time at which the last certificate of a bundle expires.
fn expiry(bundle: &[u8]) -> Option<Timestamp> {
    let certificates = Pem::iter_from_buffer(bundle).filter_map(Result::ok);
    let ends = certificates.filter_map(|pem| {
        let end = pem.parse_x509().ok()?.validity().not_after.timestamp();
        Timestamp::from_second(end).ok()
    });
    ends.max()
}

async fn rights(client: &Client, namespace: &str) -> Vec<Right> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let reviews = RIGHTS.map(|(verb, group, resource, subresource, needed_by)| {
        let api = api.clone();
        async move {
            let text = |text: &str| Some(text.to_owned());
            let attributes = ResourceAttributes {
                namespace: text(namespace),
                verb: text(verb),
                group: text(group),
                resource: text(resource),
                subresource: text(subresource).filter(|text| !text.is_empty()),
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
            let review = SelfSubjectAccessReview { spec, ..Default::default() };
            let answer = tokio::time::timeout(LIMIT, api.create(&PostParams::default(), &review)).await;
            let allowed = answer.ok().and_then(Result::ok).and_then(|answer| Some(answer.status?.allowed));
            let part = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
            Right { what: format!("{verb} {resource}{part} in {namespace}"), needed_by, allowed }
        }
    });
    join_all(reviews).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_that_is_none_has_no_expiry() {
        assert_eq!(expiry(b"not a certificate"), None);
        assert_eq!(expiry(b""), None);
    }
}
