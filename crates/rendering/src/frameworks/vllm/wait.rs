//! The init container in which a worker waits for its leader.

use api_types::{names, ports};
use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, Container, PodSpec, Volume, VolumeMount};

use super::super::{Launch, Peers, multinode};
use crate::pod::env;

/// The program that waits. It reads `LEADER_HOST` and `LEADER_PORT`; graphs carry it in a ConfigMap.
pub const WAIT_FOR_LEADER: &str = include_str!("wait_for_leader.py");

/// Name of the init container.
pub(crate) const NAME: &str = "wait-for-leader-mp";
const VOLUME: &str = "wait-leader-script";
const FOLDER: &str = "/scripts";
/// Holds the program where no graph has a ConfigMap for it.
const PROGRAM: &str = "WAIT_FOR_LEADER";

/// Adds it.
pub(super) fn for_leader(launch: &Launch<'_>, peers: Peers<'_>, pod: &mut PodSpec, main: &Container) {
    let host = multinode::in_shell(&peers.leader());
    let mut container = Container { name: NAME.to_owned(), image: main.image.clone(), ..Container::default() };
    let program = match launch.graph {
        Some(graph) => {
            container.volume_mounts = Some(vec![VolumeMount {
                name: VOLUME.to_owned(),
                mount_path: FOLDER.to_owned(),
                read_only: Some(true),
                ..VolumeMount::default()
            }]);
            pod.volumes.get_or_insert_default().push(volume(graph));
            format!("{FOLDER}/{}", names::WAIT_LEADER_SCRIPT)
        }
        None => {
            container.env = Some(vec![env::value(PROGRAM, WAIT_FOR_LEADER)]);
            format!("-c \"${PROGRAM}\"")
        }
    };
    let port = ports::VLLM_MASTER;
    let script = format!("export LEADER_HOST=\"{host}\" LEADER_PORT=\"{port}\" && exec python3 {program}");
    container.command = Some(vec!["sh".to_owned(), "-c".to_owned(), script]);
    pod.init_containers.get_or_insert_default().push(container);
}

fn volume(graph: &str) -> Volume {
    let source =
        ConfigMapVolumeSource { name: names::wait_leader_config_map(graph), ..ConfigMapVolumeSource::default() };
    Volume { name: VOLUME.to_owned(), config_map: Some(source), ..Volume::default() }
}

#[cfg(test)]
mod tests {
    use super::{super::super::launch::tests::launch, *};

    fn waiting(graph: Option<&str>) -> PodSpec {
        let main = Container { image: Some("i".to_owned()), ..Container::default() };
        let mut pod = PodSpec::default();
        for_leader(&Launch { graph, ..launch(None) }, Peers::LeaderWorkerSet, &mut pod, &main);
        pod
    }

    #[test]
    fn in_a_graph_the_program_comes_from_its_config_map() {
        let pod = waiting(Some("g"));
        let container = &pod.init_containers.as_ref().unwrap()[0];
        assert_eq!(
            container.command.as_ref().unwrap()[2],
            "export LEADER_HOST=\"${LWS_LEADER_ADDRESS}\" LEADER_PORT=\"29500\" && exec python3 /scripts/wait-for-leader.py"
        );
        assert_eq!(container.image.as_deref(), Some("i"));
        assert_eq!(pod.volumes.unwrap()[0].config_map.as_ref().unwrap().name, "g-wait-leader-script");
    }

    /// It has no ConfigMap, and its pods would wait for ever.
    #[test]
    fn a_component_of_its_own_carries_the_program_itself() {
        let pod = waiting(None);
        assert_eq!(pod.volumes, None);
        let container = &pod.init_containers.as_ref().unwrap()[0];
        assert!(container.command.as_ref().unwrap()[2].ends_with("exec python3 -c \"$WAIT_FOR_LEADER\""));
        let program = container.env.as_ref().unwrap()[0].value.as_deref().unwrap();
        assert!(!program.contains("$("), "the kubelet would replace it");
    }
}
