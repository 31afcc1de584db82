//! Candidates for the word that a user types. Pure; names of objects are read by `observe`.

mod answer;
mod words;

#[cfg(test)]
mod tests;

pub use self::{
    answer::answer,
    words::{Completion, complete},
};
