//! Whether the operator's install is well. Pure.

mod checks;
mod model;
#[cfg(test)]
mod tests;

pub use self::{
    checks::{check, table},
    model::{CheckState, Install, InstalledDefinition, InstalledWebhook, Right},
};
