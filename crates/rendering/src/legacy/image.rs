//! State of the image of a legacy component, from its DynamoComponent.

use api_types::{conditions::image_build as reason, v1alpha1::DynamoComponent};
use k8s_openapi::{api::core::v1::LocalObjectReference, apimachinery::pkg::apis::meta::v1::Condition};

/// State of an image.
#[derive(Clone, Debug, PartialEq)]
pub enum Image {
    /// The registry has it.
    Ready {
        /// Its name.
        name: String,
        /// Secrets to pull it with.
        pull_secrets: Vec<LocalObjectReference>,
    },
    /// It is on its way.
    Awaited(String),
    /// A change by a user is necessary.
    Stuck {
        /// A reason of image builds.
        reason: &'static str,
        /// What is in the way, with the end of the log of a build that failed.
        message: String,
    },
}

/// What a component runs as long as its image is not there, and then.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// The image, or its source.
    pub image: String,
    /// Secrets to pull it with.
    pub pull_secrets: Vec<LocalObjectReference>,
    /// Why it cannot be run yet.
    pub awaited: Option<Awaited>,
}

/// Why an image cannot be run yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Awaited {
    /// A reason of image builds, if something must be changed.
    pub stuck: Option<&'static str>,
    /// What is waited for.
    pub message: String,
}

impl Image {
    /// The image, or its source in place of an unknown one, so that violations are found before it is built.
    pub fn or_source(self, source: &str) -> Running {
        let awaited = match self {
            Self::Ready { name, pull_secrets } => return Running { image: name, pull_secrets, awaited: None },
            Self::Awaited(message) => Awaited { stuck: None, message },
            Self::Stuck { reason, message } => Awaited { stuck: Some(reason), message },
        };
        Running { image: source.to_owned(), pull_secrets: Vec::new(), awaited: Some(awaited) }
    }
}

/// Where the image stands that the DynamoComponent `name` builds. The status has it, if it describes the present spec:
/// the message of the condition that the image exists is its name.
pub fn image(name: &str, live: Option<&DynamoComponent>) -> Image {
    let awaited = |why: &str| Image::Awaited(format!("waiting for the image of DynamoComponent {name}: {why}"));
    let Some(live) = live.filter(|live| live.metadata.deletion_timestamp.is_none()) else {
        return awaited("it does not exist yet");
    };
    let Some(status) = live.status.as_ref().filter(|status| status.observed_generation == live.metadata.generation)
    else {
        return awaited("its latest spec has not been acted on yet");
    };
    let condition = |type_| status.conditions.iter().find(|condition: &&Condition| condition.type_ == type_);
    let available = condition(reason::AVAILABLE);
    let exists = condition(reason::EXISTS).filter(|exists| exists.status == "True" && !exists.message.is_empty());
    if let (Some(exists), Some("True")) = (exists, available.map(|available| available.status.as_str())) {
        let pull_secrets = live.spec.image_pull_secrets.clone().unwrap_or_default();
        return Image::Ready { name: exists.message.clone(), pull_secrets };
    }
    let Some(available) = available else { return awaited("nothing is known of it yet") };
    match reason::STUCK.into_iter().find(|stuck| *stuck == available.reason) {
        Some(reason) => Image::Stuck {
            reason,
            message: format!("the image of DynamoComponent {name} is not there: {}", available.message),
        },
        None => awaited(&available.message),
    }
}
