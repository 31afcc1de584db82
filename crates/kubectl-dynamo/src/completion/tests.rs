//! Words and their candidates.

use clap::CommandFactory;

use super::*;
use crate::{
    KubectlDynamoArgs,
    observe::{Kind, Names},
};

fn completion(words: &str) -> Completion {
    let mut command = KubectlDynamoArgs::command();
    command.build();
    let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
    complete(&command, &words)
}

/// Candidates without descriptions, and the directive.
fn shown(words: &str, names: &[&str]) -> (Vec<String>, String) {
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let text = answer(&completion(words), &names);
    let mut lines: Vec<_> = text.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect();
    let directive = lines.pop().unwrap();
    (lines, directive)
}

#[test]
fn words_have_their_candidates() {
    for (words, candidates, directive) in [
        ("ro", &["rollout"][..], ":4"),
        ("rollout ", &["help", "pause", "restart", "resume", "status", "step", "undo"], ":4"),
        ("rollout re", &["restart", "resume"], ":4"),
        ("--context x rollout p", &["pause"], ":4"),
        ("-n team rollout p", &["pause"], ":4"),
        ("-nteam rollout p", &["pause"], ":4"),
        ("-n=team rollout p", &["pause"], ":4"),
        ("status --w", &["--watch"], ":4"),
        ("status -w -A --all-n", &[], ":4"),
        ("plan chat --set a=b --s", &["--server-side", "--set"], ":4"),
        ("tree chat -o ", &["json", "name", "table", "wide", "yaml"], ":4"),
        ("tree chat --output j", &["json"], ":4"),
        ("tree chat --output=j", &["json"], ":4"),
        ("tree chat -o json -", &["--context", "--help", "--kubeconfig", "--namespace", "-h", "-n"], ":4"),
        ("convert --to v1", &["v1alpha1", "v1beta1"], ":4"),
        ("convert -f ", &[], ":0"),
        ("convert --file=gr", &[], ":0"),
        ("--kubeconfig ", &[], ":0"),
        ("completion ", &["bash", "fish", "zsh"], ":4"),
        ("rollout step chat n", &["none"], ":4"),
        ("why dc", &["dcd/"], ":6"),
        ("logs chat decode more ", &[], ":4"),
        ("tree -- -", &[], ":4"),
        ("no-such-command --x=", &[], ":4"),
    ] {
        let expected = candidates.iter().map(|&word| word.to_owned()).collect();
        assert_eq!(shown(words, &[]), (expected, directive.to_owned()), "{words:?}");
    }
}

#[test]
fn words_have_names_from_the_cluster() {
    let components = |assigned| Some(Names::Components { graph: "chat".to_owned(), assigned });
    for (words, names) in [
        ("tree ", Some(Names::Graphs)),
        ("tree -o json c", Some(Names::Graphs)),
        ("tree chat ", None),
        ("plan c", Some(Names::Graphs)),
        ("rollout undo ", Some(Names::Graphs)),
        ("logs chat ", components(false)),
        ("scale chat ", components(true)),
        ("scale chat decode=2 pre", components(true)),
        ("plan chat --image ", components(true)),
        ("plan --image ", None),
        ("why c", Some(Names::Graphs)),
        ("why dcd/", Some(Names::Objects(Kind::Component))),
        ("why pod/", None),
        ("tree -n ", Some(Names::Namespaces)),
        ("plan chat --operator-namespace=d", Some(Names::Namespaces)),
        ("--context ", Some(Names::Contexts)),
        ("tree --ou", None),
        ("", None),
    ] {
        assert_eq!(completion(words).names, names, "{words:?}");
    }
}

#[test]
fn names_are_candidates_beside_words() {
    let strings = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
    assert_eq!(shown("why c", &["chat", "other"]), (strings(&["chat", "checkpoint/"]), ":4".to_owned()));
    assert_eq!(shown("scale chat ", &["decode=", "prefill="]), (strings(&["decode=", "prefill="]), ":6".to_owned()));
    assert_eq!(shown("scale chat decode=", &["decode="]), (strings(&["decode="]), ":6".to_owned()));
    assert_eq!(answer(&completion("roll"), &[]).lines().next().unwrap().split('\t').count(), 2, "a description");
}

#[test]
fn the_cluster_is_the_one_that_the_words_name() {
    for words in ["-n team --context x --kubeconfig f tree ", "tree -nteam --context=x --kubeconfig=f "] {
        let connection = completion(words).connection;
        let texts = (connection.namespace.as_deref(), connection.context.as_deref());
        assert_eq!(texts, (Some("team"), Some("x")), "{words:?}");
        assert_eq!(connection.kubeconfig, Some("f".into()), "{words:?}");
    }
}

/// Positional arguments are names of objects or have a list of values.
#[test]
fn every_positional_argument_has_candidates() {
    fn check(command: &clap::Command, path: &str) {
        for (index, _) in command.get_positionals().enumerate() {
            let words = format!("{path} {}", "x ".repeat(index));
            let words = words.trim_start();
            let found = completion(words);
            let has_some = found.names.is_some() || !found.candidates.is_empty() || found.files;
            assert!(has_some, "{words:?}");
        }
        for subcommand in command.get_subcommands().filter(|one| one.get_name() != "help") {
            check(subcommand, &format!("{path} {}", subcommand.get_name()));
        }
    }
    let mut command = KubectlDynamoArgs::command();
    command.build();
    check(&command, "");
}
