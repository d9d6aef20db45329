//! The real program over real HTTP: started, spoken to, killed, started again.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

mod access;
mod answers_on_the_command_line;
mod bad_input;
mod command_line;
mod harness;
mod kills;
mod mailbox;
mod races;
mod reading;
mod start;
mod streams;
mod streams_asked;
mod wire;
