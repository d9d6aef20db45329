//! The real program over real HTTP: started, spoken to, killed, started again.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

mod access;
mod answers_on_the_command_line;
mod bad_input;
mod canaries;
mod collector;
mod command_line;
mod contract;
mod harness;
mod kills;
mod limits;
mod mailbox;
mod openapi;
mod races;
mod reading;
mod routes;
mod start;
mod streams;
mod streams_asked;
mod telemetry;
mod telemetry_losses;
mod telemetry_metrics;
mod wire;
