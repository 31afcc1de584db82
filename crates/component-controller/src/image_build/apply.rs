//! I/O out: carries a decision on an image build out.

use super::decide::{Decision, Stage};
use controller_kit::{
    apply::{Applier, Desired, Outcome},
    failure::Class,
    read::Interruption,
};

/// What became of a decision.
#[derive(Debug)]
pub struct Acted {
    /// Where the build stands.
    pub stage: Stage,
    /// Whether a Job was made.
    pub made: bool,
}

/// Carries a decision out. Jobs of earlier specs go first: they would push an image that nobody wants any more.
///
/// # Errors
/// What goes away by itself.
pub async fn apply(applier: &Applier, uid: &str, decision: Decision) -> Result<Acted, Interruption> {
    for job in &decision.delete {
        applier.delete(job, uid).await?;
    }
    let mut acted = Acted { stage: decision.stage, made: false };
    if let Some(job) = decision.make {
        match applier.apply(&Desired::of(job.as_ref(), uid)?, None).await {
            Ok(outcome) => acted.made = matches!(outcome, Outcome::Created(_)),
            Err(error) => {
                let message = error.to_string();
                acted.stage = match error.class() {
                    Class::Foreign | Class::Forbidden => Stage::Blocked(message),
                    Class::Invalid => Stage::Mistaken(message),
                    Class::Transient => return Err(error.into()),
                };
            }
        }
    }
    Ok(acted)
}
