//! The rules of a run, told as stories: given what happened, when a command comes, then events or a refusal.

mod answers;
mod approvals;
mod clarifications;
mod endings;
mod graph;
mod interrupts;
mod nodes;
mod starting;
mod story;
mod time;
mod words;
