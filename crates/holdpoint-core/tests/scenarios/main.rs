//! The rules of a run, told as stories: given what happened, when a command comes, then events or a refusal.

mod answers;
mod approvals;
mod asks;
mod branches;
mod caps;
mod channels;
mod children;
mod clarifications;
mod confidence;
mod conversations;
mod endings;
mod governance;
mod graph;
mod interrupts;
mod loops;
mod nodes;
mod pauses;
mod people;
mod quorums;
mod requests;
mod retries;
mod starting;
mod story;
mod time;
mod variables;
mod words;
