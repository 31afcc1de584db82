//! Content of a page of Markdown: headings, links, code in the text, and commands in fenced blocks.

/// A piece of a page, with its line from 1.
pub(super) type At<T> = (usize, T);

/// A page, taken apart.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Anchors of headings.
    pub(super) anchors: Vec<String>,
    /// Targets of links.
    pub(super) links: Vec<At<String>>,
    /// Code in the text.
    pub(super) code: Vec<At<String>>,
    /// Lines of fenced blocks that may hold commands, with those that they continue on.
    pub(super) lines: Vec<At<String>>,
}

impl Page {
    pub(super) fn read(text: &str) -> Self {
        let mut page = Self::default();
        // The language of the block that is open.
        let mut block: Option<String> = None;
        for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
            let trimmed = line.trim_start();
            match (trimmed.strip_prefix("```"), &block) {
                (Some(language), None) => block = Some(language.trim().to_owned()),
                (Some(_), Some(_)) => block = None,
                (None, Some(language)) => {
                    if ["", "sh", "bash", "console"].contains(&language.as_str()) {
                        page.line_of_block(number, trimmed);
                    }
                }
                (None, None) => page.text(number, line),
            }
        }
        page
    }

    fn line_of_block(&mut self, number: usize, line: &str) {
        match self.lines.last_mut() {
            Some((_, before)) if before.ends_with('\\') => {
                before.pop();
                before.push_str(line);
            }
            _ => self.lines.push((number, line.to_owned())),
        }
    }

    fn text(&mut self, number: usize, line: &str) {
        if let Some(heading) = line.strip_prefix('#') {
            self.anchors.push(anchor(heading.trim_start_matches('#')));
        }
        // Every second part is code.
        for (index, part) in line.split('`').enumerate() {
            if index % 2 == 1 {
                self.code.push((number, part.to_owned()));
            }
        }
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        self.links.extend(targets.map(|(target, _)| (number, target.to_owned())));
    }
}

/// Returns the anchor of a heading, as GitHub generates it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The commands of a line, each as its words: what is between pipes and the like. Comments, variables that are set
/// and where output goes are left out.
pub(super) fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    for word in words(line.strip_prefix("$ ").unwrap_or(line)) {
        let command = commands.last_mut();
        match (word.as_str(), command) {
            ("|" | "&&" | ";", _) => commands.push(Vec::new()),
            (_, Some(command)) if command.is_empty() && is_assignment(&word) => {}
            (_, Some(command)) => command.push(word),
            (_, None) => {}
        }
    }
    for command in &mut commands {
        if let Some(end) = command.iter().position(|word| word.starts_with('>')) {
            command.truncate(end);
        }
    }
    commands.retain(|command| !command.is_empty());
    commands
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
}

/// Words as a shell sees them, up to a comment.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_taken_apart() {
        let text = "\
# The `one`, of two

See [there](other.md#a-b) and `some code`.

   ```
   helm install \\
     --set a=b
   ```
```yaml
key: value
```
";
        let page = Page::read(text);
        assert_eq!(page.anchors, ["the-one-of-two"]);
        assert_eq!(page.links, [(3, "other.md#a-b".to_owned())]);
        assert_eq!(page.code, [(1, "one".to_owned()), (3, "some code".to_owned())]);
        assert_eq!(page.lines, [(6, "helm install --set a=b".to_owned())]);
    }

    #[test]
    fn a_line_is_commands_and_their_words() {
        for (line, expected) in [
            ("$ kubectl get dgd  # all", vec![vec!["kubectl", "get", "dgd"]]),
            ("crds print | kubectl apply -f -", vec![vec!["crds", "print"], vec!["kubectl", "apply", "-f", "-"]]),
            ("A=1 B_C=$X cargo test", vec![vec!["cargo", "test"]]),
            ("crds convert > file.yaml", vec![vec!["crds", "convert"]]),
            (r#"kubectl patch -p '{"a": "b # c"}'"#, vec![vec!["kubectl", "patch", "-p", r#"{"a": "b # c"}"#]]),
            ("# nothing", vec![]),
        ] {
            assert_eq!(commands(line), expected, "{line}");
        }
    }
}
