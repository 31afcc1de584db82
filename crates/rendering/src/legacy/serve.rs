//! Start of a built image, `dynamo serve` with the tag of a service, and the settings that the user of such a component
//! has to specify.
//!
//! The state of the image of a legacy component is read from its DynamoComponent.

use api_types::{
    conditions::image_build as reason,
    env as env_names, ports,
    v1alpha1::DynamoComponent,
    v1beta1::{ComponentSpec, ComponentType},
    violations::Violation,
};
use k8s_openapi::{
    api::core::v1::{LocalObjectReference, Probe},
    apimachinery::pkg::apis::meta::v1::Condition,
};

use super::{main, pod};
use crate::pod::{env, http_probe, parts::add, tcp};

/// Starts a service in `main`, unless the user specifies what it runs. The service that the graph is entered by is a
/// frontend.
pub(super) fn serve(component: &mut ComponentSpec, tag: &str, config: bool) {
    if component.type_.is_none() && is_entry(&component.name, tag) {
        component.type_ = Some(ComponentType::Frontend);
    }
    let command = command(component, tag, config);
    let (type_, is_frontend) = (component.type_, component.type_ == Some(ComponentType::Frontend));
    let main = main(component);
    let is_set = |list: &Option<Vec<String>>| list.as_ref().is_some_and(|list| !list.is_empty());
    if !is_set(&main.command) {
        main.command = Some(["sh", "-c"].map(str::to_owned).to_vec());
        if !is_set(&main.args) {
            main.args = Some(vec![command]);
        }
    }
    let port = env::value(env_names::DYNAMO_PORT, ports::HTTP.to_string());
    add(&mut main.env, port, |variable| variable.name == env_names::DYNAMO_PORT);
    if main.ports.as_ref().is_none_or(Vec::is_empty) {
        let http = is_frontend.then(|| tcp(ports::HTTP_NAME, ports::HTTP));
        main.ports = Some(http.into_iter().chain([tcp(ports::SERVE_HEALTH_NAME, ports::SERVE_HEALTH)]).collect());
    }
    main.liveness_probe.get_or_insert_with(|| probe("/healthz"));
    main.readiness_probe.get_or_insert_with(|| probe("/readyz"));
    if type_.is_some_and(ComponentType::is_worker) {
        // Workers of today have one, at a port that is not served.
        main.startup_probe.get_or_insert_with(|| probe("/healthz"));
    }
    if type_ == Some(ComponentType::Planner) {
        pod(component).service_account_name.get_or_insert_with(|| api_types::names::PLANNER_SERVICE_ACCOUNT.to_owned());
    }
}

/// Whether the graph is entered by a service of this name: its tag ends with it.
pub fn is_entry(name: &str, tag: &str) -> bool {
    tag.ends_with(name)
}

fn command(component: &ComponentSpec, tag: &str, config: bool) -> String {
    let (name, tag) = (word(&component.name), word(tag));
    let mut command = format!(
        "cd src && uv run dynamo serve --system-app-port {} --enable-system-app --use-default-health-checks \
         --service-name {name} {tag} --{name}.ServiceArgs.dynamo.namespace=\"${}\"",
        ports::SERVE_HEALTH,
        env_names::DYN_NAMESPACE,
    );
    if component.type_ == Some(ComponentType::Planner) {
        command += &format!(" --{name}.environment=kubernetes");
    }
    if config {
        command += &format!(" -f \"${}\"", env_names::DYNAMO_CONFIG_PATH);
    }
    command
}

/// A word of a shell's command line.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn probe(path: &str) -> Probe {
    Probe { initial_delay_seconds: Some(60), ..http_probe(path, ports::SERVE_HEALTH_NAME, 60, 5, 10) }
}

/// Checks that the source of an image has the form `name:version`.
///
/// # Errors
/// It has not; the field is that of a graph and of a component alike.
pub fn check_source(source: &str) -> Result<(), Violation> {
    if source.split_once(':').is_some_and(|(name, version)| !name.is_empty() && !version.is_empty()) {
        return Ok(());
    }
    let remedy = "write a name and version in the API store, such as frontend:v1";
    Err(Violation::invalid("spec.dynamoComponent", source, "is not of the form name:version", remedy))
}

/// Checks that it is specified what a component runs. `who` is its name for the user: component or service.
///
/// # Errors
/// It is not specified; the path is relative to the component.
pub fn check_program(component: &ComponentSpec, who: &str) -> Result<(), Violation> {
    let given = |words: &Option<Vec<String>>| words.as_ref().is_some_and(|words| !words.is_empty());
    let runs = component.main_container().is_some_and(|main| given(&main.args) || given(&main.command));
    if runs || component.type_.is_some() {
        return Ok(());
    }
    let problem = format!("is missing, and nothing else determines what the {who} runs");
    let remedy = "set dynamoTag, componentType, or command or args in extraPodSpec.mainContainer";
    Err(Violation::required("dynamoTag", problem, remedy))
}

/// Image that a component runs, before and after the image is available.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// The image, or its source.
    pub image: String,
    /// Secrets to pull it with.
    pub pull_secrets: Vec<LocalObjectReference>,
    /// Reason why the image cannot be run yet.
    pub awaited: Option<Awaited>,
}

/// Reason why an image cannot be run yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Awaited {
    /// A reason of image builds, if something must be changed.
    pub stuck: Option<&'static str>,
    /// Description of what is awaited.
    pub message: String,
}

/// Returns the image that the DynamoComponent `name` builds, or its `source` in place of an unknown one, so that
/// violations are found before it is built. It is read from the status, if the status describes the present spec: the
/// image name is the message of the condition that the image exists.
pub fn image(name: &str, source: &str, live: Option<&DynamoComponent>) -> Running {
    let unknown = |stuck, message| Running {
        image: source.to_owned(),
        pull_secrets: Vec::new(),
        awaited: Some(Awaited { stuck, message }),
    };
    let awaited = |why: &str| unknown(None, format!("waiting for the image of DynamoComponent {name}: {why}"));
    let Some(live) = live.filter(|live| live.metadata.deletion_timestamp.is_none()) else {
        return awaited("it does not exist yet");
    };
    let Some(status) = live.status.as_ref().filter(|status| status.observed_generation == live.metadata.generation)
    else {
        return awaited("its latest spec has not been reconciled yet");
    };
    let condition = |type_| status.conditions.iter().find(|condition: &&Condition| condition.type_ == type_);
    let available = condition(reason::AVAILABLE);
    let exists = condition(reason::EXISTS).filter(|exists| exists.status == "True" && !exists.message.is_empty());
    if let (Some(exists), Some("True")) = (exists, available.map(|available| available.status.as_str())) {
        let pull_secrets = live.spec.image_pull_secrets.clone().unwrap_or_default();
        return Running { image: exists.message.clone(), pull_secrets, awaited: None };
    }
    let Some(available) = available else { return awaited("nothing is known of it yet") };
    match reason::STUCK.into_iter().find(|stuck| *stuck == available.reason) {
        Some(reason) => {
            unknown(Some(reason), format!("the image of DynamoComponent {name} is not there: {}", available.message))
        }
        None => awaited(&available.message),
    }
}
