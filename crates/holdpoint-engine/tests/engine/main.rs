//! The engine as its callers know it: time moves by `advance`, work by `drain`, and nothing ever sleeps.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

#[path = "../outgoing/peer.rs"]
#[allow(dead_code)]
mod peer;
#[path = "../place/mod.rs"]
mod place;

mod agents;
mod arrivals;
mod arrivals_kept;
mod arrivals_races;
mod asked_first;
mod asks;
mod content_review;
mod crashes;
mod documented;
mod doubts;
mod effects;
mod families;
mod families_large;
mod fork_times;
mod forks;
mod gates;
mod governed_gates;
mod graphs;
mod holds;
mod house;
mod keys;
mod knowing;
mod leases;
mod loops;
mod mail;
mod measures;
mod node_types;
mod opening;
mod pauses;
mod pending;
mod quotas;
mod receipts;
mod replays;
mod replays_differing;
mod runs;
mod scopes;
mod seals;
mod secrets;
mod sessions;
mod sessions_races;
mod slow_node;
mod stored_before_audiences;
mod stored_before_grants;
mod time;
mod wakeups;
mod webhooks;
mod workers;
