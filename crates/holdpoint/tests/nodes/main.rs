//! Several real server processes on one real PostgreSQL: killed, frozen, cut off, restarted. Every process is a child
//! of the test and dies with it.

// A test may panic.
#![allow(clippy::unwrap_used)]

mod chaos;
mod check;
mod cluster;
mod random;
// The client of the other tests; not every test uses all of it.
mod check_samples;
#[allow(dead_code)]
#[path = "../server/harness.rs"]
mod harness;
mod ledger;
mod load;
mod nemesis;
mod node;
mod pooler;
mod report;
mod three_nodes;
