//! AG-UI: endpoints through which AG-UI front ends run agents and workflows and answer their interrupts. Translates
//! requests into commands, and events of runs into AG-UI events. Rules about runs are in the core.

mod answers;
mod branches;
mod capabilities;
mod client_order;
mod custom_interrupts;
mod history;
mod ids;
mod input;
mod interrupts;
mod messages;
mod open_interrupts;
mod resume_execution;
mod resume_plan;
pub(crate) mod routes;
mod run;
mod shown_interrupts;
mod state;
mod stream;
mod subagents;
mod target;
#[cfg(test)]
mod test_runs;
#[cfg(test)]
mod tests;
mod threads;
mod translate;
#[cfg(test)]
mod verifier;
