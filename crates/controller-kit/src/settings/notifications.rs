//! Receivers of notifications of failing objects.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Receivers of notifications of failing objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Notifications {
    /// Each gets every notification. Default: none, and nothing is sent.
    pub receivers: Vec<Receiver>,
}

/// An HTTP endpoint that gets notifications.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Receiver {
    /// Name in logs and metrics.
    pub name: String,
    /// URL that notifications are posted to, `http` or `https`.
    pub url: String,
    /// File with the URL, in place of `url`: for a URL that is a secret.
    pub url_file: Option<PathBuf>,
    /// Form of the body. Default `CloudEvents`.
    pub format: NotificationFormat,
    /// A header of each request, such as `Authorization`. Default: none.
    pub header: Option<Header>,
    /// File with certificate authorities that are trusted beside those of the machine. Default: none.
    pub ca_file: Option<PathBuf>,
}

/// Form of a notification.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum NotificationFormat {
    /// A CloudEvent 1.0 as JSON.
    #[default]
    CloudEvents,
    /// Format that incoming webhooks of Slack accept.
    Slack,
}

/// A header whose value is in a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Header {
    /// Name of the header.
    pub name: String,
    /// File with its value, such as a key of a mounted Secret. It is read for each request.
    pub value_file: PathBuf,
}
