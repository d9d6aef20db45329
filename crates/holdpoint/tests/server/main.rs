//! The real program over real HTTP: started, spoken to, killed, started again.

// What a test cannot do without, it may demand.
#![allow(clippy::unwrap_used)]

#[path = "../../../holdpoint-engine/tests/postgres/certificates.rs"]
#[allow(dead_code)]
mod certificates;

mod access;
mod addressing;
mod agents;
mod agents_documented;
mod agents_killed;
mod agents_mcp;
mod agents_mcp_faults;
mod agents_mcp_killed;
mod agents_mcp_shared;
mod agents_on_the_command_line;
mod agents_streamed;
mod agents_tenants;
mod agui;
mod agui_contract;
mod agui_edits;
mod agui_steering;
mod agui_threads;
mod agui_workflows;
mod answers_on_the_command_line;
mod arrivals;
mod arrivals_killed;
mod bad_input;
mod bad_requests;
mod canaries;
mod cancelling_modes;
mod check_script;
mod children;
mod client;
mod closed_answers;
mod collector;
mod command_line;
mod command_line_check;
mod command_line_lists;
mod command_line_outgoing;
mod command_line_runs;
mod connections;
mod contract;
mod control;
mod conversations;
// The dice of the tests with several nodes.
#[allow(dead_code)]
#[path = "../nodes/dice.rs"]
mod dice;
mod forks;
mod governed_gates;
mod harness;
mod holds;
mod holds_on_the_command_line;
mod holds_options;
mod hooks_on_the_command_line;
mod inbox_page;
mod interop;
mod interrupt_profiles;
mod interrupts_on_the_wire;
mod kills;
mod kills_after_a_decision;
mod kills_before_a_deadline;
mod kills_between_vote_and_quorum;
mod limits;
mod links;
mod links_at_once;
mod links_kept;
mod links_on_the_command_line;
mod links_people;
mod lists;
mod made;
mod mailbox;
mod once;
mod once_at_once;
mod once_killed;
mod openapi;
mod options;
mod origin;
mod packaging;
mod pending;
mod pending_asks;
mod pending_streamed;
mod people;
mod people_of_kinds;
mod place;
mod principals;
mod private_files;
mod providers;
mod quotas;
mod races;
mod races_of_votes;
mod races_with_silence;
mod reading;
mod readme;
mod receiver;
mod request_log;
mod requesters;
mod response_headers;
mod routes;
mod schemas;
mod sessions;
mod start;
mod streams;
mod streams_asked;
mod streams_revoked;
mod telemetry;
mod telemetry_losses;
mod telemetry_metrics;
mod threads_events;
mod tls;
mod tls_receiver;
// The order that clients of AG-UI insist on.
#[path = "../../src/agui/verifier.rs"]
mod verifier;
mod versions;
mod webhooks;
mod webhooks_callback;
mod webhooks_delivered;
mod webhooks_durable;
mod webhooks_hostile;
mod webhooks_kept_secret;
mod webhooks_killed;
mod webhooks_on_the_command_line;
mod webhooks_owned;
mod webhooks_recipes;
mod webhooks_two_nodes;
mod wire;
mod workshop;
