//! Objects as the rules see them: as JSON with names for what is in it, since a rule must say something sensible about
//! objects of every shape, and since types would lose the fields that they do not know.

mod component;
mod graph;

pub(super) use component::{Component, template_containers};
pub(super) use graph::{Graph, Pathway, Provider};
