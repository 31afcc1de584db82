//! The answer to kubectl, which passes it on to the shell.
//!
//! kubectl reads candidates from the standard output, one a line, each with an optional description after a tab. The
//! last line is a colon and a number, whose bits are directives of the library that kubectl completes with.

use super::Completion;

/// The shell adds no space after the candidate.
const NO_SPACE: u8 = 2;
/// The shell does not offer files.
const NO_FILES: u8 = 4;

/// All candidates that begin with what was typed, and the directives.
pub fn answer(completion: &Completion, names: &[String]) -> String {
    let own = completion.candidates.iter().map(|(word, about)| (word.as_str(), about.as_str()));
    let read = names.iter().map(|name| (name.as_str(), ""));
    let mut all: Vec<_> = own.chain(read).filter(|(word, _)| word.starts_with(&completion.typed)).collect();
    all.sort_unstable();
    all.dedup();
    let mut text = String::new();
    for (word, about) in &all {
        text.push_str(word);
        if !about.is_empty() {
            text.push_str(&format!("\t{about}"));
        }
        text.push('\n');
    }
    let is_open = |word: &str| word.ends_with(['=', '/']);
    let no_space = if !all.is_empty() && all.iter().all(|(word, _)| is_open(word)) { NO_SPACE } else { 0 };
    let no_files = if completion.files { 0 } else { NO_FILES };
    text.push_str(&format!(":{}\n", no_space | no_files));
    text
}
