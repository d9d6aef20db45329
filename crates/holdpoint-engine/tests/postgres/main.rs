//! What a connection to PostgreSQL promises: safe, clear about what is wrong, and patient with a server that goes and
//! comes. That a server is too old to be used is not tested here: there is only one on this machine.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

// The engine's tests need more of it than these.
#[allow(dead_code)]
#[path = "../engine/house.rs"]
mod house;
#[path = "../place/mod.rs"]
mod place;
#[allow(dead_code)]
#[path = "../engine/slow_node.rs"]
mod slow_node;

mod certificates;
mod cluster;
mod outages;
mod pooled;
mod refusals;
mod server;
mod shares;
mod tls;
mod wakeups;
