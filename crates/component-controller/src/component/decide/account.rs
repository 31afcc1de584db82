//! The account of pods that have none of their own.

use workload::{RenderInput, TemplateDigest, ValidatedComponent, Workload};

/// The workload under the account that its pods shall have: the first that is labelled, or that of the live pods as long as it is
/// one of `labelled` and everything else of their templates is as rendered. To label another account must not roll them.
///
/// Pods that run under the namespace's default account, because none was labelled, keep it likewise once they have served.
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
    // One without a digest comes from another operator, and nobody can tell what else has changed.
    let digest = TemplateDigest::carried_by(live);
    let same = digest.is_none() || digest == TemplateDigest::carried_by(&as_live);
    if same && account_of(&as_live) == account_of(live) { as_live } else { rendered }
}

fn account_of(workload: &impl Workload) -> Option<&str> {
    workload.templates().first()?.spec.as_ref()?.service_account_name.as_deref()
}
