//! Values of the chart that pages name.

use anyhow::Result;
use repository::chart::platform;

use crate::charts;

/// Prefix `dynamo-operator.` of values, which a page may omit.
const OPERATOR: &str = "dynamo-operator.";
/// Pages about an install. Elsewhere, `checkpoint.mode` is a field of a graph.
const PAGES: [&str; 5] = ["install.md", "upgrade.md", "gitops.md", "troubleshooting.md", "certificates.md"];

/// All values of the chart, by their whole names.
pub(super) struct ChartValues(Vec<String>);

impl ChartValues {
    pub(super) fn read() -> Result<Self> {
        Ok(Self(charts::values::names(&platform())?))
    }

    /// Whether there is such a value, or values in it, or it is in one that holds anything.
    pub(super) fn exists(&self, path: &str) -> bool {
        let within = |outer: &str, inner: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'));
        self.0.iter().any(|known| known == path || within(path, known) || within(known, path))
    }

    /// The value that a piece of code in a page names and that does not exist.
    pub(super) fn unknown<'a>(&self, page: &str, code: &'a str) -> Option<&'a str> {
        let path = code.split_once('=').map_or(code, |(path, _)| path).trim_end_matches('.');
        let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
        let first = path.split('.').next().filter(|first| plain && *first != path)?;
        if [OPERATOR.trim_end_matches('.'), "global"].contains(&first) {
            return (!self.exists(path)).then_some(path);
        }
        let whole = format!("{OPERATOR}{path}");
        let meant = PAGES.contains(&page) && self.exists(&format!("{OPERATOR}{first}"));
        (meant && !self.exists(&whole)).then_some(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_does_not_exist_is_found() {
        let known = ["global.nats.install", "dynamo-operator.webhook.caBundle", "dynamo-operator.x.resources"];
        let values = ChartValues(known.map(str::to_owned).into());
        for (page, code, unknown) in [
            ("usage.md", "global.nats.install=true", false),
            ("usage.md", "global.nats.installed", true),
            ("usage.md", "dynamo-operator.webhook", false),
            ("usage.md", "dynamo-operator.", false),
            ("usage.md", "dynamo-operator.x.resources.limits.cpu=1", false),
            ("usage.md", "dynamo-operator.webhook.ca", true),
            ("usage.md", "webhook.ca", false),
            ("install.md", "webhook.ca", true),
            ("install.md", "webhook.caBundle", false),
            ("install.md", "other.ca", false),
            ("install.md", "webhook", false),
            ("install.md", "kubectl get webhook.ca", false),
        ] {
            assert_eq!(values.unknown(page, code).is_some(), unknown, "{page}: {code}");
        }
    }
}
