//! Replicas that span nodes: which pod of one this is, and how it finds the others.

/// One pod's place in a replica that spans nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultinodePod<'a> {
    /// Role of the pod within its replica.
    pub role: NodeRole,
    /// Pods of one replica, at least two.
    pub nodes: i32,
    /// Method by which the pods of a replica find each other.
    pub peers: Peers<'a>,
}

/// Role of a pod within its replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRole {
    /// Rank 0: answers requests and leads the others.
    Leader,
    /// Any other rank.
    Worker,
}

impl NodeRole {
    /// The value of the label [`ROLE`](api_types::labels::ROLE).
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Worker => "worker",
        }
    }
}

/// Method by which the pods of one replica find each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers<'a> {
    /// A group of a LeaderWorkerSet.
    LeaderWorkerSet,
    /// A replica of a Grove scaling group with a clique of one leader and a clique of all workers.
    Grove {
        /// Name of the component, in its original case.
        component: &'a str,
    },
    /// A replica of a Grove scaling group with a clique for each rank. Pods of the same index belong together.
    GroveRanks {
        /// Name of the component, in its original case.
        component: &'a str,
        /// Rank of the pod.
        rank: i32,
    },
}

/// Suffix of the clique that holds a component's leader.
pub const LEADER_CLIQUE: &str = "ldr";
/// Suffix of the clique that holds a component's workers.
pub const WORKER_CLIQUE: &str = "wkr";

/// The rank of a pod, as text for a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rank {
    /// As the value of a flag.
    pub(super) flag: String,
    /// Within an arithmetic expression of a shell.
    pub(super) arithmetic: String,
    /// Whether only a shell can make a number of [`flag`](Self::flag); the kubelet replaces plain references itself.
    pub(super) needs_shell: bool,
}

impl Peers<'_> {
    /// Host name of the leader, with references that the kubelet replaces.
    pub(super) fn leader(&self) -> String {
        match self {
            Self::LeaderWorkerSet => "$(LWS_LEADER_ADDRESS)".to_owned(),
            Self::Grove { component } => grove_host(component, &format!("{LEADER_CLIQUE}-0")),
            Self::GroveRanks { component, .. } => {
                grove_host(component, &format!("{LEADER_CLIQUE}-$(GROVE_PCLQ_POD_INDEX)"))
            }
        }
    }

    /// Rank of the pod, which has this role.
    pub(super) fn rank(&self, role: NodeRole) -> Rank {
        const AFTER_LEADER: &str = "$((GROVE_PCLQ_POD_INDEX + 1))";
        if role == NodeRole::Leader {
            return Rank { flag: "0".to_owned(), arithmetic: "0".to_owned(), needs_shell: false };
        }
        let (flag, arithmetic, needs_shell) = match self {
            // Within `$((…))` the kubelet replaces nothing: it takes everything up to the first `)` for a name.
            Self::LeaderWorkerSet => ("$(LWS_WORKER_INDEX)".to_owned(), "LWS_WORKER_INDEX".to_owned(), false),
            Self::Grove { .. } => (AFTER_LEADER.to_owned(), AFTER_LEADER.to_owned(), true),
            Self::GroveRanks { rank, .. } => (rank.to_string(), rank.to_string(), false),
        };
        Rank { flag, arithmetic, needs_shell }
    }

    /// Host names of all pods of a replica, the leader first, as words of a shell.
    pub(super) fn hosts_in_shell(&self, nodes: i32) -> Vec<String> {
        let leader = in_shell(&self.leader());
        let workers = (1..nodes).map(|rank| match self {
            Self::LeaderWorkerSet => {
                format!("${{LWS_LEADER_ADDRESS%%.*}}-{rank}.${{LWS_LEADER_ADDRESS#*.}}")
            }
            Self::Grove { component } => in_shell(&grove_host(component, &format!("{WORKER_CLIQUE}-{}", rank - 1))),
            Self::GroveRanks { component, .. } => {
                in_shell(&grove_host(component, &format!("{WORKER_CLIQUE}-{rank}-$(GROVE_PCLQ_POD_INDEX)")))
            }
        });
        std::iter::once(leader).chain(workers).collect()
    }
}

fn grove_host(component: &str, pod: &str) -> String {
    let component = component.to_lowercase();
    format!("$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-{component}-{pod}.$(GROVE_HEADLESS_SERVICE)")
}

/// References for the kubelet as references for a shell.
///
/// A shell sees every variable; the kubelet only those before the one that refers to them.
pub(super) fn in_shell(text: &str) -> String {
    text.replace("$(", "${").replace(')', "}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROVE: Peers<'_> = Peers::Grove { component: "Dec" };
    const RANKS: Peers<'_> = Peers::GroveRanks { component: "Dec", rank: 1 };
    const POD: &str = "$(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-dec";

    #[test]
    fn the_leader_is_found_by_its_host_name() {
        assert_eq!(Peers::LeaderWorkerSet.leader(), "$(LWS_LEADER_ADDRESS)");
        assert_eq!(GROVE.leader(), format!("{POD}-ldr-0.$(GROVE_HEADLESS_SERVICE)"));
        assert_eq!(RANKS.leader(), format!("{POD}-ldr-$(GROVE_PCLQ_POD_INDEX).$(GROVE_HEADLESS_SERVICE)"));
    }

    #[test]
    fn all_hosts_are_words_of_a_shell() {
        assert_eq!(
            Peers::LeaderWorkerSet.hosts_in_shell(3),
            [
                "${LWS_LEADER_ADDRESS}",
                "${LWS_LEADER_ADDRESS%%.*}-1.${LWS_LEADER_ADDRESS#*.}",
                "${LWS_LEADER_ADDRESS%%.*}-2.${LWS_LEADER_ADDRESS#*.}"
            ]
        );
        let pod = "${GROVE_PCSG_NAME}-${GROVE_PCSG_INDEX}-dec";
        let hosts = GROVE.hosts_in_shell(3);
        assert_eq!(hosts[2], format!("{pod}-wkr-1.${{GROVE_HEADLESS_SERVICE}}"));
        let hosts = RANKS.hosts_in_shell(2);
        assert_eq!(hosts[1], format!("{pod}-wkr-1-${{GROVE_PCLQ_POD_INDEX}}.${{GROVE_HEADLESS_SERVICE}}"));
    }
}
