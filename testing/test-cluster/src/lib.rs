//! Starts a real Kubernetes control plane on this machine: etcd, kube-apiserver, kube-controller-manager and, when
//! desired, kube-scheduler and kwok with fake GPU nodes. Nothing is mocked; the programs are built once from pinned Go
//! modules.
//!
//! * [`shared`] is for tests: one control plane per test run, a [`TestNamespace`] for each test.
//! * [`Cluster::start`] gives a control plane of one's own, to break or to measure.
//! * [`Access`] is how one talks to either of them.
//! * [`Server`] is an etcd, a NATS or an image registry of one's own, for those who talk to these.
//! * [`wait::until`] waits for a condition and says what was missing when it gives up.
//!
//! A cluster lives in one directory and under one supervisor process, which ends everything and removes the directory
//! when its owner is gone, however the owner ended (see `supervisor.rs`). Linux only: processes are distinguished by
//! `/proc`.

pub mod assets;
pub mod lws;
pub mod wait;

mod access;
mod account;
mod cluster;
mod components;
mod conformance_kit;
mod error;
mod foreign;
mod held;
mod home;
mod manifests;
mod namespace;
mod nodes;
mod options;
mod pki;
mod place;
mod port;
mod process;
mod server;
mod shared;
mod supervisor;

pub use access::Access;
pub use account::account;
pub use cluster::Cluster;
pub use conformance_kit::{CONFORMANCE_KIT_ENV, conformance_kit};
pub use error::Error;
pub use foreign::open_definition;
pub use held::HeldServer;
pub use home::AUDIT_DIR_ENV;
pub use namespace::TestNamespace;
pub use options::{Controllers, Options};
pub use pki::{Identity, Keys};
pub use place::Place;
pub use port::free as free_port;
pub use process::Process;
pub use server::{Security, Server};
pub use shared::{KUBECONFIG_ENV, shared};
pub use supervisor::{Program, Signal};
