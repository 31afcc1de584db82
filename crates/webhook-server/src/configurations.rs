//! The webhook configurations: the reviews that the API server sends, and the Service that gets them. The chart and
//! the tests install what is made here.

use api_types::{GROUP, annotations, labels};
use serde::Serialize;
use serde_json::{Value, json};

use crate::admission::AdmissionPath;

/// Plural names of the kinds that have more than one version.
pub const CONVERTED: [&str; 4] = [
    "dynamographdeployments",
    "dynamocomponentdeployments",
    "dynamographdeploymentrequests",
    "dynamographdeploymentscalingadapters",
];

/// Reaction of the API server to a missing answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
pub enum FailurePolicy {
    /// Rejects the object.
    Fail,
    /// Admits the object unchanged.
    Ignore,
}

/// Flags of the command that prints the configurations.
#[derive(Debug, Clone, clap::Args)]
pub struct ConfigurationArgs {
    /// Prefix of the names of the configurations
    #[arg(long, value_name = "NAME", default_value = "dynamo-operator")]
    pub name: String,
    /// Port of the Service
    #[arg(long, default_value_t = 443)]
    pub port: u16,
    /// Reaction of the API server to a missing answer
    #[arg(long, value_enum, default_value = "fail")]
    pub failure_policy: FailurePolicy,
    /// Failure policy for pods that start from a checkpoint
    #[arg(long, value_enum, default_value = "ignore")]
    pub pod_failure_policy: FailurePolicy,
    /// Time limit of the API server for an answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=30))]
    pub timeout_seconds: u8,
}

/// Settings for installing the configurations.
#[derive(Debug, Clone)]
pub struct InstallSettings {
    /// As given by the administrator.
    pub args: ConfigurationArgs,
    /// The Service by which the API server finds the server.
    pub host: Host,
    /// The only namespace that is sent; `None`: all.
    pub namespace: Option<String>,
}

/// An object that is being deleted is admitted in any case. The API server does it by itself, so that finalizers can
/// be removed while no webhook server runs.
const NOT_DELETING: &str = "!has(object.metadata.deletionTimestamp)";

/// An entry of a webhook configuration: its name, and where its reviews are sent. Names are known to those who look for
/// them, so they are the Go operator's.
type WebhookEntry = (&'static str, AdmissionPath);

const VALIDATING: [WebhookEntry; 5] = [
    ("vdynamocomponentdeployment.kb.io", AdmissionPath::ValidateComponent),
    ("vdynamographdeployment.kb.io", AdmissionPath::ValidateGraph),
    ("vdynamocheckpoint.kb.io", AdmissionPath::ValidateCheckpoint),
    ("vdynamomodel.kb.io", AdmissionPath::ValidateModel),
    ("vdynamographdeploymentrequest.kb.io", AdmissionPath::ValidateRequest),
];

const MUTATING: [WebhookEntry; 4] = [
    ("mdynamographdeployment.kb.io", AdmissionPath::DefaultGraph),
    ("mdynamocomponentdeploymentv1beta1.kb.io", AdmissionPath::DefaultComponent),
    ("mdynamographdeploymentrequestv1beta1.kb.io", AdmissionPath::DefaultRequest),
    ("mpodcheckpointrestore.kb.io", AdmissionPath::RestorePod),
];

/// Both configurations, the validating one first.
#[must_use]
pub fn configurations(install: &InstallSettings) -> [Value; 2] {
    [
        configuration("ValidatingWebhookConfiguration", "validating", &VALIDATING, install),
        configuration("MutatingWebhookConfiguration", "mutating", &MUTATING, install),
    ]
}

fn configuration(kind: &str, suffix: &str, entries: &[WebhookEntry], install: &InstallSettings) -> Value {
    let own = &install.host.namespace;
    // Configurations belong to the cluster; installs for one namespace each have their own.
    let of_install = install.namespace.as_ref().map(|_| format!("-{own}")).unwrap_or_default();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {
            "name": format!("{}-{suffix}{of_install}", install.args.name),
            "labels": { (labels::PART_OF): labels::OPERATOR, (labels::OPERATOR_NAMESPACE): own },
        },
        "webhooks": entries.iter().map(|(name, path)| webhook(name, *path, install)).collect::<Vec<_>>(),
    })
}

fn webhook(name: &str, path: AdmissionPath, install: &InstallSettings) -> Value {
    let pods = path == AdmissionPath::RestorePod;
    // Objects of other versions are converted first, or left out.
    let match_policy = if path == AdmissionPath::DefaultComponent { "Exact" } else { "Equivalent" };
    let InstallSettings { args, host: Host { service, namespace, .. }, .. } = install;
    let failure_policy = if pods { args.pod_failure_policy } else { args.failure_policy };
    let mut webhook = json!({
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": { "name": service, "namespace": namespace, "path": path.as_str(), "port": args.port },
        },
        "failurePolicy": failure_policy,
        "matchPolicy": match_policy,
        "rules": [{
            "apiGroups": [if pods { "" } else { GROUP }],
            "apiVersions": [path.version()],
            "resources": [format!("{}s", path.kind().to_lowercase())],
            "operations": if pods { json!(["CREATE"]) } else { json!(["CREATE", "UPDATE"]) },
        }],
        "sideEffects": "None",
        "timeoutSeconds": args.timeout_seconds,
    });
    webhook["matchConditions"] = if pods {
        json!([{ "name": "checkpoint-restore-candidate", "expression": restore_candidate() }])
    } else {
        json!([{ "name": "not-deleting", "expression": NOT_DELETING }])
    };
    if let Some(namespace) = &install.namespace {
        webhook["namespaceSelector"] = json!({ "matchLabels": { "kubernetes.io/metadata.name": namespace } });
    }
    webhook
}

/// All other pods start without a call of the webhook.
fn restore_candidate() -> String {
    let (of, key) = ("object.metadata.annotations", annotations::RESTORE_CANDIDATE);
    format!("has({of}) && '{key}' in {of} && {of}['{key}'] == 'true'")
}

/// The names of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The Service by which the API server finds the server.
    pub service: String,
    /// Its namespace, which is also that of the Secret.
    pub namespace: String,
    /// The cluster's DNS domain.
    pub domain: String,
}

impl Host {
    /// The name that the API server verifies.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }

    /// All names of the Service, the most important one first.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let Self { service, namespace, domain } = self;
        vec![
            self.name(),
            service.clone(),
            format!("{service}.{namespace}"),
            format!("{service}.{namespace}.svc.{domain}"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(namespace: Option<&str>) -> InstallSettings {
        InstallSettings {
            args: ConfigurationArgs {
                name: "dynamo".to_owned(),
                port: 443,
                failure_policy: FailurePolicy::Fail,
                pod_failure_policy: FailurePolicy::Ignore,
                timeout_seconds: 10,
            },
            host: Host {
                service: "webhook".to_owned(),
                namespace: "system".to_owned(),
                domain: "cluster.local".to_owned(),
            },
            namespace: namespace.map(str::to_owned),
        }
    }

    fn webhooks(configuration: &Value) -> &Vec<Value> {
        configuration["webhooks"].as_array().unwrap()
    }

    #[test]
    fn every_path_but_the_one_of_old_releases_is_used_once() {
        let all = configurations(&install(None));
        let mut paths: Vec<_> = all
            .iter()
            .flat_map(webhooks)
            .map(|webhook| webhook["clientConfig"]["service"]["path"].as_str().unwrap())
            .collect();
        let expected = AdmissionPath::ALL
            .into_iter()
            .filter(|path| *path != AdmissionPath::ValidateComponentAlpha)
            .map(AdmissionPath::as_str);
        let mut expected: Vec<_> = expected.collect();
        paths.sort_unstable();
        expected.sort_unstable();
        assert_eq!(paths, expected);
        for (configuration, task) in all.iter().zip(["/validate", "/mutate"]) {
            for webhook in webhooks(configuration) {
                let path = webhook["clientConfig"]["service"]["path"].as_str().unwrap();
                assert!(path.starts_with(task), "{path}");
            }
        }
    }

    /// Defect: the pod mutator of the Go operator is called for every pod of the cluster.
    #[test]
    fn pods_are_sent_only_if_they_start_from_a_checkpoint() {
        let [_, mutating] = configurations(&install(None));
        let pods = webhooks(&mutating).last().unwrap();
        assert_eq!(pods["failurePolicy"], "Ignore");
        assert_eq!(
            pods["matchConditions"][0]["expression"],
            "has(object.metadata.annotations) && \
             'nvidia.com/dynamo-checkpoint-restore-candidate' in object.metadata.annotations && \
             object.metadata.annotations['nvidia.com/dynamo-checkpoint-restore-candidate'] == 'true'"
        );
    }

    /// Without a webhook server no finalizer could be removed, and namespaces would stay in `Terminating`.
    #[test]
    fn objects_being_deleted_need_no_webhook_server() {
        let [validating, mutating] = configurations(&install(None));
        let own = webhooks(&validating).iter().chain(&webhooks(&mutating)[..3]);
        for webhook in own {
            let conditions = json!([{
                "name": "not-deleting", "expression": "!has(object.metadata.deletionTimestamp)",
            }]);
            assert_eq!(webhook["matchConditions"], conditions, "{}", webhook["name"]);
        }
    }

    #[test]
    fn an_install_for_one_namespace_gets_requests_for_that_one_only() {
        for configuration in configurations(&install(Some("true"))) {
            let name = configuration["metadata"]["name"].as_str().unwrap();
            assert!(name.ends_with("ing-system"), "{name}");
            for webhook in webhooks(&configuration) {
                assert_eq!(webhook["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"], "true");
            }
        }
        let [validating, _] = configurations(&install(None));
        assert_eq!(validating["metadata"]["name"], "dynamo-validating");
        assert!(webhooks(&validating)[0].get("namespaceSelector").is_none());
    }
}
