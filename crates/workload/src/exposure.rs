//! How frontends are reached from outside the cluster: an Ingress, or a VirtualService of Istio.

use crate::metadata::Pairs;
use crate::{RenderInput, ValidatedComponent};
use api_types::conversion::preserved::PreservedIngress;
use api_types::external::{
    Destination, HttpMatch, HttpRoute, PortSelector, RouteDestination, UriMatch, VirtualService, VirtualServiceSpec,
};
use api_types::v1beta1::ComponentType;
use api_types::{labels, names, ports};
use k8s_openapi::api::networking::v1::{
    HTTPIngressPath, HTTPIngressRuleValue, Ingress, IngressBackend, IngressRule, IngressServiceBackend, IngressSpec,
    IngressTLS, ServiceBackendPort,
};

/// Domain below which hosts are named when nobody names one.
const DEFAULT_SUFFIX: &str = "local";

/// What the operator is told about the way in. Everything unset: there is none, unless a component of v1alpha1 asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExposureSettings {
    /// Gateway of VirtualServices.
    pub gateway: Option<String>,
    /// Class of Ingresses.
    pub ingress_class: Option<String>,
    /// Secret with their certificate, in the graph's namespace.
    pub tls_secret: Option<String>,
    /// Domain below which graphs have their host names.
    pub host_suffix: Option<String>,
}

/// How one frontend is reached.
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
    let port = PortSelector { number: ports::HTTP };
    let destination = Destination { host: service.clone(), port };
    Some(VirtualService {
        metadata: valid.object_meta(service, exposure.labels(valid), exposure.annotations.clone()),
        spec: VirtualServiceSpec {
            hosts: vec![exposure.host],
            gateways: vec![gateway],
            http: vec![HttpRoute {
                matches: vec![HttpMatch { uri: UriMatch { prefix: "/".to_owned() } }],
                route: vec![RouteDestination { destination }],
            }],
        },
    })
}

/// What the component asks for, else what the operator is told; `None` for everything that is no frontend of a graph.
fn exposure(settings: &ExposureSettings, valid: &ValidatedComponent<'_>) -> Option<Exposure> {
    if valid.spec().type_ != Some(ComponentType::Frontend) {
        return None;
    }
    match &valid.preserved.ingress {
        Some(asked) => asked.enabled.then(|| asked_for(asked, settings)),
        None => {
            let graph = valid.graph()?;
            let suffix = settings.host_suffix.as_deref().unwrap_or(DEFAULT_SUFFIX);
            let class = settings.ingress_class.clone();
            Some(Exposure {
                host: format!("{graph}.{suffix}"),
                ingress: class.map(|class| (class, settings.tls_secret.clone())),
                gateway: settings.gateway.clone(),
                labels: Pairs::new(),
                annotations: Pairs::new(),
            })
        }
    }
}

fn asked_for(asked: &PreservedIngress, settings: &ExposureSettings) -> Exposure {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let prefix = asked.host_prefix.as_deref().unwrap_or_default();
    let suffix = asked.host_suffix.as_deref().unwrap_or(DEFAULT_SUFFIX);
    let secret = asked.tls.as_ref().map(|tls| tls.secret_name.clone()).filter(|name| !name.is_empty());
    let class = given(&asked.ingress_controller_class_name);
    let gateway = given(&asked.virtual_service_gateway).or_else(|| settings.gateway.clone());
    Exposure {
        host: format!("{prefix}{}.{suffix}", asked.host),
        ingress: class.map(|class| (class, secret)),
        gateway: gateway.filter(|_| asked.use_virtual_service),
        labels: asked.labels.clone(),
        annotations: asked.annotations.clone(),
    }
}

impl Exposure {
    /// The author's labels, and those by which the object is watched: the reference gives it none.
    fn labels(&self, valid: &ValidatedComponent<'_>) -> Pairs {
        let mut all = self.labels.clone();
        all.extend(valid.graph().map(|graph| (labels::OWN_GRAPH.to_owned(), names::label_value(graph))));
        all.insert(labels::OWN_COMPONENT.to_owned(), names::label_value(valid.component_name()));
        all
    }
}
