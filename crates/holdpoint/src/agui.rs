//! AG-UI: any front end of that protocol drives our agents and workflows, pauses included. Requests become commands,
//! events of runs become its events. No rules about runs live here.

mod answers;
mod capabilities;
mod custom;
mod follow;
mod history;
mod ids;
mod input;
mod interrupts;
mod messages;
mod order;
mod resume;
mod resuming;
pub(crate) mod routes;
mod run;
#[cfg(test)]
mod samples;
mod state;
mod stream;
mod target;
#[cfg(test)]
mod tests;
mod threads;
mod translate;
#[cfg(test)]
mod verifier;
