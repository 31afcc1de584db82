//! What joins the nodes of a replica.

use api_types::annotations;

/// What joins the nodes of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::frameworks) enum Executor {
    /// Processes that vLLM starts itself.
    Mp,
    /// Ray.
    Ray,
}

impl Executor {
    /// As vLLM calls it.
    pub(in crate::frameworks) const fn as_str(self) -> &'static str {
        match self {
            Self::Mp => "mp",
            Self::Ray => "ray",
        }
    }

    /// The user's choice; else Ray for graphs that were admitted before version 1, which must not change under them.
    pub(in crate::frameworks) fn chosen<'a>(annotation: impl Fn(&str) -> Option<&'a str>) -> Self {
        let named = annotation(annotations::VLLM_EXECUTOR_BACKEND);
        let chosen =
            [Self::Mp, Self::Ray].into_iter().find(|e| named.is_some_and(|n| n.eq_ignore_ascii_case(e.as_str())));
        let since_version_1 = || annotation(annotations::ORIGIN_VERSION).is_some_and(is_at_least_1);
        chosen.unwrap_or_else(|| if since_version_1() { Self::Mp } else { Self::Ray })
    }
}

/// Whether a version is 1.0.0 or later; `v1`, `1.2` and build metadata are fine, anything else is none.
fn is_at_least_1(version: &str) -> bool {
    let version = version.strip_prefix('v').unwrap_or(version);
    let version = version.split_once('+').map_or(version, |(version, _)| version);
    let (release, is_preview) = version.split_once('-').map_or((version, false), |(release, _)| (release, true));
    let numbers: Option<Vec<u64>> = release.split('.').map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some([major, rest @ ..]) if rest.len() <= 2 => {
            *major > 1 || *major == 1 && !(is_preview && rest.iter().all(|number| *number == 0))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use Executor::{Mp, Ray};

    use super::*;

    #[test]
    fn the_author_decides_else_the_age_of_the_graph() {
        for (backend, origin, expected) in [
            (Some("mp"), None, Mp),
            (Some("RAY"), Some("1.5.0"), Ray),
            (Some("mpi"), Some("1.5.0"), Mp),
            (Some("mpi"), None, Ray),
            (None, Some("1.0.0"), Mp),
            (None, Some("v1.2"), Mp),
            (None, Some("2"), Mp),
            (None, Some("1.0.0-rc1"), Ray),
            (None, Some("1.0.1-rc1+build"), Mp),
            (None, Some("0.9.9"), Ray),
            (None, Some("latest"), Ray),
            (None, Some("1.2.3.4"), Ray),
            (None, Some(""), Ray),
            (None, None, Ray),
        ] {
            let annotation = |key: &str| match key {
                annotations::VLLM_EXECUTOR_BACKEND => backend,
                annotations::ORIGIN_VERSION => origin,
                _ => None,
            };
            assert_eq!(Executor::chosen(annotation), expected, "{backend:?} {origin:?}");
        }
    }
}
