//! Preview of an edit of a graph, computed by the code of the controllers that will carry it out.
//!
//! | module | what |
//! |---|---|
//! | `observe` | reads what the controllers' caches hold, and fills caches from objects in memory |
//! | `run` | reconciles the graph and its components against objects in memory until nothing changes any more |
//! | `objects` | objects in memory, and writes to them; `field_sets` is server-side apply; pure |
//! | `pods` | what workloads make of their pods; pure |
//! | `edit` | a user's edit of a graph; pure |
//! | `diff` | fields in which two objects differ; pure |
//! | `prediction` | the result; pure |
//! | `text` | the result for people; pure |

mod diff;
mod edit;
mod field_sets;
mod objects;
mod observe;
mod pods;
mod prediction;
mod run;
mod text;

pub use self::{
    diff::{FieldChange, edits, field_changes},
    edit::{set, set_image},
    observe::{Operator, dry_run::Edit},
    prediction::{ObjectChange, Prediction, RevisionNames, replaced},
    run::predict,
    text::overview,
};
