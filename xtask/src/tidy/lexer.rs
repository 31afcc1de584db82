//! Splits Rust source into code, comments and string literals, so that a rule about code is not misled by prose.

use std::sync::LazyLock;

use regex::Regex;

/// Comments and literals. The text of a string is in one of the groups, those of raw strings by their hashes.
static PROSE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let alternatives = [
        r"//[^\n]*",
        r"/\*.*?(?:\*/|\z)",
        r#"\b[bc]?r"([^"]*)(?:"|\z)"#,
        r##"\b[bc]?r#"(.*?)(?:"#|\z)"##,
        r###"\b[bc]?r##"(.*?)(?:"##|\z)"###,
        r#""((?:\\.|[^"\\])*)(?:"|\\?\z)"#,
        r"'(?:\\.[^'\n]*|[^'\\\n])'",
    ];
    Regex::new(&format!("(?s){}", alternatives.join("|"))).ok()
});

/// A string literal, without its quotes and with escapes as they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Line on which it starts, from 1.
    pub line: usize,
    /// Text between the quotes.
    pub text: String,
}

/// The source with spaces in place of comments and literals, on the same lines, and every string literal in order.
/// Source that does not compile gives some result, but no error.
pub fn split(source: &str) -> (String, Vec<Literal>) {
    let (mut code, mut literals, mut at, mut line) = (String::new(), Vec::new(), 0, 1);
    for found in PROSE.iter().flat_map(|prose| prose.captures_iter(source)) {
        let Some(all) = found.get(0) else { continue };
        code.push_str(&source[at..all.start()]);
        line += source[at..all.start()].matches('\n').count();
        if let Some(text) = found.iter().skip(1).flatten().next() {
            literals.push(Literal { line, text: text.as_str().to_owned() });
        }
        code.extend(all.as_str().chars().map(|c| if c == '\n' { c } else { ' ' }));
        line += all.as_str().matches('\n').count();
        at = all.end();
    }
    code.push_str(&source[at..]);
    (code, literals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        for (source, code) in [
            ("a // b \"c\"\nd", "a         \nd"),
            ("a /* b // c */ d", "a              d"),
            ("f(\"x // y\") // z", "f(        )     "),
            (r#"f("a\"b") + c"#, r#"f(      ) + c"#),
            ("let x = r#\"a \" b\"# + 1;", "let x =            + 1;"),
            ("b\"x\" br\"y\"", "b         "),
            ("'\"' + '\\'' + x", "    +      + x"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("'\\u{1F600}'; r#type", "           ; r#type"),
        ] {
            assert_eq!(split(source).0, code, "{source}");
        }
    }

    #[test]
    fn literals_are_found_with_their_line() {
        let source = "a(\"one\");\n// \"not this\"\nb(r\"two\", \"three\nfour\");\nc(\"five\");";
        let expected = [(1, "one"), (3, "two"), (3, "three\nfour"), (5, "five")];
        let expected = expected.map(|(line, text)| Literal { line, text: text.to_owned() });
        assert_eq!(split(source).1, expected);
    }

    #[test]
    fn source_that_ends_in_the_middle_ends() {
        for source in ["\"abc", "r#\"abc\"", "/* abc", "'\\", "'"] {
            split(source);
        }
    }
}
