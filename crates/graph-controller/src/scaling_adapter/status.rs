//! Status of an adapter. Pure.

use api_types::v1beta1::DynamoGraphDeploymentScalingAdapterStatus as Status;
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::model::{ScaleOutcome, ScalingAdapterApplied};

/// Status after the writes; `None` if the adapter has no effect.
pub fn of_applied(applied: &ScalingAdapterApplied, now: Timestamp) -> Option<Status> {
    let status = &applied.plan.as_ref().ok()?.status;
    let scaled = matches!(applied.outcome, ScaleOutcome::Scaled).then_some(Time(now));
    Some(Status { last_scale_time: scaled.or(status.last_scale_time.clone()), ..status.clone() })
}
