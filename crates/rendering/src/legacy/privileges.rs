//! What pods may do that others may not: annotations of the legacy API on a service.

use std::collections::BTreeSet;

use api_types::{conversion::preserved::archive::Privilege, v1beta1::ComponentSpec};
use k8s_openapi::api::core::v1::SecurityContext;

use super::template::{main, pod};

const TRACE: &str = "SYS_PTRACE";

/// Lets the pods of a component do more. What its user says in the pod stays.
pub(super) fn grant(component: &mut ComponentSpec, privileges: &BTreeSet<Privilege>) {
    for privilege in privileges {
        match privilege {
            Privilege::Privileged => {
                security(component).privileged.get_or_insert(true);
            }
            Privilege::Ptrace => {
                let added = security(component).capabilities.get_or_insert_default().add.get_or_insert_default();
                if !added.iter().any(|capability| capability == TRACE) {
                    added.push(TRACE.to_owned());
                }
            }
            Privilege::Root => {
                security(component).run_as_user.get_or_insert(0);
            }
            Privilege::HostIpc => {
                pod(component).host_ipc.get_or_insert(true);
            }
            Privilege::HostNetwork => {
                pod(component).host_network.get_or_insert(true);
            }
            Privilege::HostPid => {
                pod(component).host_pid.get_or_insert(true);
            }
        }
    }
}

fn security(component: &mut ComponentSpec) -> &mut SecurityContext {
    main(component).security_context.get_or_insert_default()
}
