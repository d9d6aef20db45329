//! Tests of the compiled program over HTTP: they start it, send requests, kill it and start it again.

// A test panics if a precondition does not hold.
#![allow(clippy::unwrap_used)]

#[path = "../../../holdpoint-engine/tests/fixtures/certificates.rs"]
#[allow(dead_code)]
mod certificates;

mod access;
mod addressing;
mod agents;
mod agents_attachments;
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
mod agui_long_threads;
mod agui_steering;
mod agui_subagents;
mod agui_threads;
mod agui_transcripts;
mod agui_workflows;
mod answer_variables;
mod answers_on_the_command_line;
mod bad_input;
mod bad_requests;
mod cancelling_modes;
mod check_script;
mod child_runs;
mod client;
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
mod dispatch_options;
mod external_events;
mod external_events_killed;
mod secret_leaks;
// The random numbers of the tests with several nodes.
mod approvers;
mod approvers_of_all_kinds;
mod artifacts;
mod decision_credentials;
mod forks;
mod governed_gates;
mod harness;
mod holds;
mod holds_on_the_command_line;
mod holds_options;
mod hooks_on_the_command_line;
mod idempotency;
mod idempotency_concurrent;
mod idempotency_killed;
mod inbox_page;
mod interrupt_profiles;
mod interrupts_on_the_wire;
mod kills;
mod kills_after_a_decision;
mod kills_before_a_deadline;
mod kills_between_vote_and_quorum;
mod links;
mod links_concurrent;
mod links_on_the_command_line;
mod links_principals;
mod links_secrets;
mod mailbox;
mod openapi;
mod openwop_clients;
mod packaging;
mod pending;
mod pending_stream;
mod principals;
mod private_files;
mod providers;
mod quotas;
mod races;
mod races_between_votes;
mod races_with_expiry;
#[allow(dead_code)]
#[path = "../nodes/random.rs"]
mod random;
mod rate_limits;
mod readme;
mod receiver;
mod request_log;
mod requesters;
mod response_headers;
mod routes;
mod run_lists;
mod run_options;
mod run_sources;
mod schemas;
mod server_start;
mod sessions;
mod side_questions;
mod stream_parameters;
mod streams;
mod streams_and_polls;
mod streams_revoked;
mod telemetry;
mod telemetry_metrics;
mod telemetry_outages;
mod test_database;
mod thread_events;
mod tls;
mod tls_receiver;
// The order of events that AG-UI clients require.
mod response_documents;
mod tool_server;
#[path = "../../src/agui/verifier.rs"]
mod verifier;
mod webhooks;
mod webhooks_callback;
mod webhooks_deliveries;
mod webhooks_durable;
mod webhooks_hostile;
mod webhooks_killed;
mod webhooks_on_the_command_line;
mod webhooks_owners;
mod webhooks_recipes;
mod webhooks_secrets;
mod webhooks_two_nodes;
mod workflow_versions;
