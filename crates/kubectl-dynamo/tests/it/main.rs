//! The plugin on a real API server.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod commands;
mod controllers;
mod definitions;
mod faults;
mod plugin;
mod preview;
