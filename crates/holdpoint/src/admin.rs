//! What operators use: keys, secrets, health, numbers. Not part of any protocol.

pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod metrics;
pub(crate) mod routes;
pub(crate) mod secrets;
pub(crate) mod usage;
