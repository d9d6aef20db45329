//! The mailbox over HTTP, for operators: dispatches with their claims and attempts. The rules are in the core.

pub(crate) mod dispatches;
pub(crate) mod routes;
#[cfg(test)]
mod tests;
mod translate;
