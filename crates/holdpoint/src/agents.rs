//! Agents over HTTP: definitions, threads, decisions about tool calls. The rules are in the core.

pub(crate) mod decisions;
pub(crate) mod definitions;
pub(crate) mod folder;
pub(crate) mod routes;
pub(crate) mod runs;
#[cfg(test)]
mod tests;
pub(crate) mod threads;
mod translate;
mod waiting;
