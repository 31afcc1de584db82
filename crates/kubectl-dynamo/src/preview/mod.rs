//! What an edit of a graph will do, by the code of the controllers that will do it.
//!
//! | module | what |
//! |---|---|
//! | `observe` | reads what the controllers' caches hold, and fills caches from objects in memory |
//! | `run` | reconciles the graph and its components against objects in memory until nothing changes any more |
//! | `objects` | objects in memory, and writes to them; `field_sets` is server-side apply; pure |
//! | `pods` | what workloads make of their pods; pure |
//! | `edit` | a user's edit of a graph; pure |
//! | `prediction` | the result; pure |
//! | `text` | the result for people; pure |

mod differences;
mod edit;
mod field_sets;
mod objects;
mod observe;
mod pods;
mod prediction;
mod quotas;
mod run;
mod text;
mod timeline;

pub use differences::{FieldChange, differences};
pub use edit::{set, set_image};
pub use observe::{Operator, dry_run::Edit};
pub use prediction::{ObjectChange, PodStep, Prediction, Revision, replaced};
pub use run::predict;
pub use text::overview;
