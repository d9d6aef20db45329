//! Random sequences of requests against a running server: attackers with keys without `approvals:respond`, mixed with
//! approvers. After each sequence, every effect must have a grant of its own run for exactly the payload that the
//! approvers were shown.
//!
//! `HOLDPOINT_SEED` selects other sequences, `HOLDPOINT_SEQUENCES` is their number on each database,
//! `HOLDPOINT_MINUTES` replaces the number by a duration, `HOLDPOINT_ONLY` selects one sequence. `scripts/adversary` is
//! the long form.

// A test may panic.
#![allow(clippy::unwrap_used)]

mod approvers;
mod attacks;
mod check;
#[allow(dead_code)]
#[path = "../server/contract.rs"]
mod contract;
mod flows;
#[allow(dead_code)]
#[path = "../nodes/random.rs"]
mod random;
// The server and the client of the other tests; not every test uses all of them.
#[allow(dead_code)]
#[path = "../server/harness.rs"]
mod harness;
mod ledger;
mod plan;
mod rounds;
mod routes;
mod sequence;
mod settling;
#[allow(dead_code)]
#[path = "../server/test_database.rs"]
mod test_database;
mod world;
