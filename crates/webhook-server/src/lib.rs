//! The webhook server: answers the reviews of objects of the operator, before they are stored and when
//! they are read in another version.
//!
//! | module | what |
//! |---|---|
//! | [`admission`] | the rules: defaults, validation, protections; pure |
//! | [`review`] | `AdmissionReview` in and out |
//! | [`facts`] | facts about the cluster that rules depend on |
//! | [`serve`] | HTTPS |
//! | [`certificates`] | certificates, and the CA wherever the API server looks it up |
//! | [`mpi_key`] | the SSH key of engines that span nodes |
//! | [`configurations`] | the webhook configurations of the API server |
//! | [`access`] | what the server may do, as data |
//! | [`run`] | all of it together |
//!
//! Any number of replicas may run; none of them leads. Conversion needs none of the rest but a certificate, so that
//! objects can be read whatever else is broken.

pub mod access;
pub mod admission;
pub mod certificates;
mod changes;
pub mod configurations;
pub mod facts;
pub mod mpi_key;
pub mod review;
mod run;
pub mod serve;

pub use run::{RunError, ServerArgs, run};

/// Name of the program; also user agent and field manager, so it never changes.
pub const NAME: &str = "dynamo-webhook-server";
