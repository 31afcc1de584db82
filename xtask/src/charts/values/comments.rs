//! The comments of a `values.yaml`, which a parser of YAML throws away.

/// The types that a comment may name.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Comment above a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Comment {
    /// The line of the key, from 0.
    pub(super) line: usize,
    /// The key and those that it is in, from outside.
    pub(super) path: Vec<String>,
    /// The text, in one line.
    pub(super) meaning: String,
    /// JSON types that the comment names.
    pub(super) types: Vec<&'static str>,
}

/// All comments that are the meaning of a key.
pub(super) fn read(source: &str) -> Vec<Comment> {
    let mut comments = Vec::new();
    let mut meaning: Option<String> = None;
    let mut above: Vec<(usize, &str)> = Vec::new();
    // Keys in the items of a list have no comment.
    let mut item: Option<usize> = None;
    for (line, text) in source.lines().enumerate() {
        let trimmed = text.trim_start();
        let indent = text.len() - trimmed.len();
        if let Some(comment) = trimmed.strip_prefix('#') {
            meaning = continued(meaning, comment);
            continue;
        }
        let in_item = item.is_some_and(|start| indent > start) && !trimmed.is_empty();
        if !in_item {
            item = trimmed.starts_with("- ").then_some(indent);
        }
        match key(trimmed).filter(|_| !in_item && item.is_none()) {
            Some(key) => {
                above.retain(|(outer, _)| *outer < indent);
                above.push((indent, key));
                let path = above.iter().map(|(_, key)| (*key).to_owned()).collect();
                comments.extend(meaning.take().map(|text| Comment::new(line, path, &text)));
            }
            None => meaning = None,
        }
    }
    comments
}

/// The text so far, with one more line of comment.
fn continued(meaning: Option<String>, line: &str) -> Option<String> {
    match (line.strip_prefix(" -- "), meaning) {
        (Some(start), _) => Some(start.trim().to_owned()),
        (None, Some(text)) => Some(format!("{text} {}", line.trim())),
        (None, None) => None,
    }
}

/// The key that a line begins with.
fn key(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    (plain && !key.is_empty() && (rest.is_empty() || rest.starts_with(' '))).then_some(key)
}

impl Comment {
    fn new(line: usize, path: Vec<String>, text: &str) -> Self {
        let named = text.strip_prefix('(').and_then(|rest| rest.split_once(')')).and_then(|(list, rest)| {
            let types = list.split('|').map(|name| TYPES.into_iter().find(|known| *known == name));
            Some((types.collect::<Option<Vec<_>>>()?, rest.trim_start()))
        });
        let (types, meaning) = named.unwrap_or((Vec::new(), text));
        Self { line, path, meaning: meaning.to_owned(), types }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_belongs_to_the_key_below_it() {
        let source = "\
# A file.

# -- First,
# continued.
a:
  # -- (integer|string) Inner.
  b: 1
  # no meaning
  c:
    - name: x
      # -- In an item.
      d: 1
# -- (of all) Second.
e.f/g: http://x
";
        let found: Vec<_> = read(source).into_iter().map(|c| (c.line, c.path.join(" "), c.meaning, c.types)).collect();
        let expected = [
            (4, "a".to_owned(), "First, continued.".to_owned(), vec![]),
            (6, "a b".to_owned(), "Inner.".to_owned(), vec!["integer", "string"]),
            (13, "e.f/g".to_owned(), "(of all) Second.".to_owned(), vec![]),
        ];
        assert_eq!(found, expected);
    }
}
