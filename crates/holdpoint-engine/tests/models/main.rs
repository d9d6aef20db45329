//! Models of agents: chat-completions endpoints, spoken to over real sockets, and scripts. Everything stays on this
//! machine.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

mod definitions;
mod failures;
mod keys;
mod replies;
mod requests;
mod retries;
mod scripts;
mod stand_in;
