//! Exposure of frontends outside the cluster: an Ingress, or a VirtualService of Istio.

use api_types::{
    conversion::preserved::PreservedIngress,
    external::{VirtualService, VirtualServiceSpec},
    labels, names, ports,
    v1beta1::ComponentType,
};
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend, IngressSpec,
    IngressTLS, ServiceBackendPort,
};
use serde_json::json;

use crate::{ExposureSettings, RenderInput, ValidatedComponent, metadata::Pairs};

/// Default domain of hosts.
const DEFAULT_SUFFIX: &str = "local";
/// Istio's reserved gateway: the sidecars of all pods of the mesh.
const MESH: &str = "mesh";
/// The departure of a VirtualService with the gateway `mesh`, which no user may make.
pub const MESH_DEPARTURE: &str =
    "virtualServiceGateway: \"mesh\" redirects the traffic of all pods; name a gateway of Istio";

/// The object that exposes a frontend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExposureObject {
    /// An Ingress.
    Ingress,
    /// A VirtualService of Istio.
    VirtualService,
}

impl ExposureObject {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Ingress, Self::VirtualService];

    /// API group and plural name of the object.
    #[must_use]
    pub const fn resource(self) -> (&'static str, &'static str) {
        match self {
            Self::Ingress => ("networking.k8s.io", "ingresses"),
            Self::VirtualService => ("networking.istio.io", "virtualservices"),
        }
    }
}

impl ExposureSettings {
    /// The parts of a component's exposure by `object` that depart from the settings, in words; empty if the component
    /// does not use the object.
    #[must_use]
    pub fn departures(&self, requested: &PreservedIngress, object: ExposureObject) -> Vec<String> {
        let exposure = desired(requested, self);
        let mut departures = Vec::new();
        let is_route = object == ExposureObject::VirtualService;
        let (given, configured, field, what) = match object {
            ExposureObject::Ingress => {
                let class = exposure.ingress.map(|(class, _)| class);
                (class, &self.ingress_class, "ingressControllerClassName", "class")
            }
            ExposureObject::VirtualService => (exposure.gateway, &self.gateway, "virtualServiceGateway", "gateway"),
        };
        let Some(given) = given else { return departures };
        match configured {
            Some(only) if *only == given => {}
            _ if is_route && given == MESH => departures.push(MESH_DEPARTURE.to_owned()),
            Some(only) => departures.push(format!("{field}: only {only:?} is configured")),
            None => departures.push(format!("{field}: no {what} is configured")),
        }
        if !self.holds_host(&exposure.host) {
            let domain = self.host_suffix.as_deref().unwrap_or(DEFAULT_SUFFIX);
            departures.push(format!("host: not below {domain:?}, the configured domain"));
        }
        if !requested.annotations.is_empty() {
            departures.push("annotations: none are configured".to_owned());
        }
        departures
    }

    /// Whether the host is below the configured domain. The default domain holds single names only: `cluster.local` is
    /// below it.
    fn holds_host(&self, host: &str) -> bool {
        let suffix = self.host_suffix.as_deref().unwrap_or(DEFAULT_SUFFIX);
        let name = host.strip_suffix(suffix).and_then(|name| name.strip_suffix('.'));
        let is_single = |name: &str| self.host_suffix.is_some() || !name.contains('.');
        name.is_some_and(|name| !name.is_empty() && !name.contains('*') && is_single(name))
    }

    /// Whether a controller exposes a component by `object`. Admission checks the rest, against the rights of the user.
    fn permits(&self, requested: &PreservedIngress, object: ExposureObject) -> bool {
        let departures = self.departures(requested, object);
        departures.is_empty()
            || !(self.only_configured || departures.iter().any(|departure| departure == MESH_DEPARTURE))
    }
}

/// Exposure of one frontend.
struct Exposure {
    host: String,
    /// Class and certificate of the Ingress; `None`: there must be none.
    ingress: Option<(String, Option<String>)>,
    /// Gateway of the VirtualService; `None`: there must be none.
    gateway: Option<String>,
    labels: Pairs,
    annotations: Pairs,
}

/// The Ingress of a frontend; `None` if there must be none.
pub fn render_ingress(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> Option<Ingress> {
    let exposure = exposure(&input.settings.exposure, valid)?;
    let (class, secret) = exposure.ingress.clone()?;
    let service = names::service(valid.name);
    let port = ServiceBackendPort { number: Some(ports::HTTP), name: None };
    let backend = IngressServiceBackend { name: service.clone(), port: Some(port) };
    let path = HTTPIngressPath {
        path: Some("/".to_owned()),
        path_type: "Prefix".to_owned(),
        backend: IngressBackend { service: Some(backend), resource: None },
    };
    let rule =
        IngressRule { host: Some(exposure.host.clone()), http: Some(HTTPIngressRuleValue { paths: vec![path] }) };
    let tls = secret.map(|secret| IngressTLS { hosts: Some(vec![exposure.host.clone()]), secret_name: Some(secret) });
    Some(Ingress {
        metadata: valid.object_meta(service, exposure.labels(valid), exposure.annotations),
        spec: Some(IngressSpec {
            ingress_class_name: Some(class),
            rules: Some(vec![rule]),
            tls: tls.map(|tls| vec![tls]),
            default_backend: None,
        }),
        status: None,
    })
}

/// The VirtualService of a frontend; `None` if there must be none.
pub fn render_virtual_service(input: &RenderInput<'_>, valid: &ValidatedComponent<'_>) -> Option<VirtualService> {
    let exposure = exposure(&input.settings.exposure, valid)?;
    let gateway = exposure.gateway.clone()?;
    let service = names::service(valid.name);
    let route = json!({
        "match": [{ "uri": { "prefix": "/" } }],
        "route": [{ "destination": { "host": service, "port": { "number": ports::HTTP } } }],
    });
    Some(VirtualService {
        metadata: valid.object_meta(service, exposure.labels(valid), exposure.annotations.clone()),
        spec: VirtualServiceSpec { hosts: vec![exposure.host], gateways: vec![gateway], http: vec![route] },
    })
}

/// The exposure that the component specifies, without what the settings exclude, else the configured one; `None` for
/// everything that is no frontend of a graph.
fn exposure(settings: &ExposureSettings, valid: &ValidatedComponent<'_>) -> Option<Exposure> {
    if valid.spec().type_ != Some(ComponentType::Frontend) {
        return None;
    }
    let Some(requested) = &valid.preserved.ingress else {
        let graph = valid.graph()?;
        let suffix = settings.host_suffix.as_deref().unwrap_or(DEFAULT_SUFFIX);
        let class = settings.ingress_class.clone();
        return Some(Exposure {
            host: format!("{graph}.{suffix}"),
            ingress: class.map(|class| (class, settings.tls_secret.clone())),
            gateway: settings.gateway.clone(),
            labels: Pairs::new(),
            annotations: Pairs::new(),
        });
    };
    let exposure = desired(requested, settings);
    requested.enabled.then(|| Exposure {
        ingress: exposure.ingress.filter(|_| settings.permits(requested, ExposureObject::Ingress)),
        gateway: exposure.gateway.filter(|_| settings.permits(requested, ExposureObject::VirtualService)),
        ..exposure
    })
}

/// The component's exposure as its `ingress` describes it.
fn desired(requested: &PreservedIngress, settings: &ExposureSettings) -> Exposure {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let prefix = requested.host_prefix.as_deref().unwrap_or_default();
    let suffix = requested.host_suffix.as_deref().unwrap_or(DEFAULT_SUFFIX);
    let secret = requested.tls.as_ref().map(|tls| tls.secret_name.clone()).filter(|name| !name.is_empty());
    let class = given(&requested.ingress_controller_class_name);
    let gateway = given(&requested.virtual_service_gateway).or_else(|| settings.gateway.clone());
    Exposure {
        host: format!("{prefix}{}.{suffix}", requested.host),
        ingress: class.map(|class| (class, secret)),
        gateway: gateway.filter(|_| requested.use_virtual_service),
        labels: requested.labels.clone(),
        annotations: requested.annotations.clone(),
    }
}

impl Exposure {
    /// The user's labels, and those by which the object is watched: the upstream operator gives it none.
    fn labels(&self, valid: &ValidatedComponent<'_>) -> Pairs {
        let mut all = self.labels.clone();
        all.extend(valid.graph().map(|graph| (labels::OWN_GRAPH.to_owned(), names::label_value(graph))));
        all.insert(labels::OWN_COMPONENT.to_owned(), names::label_value(valid.component_name()));
        all
    }
}
