//! Reads from the API server, with the rights of the user.

mod connection;

pub use connection::{Connection, ConnectionArgs, Read};
