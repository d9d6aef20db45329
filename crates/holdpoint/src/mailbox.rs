//! The queues behind the runs: what is to be carried out, by whom, and how often it was tried. For operators; no rules
//! live here.

pub(crate) mod dispatches;
pub(crate) mod routes;
#[cfg(test)]
mod tests;
mod translate;
