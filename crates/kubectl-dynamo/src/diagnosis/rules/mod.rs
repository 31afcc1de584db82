//! Remedies: by the reason of a condition, and by the words of Kubernetes where one reason has several remedies.

mod objects;
mod pods;

pub use objects::{REJECTIONS, by_reason};
pub use pods::{ENDS, IMAGES, LOGS, NODE, PRESSURE, SCHEDULING, SETUP, VOLUMES, is_of_runtime};

/// A cause that is recognized by words of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// All of them are in the message, in whatever case.
    pub words: &'static [&'static str],
    /// Code of the cause.
    pub code: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

/// The first rule that fits a message.
pub fn matching(rules: &'static [Rule], message: &str) -> Option<&'static Rule> {
    let message = message.to_lowercase();
    rules.iter().find(|rule| rule.words.iter().all(|word| message.contains(word)))
}

/// The remedy of the first rule with a code.
pub fn by_code(rules: &'static [Rule], code: &str) -> Option<&'static str> {
    rules.iter().find(|rule| rule.code == code).map(|rule| rule.remedy)
}

/// Constructor for the tables.
const fn rule(words: &'static [&'static str], code: &'static str, remedy: &'static str) -> Rule {
    Rule { words, code, remedy }
}
