//! Tests of outgoing calls: the outgoing policy, HTTP requests, and `core.http` in a run. The tests need no network; a
//! script resolves names.

// Tests may unwrap: a panic is a failed test.
#![allow(clippy::unwrap_used)]

#[path = "../postgres/certificates.rs"]
#[allow(dead_code)]
mod certificates;
#[path = "../test_database/mod.rs"]
mod test_database;
#[path = "../engine/test_env.rs"]
#[allow(dead_code)]
mod test_env;

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
