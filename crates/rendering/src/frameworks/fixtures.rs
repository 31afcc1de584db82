//! Containers and pods for tests.

use api_types::names;
use k8s_openapi::api::core::v1::Container;

use super::{Launch, MultinodePod, command, vllm::executor::Executor};

pub(super) fn container(command: &[&str], args: &[&str]) -> Container {
    let list =
        |words: &[&str]| (!words.is_empty()).then(|| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
    Container { name: "main".to_owned(), command: list(command), args: list(args), ..Container::default() }
}

/// Command and arguments.
pub(super) fn words_of(main: &Container) -> Vec<&str> {
    command::line(main).collect()
}

/// A pod of the graph `graph` with nothing special about it.
pub(super) fn launch(multinode: Option<MultinodePod<'_>>) -> Launch<'_> {
    Launch {
        framework: None,
        cache: None,
        graph: Some("graph"),
        multinode,
        executor: Executor::Mp,
        shares_gpu_memory: false,
        stands_by: false,
        mpi_secret: names::MPI_SECRET,
        claimed_gpus: 0,
    }
}
