//! The image that runs the component, and the version of the runtime in it.

use super::{
    super::{field::Findings, version::Version, view::Component},
    Owner, Surroundings,
};

pub(super) fn check(component: &Component<'_>, around: &Surroundings<'_>, out: &mut Findings) {
    let version_counts = matches!(around.owner, Owner::Graph { .. });
    let image = component.main().map(|main| main.field("image"));
    let text = image.as_ref().map(|image| image.text()).unwrap_or_default();
    if text.is_empty() && around.is_built {
        // The operator names it, once it is there.
    } else if text.is_empty() {
        let remedy = "name the image that runs the component";
        match image {
            Some(image) => out.required(&image, remedy),
            None => out.required(&component.containers(), format!("add a container named main; {remedy}")),
        }
    } else if version_counts
        && component.field("runtimeVersionOverride").text().is_empty()
        && Version::of_image(text).is_none()
    {
        let detail = format!(
            "the tag of image {text:?} does not tell the version of the Dynamo runtime; write that version here, such as 1.5.0"
        );
        out.required(&component.field("runtimeVersionOverride"), detail);
    }
}
