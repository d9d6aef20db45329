//! Grants over HTTP: what a decision permits, and its use for effects outside of Holdpoint.

mod handlers;
pub(crate) mod routes;
pub(crate) mod schemas;
