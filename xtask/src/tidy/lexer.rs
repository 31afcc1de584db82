//! Splits Rust source into code, comments and string literals, so that a rule about code is not misled by prose.

/// A string literal, without its quotes and with escapes as they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    /// Line on which it starts, from 1.
    pub line: usize,
    /// What stands between the quotes.
    pub text: String,
}

/// Source in its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// The source with everything inside comments, strings and character literals replaced by spaces: same lines, same
    /// columns (counted in characters).
    pub code: String,
    /// Every string literal, in order.
    pub literals: Vec<Literal>,
}

/// Takes `source` apart. Source that does not compile gives some result, but no error.
pub fn split(source: &str) -> Parts {
    let mut lexer = Lexer { rest: source.chars().collect(), at: 0, line: 1, parts: Parts::default() };
    while lexer.at < lexer.rest.len() {
        lexer.step();
    }
    lexer.parts
}

struct Lexer {
    rest: Vec<char>,
    at: usize,
    line: usize,
    parts: Parts,
}

impl Lexer {
    fn step(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (Some('/'), Some('/')) => self.blank_while(|lexer| lexer.peek(0) != Some('\n')),
            (Some('/'), Some('*')) => self.block_comment(),
            (Some('"'), _) => self.string(),
            (Some('r'), Some('"' | '#')) if !self.in_word() => self.raw_string(1),
            (Some('b' | 'c'), Some('r')) if !self.in_word() && matches!(self.peek(2), Some('"' | '#')) => {
                self.raw_string(2);
            }
            (Some('\''), _) => self.quote(),
            _ => self.keep(),
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.rest.get(self.at + ahead).copied()
    }

    /// Whether the character before belongs to the same identifier.
    fn in_word(&self) -> bool {
        self.at > 0 && self.rest.get(self.at - 1).is_some_and(|c| c.is_alphanumeric() || *c == '_')
    }

    fn keep(&mut self) {
        if let Some(c) = self.peek(0) {
            self.push(c);
        }
    }

    /// Moves on one character and leaves a space in its place; line ends stay.
    fn blank(&mut self) {
        if let Some(c) = self.peek(0) {
            self.push(if c == '\n' { c } else { ' ' });
        }
    }

    fn push(&mut self, c: char) {
        self.line += usize::from(c == '\n');
        self.parts.code.push(c);
        self.at += 1;
    }

    fn blank_while(&mut self, goes_on: impl Fn(&Self) -> bool) {
        while self.at < self.rest.len() && goes_on(self) {
            self.blank();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.rest.len() {
            let change = match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => 1,
                (Some('*'), Some('/')) => -1,
                _ => 0,
            };
            depth += change;
            self.blank();
            if change != 0 {
                self.blank();
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        let line = self.line;
        self.keep();
        let start = self.at;
        while self.peek(0).is_some_and(|c| c != '"') {
            if self.peek(0) == Some('\\') {
                self.blank();
            }
            self.blank();
        }
        self.literal(line, start);
        self.keep();
    }

    /// `r"…"` or `r#"…"#`, with `prefix` letters before the hashes; an identifier such as `r#type` is kept as it is.
    fn raw_string(&mut self, prefix: usize) {
        let hashes = (prefix..).take_while(|ahead| self.peek(*ahead) == Some('#')).count();
        if self.peek(prefix + hashes) != Some('"') {
            return self.keep();
        }
        let line = self.line;
        for _ in 0..=prefix + hashes {
            self.keep();
        }
        let start = self.at;
        let closed =
            |lexer: &Self| lexer.peek(0) == Some('"') && (1..=hashes).all(|ahead| lexer.peek(ahead) == Some('#'));
        self.blank_while(|lexer| !closed(lexer));
        self.literal(line, start);
        self.keep();
    }

    /// A character literal, or the tick of a lifetime.
    fn quote(&mut self) {
        let escaped = self.peek(1) == Some('\\');
        if !escaped && self.peek(2) != Some('\'') {
            return self.keep();
        }
        self.keep();
        if escaped {
            self.blank();
        }
        self.blank();
        self.blank_while(|lexer| lexer.peek(0) != Some('\''));
        self.keep();
    }

    fn literal(&mut self, line: usize, start: usize) {
        let text = self.rest.iter().take(self.at).skip(start).collect();
        self.parts.literals.push(Literal { line, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literals(source: &str) -> Vec<(usize, String)> {
        split(source).literals.into_iter().map(|literal| (literal.line, literal.text)).collect()
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        for (source, code) in [
            ("a // b \"c\"\nd", "a         \nd"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("f(\"x // y\") // z", "f(\"      \")     "),
            (r#"f("a\"b") + c"#, r#"f("    ") + c"#),
            ("let x = r#\"a \" b\"# + 1;", "let x = r#\"     \"# + 1;"),
            ("b\"x\" br\"y\"", "b\" \" br\" \""),
            ("'\"' + '\\'' + x", "' ' + '  ' + x"),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
            ("'\\u{1F600}'; r#type", "'         '; r#type"),
        ] {
            assert_eq!(split(source).code, code, "{source}");
        }
    }

    #[test]
    fn literals_are_found_with_their_line() {
        let source = "a(\"one\");\n// \"not this\"\nb(r\"two\", \"three\nfour\");\nc(\"five\");";
        let expected = [(1, "one"), (3, "two"), (3, "three\nfour"), (5, "five")];
        assert_eq!(literals(source), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn source_that_ends_in_the_middle_ends() {
        for source in ["\"abc", "r#\"abc\"", "/* abc", "'\\", "'"] {
            split(source);
        }
    }
}
