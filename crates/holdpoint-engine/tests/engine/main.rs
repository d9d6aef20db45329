//! Tests of the engine through its public API. `advance` moves the clock and `drain` performs work; no test sleeps.

// A test may panic if its preparation fails.
#![allow(clippy::unwrap_used)]

// The names of the fixtures in the tests.
#[path = "../fixtures/mod.rs"]
mod fixtures;
use fixtures::{
    certificates, courier, database as test_database, env as test_env, held_node, peer, slow_node,
};

mod cancellations;
mod crashes;
mod differential;
mod dispatch_options;
mod dispatches;
mod diverging_replays;
mod documented;
mod early_gates;
mod effects;
mod external_event_races;
mod external_events;
mod families;
mod families_large;
mod fork_times;
mod forks;
mod gates;
mod governed_gates;
mod holds;
mod kept_events;
mod keys;
mod leases;
mod library;
mod loops;
mod lost_connections;
mod mailbox;
mod measures;
mod nested_interrupts;
mod node_types;
mod opening;
mod outgoing;
mod parallel_branches;
mod parallel_crashes;
mod parallel_nodes;
mod pauses;
mod pending;
mod postgres;
mod quotas;
mod receipts;
mod replays;
mod runs;
mod scopes;
mod seals;
mod secrets;
mod sessions;
mod sessions_races;
mod several_runs;
mod side_questions;
mod stale_nodes;
mod stored_before_audiences;
mod stored_before_message_ids;
mod stored_before_paths;
mod time;
mod triggers;
mod wakeups;
mod webhooks;
mod workers;
