//! Fields of an object: where they are, what stands there, and what is wrong with them.

mod findings;
mod node;
mod path;

pub(super) use findings::Findings;
pub(super) use node::Node;
pub(super) use path::{FieldPath, Segment};
