//! Admission: defaults, validation and protections of every kind, with requests as of the API server.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod another_install;
mod checkpoints;
mod components;
mod conformance_kit;
mod defaults;
mod dynamo_namespaces;
mod exposure;
mod graph_fields;
mod graph_updates;
mod properties;
mod provider_overrides;
mod recorded;
mod requests;
mod restore;
mod texts;
mod topology;
mod versions;

#[path = "../support/mod.rs"]
mod support;
