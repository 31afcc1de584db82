//! Command lines of engines: what they say, and how flags are added.

use api_types::v1beta1::BackendFramework;
use k8s_openapi::api::core::v1::Container;

use super::shell;
use crate::frameworks;

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "zsh", "ksh"];

/// Every word of command and arguments; scripts are taken apart at white space.
pub(super) fn words(main: &Container) -> Vec<&str> {
    line(main).flat_map(str::split_whitespace).map(|word| word.trim_matches(['"', '\''])).collect()
}

/// Command and arguments, as the container gets them.
pub(super) fn line(main: &Container) -> impl Iterator<Item = &str> {
    main.command.iter().flatten().chain(main.args.iter().flatten()).map(String::as_str)
}

/// Command and arguments as one text.
pub(super) fn text(main: &Container) -> String {
    line(main).collect::<Vec<_>>().join(" ")
}

/// Whether a flag is present, with or without a value.
pub(super) fn has_flag(words: &[&str], names: &[&str]) -> bool {
    words.iter().any(|word| names.contains(&word.split_once('=').map_or(*word, |(name, _)| name)))
}

/// The value of a flag, `--flag value` or `--flag=value`; the last one counts.
pub(super) fn value<'a>(words: &[&'a str], names: &[&str]) -> Option<&'a str> {
    let separate = words.windows(2).enumerate().filter(|(_, pair)| names.contains(&pair[0]));
    let joined = words.iter().enumerate().filter_map(|(at, word)| {
        let (name, value) = word.split_once('=')?;
        names.contains(&name).then_some((at, value))
    });
    let all = separate.map(|(at, pair)| (at, pair[1])).chain(joined);
    all.max_by_key(|(at, _)| *at).map(|(_, value)| value.trim_matches(['"', '\'']))
}

/// Whether a word is a Python interpreter.
fn is_python(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or_default();
    name.strip_prefix("python")
        .is_some_and(|version| version.split('.').all(|part| part.bytes().all(|b| b.is_ascii_digit())))
}

/// Whether the container runs a shell with a script.
pub(super) fn is_script(main: &Container) -> bool {
    let mut words = main.command.iter().flatten().map(String::as_str);
    let is_shell = words.next().is_some_and(|first| SHELLS.contains(&first.rsplit('/').next().unwrap_or_default()));
    let is_short_flag = |word: &str| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    is_shell && line(main).skip(1).any(is_short_flag)
}

/// Whether the container runs the engine's Python program without a shell around it.
fn is_direct(main: &Container, framework: BackendFramework) -> bool {
    let starts_python = main.command.iter().flatten().next().is_some_and(|first| is_python(first));
    let module = format!("dynamo.{framework}");
    starts_python || !is_script(main) && frameworks::runs_module(&text(main), &module)
}

/// Adds flags to the engine's command line; returns whether there was one.
///
/// A value that only a shell can compute needs one around a program that has none.
pub(crate) fn add_flags(main: &mut Container, flags: &str, needs_shell: bool, framework: BackendFramework) -> bool {
    if is_direct(main, framework) {
        if needs_shell {
            let line: Vec<String> = line(main).map(shell::word).collect();
            run_script(main, "sh", format!("exec {} {flags}", line.join(" ")));
        } else {
            main.args.get_or_insert_default().extend(flags.split_whitespace().map(str::to_owned));
        }
        return true;
    }
    let engine = framework.as_str();
    let texts = main.args.iter_mut().flatten().chain(main.command.iter_mut().flatten());
    for text in texts {
        if let Some(with_flags) = shell::with_flags(text, flags, engine) {
            *text = with_flags;
            return true;
        }
    }
    false
}

/// Makes the container run a script.
pub(super) fn run_script(main: &mut Container, shell: &str, script: String) {
    main.command = Some(vec![shell.to_owned(), "-c".to_owned()]);
    main.args = Some(vec![script]);
}

#[cfg(test)]
mod tests {
    use BackendFramework::{Sglang, Vllm};

    use super::*;
    use crate::frameworks::fixtures::{container, words_of};

    #[test]
    fn values_are_found_however_they_are_written() {
        let main = container(&["sh", "-c"], &["python3 -m dynamo.vllm -tp 8 --pp=2 --dp \"4\" --x --tp=16"]);
        let words = words(&main);
        assert_eq!(value(&words, &["-tp", "--tp"]), Some("16"));
        assert_eq!(value(&words, &["--pp"]), Some("2"));
        assert_eq!(value(&words, &["--dp"]), Some("4"));
        assert_eq!(value(&words, &["--y"]), None);
        assert!(has_flag(&words, &["--x"]) && has_flag(&words, &["--pp"]) && !has_flag(&words, &["--p"]));
    }

    #[test]
    fn flags_reach_the_engine_in_every_form() {
        type Row = (&'static [&'static str], &'static [&'static str], bool, &'static [&'static str]);
        let table: [Row; 8] = [
            (&["python3"], &["-m", "dynamo.vllm"], false, &["python3", "-m", "dynamo.vllm", "--a", "1"]),
            (&["/opt/bin/python3.11", "-m", "x"], &[], false, &["/opt/bin/python3.11", "-m", "x", "--a", "1"]),
            (
                &["python3", "-m", "dynamo.vllm"],
                &["--x", "b c"],
                true,
                &["sh", "-c", "exec python3 -m dynamo.vllm --x \"b c\" --a 1"],
            ),
            (
                &["numactl", "--interleave=all", "python3", "-m", "dynamo.vllm"],
                &[],
                false,
                &["numactl", "--interleave=all", "python3", "-m", "dynamo.vllm", "--a", "1"],
            ),
            (
                &["/bin/sh", "-c"],
                &["cd x && python3 -m dynamo.vllm --b"],
                true,
                &["/bin/sh", "-c", "cd x && python3 -m dynamo.vllm --a 1 --b"],
            ),
            (&["bash", "-lc", "python3 -m dynamo.vllm"], &[], false, &["bash", "-lc", "python3 -m dynamo.vllm --a 1"]),
            (&["/bin/sh", "-c"], &["./launch.sh"], false, &["/bin/sh", "-c", "./launch.sh"]),
            (&["engine"], &["serve"], false, &["engine", "serve"]),
        ];
        for (command, args, needs_shell, expected) in table {
            let mut main = container(command, args);
            let added = add_flags(&mut main, "--a 1", needs_shell, Vllm);
            assert_eq!(words_of(&main), expected);
            assert_eq!(added, expected.iter().any(|word| word.contains("--a") || *word == "1"), "{command:?} {args:?}");
        }
        assert!(!add_flags(&mut container(&["sh", "-c"], &["python3 -m dynamo.vllm"]), "--a", false, Sglang));
    }

    #[test]
    fn scripts_are_distinguished_from_programs() {
        for (command, script) in [
            (vec!["/bin/sh", "-c"], true),
            (vec!["bash", "-lc"], true),
            (vec!["bash"], false),
            (vec!["python3", "-c"], false),
            (vec![], false),
        ] {
            assert_eq!(is_script(&container(&command, &[])), script, "{command:?}");
        }
    }
}
