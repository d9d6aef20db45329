//! What every store of dispatches must do, case by case and on both databases. Each case is one function; its number
//! is the one it has always had. Time is an argument of every call, so nothing sleeps, and what is compared is always
//! the whole row.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

#[path = "../place/mod.rs"]
mod place;

mod claim;
mod claim_races;
mod edges;
mod enqueue;
mod harness;
mod interrupt;
mod invariants;
mod lease;
mod projection;
mod reads;
mod rows;
mod settle;
mod tenants;
