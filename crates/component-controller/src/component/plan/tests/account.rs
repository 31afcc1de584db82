//! The account of pods that have none of their own.

use super::*;

#[test]
fn an_account_that_is_labelled_rolls_nothing_that_runs() {
    let of = |observed: &ComponentObserved| {
        let workload = planned(observed, &etcd()).workload.unwrap();
        let spec = &workload.object()["spec"];
        let group = &spec["leaderWorkerTemplate"]["leaderTemplate"];
        let template = if group.is_null() { &spec["template"] } else { group };
        (template["spec"]["serviceAccountName"].as_str().unwrap().to_owned(), workload)
    };
    for (component, is_set) in [(component("worker"), false), (spanning("worker"), true)] {
        for (labelled, later, serves, account) in [
            (vec!["b"], vec!["a", "b"], true, "b"),
            (vec!["b"], vec!["a", "b"], false, "b"),
            (vec!["b"], vec!["a"], true, "a"),
            (vec!["b"], vec![], true, "default"),
            (vec![], vec!["a"], true, "default"),
            (vec![], vec!["a"], false, "a"),
        ] {
            let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
            let mut observed = observed(component.clone());
            observed.accounts = names(&labelled);
            let mut before = applied(&of(&observed).1);
            let one = i32::from(serves);
            before["status"] = json!({ "replicas": 2, "availableReplicas": one, "readyReplicas": one });
            (observed.deployment, observed.leader_worker_set) =
                if is_set { (None, live(before.clone())) } else { (live(before.clone()), None) };
            observed.accounts = names(&later);
            let (found, workload) = of(&observed);
            assert_eq!(found, account, "{labelled:?} {later:?} {serves}");
            let kept = found == *labelled.first().unwrap_or(&"default");
            assert_eq!(plan_write(workload.object(), &before, UID, false) == Write::Skip, kept, "{later:?}");
            // The next change rolls anyway, and takes it along.
            let template = observed.component.spec.component.pod_template.as_mut().unwrap();
            template.spec.as_mut().unwrap().containers[0].args.as_mut().unwrap().push("--more".to_owned());
            assert_eq!(of(&observed).0, *later.first().unwrap_or(&"default"), "{later:?}");
        }
    }
}
