//! Text for shells: words quoted, flags put into scripts of other people.

/// Characters without a special meaning in every shell.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c)
}

/// `token` as one word, taken literally.
pub(super) fn literal(token: &str) -> String {
    if !token.is_empty() && token.chars().all(is_plain) {
        return token.to_owned();
    }
    format!("'{}'", token.replace('\'', r"'\''"))
}

/// `token` as one word, in which references of the kubelet keep their meaning.
pub(super) fn word(token: &str) -> String {
    // These end no word, and what they would expand to is a matter of luck.
    let is_harmless = |c: char| is_plain(c) || "^".contains(c) || !c.is_ascii();
    if !token.is_empty() && token.chars().all(is_harmless) {
        return token.to_owned();
    }
    let mut quoted = String::from("\"");
    let mut rest = token;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("$$") {
            quoted.push_str("\\$");
            rest = after;
        } else if let Some((name, after)) = reference(rest) {
            quoted.push_str(&format!("${{{name}}}"));
            rest = after;
        } else {
            if "\\\"$`".contains(c) {
                quoted.push('\\');
            }
            quoted.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    quoted.push('"');
    quoted
}

/// The name in `$(NAME)` at the start of `text`, and what follows.
fn reference(text: &str) -> Option<(&str, &str)> {
    let (name, after) = text.strip_prefix("$(")?.split_once(')')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, after))
}

/// State of the scanner in a script.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanState {
    Code,
    Single,
    Double,
    Comment,
}

/// One byte of a script, as far as the shell's grammar matters here.
#[derive(Clone, Copy)]
struct BytePlace {
    state: ScanState,
    /// Ends a simple command, here or in a script within quotes.
    ends_command: bool,
}

/// The state at each byte of a script.
fn places(script: &str) -> Vec<BytePlace> {
    let mut state = ScanState::Code;
    let (mut escaped, mut at_word_start) = (false, true);
    let mut places = Vec::with_capacity(script.len());
    for byte in script.bytes() {
        if state == ScanState::Code && byte == b'#' && at_word_start && !escaped {
            state = ScanState::Comment;
        }
        let ends_command = match byte {
            b'|' | b'&' | b';' => state != ScanState::Comment && !escaped,
            b'\n' => state == ScanState::Comment || state == ScanState::Code && !escaped,
            _ => false,
        };
        places.push(BytePlace { state, ends_command });
        let was_escaped = std::mem::take(&mut escaped);
        state = match (state, byte) {
            (ScanState::Comment, b'\n') => ScanState::Code,
            (ScanState::Code | ScanState::Double, b'\\') if !was_escaped => {
                escaped = true;
                state
            }
            (ScanState::Code, b'\'') if !was_escaped => ScanState::Single,
            (ScanState::Single, b'\'') => ScanState::Code,
            (ScanState::Code, b'"') if !was_escaped => ScanState::Double,
            (ScanState::Double, b'"') if !was_escaped => ScanState::Code,
            _ => state,
        };
        at_word_start = state == ScanState::Code && (byte.is_ascii_whitespace() || ends_command);
    }
    places
}

/// The script with `flags` behind the last word that names `engine`, in every simple command in which Python runs it.
///
/// `None` if there is no such command. Commands that start the engine's Dynamo module count before others, which may
/// only look something up.
pub(super) fn with_flags(script: &str, flags: &str, engine: &str) -> Option<String> {
    let places = places(script);
    let module = format!("dynamo.{engine}");
    let mut found: Vec<(usize, bool)> = Vec::new();
    let mut start = 0;
    for end in 0..=script.len() {
        if places.get(end).is_some_and(|place| !place.ends_command) {
            continue;
        }
        if let Some(at) = insertion(&script[start..end], engine, &places[start..]) {
            found.push((start + at, super::runs_module(&script[start..end], &module)));
        }
        start = end + 1;
    }
    let starts_module = found.iter().any(|(_, starts_module)| *starts_module);
    found.retain(|(_, this)| *this || !starts_module);
    let mut result = script.to_owned();
    for (at, _) in found.iter().rev() {
        result.insert_str(*at, &format!(" {flags}"));
    }
    (!found.is_empty()).then_some(result)
}

/// The end of the last word that names the engine, behind a word that names Python, in one simple command.
fn insertion(command: &str, engine: &str, places: &[BytePlace]) -> Option<usize> {
    let state = |at: usize| places.get(at).map_or(ScanState::Code, |place| place.state);
    let python = super::pythons(command).find(|end| state(end - 1) != ScanState::Comment)?;
    let within = state(python - 1);
    let quote = match within {
        ScanState::Single => Some('\''),
        ScanState::Double => Some('"'),
        ScanState::Code | ScanState::Comment => None,
    };
    let mut ends = command[python..].rmatch_indices(engine).filter_map(|(at, name)| {
        let behind = python + at + name.len();
        let ends_word = |c: char| c.is_ascii_whitespace() || Some(c) == quote;
        let end = command[behind..].find(ends_word).map_or(command.len(), |more| behind + more);
        // What begins in quotes, or in a comment, is no word of this command.
        (state(behind - 1) != ScanState::Comment && state(end) == within).then_some(end)
    });
    ends.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_words_survive_the_shell() {
        for (token, expected) in
            [("a-b=c", "a-b=c"), ("", "''"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("$X", "'$X'"), ("é", "'é'")]
        {
            assert_eq!(literal(token), expected);
        }
    }

    #[test]
    fn words_keep_the_references_that_the_kubelet_would_replace() {
        for (token, expected) in [
            ("--model", "--model"),
            ("a b", "\"a b\""),
            ("{\"a\":\"b c\"}", r#""{\"a\":\"b c\"}""#),
            ("it's", "\"it's\""),
            ("$(MODEL)/x", "\"${MODEL}/x\""),
            ("$$(MODEL)", "\"\\$(MODEL)\""),
            ("$HOME", "\"\\$HOME\""),
            ("tcp://*:5571", "\"tcp://*:5571\""),
            ("a;b&c|d", "\"a;b&c|d\""),
            ("", "\"\""),
        ] {
            assert_eq!(word(token), expected);
        }
    }

    #[test]
    fn flags_go_behind_the_engine() {
        let table = [
            ("python3 -m dynamo.vllm --model m | tee x", "python3 -m dynamo.vllm F --model m | tee x"),
            ("cd x && exec python3.12 -u -m dynamo.vllm", "cd x && exec python3.12 -u -m dynamo.vllm F"),
            (
                "exec python3 -m dynamo.vllm \\\n  --cls vllm.v1.Async \\\n  --x",
                "exec python3 -m dynamo.vllm \\\n  --cls vllm.v1.Async F \\\n  --x",
            ),
            (
                "# the operator's python3 -m dynamo.vllm\npython3 -m dynamo.vllm --a\n",
                "# the operator's python3 -m dynamo.vllm\npython3 -m dynamo.vllm F --a\n",
            ),
            (
                "python3 -m dynamo.vllm --name 'my vllm model' --x",
                "python3 -m dynamo.vllm F --name 'my vllm model' --x",
            ),
            ("python3 -m dynamo.vllm --name \"vllm\" --x", "python3 -m dynamo.vllm --name \"vllm\" F --x"),
            (
                "if a; then python3 -m dynamo.vllm --a; else python3 -m dynamo.vllm --b; fi",
                "if a; then python3 -m dynamo.vllm F --a; else python3 -m dynamo.vllm F --b; fi",
            ),
            (
                "python3 -c 'import vllm' && python3 -m dynamo.vllm",
                "python3 -c 'import vllm' && python3 -m dynamo.vllm F",
            ),
            ("python3 -m vllm.entrypoints --x", "python3 -m vllm.entrypoints F --x"),
            ("python3 -m dynamo.vllm # not vllm alone", "python3 -m dynamo.vllm F # not vllm alone"),
            ("nsys bash -c \"python3 -m dynamo.vllm\"", "nsys bash -c \"python3 -m dynamo.vllm F\""),
            (
                "sh -c 'python3 -m dynamo.vllm --a | tee vllm.log'",
                "sh -c 'python3 -m dynamo.vllm F --a | tee vllm.log'",
            ),
        ];
        for (script, expected) in table {
            assert_eq!(with_flags(script, "F", "vllm").as_deref(), Some(expected), "{script}");
        }
    }

    #[test]
    fn scripts_without_the_engine_stay() {
        for script in ["", "./launch.sh", "python3 -m dynamo.sglang", "vllm serve", "# python3 -m dynamo.vllm"] {
            assert_eq!(with_flags(script, "F", "vllm"), None, "{script}");
        }
    }
}
