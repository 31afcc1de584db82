//! Name of the image of a component, and the record of it in the status.

use api_types::{
    annotations,
    conditions::image_build as reason,
    names::image_tag,
    v1alpha1::{DynamoComponent, DynamoComponentStatus},
};
use controller_kit::conditions::find;
use kube::ResourceExt;
use oci_spec::distribution::Reference;

use super::settings::BuildSettings;

/// Name in the API store and version of what is built: `name:version`, split at the first colon. None if one of them is
/// missing.
pub fn source(component: &DynamoComponent) -> Option<(&str, &str)> {
    component.spec.dynamo_component.split_once(':').filter(|(name, version)| !name.is_empty() && !version.is_empty())
}

/// The name of a component's image.
///
/// # Errors
/// The missing field, with its path.
pub fn image(component: &DynamoComponent, namespace: &str, settings: &BuildSettings) -> Result<String, String> {
    let (name, version) = source(component).ok_or_else(|| {
        format!("spec.dynamoComponent: {:?} is not of the form name:version", component.spec.dynamo_component)
    })?;
    if let Some(image) = component.spec.image.as_ref().filter(|image| !image.is_empty()) {
        return Ok(image.clone());
    }
    let Some(server) = settings.server.as_deref() else {
        let text = "spec.image is not set, and the operator has no registry; set spec.image, or DOCKER_REGISTRY_SERVER";
        return Err(text.to_owned());
    };
    let prefix = component.annotations().get(annotations::STORAGE_NAMESPACE).filter(|prefix| !prefix.is_empty());
    let prefix = prefix.map(String::as_str).or(settings.namespace_prefix.then_some(namespace));
    let tag = image_tag(prefix, name, version, if settings.estargz { ".esgz" } else { "" });
    Ok(format!("{}/{}:{tag}", server.trim_end_matches('/'), settings.repository))
}

/// Name of an image, as given and parsed.
#[derive(Debug)]
pub struct ImageName {
    /// As given.
    pub image: String,
    /// As parsed.
    pub reference: Reference,
}

impl ImageName {
    /// Reads the name of an image.
    ///
    /// # Errors
    /// The reason why it is no name of an image.
    pub fn read(image: String) -> Result<Self, String> {
        let read: Result<Reference, _> = image.parse();
        let reference = read.map_err(|error| format!("{image:?} is not the name of an image: {error}"))?;
        Ok(Self { image, reference })
    }
}

/// Whether the status records that an image of this name exists.
pub fn is_known(live: &DynamoComponentStatus, image: &str) -> bool {
    find(&live.conditions, reason::EXISTS).is_some_and(|found| found.status == "True" && found.message == image)
}

/// Whether the status records that the registry had an image of this name.
pub fn was_found(live: &DynamoComponentStatus, image: &str) -> bool {
    find(&live.conditions, reason::CHECKED).is_some_and(|found| found.status == "True" && found.message == image)
}

/// Whether the status records that this Job built the image.
pub fn was_built_by(live: &DynamoComponentStatus, job: &str) -> bool {
    find(&live.conditions, reason::BUILDING).is_some_and(|found| found.status == "False" && found.message == job)
}

#[cfg(test)]
mod tests {
    use api_types::v1alpha1::DynamoComponentSpec;

    use super::*;

    fn named(what: &str) -> DynamoComponent {
        DynamoComponent::new("c", DynamoComponentSpec { dynamo_component: what.to_owned(), ..Default::default() })
    }

    fn settings(pairs: &'static [(&str, &str)]) -> BuildSettings {
        BuildSettings::read(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_image_is_named_as_by_the_upstream_operator() {
        let plain = settings(&[("DOCKER_REGISTRY_SERVER", "nvcr.io/team/")]);
        let name = |component: &DynamoComponent, settings: &BuildSettings| image(component, "ns", settings);
        let chat = named("chat:v1:x");
        assert_eq!(name(&chat, &plain).as_deref(), Ok("nvcr.io/team/dynamo-components:dynamo.chat.v1:x"));
        let all = settings(&[
            ("DOCKER_REGISTRY_SERVER", "r:5000"),
            ("ADD_NAMESPACE_PREFIX_TO_IMAGE_NAME", "true"),
            ("ESTARGZ_ENABLED", "true"),
        ]);
        assert_eq!(name(&named("chat:v1"), &all).as_deref(), Ok("r:5000/dynamo-components:dynamo.ns.chat.v1.esgz"));
        let mut stored = named("chat:v1");
        stored.metadata.annotations = Some([(annotations::STORAGE_NAMESPACE.to_owned(), "s".to_owned())].into());
        assert_eq!(name(&stored, &all).as_deref(), Ok("r:5000/dynamo-components:dynamo.s.chat.v1.esgz"));
        stored.spec.image = Some("mine:1".to_owned());
        assert_eq!(name(&stored, &all).as_deref(), Ok("mine:1"));
    }

    #[test]
    fn missing_fields_are_named() {
        let none = settings(&[]);
        assert!(image(&named("chat"), "ns", &none).unwrap_err().starts_with("spec.dynamoComponent"));
        assert!(image(&named("chat:1"), "ns", &none).unwrap_err().contains("DOCKER_REGISTRY_SERVER"));
    }

    #[test]
    fn what_is_no_name_of_an_image_is_a_violation() {
        for image in ["r.io/", "r.io/Team/x:v1", "r.io/x:v1:v2", ""] {
            let error = ImageName::read(image.to_owned()).unwrap_err();
            assert!(error.starts_with(&format!("{image:?} is not the name of an image: ")), "{error}");
        }
    }

    /// The legacy operator cut 128 characters out of a shorter text and crashed.
    #[test]
    fn a_long_name_becomes_a_short_tag() {
        let plain = settings(&[("DOCKER_REGISTRY_SERVER", "r")]);
        let long = |end: &str| image(&named(&format!("{}:{end}", "n".repeat(200))), "ns", &plain).unwrap();
        let tag = |image: &str| image.rsplit_once(':').unwrap().1.to_owned();
        assert!(tag(&long("1")).len() <= 128);
        assert_ne!(long("1"), long("2"));
    }
}
