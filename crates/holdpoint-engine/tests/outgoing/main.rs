//! Outgoing calls: what the guard refuses, what a call does, and `core.http` in a run. Everything stays on this
//! machine; names are resolved by a script.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

#[path = "../postgres/certificates.rs"]
#[allow(dead_code)]
mod certificates;
#[path = "../engine/house.rs"]
#[allow(dead_code)]
mod house;
#[path = "../place/mod.rs"]
mod place;

mod addresses;
mod approved;
mod calls;
mod grant_rounds;
mod grant_uses;
mod grants;
mod names;
mod node;
mod node_crashes;
mod node_repeats;
mod node_requests;
mod peer;
mod rebinding;
mod sockets;
mod spellings;
mod streams;
mod tls;
