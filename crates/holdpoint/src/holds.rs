//! Holds: one question of a program that has no workflow for it. A hold is a run, so that it waits, is answered and is
//! told of like everything else.

pub(crate) mod handlers;
pub(crate) mod routes;
mod translate;
