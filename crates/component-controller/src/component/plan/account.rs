//! ServiceAccount of pods whose template names none.

use rendering::{RenderInput, TemplateDigest, ValidatedComponent, Workload};

/// Renders a workload with its account: the first of `labelled`; or the live one, if it is still labelled and the rest
/// of the template is unchanged, so that labelling another account rolls no pod.
///
/// Pods that have served under the default account of the namespace keep it for the same reason.
pub(super) fn render<W: Workload>(
    input: &RenderInput<'_>,
    valid: &ValidatedComponent<'_>,
    labelled: &[String],
    live: Option<&W>,
    render: impl Fn(&RenderInput<'_>, &ValidatedComponent<'_>) -> W,
) -> W {
    let rendered = render(input, valid);
    let Some(live) = live else { return rendered };
    let known = labelled.iter().map(String::as_str).find(|account| Some(*account) == account_of(live));
    if known == input.fallback_service_account || (known.is_none() && !live.has_served()) {
        return rendered;
    }
    let as_live = render(&RenderInput { fallback_service_account: known, ..*input }, valid);
    // A workload of another operator has no digest, so other changes cannot be recognized.
    let digest = TemplateDigest::carried_by(live);
    let same = digest.is_none() || digest == TemplateDigest::carried_by(&as_live);
    if same && account_of(&as_live) == account_of(live) { as_live } else { rendered }
}

fn account_of(workload: &impl Workload) -> Option<&str> {
    workload.templates().first()?.spec.as_ref()?.service_account_name.as_deref()
}
