//! The webhook server: answers what the API server asks about objects of the operator, before they are stored and when they
//! are read in another version.
//!
//! | module | what |
//! |---|---|
//! | [`admission`] | the rules: defaults, validation, protections; pure |

pub mod admission;
