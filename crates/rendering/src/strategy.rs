//! Strategy by which a Deployment replaces its pods.

use std::collections::BTreeMap;

use api_types::{annotations, violations::Violation};
use k8s_openapi::{
    api::apps::v1::{DeploymentStrategy, RollingUpdateDeployment},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::violation::keep;

const DEFAULT_STEP: &str = "25%";
const RECREATE: &str = "Recreate";
const ROLLING_UPDATE: &str = "RollingUpdate";
const FIELD: &str = "spec.podTemplate.metadata.annotations";

/// Strategy by which a Deployment replaces its pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutStrategy {
    /// All old pods go before the first new one comes.
    Recreate,
    /// Step by step; both steps are a count, or a percentage of the desired replicas.
    RollingUpdate {
        /// Pods above the desired count.
        max_surge: IntOrString,
        /// Pods below the desired count.
        max_unavailable: IntOrString,
    },
}

impl RolloutStrategy {
    /// Reads the strategy from the annotations of a pod template; absent ones mean a rolling update of 25 %.
    ///
    /// # Errors
    /// Every annotation that is neither a count nor a percentage, and two steps of zero, with which nothing can move.
    pub fn from_annotations(annotations: Option<&BTreeMap<String, String>>) -> Result<Self, Vec<Violation>> {
        let value = |key| annotations.and_then(|all| all.get(key)).map(String::as_str).unwrap_or_default();
        if value(annotations::DEPLOYMENT_STRATEGY) == RECREATE {
            return Ok(Self::Recreate);
        }
        let mut violations: Vec<Violation> = Vec::new();
        let surge = keep(&mut violations, step(annotations::MAX_SURGE, value(annotations::MAX_SURGE)));
        let unavailable =
            keep(&mut violations, step(annotations::MAX_UNAVAILABLE, value(annotations::MAX_UNAVAILABLE)));
        match (surge, unavailable) {
            (Some(max_surge), Some(max_unavailable)) if is_zero(&max_surge) && is_zero(&max_unavailable) => {
                let key = annotations::MAX_UNAVAILABLE;
                let problem = "is zero while the surge is zero as well, so no pod could ever be replaced";
                Err(vec![Violation::invalid(format!("{FIELD}[{key}]"), value(key), problem, "raise one of the two")])
            }
            (Some(max_surge), Some(max_unavailable)) => Ok(Self::RollingUpdate { max_surge, max_unavailable }),
            _ => Err(violations),
        }
    }

    /// The strategy as a Deployment states it.
    pub(crate) fn to_deployment_strategy(&self) -> DeploymentStrategy {
        match self {
            Self::Recreate => DeploymentStrategy { type_: Some(RECREATE.to_owned()), rolling_update: None },
            Self::RollingUpdate { max_surge, max_unavailable } => DeploymentStrategy {
                type_: Some(ROLLING_UPDATE.to_owned()),
                rolling_update: Some(RollingUpdateDeployment {
                    max_surge: Some(max_surge.clone()),
                    max_unavailable: Some(max_unavailable.clone()),
                }),
            },
        }
    }
}

fn step(key: &str, value: &str) -> Result<IntOrString, Violation> {
    let value = if value.is_empty() { DEFAULT_STEP } else { value };
    let digits = value.strip_suffix('%').unwrap_or(value);
    let number = Some(digits).filter(|d| d.bytes().all(|b| b.is_ascii_digit())).and_then(|d| d.parse::<i32>().ok());
    match number {
        Some(_) if digits.len() < value.len() => Ok(IntOrString::String(value.to_owned())),
        Some(count) => Ok(IntOrString::Int(count)),
        None => {
            let (problem, remedy) =
                ("is neither a count nor a percentage", "write a whole number such as 1, or a percentage such as 25%");
            Err(Violation::invalid(format!("{FIELD}[{key}]"), value, problem, remedy))
        }
    }
}

fn is_zero(step: &IntOrString) -> bool {
    match step {
        IntOrString::Int(count) => *count == 0,
        IntOrString::String(percentage) => percentage.trim_end_matches('%').bytes().all(|b| b == b'0'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<RolloutStrategy, Vec<Violation>> {
        let annotations = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        RolloutStrategy::from_annotations(Some(&annotations))
    }

    fn rolling(max_surge: IntOrString, max_unavailable: IntOrString) -> RolloutStrategy {
        RolloutStrategy::RollingUpdate { max_surge, max_unavailable }
    }

    fn percent(value: &str) -> IntOrString {
        IntOrString::String(value.to_owned())
    }

    #[test]
    fn annotations_choose_the_strategy() {
        let table = [
            (vec![], rolling(percent("25%"), percent("25%"))),
            (vec![(annotations::MAX_SURGE, "2")], rolling(IntOrString::Int(2), percent("25%"))),
            (
                vec![(annotations::MAX_SURGE, "100%"), (annotations::MAX_UNAVAILABLE, "0")],
                rolling(percent("100%"), IntOrString::Int(0)),
            ),
            (vec![(annotations::DEPLOYMENT_STRATEGY, "Recreate")], RolloutStrategy::Recreate),
            (vec![(annotations::DEPLOYMENT_STRATEGY, "Whatever")], rolling(percent("25%"), percent("25%"))),
            (
                vec![(annotations::DEPLOYMENT_STRATEGY, "Recreate"), (annotations::MAX_SURGE, "junk")],
                RolloutStrategy::Recreate,
            ),
        ];
        for (pairs, expected) in table {
            assert_eq!(read(&pairs).unwrap(), expected, "{pairs:?}");
        }
    }

    #[test]
    fn what_is_no_step_is_reported_for_each_annotation() {
        let violations = read(&[(annotations::MAX_SURGE, "-1"), (annotations::MAX_UNAVAILABLE, "a few")]).unwrap_err();
        assert_eq!(violations.len(), 2);
        assert!(violations[0].path.ends_with("max-surge]"), "{}", violations[0]);
        assert!(read(&[(annotations::MAX_SURGE, "0"), (annotations::MAX_UNAVAILABLE, "0%")]).is_err());
        assert!(read(&[(annotations::MAX_SURGE, "+1")]).is_err());
    }
}
