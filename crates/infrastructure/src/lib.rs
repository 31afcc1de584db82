//! NATS and etcd, as far as an operator has to do with them: whether they can be used, and what a graph that is gone
//! has left in them.
//!
//! - [`Nats`], by `async-nats`.
//! - [`Etcd`], by `etcd-client`. It is made from protobuf files when it is built; the compiler for them comes along
//!   (`xtask/protoc`).
//! - [`layout`]: where the runtime keeps what, pure.
//! - [`Credentials`]: what one Secret holds for both.
//!
//! Connections live as long as a question: the operator asks seldom, and an idle connection would have to be watched.

mod address;
mod credentials;
mod deadline;
mod error;
mod etcd;
pub mod layout;
mod nats;

pub use credentials::{Credentials, CredentialsError};
pub use error::Error;
pub use etcd::Etcd;
pub use nats::Nats;
