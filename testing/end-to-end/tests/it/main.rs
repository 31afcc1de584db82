//! End-to-end tests: real controllers, real API server, fake nodes.

mod bad_input;
mod deletion;
mod documents;
mod elections;
mod graphs;
mod handovers;
mod held;
mod hostile;
mod kill_points;
mod legacy_examples;
mod memory;
mod namespace_admin;
mod nodes;
mod notifications;
mod outage;
mod pod_caches;
mod recorded;
mod rollouts;
mod scripts;
mod shards;
mod steady_state;
mod takeover;
mod takeover_all;
mod upgrade;
