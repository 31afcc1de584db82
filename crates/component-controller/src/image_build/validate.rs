//! Validates what names an image, its source and the time of its build.

use api_types::v1alpha1::DynamoComponent;

use super::{
    image::{ImageName, image, source},
    job::timeout,
    model::ImageBuildObstacle,
    settings::BuildSettings,
};

/// Validates a component. Returns the name of its image.
///
/// # Errors
/// The violation, with its path and the remedy.
pub fn validate(component: &DynamoComponent, namespace: &str, settings: &BuildSettings) -> Result<ImageName, String> {
    let named = ImageName::read(image(component, namespace, settings)?)?;
    timeout(component)?;
    Ok(named)
}

/// Validates the name and version by which an archive is read from the API store, if it is. Others than plain ones
/// would lead to other addresses of the store.
///
/// # Errors
/// The violation, with its path and the remedy.
pub fn validate_lookup(component: &DynamoComponent) -> Result<(), ImageBuildObstacle> {
    let is_given = component.spec.download_url.as_ref().is_some_and(|url| !url.is_empty());
    let Some((name, version)) = source(component).filter(|_| !is_given) else { return Ok(()) };
    if [name, version].into_iter().all(|part| !part.starts_with('.') && part.chars().all(is_plain)) {
        return Ok(());
    }
    let text = format!(
        "spec.dynamoComponent: {:?} cannot be looked up in the API store; use letters, digits, \".\", \"_\", \"+\" and \
         \"-\", or set spec.downloadUrl",
        component.spec.dynamo_component
    );
    Err(ImageBuildObstacle::Invalid(text))
}

/// Whether a name or version in the API store may have this character.
fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || "._+-".contains(character)
}

#[cfg(test)]
mod tests {
    use api_types::v1alpha1::{BuildTimeout, DynamoComponentSpec};

    use super::*;

    fn component(spec: DynamoComponentSpec) -> DynamoComponent {
        DynamoComponent::new("c", spec)
    }

    #[test]
    fn the_first_violation_is_returned() {
        let settings = BuildSettings::read(|_| None);
        let of = |what: &str, image: &str, timeout: &str| {
            let spec = DynamoComponentSpec {
                dynamo_component: what.to_owned(),
                image: Some(image.to_owned()),
                image_build_timeout: Some(BuildTimeout::Text(timeout.to_owned())),
                ..DynamoComponentSpec::default()
            };
            validate(&component(spec), "ns", &settings).map(|named| named.image)
        };
        assert_eq!(of("chat:1", "r.io/chat:1", "20m").as_deref(), Ok("r.io/chat:1"));
        for (found, start) in [
            (of("chat", "r.io/chat:1", "20m"), "spec.dynamoComponent: "),
            (of("chat:1", "r.io/", "20m"), "\"r.io/\" is not the name of an image"),
            (of("chat:1", "r.io/chat:1", "soon"), "spec.imageBuildTimeout: "),
        ] {
            let message = found.unwrap_err();
            assert!(message.starts_with(start), "{message}");
        }
    }

    #[test]
    fn only_plain_names_are_looked_up_in_the_api_store() {
        let of = |what: &str, url: Option<&str>| {
            let download_url = url.map(str::to_owned);
            let dynamo_component = what.to_owned();
            validate_lookup(&component(DynamoComponentSpec { dynamo_component, download_url, ..Default::default() }))
        };
        assert_eq!(of("chat_1:v1.0+a-b", None), Ok(()));
        for what in ["../x:1", "a/b:1", "chat:..", "chat:1?x", "chat:%2e"] {
            assert!(matches!(of(what, None), Err(ImageBuildObstacle::Invalid(_))), "{what}");
            assert_eq!(of(what, Some("https://a/x.tar")), Ok(()), "{what}");
        }
    }
}
