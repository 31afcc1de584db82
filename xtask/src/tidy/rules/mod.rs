//! The rules, each a pure function from text to violations.

pub mod circles;
pub mod dependencies;
pub mod kinds;
pub mod layers;
pub mod manifests;
pub mod notes;
pub mod places;
pub mod shape;
pub mod type_names;
pub mod vocabulary;
pub mod workflows;

/// Columns (in bytes) at which `word` is in `line` as a whole identifier.
pub fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = line[..*at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(in_word) && !after.is_some_and(in_word)
    })
}

#[cfg(test)]
pub mod testing {
    //! Feeds a rule with a snippet.

    use crate::tidy::{
        source::{RustFile, TextFile},
        violation::TidyViolation,
    };

    /// The file at `path` with this content.
    pub fn file(path: &str, text: &str) -> TextFile {
        TextFile { path: path.to_owned(), text: text.to_owned() }
    }

    /// Lines of a Rust file that a rule complains about.
    pub fn lines(rule: impl Fn(&RustFile<'_>) -> Vec<TidyViolation>, path: &str, text: &str) -> Vec<usize> {
        let file = file(path, text);
        rule(&file.rust().unwrap()).into_iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn words_are_whole() {
        let found: Vec<usize> = super::words("Api Apis MyApi Api<X> _Api", "Api").collect();
        assert_eq!(found, [0, 15]);
    }
}
