//! Functions of the fuzz targets in `fuzz/`. They belong to a crate of this workspace, so every build checks that they
//! compile, and every test run calls them with the seeds.

pub mod admission_review;
pub mod convert;
pub mod engine_answer;
pub mod legacy_config;
pub mod profiling_answer;
pub mod registry_answer;

/// Function that processes an input; panics if the input does harm.
pub type Target = fn(&[u8]);

/// Every target, by its name.
pub const TARGETS: [(&str, Target); 6] = [
    ("admission_review", admission_review::run),
    ("convert", convert::run),
    ("engine_answer", engine_answer::run),
    ("legacy_config", legacy_config::run),
    ("profiling_answer", profiling_answer::run),
    ("registry_answer", registry_answer::run),
];
