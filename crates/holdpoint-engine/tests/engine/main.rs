//! Tests of the engine through its public API. `advance` moves the clock and `drain` performs work; no test sleeps.

// A test may panic if its preparation fails.
#![allow(clippy::unwrap_used)]

#[path = "../outgoing/peer.rs"]
#[allow(dead_code)]
mod peer;
#[path = "../test_database/mod.rs"]
mod test_database;

mod agents;
mod content_review;
mod crashes;
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
mod graphs;
mod holds;
mod kept_events;
mod keys;
mod leases;
mod loops;
mod lost_connections;
mod measures;
mod node_types;
mod opening;
mod pauses;
mod pending;
mod quotas;
mod receipts;
mod replays;
mod runs;
mod scopes;
mod seals;
mod secrets;
mod sessions;
mod sessions_races;
mod side_questions;
mod slow_node;
mod stale_nodes;
mod stored_before_audiences;
mod stored_before_grants;
mod test_env;
mod time;
mod wakeups;
mod webhooks;
mod workers;
