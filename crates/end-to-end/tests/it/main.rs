//! End-to-end tests: real controllers, real API server, fake nodes.

mod graphs;
mod kill_points;
