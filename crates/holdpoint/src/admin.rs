//! Routes for operators: keys, secrets, health, metrics, usage. They belong to no protocol.

pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod metrics;
pub(crate) mod routes;
pub(crate) mod secrets;
pub(crate) mod usage;
