//! Versions in texts: of the runtime in image tags, of the operator in annotations.

/// A semantic version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    core: [u64; 3],
    pre_release: Option<String>,
}

impl Version {
    /// Reads a version that people may have shortened: `v1.2` is 1.2.0.
    pub fn lenient(text: &str) -> Option<Self> {
        let (core, pre_release) = split(text.strip_prefix('v').unwrap_or(text))?;
        let mut numbers = [0; 3];
        let parts: Vec<&str> = core.split('.').collect();
        if parts.len() > numbers.len() {
            return None;
        }
        for (number, part) in numbers.iter_mut().zip(parts) {
            *number = digits(part)?.parse().ok()?;
        }
        Some(Self { core: numbers, pre_release })
    }

    /// Reads a version with three numbers, each without leading zeros.
    fn strict(text: &str) -> Option<Self> {
        let version = Self::lenient(text).filter(|_| !text.starts_with('v'))?;
        let (core, _) = split(text)?;
        let parts = || core.split('.');
        let plain = |part: &str| part == "0" || !part.starts_with('0');
        (parts().count() == 3 && parts().all(plain)).then_some(version)
    }

    /// The version of the runtime that an image's tag names, if it names one.
    pub fn of_image(image: &str) -> Option<Self> {
        let reference = image.trim().split('@').next()?;
        let (_, tag) = reference.rsplit('/').next()?.rsplit_once(':')?;
        let tag = tag.trim();
        Self::strict(tag.strip_prefix(['v', 'V']).unwrap_or(tag))
    }

    /// As a tag: three numbers and the pre-release, without build metadata, which no tag can hold.
    pub fn as_tag(&self) -> String {
        let [major, minor, patch] = self.core;
        let pre_release = self.pre_release.as_deref().map(|text| format!("-{text}")).unwrap_or_default();
        format!("{major}.{minor}.{patch}{pre_release}")
    }
}

/// Numbers and pre-release; build metadata is checked and left out.
fn split(text: &str) -> Option<(&str, Option<String>)> {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    if build.is_some_and(|build| !build.split('.').all(is_identifier)) {
        return None;
    }
    let (core, pre_release) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let no_leading_zero = |part: &str| part == "0" || !part.starts_with('0') || digits(part).is_none();
    if pre_release.is_some_and(|pre| !pre.split('.').all(|part| is_identifier(part) && no_leading_zero(part))) {
        return None;
    }
    Some((core, pre_release.map(ToOwned::to_owned)))
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn digits(part: &str) -> Option<&str> {
    Some(part).filter(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_read_from_tags_of_images() {
        for (image, version) in [
            ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.5.0", Some("1.5.0")),
            ("localhost:5000/vllm:v1.5.0-rc.1", Some("1.5.0-rc.1")),
            ("vllm:V1.2.3@sha256:abc", Some("1.2.3")),
            ("vllm:1.5.0-cuda13", Some("1.5.0-cuda13")),
            ("vllm:1.5", None),
            ("vllm:01.5.0", None),
            ("vllm:1.5.0-01", None),
            ("vllm:my-tag", None),
            ("vllm:latest", None),
            ("localhost:5000/vllm", None),
            ("vllm@sha256:abc", None),
            ("vllm:99999999999999999999.0.0", None),
            ("", None),
        ] {
            assert_eq!(Version::of_image(image).map(|v| v.as_tag()).as_deref(), version, "{image}");
        }
    }

    #[test]
    fn shortened_versions_are_versions_too() {
        for (text, tag) in [
            ("1.5.0", Some("1.5.0")),
            ("v1.5", Some("1.5.0")),
            ("1", Some("1.0.0")),
            ("1.4.0-dev.20260810.ga3a3c24+build.7", Some("1.4.0-dev.20260810.ga3a3c24")),
            ("", None),
            ("unknown", None),
            ("1.2.3.4", None),
            ("1..2", None),
            ("1.2.3-", None),
            ("1.2.3+", None),
            ("-1.2.3", None),
        ] {
            assert_eq!(Version::lenient(text).map(|v| v.as_tag()).as_deref(), tag, "{text}");
        }
    }
}
