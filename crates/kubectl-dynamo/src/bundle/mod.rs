//! A support archive: objects and logs without credentials, within a size. Pure.

mod archive;
mod mask;

pub use self::{archive::Archive, mask::mask};
