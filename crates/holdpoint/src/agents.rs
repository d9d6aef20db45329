//! Agents over HTTP: declaring them, talking to them in threads, deciding about their calls. No rules live here.

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
