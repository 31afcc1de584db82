//! Admission: defaults, validation and protections of every kind, asked as the API server asks.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod another_install;
mod checkpoints;
mod components;
mod defaults;
mod dynamo_namespaces;
mod exposure;
mod graph_fields;
mod graph_updates;
mod kit;
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
