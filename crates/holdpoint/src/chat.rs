//! The chat contract: starts a graph of any provider, and answers its interrupts by state key. Rules about graphs are
//! in the engine.

mod events;
pub(crate) mod handlers;
pub(crate) mod routes;
mod stream;
#[cfg(test)]
mod tests;
mod translate;
