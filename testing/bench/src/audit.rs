//! The audit log: requests to the API server, by user.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
};

use anyhow::{Context, Result};
use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A request, at one of its stages.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    stage: String,
    verb: String,
    #[serde(default, rename = "requestURI")]
    uri: String,
    user: User,
    #[serde(default)]
    object_ref: Option<ObjectRef>,
    #[serde(default)]
    stage_timestamp: Option<Timestamp>,
}

#[derive(Debug, Clone, Deserialize)]
struct User {
    username: String,
}

/// Object of a request; empty where it has no such part.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ObjectRef {
    pub(super) namespace: String,
    pub(super) api_group: String,
    pub(super) api_version: String,
    pub(super) resource: String,
    pub(super) name: String,
    subresource: String,
}

/// Reads a log bit by bit.
#[derive(Debug)]
pub(super) struct AuditLog {
    path: PathBuf,
    position: u64,
}

impl AuditLog {
    /// The log in a file, from its beginning.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, position: 0 }
    }

    /// Returns the events logged since the last call.
    pub(super) fn next(&mut self) -> Result<Vec<Event>> {
        let what = || format!("cannot read {}", self.path.display());
        let mut file = File::open(&self.path).with_context(what)?;
        file.seek(SeekFrom::Start(self.position)).with_context(what)?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(what)?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let events = text[..whole].lines().map(serde_json::from_str).collect::<Result<_, _>>();
        let events =
            events.with_context(|| format!("{} holds something else than audit events", self.path.display()))?;
        self.position += whole as u64;
        Ok(events)
    }
}

/// The requests of one user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Requests {
    /// Writes of objects.
    pub(super) object_writes: usize,
    /// Writes of the subresource `status`.
    pub(super) status_writes: usize,
    /// Writes of events.
    pub(super) event_writes: usize,
    /// Reads of one object.
    pub(super) gets: usize,
    /// Reads of many.
    pub(super) lists: usize,
    /// Watches that were begun.
    pub(super) watches: usize,
    /// All of them by verb and resource.
    pub(super) by_kind: BTreeMap<String, usize>,
}

impl Requests {
    /// Counts the requests of a user.
    pub(super) fn of(user: &str, events: &[Event]) -> Self {
        let mut requests = Self::default();
        for event in events.iter().filter(|event| event.user.username == user && event.counts()) {
            let object = event.object_ref.clone().unwrap_or_default();
            let counter = match event.verb.as_str() {
                "get" => &mut requests.gets,
                "list" => &mut requests.lists,
                "watch" => &mut requests.watches,
                _ if object.resource == "events" => &mut requests.event_writes,
                _ if object.subresource == "status" => &mut requests.status_writes,
                _ => &mut requests.object_writes,
            };
            *counter += 1;
            *requests.by_kind.entry(format!("{} {object}", event.verb)).or_default() += 1;
        }
        requests
    }

    /// All writes.
    pub(super) fn writes(&self) -> usize {
        self.object_writes + self.status_writes + self.event_writes
    }

    /// All reads.
    pub(super) fn reads(&self) -> usize {
        self.gets + self.lists + self.watches
    }
}

impl Event {
    /// The object that one of the users wrote.
    pub(super) fn written(&self, users: &[&str]) -> Option<&ObjectRef> {
        let write = ["create", "patch", "update"].contains(&self.verb.as_str());
        let object = self.object_ref.as_ref().filter(|object| object.subresource.is_empty())?;
        (write && self.counts() && users.contains(&self.user.username.as_str())).then_some(object)
    }

    /// The user and the address of a watch that one of the users began.
    pub(super) fn watched(&self, users: &[&str]) -> Option<(&str, &str)> {
        let user = self.user.username.as_str();
        let watch = self.verb == "watch" && self.counts() && users.contains(&user);
        watch.then_some((user, self.uri.as_str()))
    }

    /// Returns the end time of a request by one of the users, if it is neither for a Lease nor a watch.
    pub(super) fn worked(&self, users: &[&str]) -> Option<Timestamp> {
        let lease = self.object_ref.as_ref().is_some_and(|object| object.resource == "leases");
        let works = self.counts() && self.verb != "watch" && !lease;
        self.stage_timestamp.filter(|_| works && users.contains(&self.user.username.as_str()))
    }

    /// Every request counts once: a watch when it begins, because it may outlast the measurement, all others at their
    /// end.
    fn counts(&self) -> bool {
        let stage = if self.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        self.stage == stage
    }
}

impl std::fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { resource, api_group, subresource, .. } = self;
        match (resource.as_str(), api_group.as_str()) {
            ("", _) => f.write_str("(no resource)")?,
            (resource, "") => f.write_str(resource)?,
            (resource, group) => write!(f, "{resource}.{group}")?,
        }
        if subresource.is_empty() { Ok(()) } else { write!(f, "/{subresource}") }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn line(stage: &str, verb: &str, user: &str, object: &str) -> String {
        format!(
            r#"{{"stage":"{stage}","verb":"{verb}","user":{{"username":"{user}"}},"objectRef":{object},"level":"Metadata"}}"#
        )
    }

    #[test]
    fn requests_are_counted_by_user_and_kind() {
        let done = "ResponseComplete";
        let deployment = r#"{"resource":"deployments","apiGroup":"apps"}"#;
        let status = r#"{"resource":"graphs","apiGroup":"nvidia.com","subresource":"status"}"#;
        let event = r#"{"resource":"events","apiGroup":"events.k8s.io"}"#;
        let lines = [
            line(done, "patch", "us", deployment),
            line(done, "patch", "us", deployment),
            line(done, "patch", "them", deployment),
            line(done, "patch", "us", status),
            line(done, "create", "us", event),
            line(done, "get", "us", r#"{"resource":"secrets"}"#),
            line("ResponseStarted", "watch", "us", deployment),
            line(done, "watch", "us", deployment),
            line(done, "get", "us", "null"),
        ];
        let events: Vec<Event> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let by_kind = [
            ("create events.events.k8s.io", 1),
            ("get (no resource)", 1),
            ("get secrets", 1),
            ("patch deployments.apps", 2),
            ("patch graphs.nvidia.com/status", 1),
            ("watch deployments.apps", 1),
        ];
        let expected = Requests {
            object_writes: 2,
            status_writes: 1,
            event_writes: 1,
            gets: 2,
            lists: 0,
            watches: 1,
            by_kind: by_kind.map(|(kind, count)| (kind.to_owned(), count)).into(),
        };
        assert_eq!(Requests::of("us", &events), expected);
        assert_eq!((expected.writes(), expected.reads()), (4, 3));
    }

    #[test]
    fn each_event_is_read_once_and_never_half() {
        let path = std::env::temp_dir().join(format!("xtask-audit-{}", std::process::id()));
        let one = line("ResponseComplete", "get", "us", "null");
        let (first, second) = one.split_at(20);
        let mut log = AuditLog::new(path.clone());
        fs::write(&path, format!("{one}\n{first}")).unwrap();
        assert_eq!(log.next().unwrap().len(), 1);
        fs::write(&path, format!("{one}\n{first}{second}\n")).unwrap();
        assert_eq!(log.next().unwrap().len(), 1);
        assert_eq!(log.next().unwrap().len(), 0);
        fs::remove_file(&path).unwrap();
    }
}
