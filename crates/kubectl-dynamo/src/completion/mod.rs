//! Candidates for the word that a user types, and the answer to kubectl, which passes it on to the shell.
//!
//! Pure; names of objects are read by `observe`. The words of a command line are read up to the one that is typed.
//!
//! kubectl reads candidates from the standard output, one a line, each with an optional description after a tab. The
//! last line is a colon and a number, whose bits are directives of the library that kubectl completes with.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, Command, ValueEnum, ValueHint};

use crate::observe::{ConnectionArgs, Kind, Names};

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

/// Candidates for a word.
#[derive(Clone, Debug, Default)]
pub struct Completion {
    /// Candidates with their descriptions.
    pub candidates: Vec<(String, String)>,
    /// Objects whose names are candidates, too.
    pub names: Option<Names>,
    /// Whether files are candidates, too.
    pub files: bool,
    /// Beginning of all candidates.
    pub typed: String,
    /// The cluster and namespace that the words before name.
    pub connection: ConnectionArgs,
}

/// The candidates for the last word, after the words before it. `command` is the whole command line, built.
pub fn complete(command: &Command, words: &[String]) -> Completion {
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let mut reader = WordReader::new(command);
    before.iter().for_each(|word| reader.word(word));
    reader.complete(last)
}

/// State that was read from the words.
struct WordReader<'a> {
    /// The innermost subcommand.
    command: &'a Command,
    /// Its positional arguments.
    positionals: Vec<&'a str>,
    /// Flags that were given.
    given: BTreeSet<&'a str>,
    /// The flag whose value is the next word.
    pending: Option<&'a Arg>,
    /// Whether all further words are positional.
    only_positionals: bool,
    connection: ConnectionArgs,
}

impl<'a> WordReader<'a> {
    fn new(command: &'a Command) -> Self {
        Self {
            command,
            positionals: Vec::new(),
            given: BTreeSet::new(),
            pending: None,
            only_positionals: false,
            connection: ConnectionArgs::default(),
        }
    }

    fn word(&mut self, word: &'a str) {
        if let Some(flag) = self.pending.take() {
            self.value(flag, word);
        } else if self.only_positionals || !word.starts_with('-') || word == "-" {
            match self.command.find_subcommand(word).filter(|_| self.positionals.is_empty()) {
                Some(subcommand) => self.command = subcommand,
                None => self.positionals.push(word),
            }
        } else if word == "--" {
            self.only_positionals = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            self.flag(self.long(name), value);
        } else {
            for (at, letter) in word.char_indices().skip(1) {
                let flag = self.short(letter);
                let rest = word.get(at + letter.len_utf8()..).filter(|rest| !rest.is_empty());
                if flag.is_some_and(takes_value) {
                    return self.flag(flag, rest.map(|rest| rest.strip_prefix('=').unwrap_or(rest)));
                }
                self.flag(flag, None);
            }
        }
    }

    fn flag(&mut self, flag: Option<&'a Arg>, value: Option<&str>) {
        let Some(flag) = flag else { return };
        self.given.insert(flag.get_id().as_str());
        match value {
            Some(value) => self.value(flag, value),
            None => self.pending = Some(flag).filter(|flag| takes_value(flag)),
        }
    }

    fn value(&mut self, flag: &Arg, value: &str) {
        match flag.get_id().as_str() {
            "kubeconfig" => self.connection.kubeconfig = Some(value.into()),
            "context" => self.connection.context = Some(value.to_owned()),
            "namespace" => self.connection.namespace = Some(value.to_owned()),
            _ => {}
        }
    }

    fn long(&self, name: &str) -> Option<&'a Arg> {
        self.command.get_arguments().find(|arg| arg.get_long() == Some(name))
    }

    fn short(&self, letter: char) -> Option<&'a Arg> {
        self.command.get_arguments().find(|arg| arg.get_short() == Some(letter))
    }

    fn complete(self, last: &str) -> Completion {
        if let Some(flag) = self.pending {
            return self.values_of(flag, last);
        }
        if last.starts_with('-') && !self.only_positionals {
            // The shell puts a flag before the equals sign back.
            let assigned = last.strip_prefix("--").and_then(|long| long.split_once('='));
            return match assigned {
                Some((name, value)) => match self.long(name).filter(|flag| takes_value(flag)) {
                    Some(flag) => self.values_of(flag, value),
                    None => self.nothing(value),
                },
                None => self.flags(last),
            };
        }
        let (command, count) = (self.command, self.positionals.len());
        let repeated = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append);
        let next = command.get_positionals().nth(count).or_else(|| command.get_positionals().last().filter(repeated));
        let mut completion = match next {
            Some(arg) => self.values_of(arg, last),
            None => self.nothing(last),
        };
        if count == 0 {
            let visible = command.get_subcommands().filter(|one| !one.is_hide_set());
            completion.candidates.extend(visible.map(|one| (one.get_name().to_owned(), first_line(one.get_about()))));
        }
        completion
    }

    fn nothing(self, typed: &str) -> Completion {
        Completion { typed: typed.to_owned(), connection: self.connection, ..Completion::default() }
    }

    fn flags(self, typed: &str) -> Completion {
        let is_open = |arg: &&Arg| {
            let repeated = matches!(arg.get_action(), ArgAction::Append);
            !arg.is_hide_set() && (repeated || !self.given.contains(arg.get_id().as_str()))
        };
        let mut candidates = Vec::new();
        for arg in self.command.get_arguments().filter(is_open) {
            let about = first_line(arg.get_help());
            candidates.extend(arg.get_long().map(|long| (format!("--{long}"), about.clone())));
            candidates.extend(arg.get_short().map(|short| (format!("-{short}"), about)));
        }
        Completion { candidates, ..self.nothing(typed) }
    }

    fn values_of(self, arg: &Arg, typed: &str) -> Completion {
        let possible = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
        let mut candidates: Vec<_> =
            possible.map(|value| (value.get_name().to_owned(), first_line(value.get_help()))).collect();
        let names = self.names_of(arg, typed);
        match arg.get_id().as_str() {
            "target" if !typed.contains('/') => {
                candidates.extend(Kind::value_variants().iter().map(|kind| (format!("{kind}/"), String::new())));
            }
            "step" => candidates.push(("none".to_owned(), "the rollout goes on".to_owned())),
            _ => {}
        }
        let files = matches!(arg.get_value_hint(), ValueHint::AnyPath | ValueHint::FilePath);
        Completion { candidates, names, files, ..self.nothing(typed) }
    }

    /// Objects that an argument names, by its identifier.
    fn names_of(&self, arg: &Arg, typed: &str) -> Option<Names> {
        let components = |assigned| {
            let graph = (*self.positionals.first()?).to_owned();
            Some(Names::Components { graph, assigned })
        };
        match arg.get_id().as_str() {
            "graph" | "name" => Some(Names::Graphs),
            "target" => match typed.split_once('/') {
                Some((kind, _)) => {
                    let mut kinds = Kind::value_variants().iter().copied();
                    kinds.find(|known| known.to_string() == kind).map(Names::Objects)
                }
                None => Some(Names::Graphs),
            },
            "component" => components(false),
            "counts" | "image" => components(true),
            "namespace" | "operator_namespace" => Some(Names::Namespaces),
            "context" => Some(Names::Contexts),
            _ => None,
        }
    }
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values()
}

fn first_line(text: Option<&clap::builder::StyledStr>) -> String {
    text.map(|text| text.to_string().lines().next().unwrap_or_default().to_owned()).unwrap_or_default()
}
