//! The program under its other name, `kubectl_complete-dynamo`: candidates for kubectl's own completion.

use std::{sync::mpsc, thread, time::Duration};

use clap::CommandFactory;

use super::Cli;
use crate::{
    completion::{answer, complete as candidates},
    observe::{ConnectionArgs, Names, names},
};

/// The name by which kubectl runs the program to complete its words.
pub const COMPLETER: &str = "kubectl_complete-dynamo";
/// Longest time for names from the cluster; without them there are still commands and flags.
const LIMIT: Duration = Duration::from_secs(2);

/// Candidates for the last of the words that follow `kubectl dynamo`, as kubectl reads them.
pub fn complete(words: &[String]) -> String {
    let mut command = Cli::command();
    command.build();
    let completion = candidates(&command, words);
    let found = completion.names.clone().map(|names| read(completion.connection.clone(), names));
    answer(&completion, &found.unwrap_or_default())
}

/// Names from the cluster; none after an error or the time limit. A thread, because a program that gets a token for the
/// kubeconfig blocks.
fn read(connection: ConnectionArgs, of: Names) -> Vec<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let found = runtime.map(|runtime| runtime.block_on(names(&connection, &of)));
        // Fails after the time limit.
        let _ = sender.send(found.unwrap_or_default());
    });
    receiver.recv_timeout(LIMIT).unwrap_or_default()
}
