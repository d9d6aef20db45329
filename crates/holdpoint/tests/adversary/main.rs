//! An attacker against the running server. Random sequences of everything that a key without `approvals:respond` may do,
//! mixed with approvers who follow the rules; after each of them, every effect must have a grant of its own run, for exactly
//! what was shown.
//!
//! `HOLDPOINT_SEED` chooses other sequences, `HOLDPOINT_SEQUENCES` their number on each database, `HOLDPOINT_MINUTES` a time in
//! place of a number, `HOLDPOINT_ONLY` one of them. `scripts/adversary` does it for hours.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

mod approvers;
mod attacks;
mod check;
#[allow(dead_code)]
#[path = "../server/contract.rs"]
mod contract;
#[allow(dead_code)]
#[path = "../nodes/dice.rs"]
mod dice;
mod flows;
// The server and the client of the other tests; not every test uses all of them.
#[allow(dead_code)]
#[path = "../server/harness.rs"]
mod harness;
mod ledger;
#[allow(dead_code)]
#[path = "../server/place.rs"]
mod place;
mod plan;
mod rounds;
mod routes;
mod sequence;
mod settling;
mod world;
