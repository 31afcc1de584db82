//! I/O out: carries a decision on an image build out.

use std::time::Instant;

use controller_kit::{
    apply::{Applier, Desired, Error, Outcome},
    failure::Class,
    read::Interruption,
    store::Key,
};
use k8s_openapi::api::batch::v1::Job;
use serde_json::Value;

use super::{
    decide::{Decision, Stage},
    slots::Slots,
};

/// What became of a decision.
#[derive(Debug)]
pub struct Acted {
    /// Where the build stands.
    pub stage: Stage,
    /// Whether a Job was made.
    pub made: bool,
}

/// Who builds.
#[derive(Clone, Copy, Debug)]
pub struct Builder<'a> {
    /// Namespace and name of the component.
    pub key: &'a Key,
    /// Its uid.
    pub uid: &'a str,
}

/// Carries a decision out. Jobs of earlier specs go first: they would push an image that nobody wants any more.
///
/// # Errors
/// What goes away by itself.
pub async fn apply(
    applier: &Applier,
    slots: &Slots,
    builder: Builder<'_>,
    decision: Decision,
) -> Result<Acted, Interruption> {
    for job in &decision.delete {
        let deleted = applier.delete(job, builder.uid).await;
        // Nobody waits for who cannot go on.
        deleted.inspect_err(|_| slots.leave(builder.key, Instant::now()))?;
    }
    let mut acted = Acted { stage: decision.stage, made: false };
    let Some(job) = decision.make else {
        slots.leave(builder.key, Instant::now());
        return Ok(acted);
    };
    if !slots.take(builder.key, &Key::of(job.as_ref()), Instant::now()) {
        let most = slots.most();
        acted.stage = Stage::Queued(format!("at most {most} builds run at a time, and others come first"));
        return Ok(acted);
    }
    match make(applier, slots, builder, &job).await {
        Ok(outcome) => acted.made = matches!(outcome, Outcome::Created(_)),
        Err(error) => {
            let message = error.to_string();
            acted.stage = match error.class() {
                Class::Foreign | Class::Forbidden => Stage::Blocked(message),
                Class::Invalid => Stage::Mistaken(message),
                Class::Webhook => Stage::Unreachable(message),
                Class::Transient => return Err(error.into()),
            };
        }
    }
    Ok(acted)
}

/// Makes the Job in the slot that it was given. Where nobody knows whether it is made, it keeps the slot for a while.
async fn make(applier: &Applier, slots: &Slots, builder: Builder<'_>, job: &Job) -> Result<Outcome, Error> {
    let key = Key::of(job);
    let desired = Desired::of(job, builder.uid).inspect_err(|_| slots.give_back(&key, Instant::now()))?;
    let answer = applier.apply(&desired, None).await;
    match &answer {
        Ok(Outcome::Created(live) | Outcome::Updated(live)) => slots.made(&key, version(live), Instant::now()),
        Ok(Outcome::Unchanged) => {}
        Ok(Outcome::Waiting { .. }) => slots.give_back(&key, Instant::now()),
        Err(error) if error.class() != Class::Transient || error.is_not_found() => {
            slots.give_back(&key, Instant::now());
        }
        Err(_) => {}
    }
    answer
}

fn version(live: &Value) -> Option<u64> {
    live.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
}
