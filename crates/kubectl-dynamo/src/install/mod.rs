//! Whether the operator's install is well. Pure.

mod checks;
mod model;
#[cfg(test)]
mod tests;

pub use self::{
    checks::{check, table},
    model::{Definition, Install, Right, State, Webhook},
};
