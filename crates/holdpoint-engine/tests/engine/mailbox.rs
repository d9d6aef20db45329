//! Contract tests of the mailbox, on both databases. Each case is one function with a stable number. Time is an
//! argument of every call, so the tests do not sleep. They compare whole rows.

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
